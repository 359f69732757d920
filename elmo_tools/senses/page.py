"""Words in context as a page: one HTML file, without a server or downloads.

page.html is its template.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.display.terminal import printable, truncate
from elmo_core.files import disk
from elmo_tools.senses.nearest import kmeans, nearest_others, same_sense_shares
from elmo_tools.senses.occurrences import Word, is_word

TEMPLATE = Path(__file__).with_name("page.html")
NEIGHBOURS = 8  # per occurrence and layer
SIDE = 10000  # side of the square of points
MAX_GROUPS = 6  # of occurrences without gold senses
SENTENCES_PER_GROUP = 3  # on average, at least
LABEL_WIDTH = 24  # columns
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#8c6d00",
    "#56b4e9",
    "#7a5195",
    "#444444",
)
# On black.
DARK_COLOURS = (
    "#5aa9f0",
    "#ff8f4d",
    "#35c795",
    "#f29fd0",
    "#d6b23e",
    "#a5dcff",
    "#c7a0f0",
    "#bdbdbd",
)


def write_page(
    path: Path,
    words: Sequence[Word],
    background: Sequence[Sequence[str]],
    nearest: Mapping[str, Sequence[tuple[str, float]]],
    seed: int = 0,
    model: str = "",
    corpus: str = "",
) -> None:
    """Write the page.

    words: with vectors, filled in by `embed`. background: sentences that give the general frequency
    of words. nearest: by word, its nearest words in layer 0. model, corpus: names to display.
    """
    sentences: dict[str, int] = {}  # each once, with its index
    frequencies = Frequencies(background)
    records = []
    for word in words:
        record = _record(
            word=word,
            frequencies=frequencies,
            nearest=nearest[word.text],
            sentences=sentences,
            seed=seed,
        )
        records.append(record)
    data = {
        "model": printable(model),
        "corpus": printable(corpus),
        "layers": list(range(1, len(words[0].vectors))),
        "colours": {"light": COLOURS, "dark": DARK_COLOURS},
        "sentences": list(sentences),
        "words": records,
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # so that no sentence can end the script element
    template = TEMPLATE.read_text(encoding="utf-8")
    with disk.atomic_write(path) as file:
        file.write(template.replace("{{data}}", text))


def _record(
    word: Word,
    frequencies: "Frequencies",
    nearest: Sequence[tuple[str, float]],
    sentences: dict[str, int],
    seed: int,
) -> dict[str, Any]:
    """Return what the page shows of a word, and add its sentences to the page's."""
    labels = keywords(word, frequencies)
    is_labelled = any(word.senses)
    if is_labelled:
        names = word.senses.tolist()
        shares = same_sense_shares(word).mean(axis=1).round(4).tolist()
    else:
        names = propose_senses(word, labels, seed)
        shares = []
    senses = [sense for sense, _ in Counter(names).most_common() if sense]
    texts = [printable(" ".join(occurrence.tokens)) for occurrence in word.occurrences]
    return {
        "text": printable(word.text),
        "count": word.count,
        "eligible": word.n_eligible,
        "duplicates": word.n_duplicates,
        "nearest": [(printable(text), round(cosine, 3)) for text, cosine in nearest],
        "senses": [printable(sense) for sense in senses],
        "sense": [senses.index(name) for name in names] if senses else [],
        "shares": shares,
        "sentence": [sentences.setdefault(text, len(sentences)) for text in texts],
        "position": [occurrence.position for occurrence in word.occurrences],
        "labels": labels,
        "layers": _layers(word, seed),
    }


class Frequencies:
    """Of how many sentences each token is a part."""

    def __init__(self, sentences: Sequence[Sequence[str]]):
        self.n_sentences = len(sentences)
        self.counts: Counter[str] = Counter()
        for tokens in sentences:
            self.counts.update(set(tokens))


def keywords(word: Word, general: Frequencies) -> list[str]:
    """Find the two most distinctive words of each occurrence's sentence.

    They are frequent in this word's sentences, and rare elsewhere.
    """
    own = Frequencies([occurrence.tokens for occurrence in word.occurrences])

    def score(token: str) -> float:
        return distinctiveness(
            count=own.counts[token],
            n=own.n_sentences,
            general_count=general.counts[token],
            n_general=general.n_sentences,
        )

    texts = []
    for occurrence in word.occurrences:
        tokens = dict.fromkeys(occurrence.tokens)  # each once, in their order
        others = [token for token in tokens if token != word.text and is_word(token)]
        best = sorted(others, key=score)[-2:]
        text = " ".join(token for token in others if token in best)
        texts.append(truncate(printable(text), LABEL_WIDTH))
    return texts


def distinctiveness(count: int, n: int, general_count: int, n_general: int) -> float:
    """Return how typical a token is of some sentences.

    It occurs in `count` of n sentences here, and in `general_count` of n_general elsewhere.
    """
    ratio = (count / n) / ((general_count + 1) / (n_general + 1))
    return math.log(1 + count) * max(0.0, math.log(ratio)) ** 2


def propose_senses(word: Word, keywords: Sequence[str], seed: int) -> list[str]:
    """Name each occurrence: its cluster's number, by size, and two of its keywords.

    keywords: of each occurrence's sentence. All names are empty if there are too few sentences.
    """
    groups = _clusters(word, seed)
    if groups is None:
        return [""] * len(keywords)
    total = Counter(" ".join(keywords).split())
    names = {}
    for number, (group, size) in enumerate(Counter(groups.tolist()).most_common(), 1):
        members = np.flatnonzero(groups == group)
        counts = Counter(" ".join(keywords[k] for k in members).split())
        scores = {}
        for token, count in counts.items():
            scores[token] = distinctiveness(count, size, total[token], len(keywords))
        best = sorted(scores, key=lambda token: (-scores[token], token))[:2]
        names[group] = f"{number}: {' '.join(best)}"
    return [names[group] for group in groups.tolist()]


def _clusters(word: Word, seed: int) -> np.ndarray | None:
    """Assign each occurrence to a cluster, (n,), or return None if there are too few sentences.

    The number of clusters is the one with the best silhouette.
    """
    from sklearn.metrics import silhouette_score

    vectors = word.vectors[-1]
    n_sentences = len(set(word.sentences))
    largest = min(MAX_GROUPS, n_sentences // SENTENCES_PER_GROUP)
    candidates = []
    for n in range(2, largest + 1):
        groups = kmeans(vectors, n, seed)
        is_divided = len(set(groups.tolist())) > 1  # not if all vectors are equal
        if is_divided:
            candidates.append(groups)
    if not candidates:
        return None
    return max(candidates, key=lambda groups: silhouette_score(vectors, groups))


def _layers(word: Word, seed: int) -> list[dict[str, Any]]:
    """Compute, per layer from 1 on, the points, and the nearest neighbours of every occurrence."""
    records = []
    previous = None
    for layer in range(1, len(word.vectors)):
        points, share = project(word.vectors[layer], seed)
        points = _align(points, previous)
        previous = points
        indices = []
        cosines = []
        for pairs in nearest_others(word, layer, NEIGHBOURS):
            indices.append([k for k, _ in pairs])
            cosines.append([round(cosine, 3) for _, cosine in pairs])
        record = {
            "points": _in_square(points).ravel().tolist(),
            "share": round(share, 4),
            "neighbours": indices,
            "cosines": cosines,
        }
        records.append(record)
    return records


def _in_square(points: np.ndarray) -> np.ndarray:
    """Scale points (n, 2) to whole numbers from 0 to SIDE in both dimensions."""
    low = points.min(axis=0)
    high = points.max(axis=0)
    size = np.maximum(high - low, 1e-9)  # points may be equal
    return np.rint((points - low) / size * SIDE).astype(int)


def project(vectors: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """Project vectors (n, 2P) to points (n, 2) by PCA.

    Also returns the share of the variance that the points have.
    """
    from sklearn.decomposition import PCA
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # on a busy machine, several threads would wait for each other
        pca = PCA(2, random_state=seed)
        points = pca.fit_transform(vectors)
    shares = np.nan_to_num(pca.explained_variance_ratio_)  # NaN if all vectors are equal
    return points, float(shares.sum())


def _align(points: np.ndarray, previous: np.ndarray | None) -> np.ndarray:
    """Rotate or reflect the points (n, 2) to match the previous layer's (orthogonal Procrustes)."""
    points = points - points.mean(axis=0)
    if previous is None:
        return points
    u, _, v = np.linalg.svd(points.T @ previous)
    return points @ (u @ v)
