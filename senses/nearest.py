"""Vectors of occurrences, and which are nearest to each other, by the cosine.

An occurrence's neighbours are in other sentences: the same sentence, or one with the same tokens, never counts.
"""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

import elmo
from senses.occurrences import Occurrence, Word, is_word

CANDIDATES = 5000  # frequent words among which the nearest are searched
NEAREST_WORDS = 5
TIE = 1e-6  # cosines that differ by less are equal
ROWS_AT_ONCE = 512  # of a table of cosines


def embed(
    embedder: elmo.ELMoEmbedder, words: Sequence[Word], own: Sequence[Occurrence] = ()
) -> list[tuple[Occurrence, np.ndarray]]:
    """Fill in the words' vectors. Returns `own`, each with its vectors (layers, 2P)."""
    occurrences = [*(occurrence for word in words for occurrence in word.occurrences), *own]
    at = defaultdict(list)
    for k, occurrence in enumerate(occurrences):
        at[occurrence.tokens].append((k, occurrence.position))
    vectors = np.empty((embedder.config.n_layers + 1, len(occurrences), embedder.dim), dtype=np.float32)
    for tokens, array in zip(at, embedder.iter_encode(list(at)), strict=True):
        for k, position in at[tokens]:
            vectors[:, k] = array[:, position]
    ends = np.cumsum([len(word.occurrences) for word in words])
    *of_words, of_own = np.split(_unit(vectors), ends, axis=1)
    for word, of_word in zip(words, of_words, strict=True):
        word.vectors = of_word
    return list(zip(own, of_own.swapaxes(0, 1), strict=True))


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1, so that products are cosines."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(np.float32).tiny)


def same_sense_shares(word: Word) -> np.ndarray:
    """(1 + layers, n): how likely the nearest occurrence has the same sense, by chance and in each layer."""
    chance = np.zeros((1, *word.vectors.shape[1:]), dtype=np.float32)  # where all are equally near
    return np.stack([same_sense(layer, word.senses, word.sentences) for layer in (*chance, *word.vectors)])


def same_sense(vectors: np.ndarray, senses: np.ndarray, sentences: np.ndarray) -> np.ndarray:
    """How likely the nearest occurrence in another sentence has the same sense.

    vectors: (n, D) of length 1; senses, sentences: (n,). Returns (n,) 0 or 1, or, where several are equally near, the share
    of them that have it: what drawing one of them would give on average.
    """
    shares = np.empty(len(vectors))
    for rows, cosines in _cosines(vectors.astype(np.float64), sentences):
        nearest = cosines >= cosines.max(axis=1, keepdims=True) - TIE
        agree = senses[rows, None] == senses
        shares[rows] = (nearest & agree).sum(axis=1) / nearest.sum(axis=1)
    return shares


def _cosines(vectors: np.ndarray, sentences: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """The cosines (rows, n) of some rows after others with all, minus infinity within a sentence."""
    for begin in range(0, len(vectors), ROWS_AT_ONCE):
        rows = slice(begin, begin + ROWS_AT_ONCE)
        cosines = vectors[rows] @ vectors.T
        cosines[sentences[rows, None] == sentences] = -np.inf
        yield rows, cosines


def neighbours(
    occurrence: Occurrence, vectors: np.ndarray, word: Word, layer: int, n: int
) -> list[tuple[Occurrence, float]]:
    """The n occurrences of the word nearest in a layer to one with the vectors (layers, 2P), and their cosines."""
    others = np.array([other.tokens != occurrence.tokens for other in word.occurrences])
    cosines = np.where(others, word.vectors[layer] @ vectors[layer], -np.inf)
    order = np.argsort(-cosines, kind="stable")[: min(n, others.sum())]
    return [(word.occurrences[k], float(cosines[k])) for k in order.tolist()]


def nearest_others(word: Word, layer: int, n: int) -> list[list[tuple[int, float]]]:
    """Of each occurrence the n nearest others in a layer, by their places in `word.occurrences`, and their cosines."""
    nearest = []
    for _, cosines in _cosines(word.vectors[layer], word.sentences):
        found = np.argpartition(-cosines, min(n, len(cosines.T) - 1), axis=1)[:, :n]
        for row, places in zip(cosines, found, strict=True):
            places = places[np.argsort(-row[places], kind="stable")]
            nearest.append([(k, float(row[k])) for k in places.tolist() if row[k] > -np.inf])
    return nearest


def examples(word: Word, n: int, seed: int) -> list[tuple[Occurrence, np.ndarray]]:
    """n different occurrences with their vectors, drawn in turn from each sense or, without senses, each cluster."""
    n = min(n, len(word.occurrences))
    if any(word.senses):
        groups = word.senses
    else:
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            kmeans = KMeans(min(n, len(set(word.sentences))), n_init=4, random_state=seed)
            groups = kmeans.fit_predict(word.vectors[-1])
    order = random.Random(f"{seed} {word.text}").sample(range(len(groups)), len(groups))
    decks = [[k for k in order if groups[k] == group] for group, _ in Counter(groups.tolist()).most_common()]
    turns = (k for turn in itertools.zip_longest(*decks) for k in turn if k is not None)
    return [(word.occurrences[k], word.vectors[:, k]) for k in itertools.islice(turns, n)]


def nearest_words(
    embedder: elmo.ELMoEmbedder, asked: Sequence[str], background: Iterable[Sequence[str]]
) -> dict[str, list[tuple[str, float]]]:
    """The words nearest to each word in `asked` in layer 0, among the frequent words of the sentences."""
    if not asked:
        return {}
    counts = Counter(itertools.chain.from_iterable(background))
    frequent = [token for token, _ in counts.most_common() if is_word(token) and is_known(token, embedder)]
    texts = list(dict.fromkeys([*asked, *frequent[:CANDIDATES]]))
    vectors = _unit(embedder.encode_tokens(texts))
    nearest = {}
    for k, word in enumerate(asked):
        cosines = vectors @ vectors[k]
        order = [other for other in np.argsort(-cosines, kind="stable").tolist() if other != k]
        nearest[word] = [(texts[other], float(cosines[other])) for other in order[:NEAREST_WORDS]]
    return nearest


def is_known(word: str, embedder: elmo.ELMoEmbedder) -> bool:
    """Whether the model reads the word itself, not <UNK>."""
    return embedder.config.reads_characters or word in embedder.vocabulary
