"""Extractive question answering: find the span of a passage that answers a question, with ELMo or without it.

    python run_read.py train --train_file=train.json --dev_file=dev.json --init_from_ckpt=checkpoints --save_dir=reader
    python run_read.py predict --model_dir=reader --input=dev.json --output=predictions.json
    echo "Who signed it ?" | python run_read.py predict --model_dir=reader --passage=passage.txt
    python run_read.py evaluate --model_dir=reader --test_file=dev.json
    python run_read.py evaluate --test_file=dev.json --predictions=elmo.json --compare_with=baseline.json
    python run_read.py prepare train.json --text=passages.txt

The files are JSON as in SQuAD, CMRC 2018 or DuReader. The network is BiDAF with ELMo at the input and at the output of its
encoder. --dev_file selects the epoch with the highest F1. Exact match (EM) and F1 are computed as in CMRC 2018's evaluator
for Chinese and as in SQuAD's for English, Rouge-L as in DuReader's. If questions of the training data have no answer, as in
SQuAD 2, the reader may find none: an empty text. How readily is chosen on --dev_file.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import args as arguments
import script
import task_flags
from args import COUNT, FILE
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.text.language import AUTO, choose_language, make_tokeniser
from elmo_core.text.text_files import blocks, line_groups, write_table
from elmo_tasks.reading.data import read_passages, tokenise_passages
from elmo_tasks.reading.network import ReaderSettings
from elmo_tasks.reading.reader import MIN_COUNT, TRAINING, Reader
from elmo_tasks.reading.score import mistakes, score
from elmo_tasks.reading.text import Answer
from elmo_tasks.significance import clustered_bootstrap

CONTENT = "passages and questions, in the JSON of SQuAD, CMRC 2018 or DuReader"


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    add_train(commands.add_parser("train", help="train a reader"))
    add_evaluate(commands.add_parser("evaluate", help="score a trained reader, or predictions"))
    add_predict(commands.add_parser("predict", help="answer questions"))
    add_prepare(commands.add_parser("prepare", help="describe a data set, write its text as a corpus"))
    args = parser.parse_args(argv)
    if args.command == "evaluate" and bool(args.model_dir) == bool(args.predictions):
        commands.choices["evaluate"].error("give either --model_dir or --predictions")
    if args.command == "evaluate" and args.lang != AUTO and args.model_dir:
        commands.choices["evaluate"].error("--lang has no effect with --model_dir")
    return args


def add_train(parser: argparse.ArgumentParser) -> None:
    held_out = "a tenth of the passages of --train_file"
    data = task_flags.add_data(parser, CONTENT, ("examples", "dev", "test"), held_out)
    task_flags.add_language(data)
    arguments.add(data, "save_dir", "overwrite", "resume", "json")
    task_flags.add_elmo_settings(parser, ReaderSettings, TRAINING)
    task_flags.add_word_vectors(parser, ReaderSettings)
    network = parser.add_argument_group("network")
    names = "word_dim", "hidden_dim", "dropout", "max_seq_len", "doc_stride", "max_answer_length"
    task_flags.add_settings(network, ReaderSettings, *names)
    network.add_argument("--min_count", **COUNT, default=MIN_COUNT, help="words that occur less often are unknown")
    task_flags.add_training_settings(parser, TRAINING)


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "model_dir", required=False)
    arguments.add(parser, "device", "precision", "mistakes", "json")
    arguments.add(parser, "test_file", help=f"test set: {CONTENT}")
    parser.add_argument("--predictions", **FILE, help="score this JSON file of {id: answer} instead of a model")
    parser.add_argument("--compare_with", **FILE, help="predictions of another reader")
    task_flags.add_language(parser, help="language of --predictions, which sets the metrics", dictionary=False)


def add_predict(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "model_dir", "device", "precision", "output")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", **FILE, help=CONTENT)
    source.add_argument("--passage", **FILE, help="file with a passage; standard input has the questions, one per line")
    help = "write the N best answers to each question, with score, begin and end (default: the text of the best)"
    parser.add_argument("--k", **COUNT, help=help)


def add_prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", type=FILE["type"], help="the data set")
    parser.add_argument("--text", **FILE, help="write the sentences of the passages, tokens separated by spaces")
    task_flags.add_language(parser)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    task_flags.start(args)
    {"train": train, "evaluate": evaluate, "predict": predict, "prepare": prepare}[args.command](args)


def train(args: argparse.Namespace) -> None:
    reader = Reader.train(**arguments.options(Reader.train, args))
    task_flags.finish(reader, args, lambda name, scores: print(f"{name}  {scores}"))


def evaluate(args: argparse.Namespace) -> None:
    passages = read_passages(args.test_file)
    if args.model_dir:
        reader = Reader(args.model_dir, args.device, args.precision)
        language = reader.settings.lang
        predictions = reader.predictions(tokenise_passages(passages, reader.tokeniser))
    else:
        language = choose_language(args.lang, (passage.text for passage in passages))
        predictions = read_predictions(args.predictions)
    scores = score(passages, predictions, language)
    print(scores)
    write_table(args.mistakes, mistakes(passages, predictions, scores))
    results = {"test": scores.to_dict()}
    if args.compare_with:
        other = score(passages, read_predictions(args.compare_with), language)
        print(f"{other}  {args.compare_with}")
        difference = clustered_bootstrap(scores.f1, other.f1, scores.passage, groups="passages")
        print(f"F1 {difference}")
        results |= {"other": other.to_dict(), "difference": vars(difference)}
    disk.write_json(args.json, results, indent=1, ensure_ascii=False)


def read_predictions(path: Path) -> dict[str, str]:
    answers = disk.read_json(path, "predictions, {id: answer}")
    for id, answer in answers.items():
        if not isinstance(answer, str):
            raise UserError(f"{path}: the answer of {id!r:.60} is {answer!r:.60}, expected text.")
    return answers


def predict(args: argparse.Namespace) -> None:
    with script.output(args.output, args.input, args.passage) as target:
        if args.input:
            passages = read_passages(args.input, require_answers=False)
            reader = Reader(args.model_dir, args.device, args.precision)
            passages = tokenise_passages(passages, reader.tokeniser)
            best = reader.best(passages, args.k or 1)
            answers = {
                id: [answer.to_dict() for answer in some] if args.k else some[0].text for id, some in best.items()
            }
            target.write(json.dumps(answers, ensure_ascii=False, indent=1) + "\n")
        else:
            disk.check_input(args.passage, "a passage", "--passage")
            passage = "".join(blocks(args.passage))
            if not passage.split():
                raise UserError(f"--passage {args.passage}: the file is empty.")
            reader, lines = Reader(args.model_dir, args.device, args.precision), []
            for lines in line_groups(None):
                answers = iter(reader.answers([(line, passage) for line in lines if line.strip()], args.k or 1))
                target.writelines(f"{describe(next(answers), args.k) if line.strip() else ''}\n" for line in lines)
                target.flush()
            if not lines:
                raise UserError("standard input has no question: expected one per line.")


def describe(answers: list[Answer], k: int | None) -> str:
    if k:
        return json.dumps([answer.to_dict() for answer in answers], ensure_ascii=False)
    return " ".join(answers[0].text.split())


def prepare(args: argparse.Namespace) -> None:
    """Describe a data set, and score its first answers rounded outwards to whole tokens: an upper bound for readers."""
    data = read_passages(args.input)
    tokeniser = make_tokeniser(args.lang, (passage.text for passage in data), user_dict=args.user_dict)
    passages = tokenise_passages(data, tokeniser)
    n_tokens = [len(passage.text.tokens) for passage in passages]
    print(f"passages have {sum(n_tokens) / len(n_tokens):.0f} tokens on average, {max(n_tokens):,} at most")
    spans = [(passage.text, id, span) for passage in passages for id, _, span in passage.spans() if span]
    rounded = {question.id: "" for passage in data for question in passage.questions if not question.answers}
    rounded |= {id: text.text[slice(*text.char_span(span.first, span.last))] for text, id, span in spans}
    n_inexact = sum(not span.exact for *_, span in spans)
    print(
        f"answers that begin or end within a word: {n_inexact:,}. The first answers, rounded to whole words, would score"
    )
    print(score(data, rounded, tokeniser.lang))
    if args.text:
        with disk.atomic_write(args.text) as file:
            file.writelines(f"{' '.join(sentence)}\n" for passage in passages for sentence in passage.text.sentences)


if __name__ == "__main__":
    script.run(main)
