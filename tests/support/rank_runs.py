"""Pretraining runs of one rank, one after another, from JSON: [[flags, step to stop at], ...].

Every rank saves its weights beside the run's folder, as FOLDER.rank0.npz and so on.
"""

import json
import os
import sys

import numpy as np
import runs

from elmo_core.training.ranks import Ranks

models = []
share = Ranks.broadcast_weights


def keep_and_share(ranks: Ranks, weights: list) -> None:
    models.append(weights)
    share(ranks, weights)


Ranks.broadcast_weights = keep_and_share
for argv, stop_at in json.loads(sys.argv[1]):
    runs.pretrain(argv, stop_at)
    values = dict(flag.lstrip("-").split("=") for flag in argv if "=" in flag)
    weights = [weight.numpy() for weight in models[-1]]
    np.savez(f"{values['save_dir']}.rank{os.environ['PADDLE_TRAINER_ID']}.npz", *weights)
