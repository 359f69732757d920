"""The flags of a classifier's training, which run_finetune.py and word2vec_base.py share."""

import argparse

import task_flags
from args import DIR
from elmo_core.messages import UserError
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.data import published_split, read_polarity
from elmo_tasks.classification.network import ClassifierSettings

CONTENT = "text, label and, for pairs, a second text, in CSV, TSV or JSON"


def add_train(parser: argparse.ArgumentParser) -> None:
    task_flags.add_train(parser, ClassifierSettings, CONTENT, required=False)
    help = "the sentence polarity dataset v1, instead of --train_file: its published split"
    parser.add_argument("--data_dir", **DIR, help=help)


def train(args: argparse.Namespace, task: type[Classifier]) -> None:
    if (args.data_dir is None) == (args.train_file is None):
        raise UserError("expected either --train_file, or --data_dir of the sentence polarity dataset.")
    task_flags.train(args, task, *(published_split(*read_polarity(args.data_dir), args.seed) if args.data_dir else ()))
