"""The flags of a classifier's training, which run_finetune.py and word2vec_base.py share."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

import task_flags
from args import DIR
from elmo_core.messages import UserError
from elmo_tasks.classification.data import published_split, read_polarity
from elmo_tasks.classification.settings import ClassifierSettings

if TYPE_CHECKING:  # --help does not wait for Paddle
    from elmo_tasks import Classifier

CONTENT = "text, label and, for pairs, a second text, in CSV, TSV or JSON"


def add_train(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a training."""
    task_flags.add_train(parser, ClassifierSettings, CONTENT, required=False)
    parser.add_argument(
        "--data_dir",
        **DIR,
        help="the sentence polarity dataset v1, instead of --train_file: its published split",
    )


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the flags. The training data are either files or the sentence polarity dataset."""
    args = task_flags.parse(parser, argv, ClassifierSettings)
    sources = [name for name in ("train_file", "data_dir") if getattr(args, name, None)]
    if args.command == "train" and len(sources) != 1:
        raise UserError(
            "expected either --train_file, or --data_dir of the sentence polarity dataset."
        )
    return args


def train(args: argparse.Namespace, task: "type[Classifier]") -> None:
    """Train on the data that the flags name."""
    if args.data_dir:
        reviews, labels = read_polarity(args.data_dir)
        data, test = published_split(reviews, labels, args.seed)
        task_flags.train(args, task, data, test)
    else:
        task_flags.train(args, task)
