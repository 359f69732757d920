"""word2vec + bag of words on the sentence polarity task: the baseline of classifiers with ELMo.

    python word2vec_base.py --data_dir=DIR \\
        --pretrained_word2vec_file=GoogleNews-vectors-negative300.bin.gz

The file is in word2vec's format (binary if its name ends in .bin, else text; either may be .gz, and
FILE.gz is read if FILE does not exist). Each word without a vector gets a random one.
"""

import argparse
from collections.abc import Sequence

import args as arguments
import classifier_flags
import script
import task_flags


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    classifier_flags.add_train(parser)
    parser.add_argument(
        "--pretrained_word2vec_file",
        **arguments.FILE,
        dest="word_vectors",
        required=True,
        help="word vectors",
    )
    parser.set_defaults(elmo=None, head="mean", command="train")
    return classifier_flags.parse(parser, argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)

    from elmo_tasks import Classifier  # a mistake in the flags does not wait for Paddle

    task_flags.run(args, Classifier, train=classifier_flags.train)


if __name__ == "__main__":
    script.run(main)
