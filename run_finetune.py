"""Classify your own texts or text pairs, with or without ELMo; or run the sentence polarity task.

    python run_finetune.py train --train_file=train.tsv --test_file=test.tsv --init_from_ckpt=checkpoints --save_dir=model
    python run_finetune.py train --train_file=train.jsonl --init_from_ckpt=none --word_vectors=vectors.bin
    python run_finetune.py predict --model_dir=model --input=texts.txt
    python run_finetune.py evaluate --model_dir=model --test_file=test.tsv
    python run_finetune.py --data_dir=data/polarity --init_from_ckpt=checkpoints/sample
    python run_finetune.py --data_dir=DIR --init_from_ckpt=checkpoints --elmo_trainable --compare_with=word2vec.json

Without a command, the flags are those of `train`. --head says how a text's token vectors become one. Without --dev_file and
--test_file the texts are cross-validated. By default the biLM is frozen: it runs once over the texts, and a head over its
concatenated layers is trained in seconds (`mean`) to minutes. --elmo_trainable then fine-tunes the biLM and the head
together. word2vec_base.py is the baseline with the same protocol.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import args as arguments
import script
import task_flags
from args import COUNT, DIR, FILE, WHOLE
from elmo_core.machine import disk, runtime
from elmo_core.machine.messages import format_count, log
from elmo_core.text.text_files import line_groups, write_table
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.network import ClassifierSettings
from elmo_tasks.classification.polarity import check_folder
from elmo_tasks.classification.prediction import OUTPUT_FORMATS, classify_lines
from elmo_tasks.classification.scores import mistakes, tables
from elmo_tasks.classification.texts import read_groups
from elmo_tasks.classification.training import ClassifierTraining

LABELLED_TEXTS = "TSV, CSV or JSON: text, label and, for pairs, a second text"
POLARITY = Path("sentence-polarity-dataset-v1")


def parse(argv: Sequence[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = arguments.parser(__doc__)
    parser.default_command = "train"
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a classifier and score it")
    task_flags.add_elmo_settings(train, ClassifierSettings, ClassifierTraining, "elmo_trainable", "lstm_dropout")
    add_train(train, "--word_vectors")
    evaluate = commands.add_parser("evaluate", help="score a trained classifier on labelled texts")
    task_flags.add_saved_model(evaluate, "classifier")
    task_flags.add_test(evaluate, LABELLED_TEXTS)
    add_columns(evaluate)
    task_flags.add_json(evaluate)
    add_tables(evaluate)
    predict = commands.add_parser("predict", help="classify text")
    task_flags.add_saved_model(predict, "classifier")
    task_flags.add_input(predict, "one text per line; a pair is two, separated by a tab; or a file like --train_file")
    add_columns(predict)
    task_flags.add_output(predict, OUTPUT_FORMATS)
    args = parser.parse_args(argv)
    return commands.choices[args.command], args


def add_train(parser: argparse.ArgumentParser, flag: str, **options) -> None:
    """Add the flags of `train`, but those of ELMo. flag, options: of the file of word vectors."""
    words = task_flags.add_word_vectors(parser, flag=flag, **options)
    task_flags.add_settings(words, ClassifierTraining, "word_vectors_lr")
    data = task_flags.add_data(parser, LABELLED_TEXTS, required=False, names=("texts", "dev", "test"))
    data.add_argument("--data_dir", **DIR, help=f"polarity dataset, without --train_file (default: {POLARITY})")
    add_columns(data)
    task_flags.add_language(data)
    task_flags.add_settings(data, ClassifierSettings, "max_seq_len")
    help = "without --dev_file and --test_file: cross-validation, or the published single split"
    data.add_argument("--protocol", choices=("cv", "split"), default="cv", help=help)
    data.add_argument("--folds", **COUNT, default=10, help="folds of the cross-validation")
    task_flags.add_save(data, "classifier", required=False)
    task_flags.add_resume(data)
    network = parser.add_argument_group("network")
    several = ClassifierSettings(dropout=(ClassifierSettings.dropout,))
    task_flags.add_settings(network, several, "head", "head_dim", "hidden_dim", "dropout", "word_dropout")
    name = {"dest": "hidden_dim", "default": argparse.SUPPRESS, "help": argparse.SUPPRESS}  # of the published script
    network.add_argument("--sent_embedding_dim", **WHOLE, **name)
    training = task_flags.add_training_settings(parser, ClassifierTraining, omit=["word_vectors_lr", "ema"])
    training.description = "of several values, the dev part selects one"
    help = "weights of classes in the loss (others: 1), or `balanced`: equal total weight of all classes"
    training.add_argument("--class_weights", nargs="+", type=class_weight, metavar="CLASS=X", help=help)
    out = parser.add_argument_group("scores")
    out.add_argument("--results", **FILE, help="write scores and predictions as JSON")
    out.add_argument("--compare_with", **FILE, nargs="+", default=(), help="test the difference from other --results")
    add_tables(out)


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


def add_tables(group) -> None:
    group.add_argument("--confusion", action="store_true", help="print the confusion matrix")
    task_flags.add_mistakes(group)


def main(argv: Sequence[str] | None = None) -> None:
    parser, args = parse(argv)
    runtime.set_device(args.device)
    if args.command == "train":
        train(parser, args)
    else:
        {"evaluate": evaluate, "predict": predict}[args.command](args)


def train(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    is_polarity, weights = args.texts is None, dict(args.class_weights or [])
    for name, flag in (("data_dir", "data_dir"), ("dev", "dev_file"), ("test", "test_file"), ("columns", "columns")):
        if getattr(args, name) and is_polarity != (name == "data_dir"):
            parser.error(f"--{flag} has no effect {'without' if is_polarity else 'with'} --train_file")
    if args.resume and not (args.results or args.save_dir):
        parser.error("--resume has no effect without --save_dir or --results")
    for name in ("results", "mistakes"):
        disk.check_output(f"--{name}", getattr(args, name), args.texts, args.dev, args.test)
    if is_polarity:
        args.texts = args.data_dir or POLARITY
        check_folder(args.texts)
    args.class_weights = "balanced" if "balanced" in weights else weights or None
    options = {name: value for name, value in vars(args).items() if name in Classifier.train.__kwdefaults__}
    protocol = {"folds": args.folds, "protocol": args.protocol, "results": args.results}
    run = Classifier.cross_validate(args.texts, **protocol, compare_with=args.compare_with, **options)
    if run.results:  # otherwise another rank reports
        print(run.report(not is_polarity, args.confusion), flush=True)
        if args.mistakes:
            write_table(args.mistakes, mistakes(run.predictions, run.data.texts, run.data.are_pairs))
        if args.save_dir:
            log.info(
                f"saved         {args.save_dir}; use it: python run_finetune.py predict --model_dir={args.save_dir}"
            )


def evaluate(args: argparse.Namespace) -> None:
    disk.check_output("--json", args.json, args.test_file)
    disk.check_output("--mistakes", args.mistakes, args.test_file)
    classifier = Classifier(args.model_dir, args.device)
    data = classifier.read(args.test_file, None, args.columns)
    score = classifier.score(data)
    print(f"accuracy               {score.accuracy:.2%}, {format_count(len(data), data.unit)}")
    print(f"macro F1               {score.macro_f1:.2%}")
    print("\n".join(tables(score.results, True, args.confusion)))
    if args.mistakes:
        write_table(args.mistakes, mistakes(score.results, data.texts, data.are_pairs))
    script.write_json(args.json, {"test": score.to_dict()})


def predict(args: argparse.Namespace) -> None:
    groups, source = (read_groups(args.input), args.input) if args.input else (line_groups(None), "standard input")
    classifier = Classifier(args.model_dir, args.device)
    with script.output(args.output, args.input) as target:
        for lines in classify_lines(classifier, groups, source, args.output_format, args.columns):
            target.writelines(f"{line}\n" for line in lines)
            target.flush()


if __name__ == "__main__":
    script.run(main)
