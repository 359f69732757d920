"""Words in context as a page: one HTML file, without a server or downloads. page.html is its template."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

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
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9", "#7a5195", "#444444")
DARK_COLOURS = (
    "#5aa9f0",
    "#ff8f4d",
    "#35c795",
    "#f29fd0",
    "#d6b23e",
    "#a5dcff",
    "#c7a0f0",
    "#bdbdbd",
)  # on black


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

    words: with vectors, filled in by `embed`. background: sentences that give the general frequency of words.
    nearest: by word, its nearest words in layer 0. model, corpus: names to display.
    """
    sentences: dict[str, int] = {}  # each once, with its index
    frequencies = Frequencies(background)
    records = []
    for word in words:
        texts = [printable(" ".join(occurrence.tokens)) for occurrence in word.occurrences]
        is_labelled, labels = any(word.senses), keywords(word, frequencies)
        names = word.senses.tolist() if is_labelled else propose_senses(word, labels, seed)
        senses = [sense for sense, _ in Counter(names).most_common() if sense]
        record = {
            "text": printable(word.text),
            "count": word.count,
            "eligible": word.n_eligible,
            "duplicates": word.n_duplicates,
            "nearest": [(printable(text), round(cosine, 3)) for text, cosine in nearest[word.text]],
            "senses": list(map(printable, senses)),
            "sense": [senses.index(sense) for sense in names] if senses else [],
            "shares": same_sense_shares(word).mean(axis=1).round(4).tolist() if is_labelled else [],
            "sentence": [sentences.setdefault(text, len(sentences)) for text in texts],
            "position": [occurrence.position for occurrence in word.occurrences],
            "labels": labels,
            "layers": _layers(word, seed),
        }
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


class Frequencies:
    """Of how many sentences each token is a part."""

    def __init__(self, sentences: Sequence[Sequence[str]]):
        self.n_sentences = len(sentences)
        self.counts = Counter(token for tokens in sentences for token in set(tokens))


def keywords(word: Word, general: Frequencies) -> list[str]:
    """Find the two most distinctive words per occurrence: frequent in this word's sentences, rare elsewhere."""
    own = Frequencies([occurrence.tokens for occurrence in word.occurrences])

    def score(token: str) -> float:
        return distinctiveness(
            own.counts[token], own.n_sentences, general.counts[token], general.n_sentences
        )

    texts = []
    for occurrence in word.occurrences:
        others = [
            token
            for token in dict.fromkeys(occurrence.tokens)
            if token != word.text and is_word(token)
        ]
        best = sorted(others, key=score)[-2:]
        texts.append(
            truncate(printable(" ".join(token for token in others if token in best)), LABEL_WIDTH)
        )
    return texts


def distinctiveness(count: int, n: int, general_count: int, n_general: int) -> float:
    """How typical a token is: it occurs in `count` of n sentences here, and in `general_count` of n_general elsewhere."""
    ratio = (count / n) / ((general_count + 1) / (n_general + 1))
    return math.log(1 + count) * max(0.0, math.log(ratio)) ** 2


def propose_senses(word: Word, keywords: Sequence[str], seed: int) -> list[str]:
    """Name each occurrence: its cluster's number, by size, and two of its keywords. All empty if there are too few.

    keywords: of each occurrence's sentence. The number of clusters is the one with the best silhouette.
    """
    from sklearn.metrics import silhouette_score

    vectors, n_sentences = word.vectors[-1], len(set(word.sentences))
    candidates = [
        kmeans(vectors, n, seed)
        for n in range(2, min(MAX_GROUPS, n_sentences // SENTENCES_PER_GROUP) + 1)
    ]
    candidates = [
        groups for groups in candidates if len(set(groups.tolist())) > 1
    ]  # one, if all vectors are equal
    if not candidates:
        return [""] * len(keywords)
    groups = max(candidates, key=lambda groups: silhouette_score(vectors, groups))
    total = Counter(" ".join(keywords).split())
    names = {}
    for number, (group, size) in enumerate(Counter(groups.tolist()).most_common(), 1):
        counts = Counter(" ".join(keywords[k] for k in np.flatnonzero(groups == group)).split())

        def score(token: str, counts: Counter = counts, size: int = size) -> float:
            return distinctiveness(counts[token], size, total[token], len(keywords))

        best = sorted(counts, key=lambda token: (-score(token), token))[:2]
        names[group] = f"{number}: {' '.join(best)}"
    return [names[group] for group in groups.tolist()]


def _layers(word: Word, seed: int) -> list[dict]:
    """Compute, per layer from 1 on, the points, and the nearest neighbours of every occurrence."""
    records, previous = [], None
    for layer in range(1, len(word.vectors)):
        points, share = project(word.vectors[layer], seed)
        previous = points = _align(points, previous)
        near = nearest_others(word, layer, NEIGHBOURS)
        low, high = points.min(axis=0), points.max(axis=0)
        in_square = np.rint((points - low) / np.maximum(high - low, 1e-9) * SIDE).astype(int)
        record = {
            "points": in_square.ravel().tolist(),
            "share": round(share, 4),
            "neighbours": [[k for k, _ in pairs] for pairs in near],
            "cosines": [[round(cosine, 3) for _, cosine in pairs] for pairs in near],
        }
        records.append(record)
    return records


def project(vectors: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """Project vectors (n, D) to points (n, 2) by PCA. Also returns the share of the variance that they have."""
    from sklearn.decomposition import PCA
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # on a busy machine, several threads would wait for each other
        pca = PCA(2, random_state=seed)
        return pca.fit_transform(vectors), float(np.nan_to_num(pca.explained_variance_ratio_).sum())


def _align(points: np.ndarray, previous: np.ndarray | None) -> np.ndarray:
    """Rotate or reflect the points (n, 2) to match the previous layer's (orthogonal Procrustes)."""
    points = points - points.mean(axis=0)
    if previous is None:
        return points
    u, _, v = np.linalg.svd(points.T @ previous)
    return points @ (u @ v)
