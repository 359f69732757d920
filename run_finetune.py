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

import args as arguments
import script
import task_flags
from args import FILE
from elmo_core.files import disk
from elmo_core.messages import format_count
from elmo_core.text.text_files import line_groups, write_table
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.network import ClassifierSettings
from elmo_tasks.classification.prediction import OUTPUT_FORMATS, classify_lines, explanation_page
from elmo_tasks.classification.scores import confusion_table, mistakes, per_class_table
from elmo_tasks.classification.texts import read_groups
from elmo_tasks.classification.training import ClassifierTraining


def parse(argv: Sequence[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = arguments.parser(__doc__)
    parser.default_command = "train"
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a classifier and score it")
    task_flags.add_elmo_settings(train, ClassifierSettings, ClassifierTraining, "elmo_trainable", "lstm_dropout")
    task_flags.add_classifier(train, "--word_vectors")
    evaluate = commands.add_parser("evaluate", help="score a trained classifier on labelled texts")
    arguments.add(evaluate, "model_dir", "device", "precision", "json", "confusion", "mistakes")
    arguments.add(evaluate, "test_file", help=f"test set: {task_flags.LABELLED_TEXTS}")
    task_flags.add_columns(evaluate)
    predict = commands.add_parser("predict", help="classify text")
    arguments.add(predict, "model_dir", "device", "precision", "output")
    arguments.add(predict, "output_format", choices=OUTPUT_FORMATS, default=OUTPUT_FORMATS[0])
    lines = "one text per line; a pair is two, separated by a tab; or a file like --train_file"
    arguments.add(predict, "input", help=f"{lines} (default: standard input)")
    task_flags.add_columns(predict)
    page = "write a page (HTML) of the texts, with words shaded by their weight"
    predict.add_argument("--explain", **FILE, help=page)
    args = parser.parse_args(argv)
    return commands.choices[args.command], args


def main(argv: Sequence[str] | None = None) -> None:
    parser, args = parse(argv)
    task_flags.start(args)
    if args.command == "train":
        task_flags.train_classifier(parser, args)
    else:
        {"evaluate": evaluate, "predict": predict}[args.command](args)


def evaluate(args: argparse.Namespace) -> None:
    classifier = Classifier(args.model_dir, args.device, args.precision)
    data = classifier.read(args.test_file, None, args.columns)
    score = classifier.score(data)
    print(f"accuracy               {score.accuracy:.2%}, {format_count(len(data), data.unit)}")
    print(f"macro F1               {score.macro_f1:.2%}")
    print("\n".join([per_class_table(score)] + [confusion_table(score)] * args.confusion))
    write_table(args.mistakes, mistakes(score, data.texts, data.are_pairs))
    disk.write_json(args.json, {"test": score.to_dict()}, indent=1, ensure_ascii=False)


def predict(args: argparse.Namespace) -> None:
    groups, source = (read_groups(args.input), args.input) if args.input else (line_groups(None), "standard input")
    classifier = Classifier(args.model_dir, args.device, args.precision)
    texts = [] if args.explain else None
    with script.output(args.output, args.input) as target:
        for lines in classify_lines(classifier, groups, source, args.output_format, args.columns, texts):
            target.writelines(f"{line}\n" for line in lines)
            target.flush()
    if args.explain:
        with disk.atomic_write(args.explain) as file:
            file.write(explanation_page(classifier, texts))


if __name__ == "__main__":
    script.run(main)
