"""Train and use a sequence tagger on your own labelled sentences. ELMo is optional.

    python run_tag.py train --train_file=train.txt --dev_file=dev.txt --init_from_ckpt=checkpoints --save_dir=tagger
    python run_tag.py train --train_file=train.txt --init_from_ckpt=none --word_vectors=glove.txt --save_dir=tagger
    echo "Rockwell said it signed ." | python run_tag.py predict --model_dir=tagger
    python run_tag.py evaluate --model_dir=tagger --test_file=test.txt

The ending of a file names its format: .json and .jsonl objects, .conllu CoNLL-U; others have columns, as in the CoNLL tasks:
a token and its label per line, separated by tabs or spaces, a blank line between sentences. --data_format says otherwise.
The labels are BIO, IOB1, BIOES, plain tags or LAC's. The network is a bidirectional GRU or LSTM with a CRF. The epoch with
the highest F1 (plain tags: accuracy) on --dev_file is saved. F1 is that of `conlleval`.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import args as arguments
import script
import task_flags
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.text.text_files import write_table
from elmo_core.text.tokenise import LANGUAGES
from elmo_tasks.records import ending
from elmo_tasks.tagging.data import Sentence
from elmo_tasks.tagging.network import FORMATS, TaggerSettings
from elmo_tasks.tagging.pieces import joined_words
from elmo_tasks.tagging.scheme import are_of_words
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.tagging.text import Line

OUTPUT_FORMATS = ("columns", "json", "tagged", "words")
BY_ENDING = {"json": "json", "jsonl": "jsonl", "conll": "columns", "conllu": "conllu"}  # others are text


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a tagger")
    task_flags.add_train(train, TaggerSettings, "labelled sentences", "a tenth of --train_file")
    evaluate = commands.add_parser("evaluate", help="score a trained tagger on labelled sentences")
    arguments.add(evaluate, "model_dir", "device", "precision", "mistakes", "json")
    arguments.add(evaluate, "test_file", help="test set: labelled sentences")
    arguments.add_settings(evaluate, TaggerSettings, "data_format", "columns")
    predict = commands.add_parser("predict", help="tag text")
    arguments.add(predict, "model_dir", "device", "precision", "input", "output")
    arguments.add(predict, "output_format", choices=OUTPUT_FORMATS, default=OUTPUT_FORMATS[0])
    text = "text: a sentence per line; the others are those of `evaluate` (default: by the ending, or text)"
    predict.add_argument("--data_format", choices=("text", *FORMATS), help=text)
    predict.add_argument("--lang", choices=LANGUAGES, help="tokenise text as (default: as in training)")
    arguments.add_settings(predict, TaggerSettings, "columns")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    task_flags.start(args)
    {"train": train, "evaluate": evaluate, "predict": predict}[args.command](args)


def train(args: argparse.Namespace) -> None:
    settings = task_flags.settings_of(args, TaggerSettings)
    task_flags.report(Tagger.train(args.train_file, settings=settings, **task_flags.training_options(args)), args)


def evaluate(args: argparse.Namespace) -> None:
    tagger = Tagger(args.model_dir, args.device, args.precision)
    tagger.settings = replace(tagger.settings, data_format=args.data_format)
    sentences = tagger.read(args.test_file, columns=args.columns)
    predictions = list(tagger.predictions(sentences))
    score = tagger.measure(sentences, predictions)
    write_table(args.mistakes, mistake_rows(sentences, map(tagger.names, predictions)))
    print(f"== {args.test_file}: {score.summary}\n{score.table()}")
    disk.write_json(args.json, {"test": score.to_dict()}, indent=1, ensure_ascii=False)


def mistake_rows(sentences: Sequence[Sentence], predicted: Iterator[list]) -> Iterator[Sequence[object]]:
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
    scheme = None if args.output_format == "json" else ""
    with script.output(args.output, args.input) as target:
        for lines in input_lines(tagger, args):
            results = iter(tagger.tagged(filter(None, lines), scheme))
            target.writelines(formatted(tagger, *next(results), args.output_format) if line else "\n" for line in lines)
            target.flush()


def input_lines(tagger: Tagger, args: argparse.Namespace) -> Iterator[list[Line | None]]:
    """Yield the sentences of the input, some at a time; None for a blank line of text."""
    data_format = args.data_format or (BY_ENDING.get(ending(args.input), "text") if args.input else "text")
    if data_format == "text":
        for lines in task_flags.groups_of_lines(args.input):
            yield [tagger.line(line, args.lang) if line.strip() else None for line in lines]
        return
    tagger.settings = replace(tagger.settings, data_format=data_format)
    for sentences in task_flags.groups_of(tagger.read_unlabelled(args.input or Path("/dev/stdin"), args.columns)):
        yield [tagger.line(text, args.lang) if isinstance(text, str) else Line.from_tokens(text) for text in sentences]


def formatted(tagger: Tagger, line: Line, labels: list, scores: list[float], format_name: str) -> str:
    """The output for a line, with a final newline.

    format_name: columns (a line per token, then a blank one), tagged (one line of `word/TAG`, in LAC's scheme), words (one
    line of words), or json (one line with the text, its tokens, their labels, and the spans).
    """
    scheme = tagger.settings.scheme
    if format_name == "words":
        return " ".join(word for word, _ in joined_words(line.words, labels, scheme)) + "\n"
    if format_name == "tagged":
        return " ".join(f"{word}/{tag}" for word, tag in joined_words(line.words, labels)) + "\n"
    if format_name == "columns":
        return "".join(f"{word}\t{label}\n" for word, label in zip(line.words, labels, strict=True)) + "\n"
    spans = [{**span.to_dict(), "score": round(span.score, 6)} for span in line.spans(labels, scheme, scores)]
    values = {"text": line.text, "tokens": line.tokens, "labels": labels, "spans": spans}
    return json.dumps(values, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    script.run(main)
