"""The flags that the demo's scripts share. Puts the repository's root on sys.path: every script imports this first."""

import argparse
import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parent
if str(DEMO.parent) not in sys.path:
    sys.path.insert(1, str(DEMO.parent))

import args as arguments
from args import FILE, RATE, SHARE
from elmo_tasks.reading.network import Settings
from elmo_tasks.reading.reader import Reading
from elmo_tasks.reading.text import LANGUAGES
from elmo_tasks.reading.training import Schedule


def add_language(group) -> None:
    help = "language of the text: how it is cut into words, and which evaluator's scores are shown"
    group.add_argument("--language", choices=LANGUAGES, default=Reading.language, help=help)


def add_word_vectors(group, help: str) -> None:
    group.add_argument("--word_vectors", **FILE, help=help)


def add_network(parser: argparse.ArgumentParser) -> None:
    group, default = parser.add_argument_group("network"), {**vars(Settings()), **vars(Reading())}
    add_word_vectors(group, "fixed word vectors, in word2vec's or GloVe's format")
    group.add_argument("--limit", **arguments.COUNT, help="read only the first N words of --word_vectors")
    group.add_argument("--min_count", **arguments.COUNT, default=2, help="words that occur less often are unknown")
    for name, kind, text in (
        ("word_emb_dim", arguments.COUNT, "size of the word vectors that are learnt"),
        ("hidden_dim", arguments.COUNT, "size of a GRU"),
        ("dropout", SHARE, "dropout on word vectors and GRU outputs"),
        ("elmo_dropout", SHARE, "dropout on ELMo's vectors"),
        ("elmo_l2_coef", {"type": arguments.zero_or_more, "metavar": "X"}, "penalty on the weights of its layers"),
        (
            "window",
            arguments.COUNT,
            "tokens of a passage that are read at once; longer ones are read in several windows",
        ),
        ("stride", arguments.COUNT, "tokens from the beginning of a window to that of the next"),
        ("max_answer", arguments.COUNT, "tokens of an answer at most"),
    ):
        group.add_argument(f"--{name}", **kind, default=default[name], help=text)
    help = "memory for ELMo's layers, which are computed once; beyond it they are on the disk, in float16"
    group.add_argument("--elmo_cache", type=arguments.positive, metavar="GB", default=1.0, help=help)


def check_network(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if args.stride > args.window:
        parser.error(f"--stride {args.stride} is more than --window {args.window}: some of a passage would not be read")
    if args.limit and not args.word_vectors:
        parser.error("--limit has no effect without --word_vectors")


def add_training(parser: argparse.ArgumentParser) -> None:
    group, default = parser.add_argument_group("training"), vars(Schedule())
    patience = {"type": arguments.whole_number, "metavar": "N"}
    for name, kind, text in (
        ("epochs", arguments.COUNT, "passes over the training data; the best is kept"),
        ("patience", patience, "end after N epochs without a better one; 0: never"),
        ("batch_size", arguments.COUNT, "passages of a step, each with its questions"),
        ("base_learning_rate", RATE, "of Adam, falling towards a tenth"),
        ("max_grad_norm", RATE, "gradients are scaled down to it"),
        ("ema", SHARE, "decay of the mean of the weights over the steps, which is what is kept; 0: no mean"),
    ):
        group.add_argument(f"--{name}", **kind, default=default[name], help=text)
