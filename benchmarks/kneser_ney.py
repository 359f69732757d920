"""Perplexity of interpolated modified Kneser-Ney n-grams: what a biLM has to beat on the same text.

    python benchmarks/kneser_ney.py --train_data_path='corpus/train/*' --dev_data_path='corpus/dev/*' \\
        --vocab_file=corpus/vocab.txt

Comparable with run_eval.py: the same vocabulary, words outside it as <UNK>, and the same predictions, which are every
word and the marker at the sentence's end. The backward model reads, and has learnt from, the sentences reversed. One
thing differs: an n-gram sees nothing before its sentence, the biLM's state comes from the sentences before.

The model is that of Chen and Goodman (1999): c is the count of an n-gram, D one of three discounts for counts of 1, 2
and 3 or more, and below the highest order c is the number of different words that the n-gram follows:

    p(w | u v) = (c(u v w) - D(c)) / c(u v .)  +  (what was discounted after u v) / c(u v .) * p(w | v)

The recursion ends with 1 / V. An n-gram that begins with the marker follows nothing and keeps its count.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import args as arguments
import script
from elmo_core.text.corpus import Corpus
from elmo_core.text.text_files import read_sentences
from elmo_core.text.tokens import BOS, EOS, Vocabulary

COARSE = (0.5, 1.0, 1.5)  # the discounts where a text is too small to estimate them


@dataclass
class Level:
    """What is known of the n-grams of one length, each under its id, and of their contexts, the n-grams one shorter."""

    kept: np.ndarray  # (n-grams,) float64 counts after the discount
    total: np.ndarray  # (contexts,) float64 sums of the counts
    released: np.ndarray  # (contexts,) float64 sums of the discounts
    discounts: tuple[float, float, float]


class KneserNey:
    """N-grams of all lengths up to `order`, from sentences of word ids `<S> w1 .. wn </S>`, or these reversed.

    An n-gram has a key, a number made of its first word and the id of the rest; its id is the key's place among all keys.
    discount: one for all counts, in place of the three that are estimated for each length.
    """

    def __init__(self, sentences: Sequence[Sequence[int]], vocab_size: int, order: int, discount: float | None = None):
        self.vocab_size = vocab_size
        self.keys: list[np.ndarray] = []  # of each length, rising
        words, depth = _end_to_end(sentences)
        ids = [np.zeros(len(words), np.int64)]  # of the n-gram of each length that ends at a place; -1: there is none
        for k in range(1, min(order, 1 + int(depth.max())) + 1):  # none is longer than the longest sentence
            key, there = self._keys_at(k, words, depth, ids[-1])
            self.keys.append(np.unique(key[there]))
            ids.append(_find(self.keys[-1], key, there))
        self.levels = []
        for k in range(1, len(self.keys) + 1):
            there = (depth > 0) & (ids[k] >= 0)  # nothing predicts the first marker
            gram, context = ids[k][there], np.r_[0, ids[k - 1][:-1]][there]
            self.levels.append(self._level(k, gram, context, int(words[0]), discount))

    def _level(self, k: int, gram: np.ndarray, context: np.ndarray, begin: int, discount: float | None) -> Level:
        """gram, context (n,): the ids of the n-grams of length k and of their contexts, wherever there is one."""
        counts = np.bincount(gram, minlength=self._size(k))
        if k < len(self.keys):  # how many different words each follows, unless it begins with the marker
            follows = np.bincount(self.keys[k] % self._size(k), minlength=self._size(k))
            counts = np.where(self.keys[k - 1] // self._size(k - 1) == begin, counts, follows)
        three = estimated_discounts(counts) if discount is None else (discount,) * 3
        discounted = np.array([0.0, *three])[np.minimum(counts, 3)]
        context_of = np.zeros(self._size(k), np.int64)
        context_of[gram] = context
        total, released = (np.bincount(context_of, values, self._size(k - 1)) for values in (counts, discounted))
        return Level(counts - discounted, total, released, three)

    def probabilities(self, sentences: Sequence[Sequence[int]]) -> np.ndarray:
        """Probability of every prediction: of all that follows the first id of each sentence, end to end."""
        words, depth = _end_to_end(sentences)
        ids, probability = np.zeros(len(words), np.int64), np.full(len(words), 1 / self.vocab_size)
        for k, level in enumerate(self.levels, 1):
            context = np.where(depth >= max(1, k - 1), np.r_[0, ids[:-1]], -1)
            ids = _find(self.keys[k - 1], *self._keys_at(k, words, depth, ids))
            total = np.where(context >= 0, level.total[context], 0.0)
            kept = np.where(ids >= 0, level.kept[ids], 0.0)
            seen = total > 0
            probability[seen] = ((kept + level.released[context] * probability)[seen]) / total[seen]
        return probability[depth > 0]

    def perplexity(self, sentences: Sequence[Sequence[int]]) -> float:
        with np.errstate(divide="ignore"):  # without any discount it may be infinite
            return float(np.exp(-np.log(self.probabilities(sentences)).mean()))

    def _keys_at(self, k: int, words: np.ndarray, depth: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Key of the n-gram of length k that ends at each place, and whether one does whose rest is known."""
        first = np.roll(words, k - 1)  # what it rolls over the end is not deep enough
        return first * self._size(k - 1) + rest, (depth >= k - 1) & (rest >= 0)

    def _size(self, k: int) -> int:
        """How many n-grams of length k there are; of length 0 there is one."""
        return len(self.keys[k - 1]) if k else 1


def estimated_discounts(counts: np.ndarray) -> tuple[float, float, float]:
    """The discounts of counts 1, 2, and 3 or more, from how many n-grams have the counts 1 to 4."""
    n1, n2, n3, n4 = (np.count_nonzero(counts == count) for count in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        return COARSE
    y = n1 / (n1 + 2 * n2)
    found = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
    return found if min(found) > 0 else COARSE


def _end_to_end(sentences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """All ids in one array, and the place of each within its sentence."""
    lengths = np.array([len(sentence) for sentence in sentences])
    words = np.concatenate([np.asarray(sentence, np.int64) for sentence in sentences])
    return words, np.arange(len(words)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _find(keys: np.ndarray, wanted: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Where in the rising `keys` the wanted ones are; -1 for those that are not, or not `there`."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(there & (keys[place] == wanted), place, -1)


def read(corpus: Corpus, vocabulary: Vocabulary) -> list[np.ndarray]:
    """The ids of every sentence, between its markers."""
    sentences = (words for path in corpus.paths for words in read_sentences(path) if words)
    return [vocabulary.ids([BOS, *words, EOS]) for words in sentences]


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--train_data_path", required=True, metavar="PATH", help="text to count")
    arguments.add_dev_data(parser, required=True)
    arguments.add_vocabulary(parser, required=True)
    parser.add_argument("--orders", **arguments.COUNT, nargs="+", default=[3, 5], help="lengths of the n-grams")
    parser.add_argument("--discount", type=arguments.fraction, metavar="D", help="one for all counts, not estimated")
    args = parser.parse_args(argv)
    vocabulary = Vocabulary.from_file(args.vocab_file)
    train, dev = Corpus(args.train_data_path), Corpus(args.dev_data_path)
    for name, corpus in (("train", train), ("dev", dev)):
        counts = corpus.count(vocabulary)
        print(
            f"{name:<6} {counts.tokens:>11,} tokens in {counts.sentences:,} sentences, {counts.predictions:,} predictions "
            f"in each direction; {counts.unknown / counts.tokens:.2%} outside the vocabulary of {len(vocabulary):,} words"
        )
    train, dev = read(train, vocabulary), read(dev, vocabulary)
    backwards = [[sentence[::-1] for sentence in sentences] for sentences in (train, dev)]
    print("perplexity     forward  backward      mean")
    for order in args.orders:
        forward, backward = (
            KneserNey(learnt, len(vocabulary), order, args.discount).perplexity(scored)
            for learnt, scored in ((train, dev), backwards)
        )
        print(f"{order}-gram    {forward:>12.2f}{backward:>10.2f}{(forward + backward) / 2:>10.2f}")


if __name__ == "__main__":
    script.run(main)
