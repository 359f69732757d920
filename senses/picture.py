"""A picture of words' occurrences in two dimensions, coloured by sense and labelled with keywords of their sentences."""

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo_core.display.figures import figure_file
from elmo_core.display.terminal import printable, truncate
from senses.occurrences import Word, is_word

LABELS = 60  # maximum per panel
LABEL_WIDTH = 24  # columns
FONT_SIZE = 8  # points
GAP, MARGIN = 7, 3  # pixels from a label to its point, and the minimum to everything else
SIDES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9", "#7a5195", "#444444")


def draw(
    path: Path,
    words: Sequence[Word],
    layers: Sequence[int],
    background: Sequence[Sequence[str]],
    projection: str = "pca",
    seed: int = 0,
    font: Path | None = None,
) -> None:
    """Write a PNG with one row per word, one column per layer, one point per occurrence.

    words: with vectors, filled in by `embed`. background: sentences that give the general frequency of words.
    projection: to two dimensions, "pca" or "tsne".
    """
    with figure_file(path, (8.5 * len(layers), 6.5 * len(words)), font) as figure:
        panels = figure.subplots(len(words), len(layers), squeeze=False)
        figure.tight_layout(pad=2.5)
        for word, row in zip(words, panels, strict=True):
            texts = keywords(word, background)
            for layer, axes in zip(layers, row, strict=True):
                points, measure = project(word.vectors[layer], projection, seed)
                pca, tsne = f"PCA, {measure:.0%} of the variance", f"t-SNE, perplexity {measure:.2g}"
                how = pca if projection == "pca" else tsne
                n = _draw_panel(axes, points, word.senses.tolist(), texts, seed)
                title = f"{printable(word.text)}, layer {layer}   ({how}; {n} of {len(points)} points have a label)"
                axes.set_title(title, fontsize=11)


def _draw_panel(axes, points: np.ndarray, senses: Sequence[str], texts: Sequence[str], seed: int) -> int:
    """Draw points coloured by sense, a legend and labels. Returns the number of labels."""
    axes.set(xticks=[], yticks=[])
    axes.margins(0.1)
    axes.spines[:].set_color("#cccccc")
    colours = {sense: COLOURS[k % len(COLOURS)] for k, (sense, _) in enumerate(Counter(senses).most_common())}
    for sense, colour in colours.items():
        selected = points[np.array(senses) == sense]
        label = f"{printable(sense)} ({len(selected)})"
        axes.scatter(*selected.T, s=22, color=colour, alpha=0.7, linewidths=0, label=label)
    if any(senses):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(colours), frameon=False)
    return write_labels(axes, points, texts, [colours[sense] for sense in senses], seed)


def project(vectors: np.ndarray, how: str, seed: int) -> tuple[np.ndarray, float]:
    """Project vectors (n, D) to points (n, 2). Also returns PCA's share of the variance, or t-SNE's perplexity."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # on a busy machine, several threads would wait for each other, t-SNE's for minutes
        if how == "pca":
            pca = PCA(2, random_state=seed)
            points = pca.fit_transform(vectors)
            return points, float(pca.explained_variance_ratio_.sum())
        perplexity = min(30.0, (len(vectors) - 1) / 3)
        return TSNE(perplexity=perplexity, random_state=seed).fit_transform(vectors), perplexity


def write_labels(axes, points: np.ndarray, texts: Sequence[str], colours: Sequence[str], seed: int) -> int:
    """Label points in random order where a label hides no other label or point. Returns the number of labels."""
    from matplotlib.transforms import Bbox, IdentityTransform

    @functools.cache
    def size(text: str) -> tuple[float, float]:
        measured.set_text(text)
        return measured.get_window_extent().size

    style = {"fontsize": FONT_SIZE, "transform": IdentityTransform(), "ha": "center", "va": "center"}
    measured = axes.text(0, 0, "", **style)
    axes.autoscale_view()
    pixels = axes.transData.transform(points)
    frame, taken = axes.get_window_extent(), []
    for k in random.Random(seed).sample(range(len(points)), len(points)):
        width, height = size(texts[k])
        for side in SIDES:
            x, y = pixels[k] + side * (np.array([width, height]) / 2 + GAP)
            box = Bbox.from_bounds(x - width / 2, y - height / 2, width, height)
            inside = frame.count_contains(box.corners()) == 4
            if inside and not box.count_overlaps(taken) and not box.padded(MARGIN).count_contains(pixels):
                axes.text(x, y, texts[k], color=colours[k], **style)
                taken.append(box.padded(MARGIN))
                break
        if len(taken) == LABELS:
            break
    measured.remove()
    return len(taken)


def keywords(word: Word, background: Sequence[Sequence[str]]) -> list[str]:
    """The two most distinctive words per occurrence: frequent in this word's sentences, rare elsewhere."""
    sentences = [set(occurrence.tokens) for occurrence in word.occurrences]
    counts = Counter(itertools.chain.from_iterable(sentences))
    background_counts = Counter(token for tokens in background for token in set(tokens))

    def score(token: str) -> float:
        return distinctiveness(counts[token], len(sentences), background_counts[token], len(background))

    texts = []
    for occurrence in word.occurrences:
        others = [token for token in dict.fromkeys(occurrence.tokens) if token != word.text and is_word(token)]
        best = sorted(others, key=score)[-2:]
        texts.append(truncate(printable(" ".join(token for token in others if token in best)), LABEL_WIDTH))
    return texts


def distinctiveness(count: int, n: int, general_count: int, n_general: int) -> float:
    """How typical a token is: it occurs in `count` of n sentences here, and in `general_count` of n_general elsewhere."""
    ratio = (count / n) / ((general_count + 1) / (n_general + 1))
    return math.log(1 + count) * max(0.0, math.log(ratio)) ** 2
