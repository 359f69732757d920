"""The flags that the demo's scripts share, and the settings that they make."""

import argparse

import root

import args as arguments
from args import FILE, RATE, SHARE, TRUTH
from elmo_tasks.tagging.network import Settings
from elmo_tasks.tagging.training import Schedule

VOCABULARY_MISSING = "--vocab_file is missing: the vocabulary whose pieces words become. Or give --whole_words."


def add_replacements(group) -> None:
    help = "full-width to half-width forms, where the vocabulary lacks the former"
    group.add_argument("--word_rep_dict_path", **FILE, default=root.DEMO / "conf" / "q2b.dic", help=help)


def add_label_dict(group) -> None:
    group.add_argument("--label_dict_path", **FILE, default=root.DEMO / "data" / "tag.dic", help="the labels")


def add_skip_bad_lines(group) -> None:
    group.add_argument("--skip_bad_lines", action="store_true", help="leave out and count lines that cannot be used")


def add_network(parser: argparse.ArgumentParser) -> None:
    group, default = parser.add_argument_group("network"), Settings()
    for name, kind, text in (
        ("word_emb_dim", arguments.COUNT, "size of a word's vector"),
        ("grnn_hidden_dim", arguments.COUNT, "size of a GRU"),
        ("bigru_num", arguments.COUNT, "bidirectional GRU layers"),
        ("dropout", SHARE, "dropout on word vectors and GRU outputs"),
        ("elmo_dropout", SHARE, "dropout on ELMo's vectors"),
        ("elmo_l2_coef", {"type": arguments.zero_or_more, "metavar": "X"}, "penalty on the weights of its layers"),
        ("elmo_trainable", TRUTH, "fine-tune the biLM too"),
    ):
        group.add_argument(f"--{name}", **kind, default=getattr(default, name), help=text)
    help = "memory for the vectors of a frozen biLM, which are computed once"
    group.add_argument("--elmo_cache", type=arguments.positive, metavar="GB", default=4.0, help=help)


def add_training(parser: argparse.ArgumentParser) -> None:
    group, default = parser.add_argument_group("training"), {**vars(Settings()), **vars(Schedule())}
    patience = {"type": arguments.whole_number, "metavar": "N"}
    for name, kind, text in (
        ("epochs", arguments.COUNT, "passes over the training data; the best is kept"),
        ("patience", patience, "end after N epochs without a better one; 0: never"),
        ("batch_size", arguments.COUNT, "sentences of a step"),
        ("base_learning_rate", RATE, "of Adam, falling towards a tenth"),
        ("emb_learning_rate", RATE, "of the word vectors, times the base"),
        ("crf_learning_rate", RATE, "of the CRF, times the base"),
        ("elmo_learning_rate", RATE, "of a biLM that is fine-tuned, times the base"),
        ("max_grad_norm", RATE, "gradients are scaled down to it"),
    ):
        group.add_argument(f"--{name}", **kind, default=default[name], help=text)
