"""Train and use a sequence tagger on your own files: chunks, named entities, parts of speech, words; ELMo is optional.

    python run_tag.py train --train_file=train.txt --dev_file=dev.txt --init_from_ckpt=checkpoints --save_dir=tagger
    python run_tag.py train --train_file=train.txt --init_from_ckpt=none --word_vectors=glove.txt --save_dir=tagger
    echo "Rockwell said it signed ." | python run_tag.py predict --model_dir=tagger
    python run_tag.py evaluate --model_dir=tagger --test_file=test.txt

Files have columns, as in the CoNLL tasks: a token and its label per line, separated by tabs or spaces, a blank line between
sentences; or they are those of docs/data.md. `predict` also reads plain text. The labels are BIO, IOB1, BIOES, plain
tags or LAC's. The network is a bidirectional GRU or LSTM with a CRF. The epoch with the highest F1 (plain tags: accuracy)
on --dev_file is saved. F1 is that of `conlleval`.
"""

import argparse
import re
from collections.abc import Iterator, Sequence

import args as arguments
import script
import task_flags
from args import FILE
from elmo_core.files import disk
from elmo_core.messages import UserError, log
from elmo_core.text.language import AUTO
from elmo_core.text.text_files import line_groups, write_table
from elmo_core.text.tokenise import LANGUAGES
from elmo_tasks.tagging.data import Sentence, warn_about_labels
from elmo_tasks.tagging.formats import FORMATS
from elmo_tasks.tagging.network import TaggerSettings
from elmo_tasks.tagging.prediction import INPUT_FORMATS, OUTPUT_FORMATS, TEXT, tag
from elmo_tasks.tagging.scheme import SCHEMES, are_of_words
from elmo_tasks.tagging.score import Score
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.training import TrainingSettings


def column(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?\d+", text, re.ASCII) else text


COLUMN = {"type": column, "metavar": "COLUMN"}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    add_train(commands.add_parser("train", help="train a tagger"))
    add_evaluate(commands.add_parser("evaluate", help="score a trained tagger on labelled sentences"))
    add_predict(commands.add_parser("predict", help="tag text"))
    args = parser.parse_args(argv)
    if args.command == "predict" and args.lang and args.data_format not in (None, TEXT):
        commands.choices["predict"].error(f"--lang has no effect with --data_format={args.data_format}")
    return args


def add_train(parser: argparse.ArgumentParser) -> None:
    data = task_flags.add_data(parser, "labelled sentences", ("sentences", "dev", "test"))
    add_format(data)
    data.add_argument("--pieces", **FILE, help="vocabulary whose entries the words of `word/TAG` are split into")
    data.add_argument(
        "--feature_column", type=int, metavar="N", help="column of a further input, such as the part of speech"
    )
    data.add_argument("--scheme", choices=SCHEMES, help="scheme of the labels (default: detected)")
    task_flags.add_settings(data, TaggerSettings, "segmentation", "words")
    task_flags.add_language(data, AUTO, "how `predict` tokenises text")
    arguments.add(data, "save_dir", "overwrite", "resume", "json")
    task_flags.add_elmo_settings(parser, TaggerSettings, TrainingSettings, "elmo_trainable", "elmo_at")
    task_flags.add_word_vectors(parser, TaggerSettings)
    network = parser.add_argument_group("network")
    task_flags.add_settings(
        network, TaggerSettings, "word_dim", "char_cnn", "cell", "hidden_dim", "n_layers", "dropout"
    )
    training = task_flags.add_training_settings(parser, TrainingSettings, omit=["ema"])
    task_flags.add_settings(training, TaggerSettings, "emb_lr_factor", "crf_lr_factor")


def add_format(group) -> None:
    text = "columns; tsv: tokens, a tab, labels; tagged: word/TAG; segmented: words with spaces; json: tokens and "
    group.add_argument(
        "--data_format", choices=FORMATS, help=f"{text}labels, or a text and spans (default: recognised)"
    )
    text = "column of the tokens, from 0; -1 is the last; or a key of JSON"
    group.add_argument("--token_column", **COLUMN, default=0, help=text)
    group.add_argument("--label_column", **COLUMN, default=-1, help="column or key of the labels")
    text = "names of labels that are numbers in JSON, one per line"
    group.add_argument("--label_names", **FILE, help=text)


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "model_dir", "device", "precision", "mistakes", "json")
    arguments.add(parser, "test_file", help="test set: labelled sentences")
    add_format(parser)


def add_predict(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "model_dir", "device", "precision", "input", "output")
    arguments.add(parser, "output_format", choices=OUTPUT_FORMATS, default=OUTPUT_FORMATS[0])
    help = "text: a sentence per line; the others are those of `evaluate` (default: recognised)"
    parser.add_argument("--data_format", choices=INPUT_FORMATS, help=help)
    task_flags.add_language(parser, None, "tokenise text as (default: as in training)", LANGUAGES, False)
    parser.add_argument("--token_column", **COLUMN, default=0, help="column or key of the tokens")


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    task_flags.start(args)
    {"train": train, "evaluate": evaluate, "predict": predict}[args.command](args)


def train(args: argparse.Namespace) -> None:
    if args.dev and args.test and args.dev.samefile(args.test):
        log.warning(f"{args.test} is both --dev_file and --test_file: the test scores will be optimistic.")
    task_flags.finish(Tagger.train(**arguments.options(Tagger.train, args)), args, show)


def evaluate(args: argparse.Namespace) -> None:
    tagger = Tagger(args.model_dir, args.device, args.precision)
    reader = tagger.reader(args.data_format, args.token_column, args.label_column, args.label_names)
    sentences = reader.read(args.test_file)
    warn_about_labels(tagger.labels, tagger.settings.scheme, [], {str(args.test_file): sentences})
    predicted = tagger.predict([sentence.tokens for sentence in sentences])
    score = tagger.score(sentences, predicted=predicted)
    write_table(args.mistakes, mistake_rows(sentences, predicted))
    show(str(args.test_file), score)
    disk.write_json(args.json, {"test": score.to_dict()}, indent=1, ensure_ascii=False)


def mistake_rows(sentences: Sequence[Sentence], predicted: Sequence[list[str]]) -> Iterator[Sequence[str]]:
    """Yield sentences with mistakes: file and line as a comment, then token, label and predicted label in columns."""
    for sentence, labels in zip(sentences, predicted, strict=True):
        if sentence.labels != labels:
            yield (f"# source = {sentence.where}",)
            yield from zip(sentence.tokens, sentence.labels, labels, strict=True)
            yield ()


def predict(args: argparse.Namespace) -> None:
    tagger = Tagger(args.model_dir, args.device, args.precision)
    if args.output_format == "tagged" and tagger.settings.scheme != "lac":
        raise UserError(f"--output_format=tagged requires LAC's scheme; this tagger's is {tagger.settings.scheme}.")
    if args.output_format == "words" and not are_of_words(tagger.labels, tagger.settings.scheme):
        raise UserError("--output_format=words requires labels of words, without O, such as B, M, E and S, or LAC's.")
    if args.input:
        disk.check_input(args.input, "text", "--input")
    reader = tagger.reader(args.data_format, args.token_column)
    source, groups = args.input or "standard input", line_groups(args.input)
    with script.output(args.output, args.input) as target:
        for text in tag(tagger, groups, source, reader, args.lang or "", args.output_format):
            target.write(text)
            target.flush()


def show(name: str, score: Score) -> None:
    print(f"== {name}: {'' if score.scheme == 'plain' else f'F1 {score.total.f1:.2%}, '}accuracy {score.accuracy:.2%}")
    print(score.table())


if __name__ == "__main__":
    script.run(main)
