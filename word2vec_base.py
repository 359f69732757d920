"""word2vec + bag of words on the sentence polarity task: the baseline of run_finetune.py.

    python word2vec_base.py --data_dir=DIR --pretrained_word2vec_file=GoogleNews-vectors-negative300.bin.gz

The file is in word2vec's format (binary if its name ends in .bin, else text; either may be .gz, and FILE.gz is read if FILE
does not exist). Each word without a vector gets a random one.
"""

import sys
from collections.abc import Sequence

import run_finetune
import script


def main(argv: Sequence[str] | None = None) -> None:
    """Train with the flags of `run_finetune.py train`, to which --pretrained_word2vec_file is --word_vectors."""
    given = sys.argv[1:] if argv is None else argv
    flags = [flag.replace("--pretrained_word2vec_file", "--word_vectors") for flag in given]
    run_finetune.main(["train", "--head=mean", *flags])


if __name__ == "__main__":
    script.run(main)
