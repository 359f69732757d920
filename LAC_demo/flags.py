"""The flags that the demo's scripts share, and the settings that they make."""

import argparse
import dataclasses
from pathlib import Path

import root

import args as arguments
from tasks.tagging.network import Settings
from tasks.tagging.training import Schedule

SAMPLE_ELMO = root.DEMO.parent / "checkpoints" / "sample" / "final"  # what `bash run.sh` in the root makes
VOCABULARY_MISSING = "--vocab_file is missing: the vocabulary whose pieces words become. Or give --whole_words."


def from_flags(kind: type, args: argparse.Namespace, **changes):
    """Settings or a Schedule, as the flags say."""
    given = {field.name: getattr(args, field.name) for field in dataclasses.fields(kind) if hasattr(args, field.name)}
    return kind(**{**given, **changes})


def truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected true or false")
    return text.lower() == "true"


TRUTH = {"type": truth, "metavar": "true|false"}


def add_replacements(group) -> None:
    group.add_argument(
        "--word_rep_dict_path",
        type=Path,
        metavar="FILE",
        default=root.DEMO / "conf" / "q2b.dic",
        help="full-width to half-width forms, for those that the vocabulary lacks",
    )


def add_label_dict(group) -> None:
    path = root.DEMO / "data" / "tag.dic"
    group.add_argument("--label_dict_path", type=Path, metavar="FILE", default=path, help="the labels")


def add_skip_bad_lines(group) -> None:
    group.add_argument("--skip_bad_lines", action="store_true", help="leave out and count lines that cannot be used")


def add_network(parser: argparse.ArgumentParser) -> None:
    group, default = parser.add_argument_group("network"), Settings()
    group.add_argument(
        "--word_emb_dim", **arguments.COUNT, default=default.word_emb_dim, help="size of a word's vector"
    )
    group.add_argument("--grnn_hidden_dim", **arguments.COUNT, default=default.grnn_hidden_dim, help="size of a GRU")
    group.add_argument("--bigru_num", **arguments.COUNT, default=default.bigru_num, help="bidirectional GRU layers")
    rate = {"type": arguments.share, "metavar": "X"}
    group.add_argument("--dropout", **rate, default=default.dropout, help="dropout on word vectors and GRU outputs")
    group.add_argument("--elmo_dropout", **rate, default=default.elmo_dropout, help="dropout on ELMo's vectors")
    group.add_argument(
        "--elmo_l2_coef",
        type=arguments.zero_or_more,
        metavar="X",
        default=default.elmo_l2_coef,
        help="penalty on the weights of its layers",
    )
    group.add_argument("--elmo_trainable", **TRUTH, default=default.elmo_trainable, help="fine-tune the biLM too")
    group.add_argument(
        "--elmo_cache",
        type=arguments.positive,
        metavar="GB",
        default=4.0,
        help="memory for the vectors of a frozen biLM, which are computed once",
    )


def add_training(parser: argparse.ArgumentParser) -> None:
    group, default, factor = parser.add_argument_group("training"), Schedule(), Settings()
    group.add_argument("--epochs", **arguments.COUNT, default=default.epochs, help="the best of which is kept")
    group.add_argument(
        "--patience",
        type=arguments.whole_number,
        metavar="N",
        default=default.patience,
        help="end after so many epochs without a better one; 0: never",
    )
    group.add_argument("--batch_size", **arguments.COUNT, default=default.batch_size, help="sentences of a step")
    rate = {"type": arguments.positive, "metavar": "X"}
    group.add_argument(
        "--base_learning_rate", **rate, default=default.base_learning_rate, help="of Adam, falling towards a tenth"
    )
    group.add_argument(
        "--emb_learning_rate", **rate, default=factor.emb_learning_rate, help="of the word vectors, times the base"
    )
    group.add_argument(
        "--crf_learning_rate", **rate, default=factor.crf_learning_rate, help="of the CRF, times the base"
    )
    group.add_argument(
        "--elmo_learning_rate",
        **rate,
        default=factor.elmo_learning_rate,
        help="of a biLM that is fine-tuned, times the base",
    )
    group.add_argument("--max_grad_norm", **rate, default=default.max_grad_norm, help="gradients are scaled down to it")
