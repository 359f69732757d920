"""The flags that run_tag.py, run_read.py and run_finetune.py share, each with one name, one meaning and one help text.

If the scripts differ in a default, or if not all have a flag, they pass the defaults of the flags they have, by name. A
default that is a list makes the flag take several values.
"""

import argparse
import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import script
from args import COUNT, DIR, FILE, FRACTION, POSITIVE, WHOLE, add_device, add_seed, fill_defaults, non_negative_float
from elmo_core.text.tokenise import TOKENISERS
from elmo_tasks.pretrained import ELMoSettings
from elmo_tasks.saved import TrainedModel
from elmo_tasks.settings import expected, first_of

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


def field_defaults(settings: type, *names: str) -> dict[str, Any]:
    """The default values of the named fields of a dataclass."""
    return {name: getattr(settings, name) for name in names}


def add_numbers(group, defaults: Mapping[str, Any], conditional: bool = False) -> None:
    """Add the flags of NUMBERS that have a default. conditional: `fill_defaults` sets the default after parsing."""
    for name, default in defaults.items():
        options, text = NUMBERS[name]
        several = {"nargs": "+"} if isinstance(default, list) else {}
        if conditional:
            default, text = None, f"{text} (default: {' '.join(map(str, default)) if several else default})"
        group.add_argument(f"--{name}", **options, **several, default=default, help=text)


def add_settings(group, settings: Any, *names: str, omit: Sequence[str] = ()) -> None:
    """Add a flag for each field of a dataclass of settings, or of an instance, whose values are the defaults.

    names: only these fields. omit: none of these.
    """
    for field in dataclasses.fields(settings):
        if (names and field.name not in names) or field.name in omit or not field.metadata.get("help"):
            continue
        default = getattr(settings, field.name)
        kind, options = type(first_of(default)), {"help": field.metadata["help"], "default": default}
        if isinstance(default, tuple):
            options |= {"nargs": "+", "default": list(default)}
        if kind is bool:
            options["action"] = "store_true"
        elif field.metadata["choices"]:
            options["choices"] = list(filter(None, field.metadata["choices"]))
        else:
            options |= {"type": partial(_parsed, field), "metavar": "N" if kind is int else "X"}
        if field.name == "random_weights":
            options |= {"nargs": "?", "const": "all", "default": ""}
        if field.name == "layers":
            options |= {"type": layers, "metavar": "L"}
        group.add_argument(f"--{field.name}", **options)


def _parsed(field: dataclasses.Field, text: str) -> int | float:
    """The type of a flag that is a number."""
    try:
        value = type(first_of(field.default))(text)
    except ValueError:
        value = math.nan
    if wanted := expected(field, value):
        raise argparse.ArgumentTypeError(f"{text!r:.60}: expected {wanted}")
    return value


# Data and output


def add_data(
    parser: argparse.ArgumentParser,
    content: str,
    held_out: str = "a tenth of --train_file",
    required=True,
    names: Sequence[str] = ("train_file", "dev_file", "test_file"),
):
    """Add the group of data files. content: what they contain. held_out: what replaces --dev_file. names: of `train`."""
    group = parser.add_argument_group("data")
    train, dev, test = ({**FILE, "dest": name} for name in names)
    group.add_argument("--train_file", **train, required=required, help=f"training data: {content}")
    group.add_argument("--dev_file", **dev, help=f"dev set, which selects the best epoch (default: {held_out})")
    group.add_argument("--test_file", **test, help="test set, on which the best epoch is scored")
    return group


def add_test(parser: argparse.ArgumentParser, content: str) -> None:
    parser.add_argument("--test_file", **FILE, required=True, help=f"test set: {content}")


def add_language(
    group,
    default: str | None = "en",
    help: str = "tokenise text as preprocess.py does",
    choices: Sequence[str] = tuple(TOKENISERS),
) -> None:
    each = ", or characters: each is a token" if "characters" in choices else ""
    help = f"{help}: English, Chinese, any other language, or none: split at white space{each}"
    group.add_argument("--lang", choices=choices, default=default, help=help)


def add_save(group, kind: str, required: bool = True) -> None:
    """kind: what is saved, such as `tagger`."""
    group.add_argument("--save_dir", **DIR, required=required, help=f"folder for the {kind}")
    group.add_argument("--overwrite", action="store_true", help=f"replace the {kind} in --save_dir")


def add_resume(group) -> None:
    group.add_argument("--resume", action="store_true", help="continue an interrupted training")


def add_saved_model(parser: argparse.ArgumentParser, kind: str, required: bool = True) -> None:
    parser.add_argument("--model_dir", **DIR, required=required, help=f"folder of a trained {kind}")
    add_device(parser)


def add_input(parser: argparse.ArgumentParser, content: str = "text") -> None:
    parser.add_argument("--input", **FILE, help=f"{content} (default: standard input)")


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str] = ()) -> None:
    """formats: the first is the default."""
    parser.add_argument("--output", **FILE, help="predictions (default: standard output)")
    if formats:
        parser.add_argument("--output_format", choices=formats, default=formats[0], help="format of the predictions")


def add_mistakes(group) -> None:
    group.add_argument("--mistakes", **FILE, help="write what was predicted instead of what is right, as TSV")


def add_json(group) -> None:
    group.add_argument("--json", **FILE, help="write the scores as JSON")


# Model and training


def layers(text: str) -> str:
    """A type of flags: the choice of ELMo's layers. Only the syntax is checked."""
    if re.fullmatch(r"average|top|\d+|(concat|mix)(:\d+(,\d+)*)?", text, re.ASCII):
        return text
    raise argparse.ArgumentTypeError(
        f"{text!r}: expected concat or mix (of all layers), concat:0,1 or mix:0,1 (of some), average, top, or a number"
    )


def checkpoint_or_none(text: str) -> str | None:
    """A type of flags: a checkpoint or a model's name; `none` is None."""
    return None if text.lower() == "none" else text


def add_elmo_settings(parser: argparse.ArgumentParser, settings: Any, training: Any, *more: str) -> None:
    """Add the group of ELMo's flags. settings, training: of the network and its training. more: fields of `settings`."""
    group = parser.add_argument_group("ELMo")
    help = "checkpoint prefix, file or folder (its latest checkpoint), or a model's name; none: no ELMo"
    ckpt = {"dest": "elmo", "type": checkpoint_or_none, "metavar": "CKPT", "help": help}
    group.add_argument("--init_from_ckpt", required=True, **ckpt)
    names = [field.name for field in dataclasses.fields(ELMoSettings)]
    add_settings(group, settings, *names, *more, omit=[] if "elmo_trainable" in more else ["elmo_trainable"])
    add_settings(group, training, *(["elmo_lr"] if "elmo_trainable" in more else []), "cache_gb")


def add_elmo(parser: argparse.ArgumentParser, defaults: Mapping[str, Any]):
    """Add the group of ELMo's flags. defaults: of the script's flags among NUMBERS. `check_elmo` sets them."""
    group = parser.add_argument_group("ELMo")
    help = "checkpoint prefix, file or folder (its latest checkpoint), or a model's name; none: no ELMo"
    group.add_argument("--init_from_ckpt", required=True, metavar="CKPT", help=help)
    help = "concat (default) or mix, of all layers or of some, as in concat:0,1; average; top; or a layer's number"
    group.add_argument("--layers", type=layers, metavar="L", help=help)
    help = "replace the pretrained weights with random ones, to measure what pretraining adds: all, or the LSTMs'"
    group.add_argument("--random_weights", nargs="?", const="all", choices=("all", "lstm"), help=help)
    if "elmo_lr" in defaults:
        group.add_argument("--elmo_trainable", action="store_true", help="fine-tune the biLM")
    add_numbers(group, defaults, conditional=True)
    return group


def check_elmo(parser: argparse.ArgumentParser, args: argparse.Namespace, defaults: Mapping[str, Any]) -> None:
    """Set the defaults of ELMo's flags. Raise on flags without effect. --init_from_ckpt=none becomes None."""
    args.init_from_ckpt = None if args.init_from_ckpt.lower() == "none" else args.init_from_ckpt
    has_elmo, tuned = args.init_from_ckpt is not None, getattr(args, "elmo_trainable", False)
    if tuned and not has_elmo:
        parser.error("--elmo_trainable has no effect without ELMo: --init_from_ckpt is none")
    mixed = has_elmo and (args.layers or "concat").startswith("mix")
    requirements = {
        "elmo_lr": (tuned, "--elmo_trainable"),
        "lstm_dropout": (tuned, "--elmo_trainable"),
        "elmo_l2_coef": (mixed, "--layers=mix"),
    }
    for name, default in {"layers": "concat", "random_weights": "", **defaults}.items():
        fill_defaults(
            parser, args, {name: default}, *requirements.get(name, (has_elmo, "ELMo: --init_from_ckpt is none"))
        )


def add_word_vectors(
    parser: argparse.ArgumentParser,
    defaults: Mapping[str, Any] | None = None,
    trainable: bool = True,
    flag: str = "--word_vectors",
    **options,
) -> None:
    """Add the group of word vectors. defaults: of --word_vectors_lr, if the script has it. options: of the flag itself."""
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
    """Set the defaults. Raise on flags without effect. random: without a file, there are random vectors to fine-tune."""
    tuned = getattr(args, "word_vectors_trainable", False)
    if args.word_vectors_limit and not args.word_vectors:
        parser.error("--word_vectors_limit has no effect without --word_vectors")
    if tuned and not (args.word_vectors or random):
        parser.error("--word_vectors_trainable has no effect without --word_vectors")
    fill_defaults(parser, args, defaults or {}, tuned, "--word_vectors_trainable")


def add_training_settings(parser: argparse.ArgumentParser, settings: Any, omit: Sequence[str] = ()):
    """Add the group of training, with all settings but those of ELMo."""
    group = parser.add_argument_group("training")
    add_settings(group, settings, omit=["elmo_lr", "cache_gb", *omit])
    add_device(group)
    return group


def add_training(parser: argparse.ArgumentParser, defaults: Mapping[str, Any]):
    """Add the group of training. defaults: of the script's flags among NUMBERS; --seed and --device are always added."""
    group = parser.add_argument_group("training")
    add_numbers(group, defaults)
    add_seed(group)
    add_device(group)
    return group


def finish(model: TrainedModel, args: argparse.Namespace, show: Callable[[str, Any], None]) -> None:
    """Print a trained model's scores and the weights of ELMo's mixed layers; write --json."""
    result = model.result
    show(f"dev, epoch {result.epoch}", result.dev)
    for where, mix in result.mixes.items():
        weights = " ".join(f"{weight:.2f}" for weight in mix["layers"])
        print(f"ELMo's layers at the {where} {weights}, times {mix['gamma']:.2f}")
    if result.test:
        show("test", result.test)
    print(f"saved in {args.save_dir}")
    script.write_json(args.json, result.to_dict())


# The classifier, for run_finetune.py and word2vec_base.py

HEAD_DEFAULTS = {"lr": [0.001, 0.003], "weight_decay": [0.1, 1.0], "dropout": [0.5], "epochs": 15, "batch_size": 64}
WORD_VECTORS_DEFAULTS = {"word_vectors_lr": [0.0003, 0.001]}
FINE_TUNING_DEFAULTS = {"tune_epochs": 5, "word_dropout": 0.1}
LABELLED_TEXTS = "TSV or JSON lines: text, label and, for pairs, a second text"
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
    add_mistakes(group)


def add_classifier(parser: argparse.ArgumentParser) -> None:
    """Add data, protocol, training and output. The parser already has the encoders' flags."""
    data = add_data(parser, LABELLED_TEXTS, required=False)
    data.add_argument("--data_dir", **DIR, help=f"polarity dataset, without --train_file (default: {POLARITY})")
    add_columns(data)
    add_language(data)
    data.add_argument("--max_seq_len", **COUNT, default=256, help="truncate texts to N tokens")
    help = "without --test_file: cross-validation, or the published single split"
    data.add_argument("--protocol", choices=("cv", "split"), default="cv", help=help)
    data.add_argument("--folds", **COUNT, default=10, help="folds of the cross-validation")
    add_save(data, "classifier", required=False)
    add_resume(data)
    training = add_training(parser, HEAD_DEFAULTS)
    training.description = "of several values, the dev part of each fold selects one"
    help = "size of the hidden layer; 0: none"
    training.add_argument("--hidden_dim", "--sent_embedding_dim", **WHOLE, default=64, help=help)
    help = "weights of classes in the loss (others: 1), or `balanced`: equal total weight of all classes"
    training.add_argument("--class_weights", nargs="+", metavar="CLASS=X", help=help)
    add_numbers(training, FINE_TUNING_DEFAULTS, conditional=True)
    training.add_argument("--logging_step", **COUNT, help="steps between log lines (default: one line per fold)")
    out = parser.add_argument_group("scores")
    out.add_argument("--results", **FILE, help="write scores and predictions as JSON")
    out.add_argument("--compare_with", **FILE, nargs="+", help="test the difference from the --results of other runs")
    add_tables(out)


def check_classifier(parser: argparse.ArgumentParser, args: argparse.Namespace, tuned: bool, tuning: str) -> None:
    """Set the defaults. Raise on flags without effect. tuned: whether an encoder is fine-tuned; tuning: the flags for it."""
    fill_defaults(parser, args, FINE_TUNING_DEFAULTS, tuned, tuning)
    for name in ("data_dir", "dev_file", "test_file", "columns"):
        if getattr(args, name) and bool(args.train_file) == (name == "data_dir"):
            parser.error(f"--{name} has no effect {'with' if args.train_file else 'without'} --train_file")
    if args.resume and not (args.results or args.save_dir):
        parser.error("--resume has no effect without --save_dir or --results")
    args.data_dir = args.data_dir or POLARITY
