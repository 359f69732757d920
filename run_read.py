"""Extractive question answering: find the span of a passage that answers a question.

    python run_read.py train --train_file=train.json --dev_file=dev.json \\
        --init_from_ckpt=checkpoints --save_dir=reader
    python run_read.py predict --model_dir=reader --input=dev.json --output=predictions.json
    echo "Who signed it ?" | python run_read.py predict --model_dir=reader --passage=passage.txt
    python run_read.py evaluate --model_dir=reader --test_file=dev.json

The files are JSON as in SQuAD and CMRC 2018, or as Hugging Face's datasets writes them. The network
is BiDAF, with ELMo at the input and at the output of its encoder, or without it. --dev_file selects
the epoch with the highest F1. Exact match (EM) and F1 are computed as in CMRC 2018's evaluator for
Chinese, and as in SQuAD's for other languages. If questions of the training data have no answer, as
in SQuAD 2, the reader may find none: an empty text.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import tee
from typing import TYPE_CHECKING, TextIO

import args as arguments
import script
import task_flags
from args import COUNT, FILE
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.text.text_files import blocks, read_lines
from elmo_tasks.reading.data import EXPECTED, read_passages, tokenise_passages
from elmo_tasks.reading.settings import ReaderSettings
from elmo_tasks.reading.text import Answer

if TYPE_CHECKING:  # --help does not wait for Paddle
    from elmo_tasks import Reader


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    train, _, predict_flags = task_flags.add_commands(
        parser, "reader", EXPECTED, "answer questions"
    )
    task_flags.add_train(train, ReaderSettings, EXPECTED)
    source = predict_flags.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", **FILE, help=EXPECTED)
    source.add_argument(
        "--passage",
        **FILE,
        help="file with a passage; standard input has the questions, one per line",
    )
    predict_flags.add_argument(
        "--k",
        **COUNT,
        help="write the N best answers to each question, with score, begin and end "
        "(default: the text of the best)",
    )
    return task_flags.parse(parser, argv, ReaderSettings)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)

    from elmo_tasks import Reader  # a mistake in the flags does not wait for Paddle

    task_flags.run(args, Reader, predict=predict)


def predict(args: argparse.Namespace, reader: "Reader") -> None:
    """Answer the questions of a data set, or those of standard input to one passage."""
    with script.output(args.output, args.input, args.passage) as target:
        if args.input:
            answer_data_set(args, reader, target)
        else:
            answer_lines(args, reader, target)


def answer_data_set(args: argparse.Namespace, reader: "Reader", target: TextIO) -> None:
    """Write one JSON object with the answers to all questions, by their ids."""
    passages = read_passages(args.input, require_answers=False)
    tokenise_passages(passages, reader.tokeniser)
    values = {}
    best = reader.best(passages, args.k or 1)
    for passage, answers_to_all in zip(passages, best, strict=True):
        for question, answers in zip(passage.questions, answers_to_all, strict=True):
            if args.k:
                values[question.id] = [answer._asdict() for answer in answers]
            else:
                values[question.id] = text_of(answers)
    target.write(json.dumps(values, ensure_ascii=False, indent=1) + "\n")


def answer_lines(args: argparse.Namespace, reader: "Reader", target: TextIO) -> None:
    """Write a line of answers to each line of standard input, as it comes."""
    disk.check_input(args.passage, "a passage", "--passage")
    passage = "".join(blocks(args.passage))
    if not reader.tokeniser(passage):
        raise UserError(f"--passage {args.passage}: the passage has no words.")
    lines, questions = tee(read_lines(None))
    asked = ((question, passage) for question in questions)
    found = reader.iter_answers(asked, args.k or 1)
    for line, answers in zip(lines, found, strict=True):
        if not line.strip():
            written = ""
        elif args.k:
            written = json.dumps([answer._asdict() for answer in answers], ensure_ascii=False)
        else:
            written = " ".join(text_of(answers).split())
        target.write(f"{written}\n")
        target.flush()


def text_of(answers: list[Answer]) -> str:
    """The text of the best answer; a passage without words has none."""
    return answers[0].text if answers else ""


if __name__ == "__main__":
    script.run(main)
