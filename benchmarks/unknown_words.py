"""Bits that the speller takes for the unknown words of held-out text.

    python benchmarks/unknown_words.py --train_data_path='corpus/train/*' \\
        --dev_data_path='corpus/dev/*' --vocab_file=corpus/vocab.txt

A row per number of words that are learnt from, the most frequent ones that the training text has
outside the vocabulary, and per order of the n-grams. Bits per unknown word of the text, of all of
them and of those that are new: nowhere in the training text. "spelled": with n-grams of characters
alone. "known": words that were learnt from also have a share of their own, by their counts.
"""

import sys
from collections.abc import Sequence
from itertools import islice
from math import log
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import args as arguments
import script
from elmo_core.text.corpus import UNKNOWN_WORDS, Corpus
from elmo_core.text.speller import ORDER, Speller, UnknownWords
from elmo_core.text.vocabulary import Vocabulary


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--train_data_path", required=True, metavar="PATH", help="text to count")
    arguments.add(parser, "dev_data_path", "vocab_file", required=True)
    parser.add_argument(
        "--words", **arguments.COUNT, nargs="+", default=[UNKNOWN_WORDS], help="to learn from"
    )
    parser.add_argument(
        "--orders", **arguments.COUNT, nargs="+", default=[ORDER], help="lengths of n-grams"
    )
    args = parser.parse_args(argv)
    vocabulary = Vocabulary.from_file(args.vocab_file)
    train = Corpus(args.train_data_path).unknown_words(vocabulary, limit=sys.maxsize)
    dev = Corpus(args.dev_data_path).unknown_words(vocabulary, limit=sys.maxsize)
    for name, unknown in (("train", train), ("dev", dev)):
        print(f"{name:<6} {unknown.total:>11,} unknown words, {len(unknown.counts):,} distinct")
    print("                 spelled          known")
    print("words     order  all     new      all     new")
    for n_words in args.words:
        counts = dict(islice(train.counts.items(), n_words))
        for order in args.orders:
            spelled = Speller(
                UnknownWords({}, 0), vocabulary.tokens, others=list(counts), order=order
            )
            known = Speller(UnknownWords(counts, train.total), vocabulary.tokens, order=order)
            figures = bits(spelled, dev, train) + bits(known, dev, train)
            columns = " ".join(f"{figure:>7.2f}" for figure in figures)
            print(f"{len(counts):<9,} {order:<5}{columns}", flush=True)


def bits(speller: Speller, dev: UnknownWords, train: UnknownWords) -> tuple[float, float]:
    """Return the bits per unknown word of dev: of all, and of those that train lacks."""
    counts = np.array(list(dev.counts.values()))
    is_new = np.array([word not in train.counts for word in dev.counts])
    surprisals = counts * speller.surprisals(list(dev.counts)) / log(2)
    of_all = surprisals.sum() / counts.sum()
    of_new = surprisals[is_new].sum() / max(1, counts[is_new].sum())
    return of_all, of_new


if __name__ == "__main__":
    script.run(main)
