"""Classify your own texts or text pairs, with or without ELMo; or run the sentence polarity task.

    python run_finetune.py train --train_file=train.tsv --test_file=test.tsv --init_from_ckpt=checkpoints --save_dir=model
    python run_finetune.py train --train_file=train.jsonl --init_from_ckpt=none --word_vectors=vectors.bin
    python run_finetune.py predict --model_dir=model --input=texts.txt
    python run_finetune.py evaluate --model_dir=model --test_file=test.tsv
    python run_finetune.py --data_dir=data/polarity --init_from_ckpt=checkpoints/sample
    python run_finetune.py --data_dir=DIR --init_from_ckpt=checkpoints --elmo_trainable --compare_with=word2vec.json

Without a command, the flags are those of `train`. The classifier sees the mean of a text's token vectors. Without
--test_file the texts of --train_file are cross-validated. By default the biLM is frozen: it runs once over the texts, and a
head over its concatenated layers is trained in seconds. --elmo_trainable then fine-tunes the biLM and the head together, in
minutes per fold. word2vec_base.py is the baseline with the same protocol.
"""

import argparse
from collections.abc import Sequence

import args as arguments
import elmo
import script
import task_flags
from elmo_core.machine import disk, runtime
from elmo_core.machine.messages import format_count
from elmo_core.text.text_files import line_groups, write_table
from elmo_core.weights import model_files
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.encoders import BiLMEncoder, Encoder, FineTuning, WordTable
from elmo_tasks.classification.prediction import OUTPUT_FORMATS, classify_lines
from elmo_tasks.classification.protocol import Experiment, ProtocolSettings
from elmo_tasks.classification.scores import macro_f1, mistakes, per_class, tables
from elmo_tasks.classification.texts import read_groups
from elmo_tasks.pretrained import PretrainedBiLM, randomise
from elmo_tasks.word_vectors import WordVectors

ELMO_DEFAULTS = {"elmo_lr": [0.0005], "lstm_dropout": 0.2}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.default_command = "train"
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a classifier and score it")
    task_flags.add_elmo(train, ELMO_DEFAULTS)
    text = "word vectors, in word2vec's or GloVe's format. With neither these nor ELMo each word gets a random vector"
    task_flags.add_word_vectors(train, task_flags.WORD_VECTORS_DEFAULTS, help=text)
    task_flags.add_classifier(train)
    evaluate = commands.add_parser("evaluate", help="score a trained classifier on labelled texts")
    task_flags.add_saved_model(evaluate, "classifier")
    task_flags.add_test(evaluate, task_flags.LABELLED_TEXTS)
    task_flags.add_columns(evaluate)
    task_flags.add_json(evaluate)
    task_flags.add_tables(evaluate)
    predict = commands.add_parser("predict", help="classify text")
    task_flags.add_saved_model(predict, "classifier")
    task_flags.add_input(predict, "one text per line; a pair is two, separated by a tab; or a file like --train_file")
    task_flags.add_columns(predict)
    task_flags.add_output(predict, OUTPUT_FORMATS)
    args = parser.parse_args(argv)
    if args.command == "train":
        task_flags.check_elmo(train, args, ELMO_DEFAULTS)
        task_flags.check_word_vectors(train, args, task_flags.WORD_VECTORS_DEFAULTS, random=not args.init_from_ckpt)
        tuned = args.elmo_trainable or args.word_vectors_trainable
        task_flags.check_classifier(train, args, tuned, "--elmo_trainable or --word_vectors_trainable")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    {"train": train, "evaluate": evaluate, "predict": predict}[args.command](args)


def train(args: argparse.Namespace) -> None:
    if args.init_from_ckpt:  # a folder's latest may change
        args.init_from_ckpt = str(model_files.resolve(args.init_from_ckpt).absolute())
    experiment = Experiment(arguments.from_flags(ProtocolSettings, args), vars(args))
    encoders: list[Encoder] = [bilm_encoder(args)] if args.init_from_ckpt else []
    if args.word_vectors or not encoders:
        tuning = FineTuning(args.word_vectors_lr, args.word_dropout) if args.word_vectors_trainable else None
        vectors = WordVectors(args.word_vectors, args.word_vectors_limit) if args.word_vectors else None
        encoders.append(WordTable(vectors, args.seed, tuning))
    experiment.run(encoders)


def bilm_encoder(args: argparse.Namespace) -> BiLMEncoder:
    bilm, vocabulary = elmo.load_bilm(args.init_from_ckpt)
    if args.random_weights:
        randomise(bilm, args.random_weights, args.seed)
    tuning = FineTuning(args.elmo_lr, args.word_dropout, args.lstm_dropout) if args.elmo_trainable else None
    source = None if args.random_weights else PretrainedBiLM.from_path(args.init_from_ckpt)
    return BiLMEncoder(bilm, vocabulary, args.layers, tuning, source)


def evaluate(args: argparse.Namespace) -> None:
    disk.check_output("--json", args.json, args.test_file)
    disk.check_output("--mistakes", args.mistakes, args.test_file)
    results, data = Classifier(args.model_dir, args.device).evaluate(args.test_file, args.columns)
    accuracy, f1 = results.is_correct.mean(), macro_f1(results.prediction, results.label)
    print(f"accuracy               {accuracy:.2%}, {format_count(len(data), data.unit)}")
    print(f"macro F1               {f1:.2%}")
    print("\n".join(tables(results, True, args.confusion)))
    if args.mistakes:
        write_table(args.mistakes, mistakes(results, data.texts, data.are_pairs))
    values = {"accuracy": accuracy, "macro_f1": f1, "texts": len(data), "classes": per_class(results)}
    script.write_json(args.json, {"test": values})


def predict(args: argparse.Namespace) -> None:
    groups, source = (read_groups(args.input), args.input) if args.input else (line_groups(None), "standard input")
    classifier = Classifier(args.model_dir, args.device)
    with script.output(args.output, args.input) as target:
        for lines in classify_lines(classifier, groups, source, args.output_format, args.columns):
            target.writelines(f"{line}\n" for line in lines)
            target.flush()


if __name__ == "__main__":
    script.run(main)
