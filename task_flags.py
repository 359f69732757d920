"""The flags that run_tag.py, run_read.py and run_finetune.py share, each with one name, one meaning and one help text."""

import argparse
import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import script
from args import COUNT, DIR, FILE, add_device
from elmo_core.text.language import AUTO, CHOICES
from elmo_tasks.pretrained import ELMoSettings
from elmo_tasks.saved import TrainedModel
from elmo_tasks.settings import expected, first_of


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
            options["nargs"] = "+"
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
    """Add the group of data files. content: what they contain. held_out: data used without --dev_file. names: of `train`."""
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
    default: str | None = AUTO,
    help: str = "tokenise text as preprocess.py does",
    choices: Sequence[str] = CHOICES,
) -> None:
    recognised = "recognised, " if default == AUTO else ""
    each = ", or characters: each is a token" if "characters" in choices else ""
    help = f"{help}: {recognised}English, Chinese, any other language, or none: split at white space{each}"
    group.add_argument("--lang", choices=choices, default=default, help=help)


def add_save(group, kind: str, required: bool = True) -> None:
    """Add the flags of the folder to save in. kind: of model, such as `tagger`."""
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
    """Add the flags of the predictions. formats: the first is the default."""
    parser.add_argument("--output", **FILE, help="predictions (default: standard output)")
    if formats:
        parser.add_argument("--output_format", choices=formats, default=formats[0], help="format of the predictions")


def add_mistakes(group) -> None:
    group.add_argument("--mistakes", **FILE, help="write misclassified examples (gold and predicted) to this TSV")


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


def add_word_vectors(parser: argparse.ArgumentParser, trainable: bool = True, flag: str = "--word_vectors", **options):
    """Add the group of word vectors. options: of the flag itself."""
    group = parser.add_argument_group("word vectors")
    options = {"help": "word vectors, in word2vec's or GloVe's format", **FILE, **options}
    group.add_argument(flag, dest="word_vectors", **options)
    group.add_argument("--word_vectors_limit", **COUNT, help="read only the first N of them")
    if trainable:
        group.add_argument("--word_vectors_trainable", action="store_true", help="fine-tune them")
    return group


def add_training_settings(parser: argparse.ArgumentParser, settings: Any, omit: Sequence[str] = ()):
    """Add the group of training, with all settings but those of ELMo."""
    group = parser.add_argument_group("training")
    add_settings(group, settings, omit=["elmo_lr", "cache_gb", *omit])
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
