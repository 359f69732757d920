"""Perplexity of interpolated modified Kneser-Ney n-grams, a baseline for a biLM on the same text.

    python benchmarks/kneser_ney.py --train_data_path='corpus/train/*' \\
        --dev_data_path='corpus/dev/*' --vocab_file=corpus/vocab.txt

Comparable with run_eval.py: the same vocabulary, with OOV words as <UNK>, and the same predictions:
every word and the special token at the sentence's end. The backward model is trained on reversed
sentences. One difference remains: an n-gram sees nothing before its sentence, while the biLM's
state comes from the sentences before.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import args as arguments
import script
from elmo_core.text.corpus import Corpus, read_ids
from elmo_core.text.kneser_ney import KneserNey
from elmo_core.text.vocabulary import Vocabulary


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--train_data_path", required=True, metavar="PATH", help="text to count")
    arguments.add(parser, "dev_data_path", "vocab_file", required=True)
    parser.add_argument(
        "--orders", **arguments.COUNT, nargs="+", default=[3, 5], help="lengths of n-grams"
    )
    parser.add_argument(
        "--discount",
        type=float,
        metavar="D",
        help="one discount for all counts, instead of estimating them",
    )
    args = parser.parse_args(argv)
    vocabulary = Vocabulary.from_file(args.vocab_file)
    train = described("train", Corpus(args.train_data_path), vocabulary)
    dev = described("dev", Corpus(args.dev_data_path), vocabulary)
    backward_train = reversed_words(train)
    backward_dev = reversed_words(dev)
    n_words = len(vocabulary)
    print("perplexity     forward  backward      mean")
    for order in args.orders:
        forward = KneserNey(train, n_words, order, args.discount).perplexity(dev)
        backward = KneserNey(backward_train, n_words, order, args.discount).perplexity(backward_dev)
        mean = (forward + backward) / 2
        print(f"{order}-gram    {forward:>12.2f}{backward:>10.2f}{mean:>10.2f}")


def described(name: str, corpus: Corpus, vocabulary: Vocabulary) -> list:
    """Print the counts of a corpus, and return the ids of its sentences."""
    counts = corpus.count(vocabulary)
    print(
        f"{name:<6} {counts.tokens:>11,} tokens in {counts.sentences:,} sentences, "
        f"{counts.predictions:,} predictions in each direction; "
        f"{counts.unknown / counts.tokens:.2%} outside the vocabulary of {len(vocabulary):,} words"
    )
    return read_ids(corpus, vocabulary)


def reversed_words(sentences: list) -> list:
    return [sentence[::-1] for sentence in sentences]


if __name__ == "__main__":
    script.run(main)
