"""A picture of words' occurrences in two dimensions, a colour for each sense, key words of the sentences at the points."""

import functools
import itertools
import math
import random
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError, log
from senses.occurrences import Word, is_word
from senses.terminal import printable, truncate

LABELS = 60  # in a panel of the picture
LABEL_WIDTH = 24  # columns
LETTERS = 8  # points
DPI = 110
GAP, MARGIN = 7, 3  # pixels from a label to its point, and at least to everything else
SIDES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9", "#7a5195", "#444444")
CHINESE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "SimHei",
    "PingFang SC",
    "Heiti TC",
)


def font_families(font: Path | None = None) -> list[str]:
    """The fonts in the order in which Matplotlib looks for a character: its own, then `font` or Chinese ones."""
    from matplotlib import font_manager

    if font is None:
        installed = font_manager.get_font_names()
        return ["DejaVu Sans", *(name for name in CHINESE_FONTS if name in installed)]
    disk.check_input(font, "a font")
    try:
        font_manager.fontManager.addfont(str(font))
        return ["DejaVu Sans", font_manager.FontProperties(fname=str(font)).get_name()]
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(f"{font}: it cannot be read as a font ({error}). Expected .ttf, .otf or .ttc.") from error


def draw(
    path: Path,
    words: Sequence[Word],
    layers: Sequence[int],
    background: Sequence[Sequence[str]],
    projection: str = "pca",
    seed: int = 0,
    font: Path | None = None,
) -> None:
    """Write a PNG: a row for each word, a column for each layer, a point for each occurrence.

    words: with their vectors, as `embed` fills them in. background: sentences that give the frequency of other words.
    projection: how to get to two dimensions, "pca" or "tsne".
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings = {"font.family": font_families(font), "text.parse_math": False}
    with matplotlib.rc_context(settings), warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "Glyph")
        figure = Figure(figsize=(8.5 * len(layers), 6.5 * len(words)), dpi=DPI)
        FigureCanvasAgg(figure)
        panels = figure.subplots(len(words), len(layers), squeeze=False)
        figure.tight_layout(pad=2.5)
        for word, row in zip(words, panels, strict=True):
            texts = key_words(word, background)
            for layer, axes in zip(layers, row, strict=True):
                points, measure = project(word.vectors[layer], projection, seed)
                pca, tsne = f"PCA, {measure:.0%} of the variance", f"t-SNE of perplexity {measure:.2g}"
                how = pca if projection == "pca" else tsne
                n = _draw_panel(axes, points, word.senses.tolist(), texts, seed)
                title = f"{printable(word.text)}, layer {layer}   ({how}; {n} of {len(points)} points have a label)"
                axes.set_title(title, fontsize=11)
        with disk.atomic_write(path, "wb") as file:
            figure.savefig(file, format="png", dpi=DPI)
    if any("Glyph" in str(warning.message) for warning in caught):
        log.warning(
            f"{path}: the fonts lack characters, which are drawn as boxes. Install a font (Debian, Ubuntu: apt-get install "
            "fonts-noto-cjk; then remove ~/.cache/matplotlib), or give one by --font."
        )


def _draw_panel(axes, points: np.ndarray, senses: Sequence[str], texts: Sequence[str], seed: int) -> int:
    """Draw the points, in a colour for each sense, a legend and labels. Returns the number of labels."""
    axes.set(xticks=[], yticks=[])
    axes.margins(0.1)
    axes.spines[:].set_color("#cccccc")
    colours = {sense: COLOURS[k % len(COLOURS)] for k, (sense, _) in enumerate(Counter(senses).most_common())}
    for sense, colour in colours.items():
        mine = points[np.array(senses) == sense]
        label = f"{printable(sense)} ({len(mine)})"
        axes.scatter(*mine.T, s=22, color=colour, alpha=0.7, linewidths=0, label=label)
    if any(senses):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(colours), frameon=False)
    return write_labels(axes, points, texts, [colours[sense] for sense in senses], seed)


def project(vectors: np.ndarray, how: str, seed: int) -> tuple[np.ndarray, float]:
    """Points (n, 2) for vectors (n, D), and how they were made: the share of the variance, or t-SNE's perplexity."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # threads of such small work wait for each other on a busy machine, t-SNE's for minutes
        if how == "pca":
            pca = PCA(2, random_state=seed)
            points = pca.fit_transform(vectors)
            return points, float(pca.explained_variance_ratio_.sum())
        perplexity = min(30.0, (len(vectors) - 1) / 3)
        return TSNE(perplexity=perplexity, random_state=seed).fit_transform(vectors), perplexity


def write_labels(axes, points: np.ndarray, texts: Sequence[str], colours: Sequence[str], seed: int) -> int:
    """Label as many points as have room, in random order. No label hides another or a point. Returns their number."""
    from matplotlib.transforms import Bbox, IdentityTransform

    @functools.cache
    def size(text: str) -> tuple[float, float]:
        measured.set_text(text)
        return measured.get_window_extent().size

    style = {"fontsize": LETTERS, "transform": IdentityTransform(), "ha": "center", "va": "center"}
    measured = axes.text(0, 0, "", **style)
    axes.autoscale_view()
    places = axes.transData.transform(points)  # pixels
    frame, taken = axes.get_window_extent(), []
    for k in random.Random(seed).sample(range(len(points)), len(points)):
        width, height = size(texts[k])
        for side in SIDES:
            x, y = places[k] + side * (np.array([width, height]) / 2 + GAP)
            box = Bbox.from_bounds(x - width / 2, y - height / 2, width, height)
            inside = frame.count_contains(box.corners()) == 4
            if inside and not box.count_overlaps(taken) and not box.padded(MARGIN).count_contains(places):
                axes.text(x, y, texts[k], color=colours[k], **style)
                taken.append(box.padded(MARGIN))
                break
        if len(taken) == LABELS:
            break
    measured.remove()
    return len(taken)


def key_words(word: Word, background: Sequence[Sequence[str]]) -> list[str]:
    """The two most distinctive words of each occurrence's sentence: frequent beside this word, rare elsewhere."""
    sentences = [set(occurrence.tokens) for occurrence in word.occurrences]
    here = Counter(itertools.chain.from_iterable(sentences))
    everywhere = Counter(token for tokens in background for token in set(tokens))

    def distinctiveness(token: str) -> float:
        elsewhere = (everywhere[token] + 1) / (len(background) + 1)
        times = here[token] / len(sentences) / elsewhere  # as frequent as in general
        return math.log(1 + here[token]) * max(0.0, math.log(times)) ** 2

    texts = []
    for occurrence in word.occurrences:
        others = [token for token in dict.fromkeys(occurrence.tokens) if token != word.text and is_word(token)]
        best = sorted(others, key=distinctiveness)[-2:]
        texts.append(truncate(printable(" ".join(token for token in others if token in best)), LABEL_WIDTH))
    return texts
