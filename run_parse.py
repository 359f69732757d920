"""Train and use a dependency parser on a treebank of your own. ELMo is optional.

    python run_parse.py train --train_file=train.conllu --dev_file=dev.conllu \\
        --init_from_ckpt=en --save_dir=parser
    echo "The room was quiet." | python run_parse.py predict --model_dir=parser
    python run_parse.py predict --model_dir=parser --input=test.conllu --output=parsed.conllu
    python run_parse.py evaluate --model_dir=parser --test_file=test.conllu

Treebanks are in CoNLL-U. The network is the biaffine parser of Dozat and Manning (2017); trees have
one root. The epoch with the highest LAS on --dev_file is saved. UAS and LAS are those of the CoNLL
2018 shared task, for gold words.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import args as arguments
import script
import task_flags
from args import FILE
from elmo_core.files import disk
from elmo_tasks.parsing.data import read_conllu
from elmo_tasks.parsing.settings import ParserSettings
from elmo_tasks.parsing.trees import Tree
from elmo_tasks.records import ending

if TYPE_CHECKING:  # --help does not wait for Paddle
    from elmo_tasks import Parser


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    content = "a treebank in CoNLL-U"
    purpose = "parse a .conllu file, or text with a sentence per line"
    train, _, predict_flags = task_flags.add_commands(parser, "parser", content, purpose)
    task_flags.add_train(train, ParserSettings, content)
    arguments.add(predict_flags, "input", "lang")
    predict_flags.add_argument("--svg", **FILE, help="also draw the first tree into this file")
    return task_flags.parse(parser, argv, ParserSettings)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)

    from elmo_tasks import Parser  # a mistake in the flags does not wait for Paddle

    task_flags.run(args, Parser, predict=predict)


def predict(args: argparse.Namespace, parser: "Parser") -> None:
    """Write the sentences of a treebank, or of lines of text, in CoNLL-U with their trees."""
    disk.check_output("--svg", args.svg, args.input, args.output)
    with script.output(args.output, args.input) as target:
        for k, tree in enumerate(parser.iter_predict(sentences(args, parser))):
            target.write(tree.to_conllu())
            target.flush()
            if args.svg and k == 0:
                with disk.atomic_write(args.svg) as file:
                    file.write(tree.to_svg())


def sentences(args: argparse.Namespace, parser: "Parser") -> Iterator[Tree]:
    """The sentences of the input."""
    if args.input and ending(args.input) == "conllu":
        return read_conllu(args.input, is_gold=False)
    lines = task_flags.text_lines(args.input, labels=())
    trees = (parser.sentence(line, lang=args.lang) for line in lines)
    return (tree for tree in trees if tree.tokens)


if __name__ == "__main__":
    script.run(main)
