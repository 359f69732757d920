"""Words in context as a page: one HTML file that needs no server and fetches nothing. page.html is its template."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from elmo_core.machine import disk
from senses.nearest import nearest_others, same_sense_shares
from senses.occurrences import Word
from senses.picture import COLOURS, key_words, project
from senses.terminal import printable

TEMPLATE = Path(__file__).with_name("page.html")
NEIGHBOURS = 8  # of an occurrence, in each layer
SIDE = 10000  # of the square that the points fill


def write_page(
    path: Path,
    words: Sequence[Word],
    layers: Sequence[int],
    background: Sequence[Sequence[str]],
    nearest: Mapping[str, Sequence[tuple[str, float]]],
    projection: str = "pca",
    seed: int = 0,
    model: str = "",
    corpus: str = "",
) -> None:
    """Write the page. Words, layers, background, projection and seed as for the picture.

    nearest: of each word the words nearest to it in layer 0. model, corpus: their names, for the page to show.
    """
    sentences: dict[str, int] = {}  # each once, by its place
    records = []
    for word in words:
        texts = [printable(" ".join(occurrence.tokens)) for occurrence in word.occurrences]
        senses = [sense for sense, _ in Counter(word.senses.tolist()).most_common() if sense]
        record = {
            "text": printable(word.text),
            "count": word.count,
            "eligible": word.eligible,
            "duplicates": word.duplicates,
            "nearest": [(printable(text), round(cosine, 3)) for text, cosine in nearest[word.text]],
            "senses": list(map(printable, senses)),
            "sense": [senses.index(sense) for sense in word.senses.tolist()] if senses else [],
            "shares": same_sense_shares(word).mean(axis=1).round(4).tolist() if senses else [],
            "sentence": [sentences.setdefault(text, len(sentences)) for text in texts],
            "place": [occurrence.position for occurrence in word.occurrences],
            "labels": key_words(word, background),
            "layers": _layers(word, layers, projection, seed),
        }
        records.append(record)
    data = {
        "model": printable(model),
        "corpus": printable(corpus),
        "layers": list(layers),
        "projection": projection,
        "colours": COLOURS,
        "sentences": list(sentences),
        "words": records,
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # no sentence can end the script that holds it
    template = TEMPLATE.read_text(encoding="utf-8")
    with disk.atomic_write(path) as file:
        file.write(template.replace("{{data}}", text))


def _layers(word: Word, layers: Sequence[int], projection: str, seed: int) -> list[dict]:
    """The points of each layer and the nearest others of each occurrence."""
    drawn, before = [], None
    for layer in layers:
        points, measure = project(word.vectors[layer], projection, seed)
        before = points = _turned(points, before)
        near = nearest_others(word, layer, NEIGHBOURS)
        record = {
            "points": _in_square(points).ravel().tolist(),
            "measure": round(measure, 4),
            "neighbours": [[k for k, _ in pairs] for pairs in near],
            "cosines": [[round(cosine, 3) for _, cosine in pairs] for pairs in near],
        }
        drawn.append(record)
    return drawn


def _turned(points: np.ndarray, before: np.ndarray | None) -> np.ndarray:
    """The points (n, 2), turned or mirrored so that they lie as near as can be to where they were in the layer before."""
    points = points - points.mean(axis=0)
    if before is None:
        return points
    u, _, v = np.linalg.svd(points.T @ before)
    return points @ (u @ v)


def _in_square(points: np.ndarray) -> np.ndarray:
    """(n, 2) whole numbers from 0 to SIDE."""
    low, high = points.min(axis=0), points.max(axis=0)
    return np.rint((points - low) / np.maximum(high - low, 1e-9) * SIDE).astype(int)
