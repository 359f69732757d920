"""The flags that run_tag.py, run_read.py and run_finetune.py share: one name, one meaning and one help text each.

Where the scripts differ in a default, or in whether they have a flag at all, they pass the defaults, by name. A default
that is a list makes a flag that takes several values.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from args import COUNT, DIR, FILE, FRACTION, POSITIVE, WHOLE, add_device, add_seed, fill_defaults, non_negative_float

LANGUAGES = ("en", "zh", "none")
NUMBERS = {
    # ELMo
    "elmo_dropout": (FRACTION, "dropout on ELMo's vectors"),
    "elmo_l2_coef": ({"type": non_negative_float, "metavar": "X"}, "penalty on the weights of mixed layers"),
    "cache_gb": (POSITIVE, "memory for the layers of a frozen biLM; larger caches go to a file in --save_dir"),
    "elmo_lr": (POSITIVE, "learning rate of the biLM"),
    "lstm_dropout": (FRACTION, "dropout between the biLM's LSTMs in fine-tuning"),
    # word vectors
    "word_vectors_lr": (POSITIVE, "learning rate of the word vectors"),
    # network
    "word_dim": (COUNT, "size of the word embeddings that are trained with the task"),
    "hidden_dim": (COUNT, "size of a GRU or LSTM"),
    "n_layers": (COUNT, "bidirectional layers"),
    # training
    "lr": (POSITIVE, "learning rate"),
    "emb_lr_factor": (POSITIVE, "learning rate of the word embeddings, times --lr"),
    "crf_lr_factor": (POSITIVE, "learning rate of the CRF, times --lr"),
    "weight_decay": ({"type": non_negative_float, "metavar": "X"}, "weight decay"),
    "dropout": (FRACTION, "dropout of the network"),
    "epochs": (COUNT, "maximum epochs"),
    "patience": (WHOLE, "stop after N epochs without improvement on the dev set; 0: never"),
    "batch_size": (COUNT, "examples per step"),
    "max_grad_norm": (POSITIVE, "clip the gradient norm to this"),
    "tune_epochs": (COUNT, "epochs of fine-tuning"),
    "word_dropout": (FRACTION, "share of a batch's words that are dropped in fine-tuning"),
    "ema": (FRACTION, "decay of the weights' moving average, which is what is saved; 0: off"),
}


def defaults(settings: type, *names: str) -> dict[str, Any]:
    """The defaults of some fields of a dataclass."""
    return {name: getattr(settings, name) for name in names}


def add_numbers(group, defaults: Mapping[str, Any], conditional: bool = False) -> None:
    """A flag for each of NUMBERS that has a default. conditional: `fill_defaults` fills in the default later."""
    for name, default in defaults.items():
        options, text = NUMBERS[name]
        several = {"nargs": "+"} if isinstance(default, list) else {}
        if conditional:
            default, text = None, f"{text} (default: {' '.join(map(str, default)) if several else default})"
        group.add_argument(f"--{name}", **options, **several, default=default, help=text)


# Data and output


def add_data(parser: argparse.ArgumentParser, content: str, held_out: str = "a tenth of --train_file", required=True):
    """The group of the files to train, select and score on. content: what they hold. held_out: without --dev_file."""
    group = parser.add_argument_group("data")
    group.add_argument("--train_file", **FILE, required=required, help=f"{content}, to train on")
    group.add_argument("--dev_file", **FILE, help=f"the same, to select the best epoch on (default: {held_out})")
    group.add_argument("--test_file", **FILE, help="the same, to score the best epoch on")
    return group


def add_test(parser: argparse.ArgumentParser, content: str) -> None:
    parser.add_argument("--test_file", **FILE, required=True, help=f"{content}, to score on")


def add_language(group, choices: Sequence[str] = LANGUAGES, default: str = "en", help: str = "") -> None:
    text = help or "split text into tokens as preprocess.py does for this language; none: at white space"
    group.add_argument("--lang", choices=choices, default=default, help=text)


def add_save(group, kind: str, required: bool = True) -> None:
    """kind: what is trained, as `tagger`."""
    group.add_argument("--save_dir", **DIR, required=required, help=f"folder for the {kind}")
    group.add_argument("--overwrite", action="store_true", help=f"replace the {kind} in --save_dir")


def add_saved_model(parser: argparse.ArgumentParser, kind: str, required: bool = True) -> None:
    """A trained model, and where its pretrained ones are, if they have moved."""
    parser.add_argument(
        "--model_dir", type=Path, required=required, metavar="DIR", help=f"a trained {kind}: its folder"
    )
    parser.add_argument("--init_from_ckpt", metavar="CKPT", help="its ELMo, if it has moved since training")
    parser.add_argument("--word_vectors", **FILE, help="its word vectors, if they have moved since training")
    add_device(parser)


def load(kind: type, args: argparse.Namespace):
    """The model that the flags of `add_saved_model` name. kind: its class."""
    return kind.load(args.model_dir, args.init_from_ckpt, args.word_vectors)


def add_input(parser: argparse.ArgumentParser, content: str = "text") -> None:
    parser.add_argument("--input", **FILE, help=f"{content} (default: standard input)")


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str] = ()) -> None:
    """formats: the first is the default."""
    parser.add_argument("--output", **FILE, help="predictions (default: standard output)")
    if formats:
        parser.add_argument("--output_format", choices=formats, default=formats[0], help="of the predictions")


def add_json(group) -> None:
    group.add_argument("--json", **FILE, help="write the scores as JSON")


# Model and training


def layers(text: str) -> str:
    """Which layers of ELMo a network reads, and whether concatenated or mixed. Only the spelling is checked."""
    how, _, numbers = text.partition(":")
    if text in ("concat", "mix", "average", "top") or text.isdecimal():
        return text
    if how in ("concat", "mix") and all(number.isdecimal() for number in numbers.split(",")):
        return text
    raise argparse.ArgumentTypeError(
        f"{text!r}: expected concat or mix (of all layers), concat:0,1 or mix:0,1 (of some), average, top, or a number"
    )


def add_elmo(parser: argparse.ArgumentParser, defaults: Mapping[str, Any]):
    """The group of ELMo's flags. defaults: of those flags among NUMBERS that the script has. See `check_elmo`."""
    group = parser.add_argument_group("ELMo")
    help = "checkpoint prefix, file or folder (newest checkpoint), or a model's name; none: no ELMo"
    group.add_argument("--init_from_ckpt", required=True, metavar="CKPT", help=help)
    help = "concat (default) or mix, of all or of some as in concat:0,1; average; top; or a number"
    group.add_argument("--layers", type=layers, metavar="L", help=help)
    help = "replace the pretrained weights with random ones, to measure what pretraining adds: all, or the LSTMs'"
    group.add_argument("--random_weights", nargs="?", const="all", choices=("all", "lstm"), help=help)
    if "elmo_lr" in defaults:
        group.add_argument("--elmo_trainable", action="store_true", help="fine-tune the biLM")
    add_numbers(group, defaults, conditional=True)
    return group


def check_elmo(parser: argparse.ArgumentParser, args: argparse.Namespace, defaults: Mapping[str, Any]) -> None:
    """Fill in the defaults of ELMo's flags. One without effect is an error. --init_from_ckpt=none becomes None."""
    args.init_from_ckpt = None if args.init_from_ckpt.lower() == "none" else args.init_from_ckpt
    has_elmo, tuned = args.init_from_ckpt is not None, getattr(args, "elmo_trainable", False)
    if tuned and not has_elmo:
        parser.error("--elmo_trainable has no effect without ELMo: --init_from_ckpt is none")
    mixed = has_elmo and (args.layers or "concat").startswith("mix")
    needs = {
        "elmo_lr": (tuned, "--elmo_trainable"),
        "lstm_dropout": (tuned, "--elmo_trainable"),
        "elmo_l2_coef": (mixed, "--layers=mix"),
    }
    for name, default in {"layers": "concat", "random_weights": "", **defaults}.items():
        fill_defaults(parser, args, {name: default}, *needs.get(name, (has_elmo, "ELMo: --init_from_ckpt is none")))


def add_word_vectors(
    parser: argparse.ArgumentParser,
    defaults: Mapping[str, Any] | None = None,
    trainable: bool = True,
    flag: str = "--word_vectors",
    **options,
):
    """The group of the flags of word vectors in a file. defaults: of --word_vectors_lr, in a script that has it."""
    group = parser.add_argument_group("word vectors")
    options = {"help": "word vectors, in word2vec's or GloVe's format", **FILE, **options}
    group.add_argument(flag, dest="word_vectors", **options)
    group.add_argument("--word_vectors_limit", **COUNT, help="read only the first N of them")
    if trainable:
        group.add_argument("--word_vectors_trainable", action="store_true", help="fine-tune them")
    add_numbers(group, defaults or {}, conditional=True)


def check_word_vectors(
    parser: argparse.ArgumentParser, args: argparse.Namespace, defaults: Mapping[str, Any] | None = None, random=False
) -> None:
    """Fill in the defaults. A flag without effect is an error. random: there are random vectors where no file gives any."""
    tuned = getattr(args, "word_vectors_trainable", False)
    for name, given in (
        ("word_vectors_limit", args.word_vectors_limit),
        ("word_vectors_trainable", tuned and not random),
    ):
        if given and not args.word_vectors:
            parser.error(f"--{name} has no effect without --word_vectors")
    fill_defaults(parser, args, defaults or {}, tuned, "--word_vectors_trainable")


def add_training(parser: argparse.ArgumentParser, defaults: Mapping[str, Any]):
    """The group of training. defaults: of those flags among NUMBERS that the script has, --seed and --device aside."""
    group = parser.add_argument_group("training")
    add_numbers(group, defaults)
    add_seed(group)
    add_device(group)
    return group


# The classifier, for run_finetune.py and word2vec_base.py

OF_CLASSIFIER = {"lr": [0.001, 0.003], "weight_decay": [0.1, 1.0], "dropout": [0.5], "epochs": 15, "batch_size": 64}
OF_VECTORS = {"word_vectors_lr": [0.0003, 0.001]}
OF_FINE_TUNING = {"tune_epochs": 5, "word_dropout": 0.1}
EXAMPLES = "TSV or JSON lines: text, label and, for pairs, a second text"
POLARITY = Path("sentence-polarity-dataset-v1")


def columns(text: str) -> list[str]:
    names = text.split(",")
    if len(set(names)) != len(names) or not 2 <= len(names) <= 3:
        raise argparse.ArgumentTypeError(f"{text!r}: expected TEXT,LABEL or TEXT,LABEL,TEXT2")
    return names


def add_columns(group) -> None:
    help = "JSON keys, names in a header, or numbers from 0 (default: text,label,text2, other usual names, or 0,1,2)"
    group.add_argument("--columns", type=columns, metavar="TEXT,LABEL[,TEXT2]", help=help)


def add_tables(group) -> None:
    group.add_argument("--confusion", action="store_true", help="print the confusion matrix")
    group.add_argument("--mistakes", **WHOLE, default=0, help="print the N errors that were rated least likely")


def add_classifier(parser: argparse.ArgumentParser) -> None:
    """Data, protocol, training and output. The parser has the flags of the encoders already."""
    data = add_data(parser, EXAMPLES, required=False)
    data.add_argument("--data_dir", **DIR, help=f"polarity dataset, without --train_file (default: {POLARITY})")
    add_columns(data)
    add_language(data)
    data.add_argument("--max_seq_len", **COUNT, default=256, help="truncate texts to N tokens")
    help = "without --test_file: cross-validation, or the published single split"
    data.add_argument("--protocol", choices=("cv", "split"), default="cv", help=help)
    data.add_argument("--folds", **COUNT, default=10, help="of the cross-validation")
    add_save(data, "classifier", required=False)
    training = add_training(parser, OF_CLASSIFIER)
    training.description = "the dev part of each fold selects among several values"
    help = "size of the hidden layer; 0: none"
    training.add_argument("--hidden_dim", "--sent_embedding_dim", **WHOLE, default=64, help=help)
    help = "weights of classes in the loss, 1 if not given; or `balanced`: equal total weight of all classes"
    training.add_argument("--class_weights", nargs="+", metavar="CLASS=X", help=help)
    add_numbers(training, OF_FINE_TUNING, conditional=True)
    training.add_argument("--logging_step", **COUNT, help="steps between log lines (default: one line for each fold)")
    out = parser.add_argument_group("scores")
    out.add_argument(
        "--results", **FILE, help="write scores and the prediction for each text as JSON; resumed if killed"
    )
    out.add_argument(
        "--compare_with", **FILE, nargs="+", help="test the difference from other runs, given their --results"
    )
    add_tables(out)


def check_classifier(parser: argparse.ArgumentParser, args: argparse.Namespace, tuned: bool, tuning: str) -> None:
    """tuned: whether an encoder is fine-tuned. tuning: the flags that would do so."""
    fill_defaults(parser, args, OF_FINE_TUNING, tuned, tuning)
    for name in ("data_dir", "dev_file", "test_file", "columns"):
        if getattr(args, name) and bool(args.train_file) == (name == "data_dir"):
            parser.error(f"--{name} has no effect {'with' if args.train_file else 'without'} --train_file")
    args.data_dir = args.data_dir or POLARITY
