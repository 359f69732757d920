"""Vectors of a word's occurrences, and their nearest neighbours by cosine.

An occurrence's neighbours are in other sentences: the same sentence, or one with the same tokens,
never counts. Shapes: n occurrences, 2P numbers of a vector; layers: those of the biLM, from 0.
"""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from elmo_core.encoding.cosines import nearest, unit
from elmo_tools.senses.occurrences import Occurrence, Word, is_word

if TYPE_CHECKING:
    from elmo import ELMoEmbedder

CANDIDATES = 5000  # most frequent words, among which the nearest are searched
NEAREST_WORDS = 5
TIE = 1e-6  # cosines that differ by less are equal
ROWS_PER_CHUNK = 512  # of a matrix of cosines


def embed(
    embedder: "ELMoEmbedder", words: Sequence[Word], user_occurrences: Sequence[Occurrence] = ()
) -> list[tuple[Occurrence, np.ndarray]]:
    """Fill in the words' vectors.

    Returns the user's occurrences, each with its vectors (layers, 2P).
    """
    occurrences = []
    for word in words:
        occurrences.extend(word.occurrences)
    occurrences.extend(user_occurrences)
    # Each sentence is embedded once, and gives the vectors of all its occurrences.
    by_sentence = defaultdict(list)
    for k, occurrence in enumerate(occurrences):
        by_sentence[occurrence.tokens].append((k, occurrence.position))
    shape = (embedder.config.n_layers + 1, len(occurrences), embedder.dim)
    vectors = np.empty(shape, dtype=np.float32)
    for tokens, array in zip(by_sentence, embedder.iter_encode(list(by_sentence)), strict=True):
        for k, position in by_sentence[tokens]:
            vectors[:, k] = array[:, position]
    vectors = unit(vectors)
    begin = 0
    for word in words:
        end = begin + len(word.occurrences)
        word.vectors = vectors[:, begin:end]
        begin = end
    user_vectors = vectors[:, begin:].swapaxes(0, 1)
    return list(zip(user_occurrences, user_vectors, strict=True))


def same_sense_shares(word: Word) -> np.ndarray:
    """Return the probability that an occurrence's nearest one has the same sense.

    By chance, and in each layer: (1 + layers, n).
    """
    equal_vectors = np.zeros_like(word.vectors[0])  # all are equally near: chance
    arrays = [equal_vectors, *word.vectors]
    return np.stack([same_sense(vectors, word.senses, word.sentences) for vectors in arrays])


def same_sense(vectors: np.ndarray, senses: np.ndarray, sentences: np.ndarray) -> np.ndarray:
    """Return the probability that the nearest occurrence in another sentence has the same sense.

    vectors: (n, 2P), of length 1. senses, sentences: (n,). Returns (n,): 0 or 1, or a fraction if
    several are equally near.
    """
    shares = np.empty(len(vectors))
    for rows, cosines in _cosines(vectors.astype(np.float64), sentences):
        is_nearest = cosines >= cosines.max(axis=1, keepdims=True) - TIE
        is_same = senses[rows, None] == senses
        shares[rows] = (is_nearest & is_same).sum(axis=1) / is_nearest.sum(axis=1)
    return shares


def _cosines(vectors: np.ndarray, sentences: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of the rows and their cosines (rows, n) with all vectors.

    Within the same sentence they are minus infinity.
    """
    for begin in range(0, len(vectors), ROWS_PER_CHUNK):
        rows = slice(begin, begin + ROWS_PER_CHUNK)
        cosines = vectors[rows] @ vectors.T
        cosines[sentences[rows, None] == sentences] = -np.inf
        yield rows, cosines


def neighbours(
    occurrence: Occurrence, vectors: np.ndarray, word: Word, layer: int, n: int
) -> list[tuple[Occurrence, float]]:
    """Find the word's n occurrences nearest to the given one in a layer, with cosines.

    vectors: of the given one, (layers, 2P).
    """
    is_other = np.array([other.tokens != occurrence.tokens for other in word.occurrences])
    found = nearest(word.vectors[layer], vectors[layer], is_other, n)
    return [(word.occurrences[k], cosine) for k, cosine in found]


def nearest_others(word: Word, layer: int, n: int) -> list[list[tuple[int, float]]]:
    """Find the n nearest others of each occurrence in a layer.

    Returns indices into `word.occurrences` and cosines, the nearest first.
    """
    found = []
    for _, cosines in _cosines(word.vectors[layer], word.sentences):
        last = min(n, cosines.shape[1] - 1)
        candidates = np.argpartition(-cosines, last, axis=1)[:, :n]
        for row, indices in zip(cosines, candidates, strict=True):
            order = np.argsort(-row[indices], kind="stable")
            others = [(k, float(row[k])) for k in indices[order].tolist() if row[k] > -np.inf]
            found.append(others)
    return found


def examples(word: Word, n: int, seed: int) -> list[tuple[Occurrence, np.ndarray]]:
    """Draw n different occurrences, in turn from each sense or, without senses, each cluster.

    The most frequent senses come first. Returns the occurrences with their vectors (layers, 2P).
    """
    n = min(n, len(word.occurrences))
    if any(word.senses):
        groups = word.senses
    else:
        n_clusters = min(n, len(set(word.sentences)))
        groups = kmeans(word.vectors[-1], n_clusters, seed)
    generator = random.Random(f"{seed} {word.text}")
    shuffled = generator.sample(range(len(groups)), len(groups))
    decks = []
    for group, _ in Counter(groups.tolist()).most_common():
        decks.append([k for k in shuffled if groups[k] == group])
    drawn: list[int] = []
    # Decks have different sizes: those that are used up leave their turns to the others.
    for turn in itertools.zip_longest(*decks):
        drawn.extend(k for k in turn if k is not None)
    return [(word.occurrences[k], word.vectors[:, k]) for k in drawn[:n]]


def kmeans(vectors: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Assign each vector to one of n clusters."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return KMeans(n, n_init=4, random_state=seed).fit_predict(vectors)


def nearest_words(
    embedder: "ELMoEmbedder", query_words: Sequence[str], background: Iterable[Sequence[str]]
) -> dict[str, list[tuple[str, float]]]:
    """Find the frequent words nearest to each query word in layer 0, with cosines.

    background: sentences that give the frequencies.
    """
    counts = Counter(itertools.chain.from_iterable(background))
    frequent = [
        token for token, _ in counts.most_common() if is_word(token) and is_known(token, embedder)
    ]
    words = list(dict.fromkeys(itertools.chain(query_words, frequent[:CANDIDATES])))
    vectors = unit(embedder.encode_tokens(words))
    found = {}
    for row, word in enumerate(query_words):
        is_other = np.arange(len(words)) != row
        rows = nearest(vectors, vectors[row], is_other, NEAREST_WORDS)
        found[word] = [(words[k], cosine) for k, cosine in rows]
    return found


def is_known(word: str, embedder: "ELMoEmbedder") -> bool:
    """Tell whether the model reads the word, not <UNK>."""
    return embedder.config.reads_characters or word in embedder.vocabulary
