"""Pretraining runs of one rank, one after another, from JSON: [[flags, step to stop at], ...].

Every rank saves its weights beside the run's folder, as FOLDER.rank0.npz and so on.
"""

import json
import os
import sys

import numpy as np
import runs

from elmo_core.training.ranks import Ranks

models, share = [], Ranks.broadcast_weights
Ranks.broadcast_weights = lambda ranks, weights: models.append(weights) or share(ranks, weights)
for argv, stop_at in json.loads(sys.argv[1]):
    runs.pretrain(argv, stop_at)
    folder = dict(flag.lstrip("-").split("=") for flag in argv if "=" in flag)["save_dir"]
    np.savez(
        f"{folder}.rank{os.environ['PADDLE_TRAINER_ID']}.npz",
        *(weight.numpy() for weight in models[-1]),
    )
