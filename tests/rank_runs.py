"""What each rank of a test runs: pretraining runs one after another, given as JSON: [[flags, step to be stopped at], ...].

Every rank leaves its weights in the run's folder, as rank0.npz and so on.
"""

import json
import os
import sys

import numpy as np
import runs

for argv, stop_at in json.loads(sys.argv[1]):
    run = runs.pretrain(argv, stop_at)
    np.savez(run.args.save_dir / f"rank{os.environ['PADDLE_TRAINER_ID']}.npz", **run._weights())
