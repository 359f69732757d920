"""Train and use a dependency parser on a treebank of your own. ELMo is optional.

    python run_parse.py train --train_file=train.conllu --dev_file=dev.conllu --init_from_ckpt=en-reviews --save_dir=parser
    echo "The room was quiet." | python run_parse.py predict --model_dir=parser
    python run_parse.py predict --model_dir=parser --input=test.conllu --output=parsed.conllu
    python run_parse.py evaluate --model_dir=parser --test_file=test.conllu

Treebanks are in CoNLL-U. The network is the biaffine parser of Dozat and Manning (2017); trees have one root. The epoch with
the highest LAS on --dev_file is saved. UAS and LAS are those of the CoNLL 2018 shared task, for gold words.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import args as arguments
import script
import task_flags
from args import FILE
from elmo_core.files import disk
from elmo_tasks.parsing.network import ParserSettings
from elmo_tasks.parsing.parser import Parser
from elmo_tasks.parsing.trees import Tree, read_conllu
from elmo_tasks.records import ending


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a parser")
    task_flags.add_train(train, ParserSettings, "a treebank in CoNLL-U", "a tenth of --train_file")
    evaluate = commands.add_parser("evaluate", help="score a trained parser")
    arguments.add(evaluate, "model_dir", "device", "precision", "json")
    arguments.add(evaluate, "test_file", help="test set: a treebank in CoNLL-U")
    predict = commands.add_parser("predict", help="parse a .conllu file, or text with a sentence per line")
    arguments.add(predict, "model_dir", "device", "precision", "input", "output")
    predict.add_argument("--svg", **FILE, help="also draw the first tree into this file")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    task_flags.start(args)
    {"train": train, "evaluate": evaluate, "predict": predict}[args.command](args)


def train(args: argparse.Namespace) -> None:
    settings = task_flags.settings_of(args, ParserSettings)
    task_flags.report(Parser.train(args.train_file, settings=settings, **task_flags.training_options(args)), args)


def evaluate(args: argparse.Namespace) -> None:
    score = Parser(args.model_dir, args.device, args.precision).evaluated(list(read_conllu(args.test_file)))
    print(f"== {args.test_file}: {score.summary}\n{score.table()}")
    disk.write_json(args.json, {"test": score.to_dict()}, indent=1)


def predict(args: argparse.Namespace) -> None:
    """Write the sentences of a treebank, or of lines of text, in CoNLL-U with their trees."""
    parser = Parser(args.model_dir, args.device, args.precision)
    with script.output(args.output, args.input) as target:
        for k, tree in enumerate(parser.parse(sentences(parser, args.input), None)):
            target.write(tree.to_conllu())
            target.flush()
            if args.svg and not k:
                with disk.atomic_write(args.svg) as file:
                    file.write(tree.to_svg())


def sentences(parser: Parser, path: Path | None) -> Iterator[Tree]:
    if path and ending(path) == "conllu":
        yield from read_conllu(path, is_gold=False)
        return
    for lines in task_flags.groups_of_lines(path):
        yield from map(parser.sentence, filter(str.strip, lines))


if __name__ == "__main__":
    script.run(main)
