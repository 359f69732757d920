"""The flags that run_tag.py, run_read.py and run_finetune.py share, each with one name, one meaning and one help text."""

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from args import COUNT, DIR, FILE, WHOLE, add, add_settings, options
from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_core.messages import log
from elmo_core.text.language import AUTO, CHOICES
from elmo_core.text.text_files import write_table
from elmo_tasks import Classifier
from elmo_tasks.classification.network import ClassifierSettings
from elmo_tasks.classification.polarity import check_folder
from elmo_tasks.classification.scores import mistakes
from elmo_tasks.classification.training import ClassifierTraining
from elmo_tasks.pretrained import ELMoSettings
from elmo_tasks.saved import TrainedModel

# Data and output

OUTPUTS = "json", "mistakes", "results", "explain", "text"  # and --output, which `script.output` checks


def add_data(parser, content: str, names: Sequence[str], held_out: str = "a tenth of --train_file", required=True):
    """Add the group of data files. names: parameters of `train`. held_out: data used without --dev_file."""
    group = parser.add_argument_group("data")
    train, dev, test = ({**FILE, "dest": name} for name in names)
    group.add_argument("--train_file", **train, required=required, help=f"training data: {content}")
    group.add_argument("--dev_file", **dev, help=f"dev set, which selects the best epoch (default: {held_out})")
    group.add_argument("--test_file", **test, help="test set, on which the best epoch is scored")
    return group


def add_language(
    group,
    default: str | None = AUTO,
    help: str = "tokenise text as preprocess.py does",
    choices: Sequence[str] = CHOICES,
    dictionary: bool = True,
) -> None:
    """Add the flag of the language and, if `dictionary`, that of jieba's."""
    recognised = "recognised, " if default == AUTO else ""
    help = f"{help}: {recognised}English, Chinese (words, or characters), any other language, or none: split at white space"
    group.add_argument("--lang", choices=choices, default=default, help=help)
    if dictionary:
        group.add_argument("--user_dict", **FILE, help="words for jieba: per line a word, optionally frequency and tag")


# Model and training


def add_elmo_settings(parser: argparse.ArgumentParser, settings: Any, training: Any, *more: str) -> None:
    """Add the group of ELMo's flags. settings, training: of the network and its training. more: fields of `settings`."""
    group = parser.add_argument_group("ELMo")
    help = "checkpoint prefix, file or folder (its latest checkpoint), or a model's name; none: no ELMo"
    ckpt = {"type": lambda text: None if text.lower() == "none" else text, "metavar": "CKPT", "help": help}
    group.add_argument("--init_from_ckpt", required=True, dest="elmo", **ckpt)
    names = [field.name for field in dataclasses.fields(ELMoSettings)]
    add_settings(group, settings, *names, *more, omit=[] if "elmo_trainable" in more else ["elmo_trainable"])
    add_settings(group, training, *(["elmo_lr"] if "elmo_trainable" in more else []), "cache_gb")


def add_word_vectors(parser: argparse.ArgumentParser, settings: Any, flag: str = "--word_vectors", **options):
    """Add the group of word vectors. settings: of the network. options: of the flag itself."""
    group = parser.add_argument_group("word vectors")
    options = {"help": "word vectors, in word2vec's or GloVe's format", **FILE, **options}
    group.add_argument(flag, dest="word_vectors", **options)
    group.add_argument("--word_vectors_limit", **COUNT, help="read only the first N of them")
    add_settings(group, settings, "word_vectors_trainable")
    return group


def add_training_settings(parser: argparse.ArgumentParser, settings: Any, omit: Sequence[str] = ()):
    """Add the group of training, with all settings but those of ELMo."""
    group = parser.add_argument_group("training")
    add_settings(group, settings, omit=["elmo_lr", "cache_gb", *omit])
    add(group, "device")
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
    disk.write_json(args.json, result.to_dict(), indent=1, ensure_ascii=False)


def start(args: argparse.Namespace) -> None:
    """Raise if a file of results cannot be written or is also an input. Set the device, if the command has one."""
    outputs = [name for name in OUTPUTS if getattr(args, name, None)]
    inputs = [value for name, value in vars(args).items() if isinstance(value, Path) and name not in outputs]
    for name in outputs:
        disk.check_output(f"--{name}", getattr(args, name), *inputs)
    if "device" in args:
        runtime.set_device(args.device)


# The classifier, for run_finetune.py and word2vec_base.py

LABELLED_TEXTS = "TSV, CSV or JSON: text, label and, for pairs, a second text"
POLARITY = Path("sentence-polarity-dataset-v1")


def add_classifier(parser: argparse.ArgumentParser, flag: str, **options) -> None:
    """Add the flags of the classifier's training, except ELMo's. flag, options: of the file of word vectors."""
    words = add_word_vectors(parser, ClassifierSettings, flag, **options)
    add_settings(words, ClassifierTraining, "word_vectors_lr")
    data = add_data(parser, LABELLED_TEXTS, ("texts", "dev", "test"), required=False)
    data.add_argument("--data_dir", **DIR, help=f"polarity dataset, without --train_file (default: {POLARITY})")
    add_columns(data)
    add_language(data)
    add_settings(data, ClassifierSettings, "max_seq_len")
    help = "without --dev_file and --test_file: cross-validation, or the published single split"
    data.add_argument("--protocol", choices=("cv", "split"), default="cv", help=help)
    data.add_argument("--folds", **COUNT, default=10, help="folds of the cross-validation")
    add(data, "save_dir", required=False)
    add(data, "overwrite", "resume")
    network = parser.add_argument_group("network")
    several = ClassifierSettings(dropout=(ClassifierSettings.dropout,))
    add_settings(network, several, "head", "head_dim", "hidden_dim", "dropout", "word_dropout")
    name = {"dest": "hidden_dim", "default": argparse.SUPPRESS, "help": argparse.SUPPRESS}  # of the published script
    network.add_argument("--sent_embedding_dim", **WHOLE, **name)
    training = add_training_settings(parser, ClassifierTraining, omit=["word_vectors_lr", "ema"])
    training.description = "of several values, the dev part selects one"
    help = "weights of classes in the loss (others: 1), or `balanced`: equal total weight of all classes"
    training.add_argument("--class_weights", nargs="+", type=class_weight, metavar="CLASS=X", help=help)
    out = parser.add_argument_group("scores")
    out.add_argument("--results", **FILE, help="write scores and predictions as JSON")
    out.add_argument("--compare_with", **FILE, nargs="+", default=(), help="test the difference from other --results")
    add(out, "confusion", "mistakes")


def add_columns(group) -> None:
    help = "JSON keys, names in a header, or numbers from 0 (default: as in training, text,label,text2, or 0,1,2)"
    group.add_argument("--columns", type=columns, metavar="TEXT,LABEL[,TEXT2]", help=help)


def columns(text: str) -> list[str]:
    names = text.split(",")
    if len(set(names)) != len(names) or not 2 <= len(names) <= 3:
        raise argparse.ArgumentTypeError(f"{text!r}: expected TEXT,LABEL or TEXT,LABEL,TEXT2")
    return names


def class_weight(text: str) -> tuple[str, float | None]:
    """The name of a class and its weight; or `balanced`."""
    name, _, number = text.rpartition("=")
    try:
        return (text, None) if text == "balanced" else (name, float(number))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected `balanced`, or CLASS=WEIGHT") from None


def train_classifier(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Train a classifier and score it, or cross-validate, as the flags say. Prints the scores."""
    is_polarity, weights = args.texts is None, dict(args.class_weights or [])
    for name, flag in (("data_dir", "data_dir"), ("dev", "dev_file"), ("test", "test_file"), ("columns", "columns")):
        if getattr(args, name) and is_polarity != (name == "data_dir"):
            parser.error(f"--{flag} has no effect {'without' if is_polarity else 'with'} --train_file")
    if is_polarity:
        args.texts = args.data_dir or POLARITY
        check_folder(args.texts)
    args.class_weights = "balanced" if "balanced" in weights else weights or None
    run = Classifier.cross_validate(**options(Classifier.train, args) | options(Classifier.cross_validate, args))
    if run.results:  # otherwise another rank reports
        print(run.report(not is_polarity, args.confusion), flush=True)
        write_table(args.mistakes, mistakes(run.predictions, run.data.texts, run.data.are_pairs))
        if args.save_dir:
            log.info(
                f"saved         {args.save_dir}; use it: python run_finetune.py predict --model_dir={args.save_dir}"
            )
