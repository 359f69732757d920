"""Vectors of a word's occurrences, and their nearest neighbours by cosine.

An occurrence's neighbours are in other sentences: the same sentence, or one with the same tokens, never counts.
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
    """Fill in the words' vectors. Returns the user's occurrences, each with its vectors (layers, 2P)."""
    occurrences = [
        *(occurrence for word in words for occurrence in word.occurrences),
        *user_occurrences,
    ]
    by_sentence = defaultdict(list)
    for k, occurrence in enumerate(occurrences):
        by_sentence[occurrence.tokens].append((k, occurrence.position))
    vectors = np.empty(
        (embedder.config.n_layers + 1, len(occurrences), embedder.dim), dtype=np.float32
    )
    for tokens, array in zip(by_sentence, embedder.iter_encode(list(by_sentence)), strict=True):
        for k, position in by_sentence[tokens]:
            vectors[:, k] = array[:, position]
    ends = np.cumsum([len(word.occurrences) for word in words])
    *word_vectors, user_vectors = np.split(unit(vectors), ends, axis=1)
    for word, of_word in zip(words, word_vectors, strict=True):
        word.vectors = of_word
    return list(zip(user_occurrences, user_vectors.swapaxes(0, 1), strict=True))


def same_sense_shares(word: Word) -> np.ndarray:
    """Return the probability that the nearest occurrence has the same sense, by chance and per layer. (1 + layers, n)"""
    chance = np.zeros((1, *word.vectors.shape[1:]), dtype=np.float32)  # all equally near
    return np.stack(
        [same_sense(layer, word.senses, word.sentences) for layer in (*chance, *word.vectors)]
    )


def same_sense(vectors: np.ndarray, senses: np.ndarray, sentences: np.ndarray) -> np.ndarray:
    """Return the probability that the nearest occurrence in another sentence has the same sense; ties are averaged.

    vectors: (n, D), of length 1. senses, sentences: (n,). Returns (n,): 0 or 1, or a fraction if several are equally near.
    """
    shares = np.empty(len(vectors))
    for rows, cosines in _cosines(vectors.astype(np.float64), sentences):
        nearest = cosines >= cosines.max(axis=1, keepdims=True) - TIE
        agree = senses[rows, None] == senses
        shares[rows] = (nearest & agree).sum(axis=1) / nearest.sum(axis=1)
    return shares


def _cosines(vectors: np.ndarray, sentences: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of the rows and their cosines (rows, n) with all vectors; minus infinity within the same sentence."""
    for begin in range(0, len(vectors), ROWS_PER_CHUNK):
        rows = slice(begin, begin + ROWS_PER_CHUNK)
        cosines = vectors[rows] @ vectors.T
        cosines[sentences[rows, None] == sentences] = -np.inf
        yield rows, cosines


def neighbours(
    occurrence: Occurrence, vectors: np.ndarray, word: Word, layer: int, n: int
) -> list[tuple[Occurrence, float]]:
    """Find the word's n occurrences nearest to the given one, whose vectors are (layers, 2P), in a layer; with cosines."""
    others = np.array([other.tokens != occurrence.tokens for other in word.occurrences])
    return [
        (word.occurrences[k], cosine)
        for k, cosine in nearest(word.vectors[layer], vectors[layer], others, n)
    ]


def nearest_others(word: Word, layer: int, n: int) -> list[list[tuple[int, float]]]:
    """Find the n nearest others of each occurrence in a layer: indices into `word.occurrences` and cosines."""
    nearest = []
    for _, cosines in _cosines(word.vectors[layer], word.sentences):
        candidates = np.argpartition(-cosines, min(n, len(cosines.T) - 1), axis=1)[:, :n]
        for row, indices in zip(cosines, candidates, strict=True):
            indices = indices[np.argsort(-row[indices], kind="stable")]
            nearest.append([(k, float(row[k])) for k in indices.tolist() if row[k] > -np.inf])
    return nearest


def examples(word: Word, n: int, seed: int) -> list[tuple[Occurrence, np.ndarray]]:
    """Draw n different occurrences, in turn from each sense or, without senses, each cluster. Returns them with vectors."""
    n = min(n, len(word.occurrences))
    groups = (
        word.senses
        if any(word.senses)
        else kmeans(word.vectors[-1], min(n, len(set(word.sentences))), seed)
    )
    order = random.Random(f"{seed} {word.text}").sample(range(len(groups)), len(groups))
    decks = [
        [k for k in order if groups[k] == group]
        for group, _ in Counter(groups.tolist()).most_common()
    ]
    turns = (k for turn in itertools.zip_longest(*decks) for k in turn if k is not None)
    return [(word.occurrences[k], word.vectors[:, k]) for k in itertools.islice(turns, n)]


def kmeans(vectors: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Assign each vector to one of n clusters."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return KMeans(n, n_init=4, random_state=seed).fit_predict(vectors)


def nearest_words(
    embedder: "ELMoEmbedder", query_words: Sequence[str], background: Iterable[Sequence[str]]
) -> dict[str, list[tuple[str, float]]]:
    """Find the frequent words nearest to each query word in layer 0. background: sentences that give the frequencies."""
    counts = Counter(itertools.chain.from_iterable(background))
    frequent = [
        token for token, _ in counts.most_common() if is_word(token) and is_known(token, embedder)
    ]
    words = list(dict.fromkeys([*query_words, *frequent[:CANDIDATES]]))
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
