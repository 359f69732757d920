"""A picture of a word's occurrences in two dimensions, a colour for each sense, key words of the sentences at the points."""

import argparse
import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from elmo_core import disk
from elmo_core.runtime import UserError, log
from senses.occurrences import Word, cut, is_word, printable

PICTURED_WORDS = 8
LABELS = 60  # in a panel of the picture
LABEL_WIDTH = 24  # columns
LETTERS = 8  # points
DPI = 110
GAP, MARGIN = 7, 3  # pixels from a label to its point, and at least to everything else
SIDES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9", "#7a5195", "#444444")
FONTS = (
    "Noto Sans CJK SC",
    "Source Han Sans",
    "WenQuanYi",
    "Microsoft YaHei",
    "SimHei",
    "PingFang",
    "Heiti",
    "Noto Sans",
)
NO_FONT = "Last Resort"  # Matplotlib's own, which has a box for every character


def check_picture(path: Path, font: Path | None, asked: Sequence[str]) -> None:
    """Before the work: whether the picture can be written, and what would be in it."""
    if path.suffix.lower() != ".png":
        raise UserError(f"--plot {path}: the picture is a PNG, expected a name that ends in .png.")
    if not asked:
        raise UserError("--plot: give the words to draw by --word.")
    if len(asked) > PICTURED_WORDS:
        raise UserError(f"--plot: {len(asked)} words are too many for one picture, expected at most {PICTURED_WORDS}.")
    disk.check_output("--plot", path)
    if font:
        load_font(font)


def load_font(path: Path) -> str:
    """Make a font of the user's known to Matplotlib. Returns its name."""
    from matplotlib import font_manager

    if not path.is_file():
        raise UserError(f"--font {path}: there is no such file.")
    try:
        font_manager.fontManager.addfont(str(path))
        return font_manager.FontProperties(fname=str(path)).get_name()
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"--font {path}: it cannot be read as a font ({error}). Expected .ttf, .otf or .ttc."
        ) from error


class Lettering:
    """What the picture can say: texts that the fonts have the characters for; for others a number, explained in a list."""

    def __init__(self, texts: Iterable[str], font: Path | None):
        from matplotlib import font_manager

        self.families, self.numbers = ["DejaVu Sans"], {}
        self._characters = _characters(font_manager.findfont("DejaVu Sans"))
        needed = set("".join(texts)) - self._characters
        if font or needed:
            name, has = (load_font(font), _characters(str(font))) if font else _best_font(needed)
            self.families.append(name)
            self._characters |= has
        self.missing = sorted(needed - self._characters)

    def __call__(self, text: str) -> str:
        if self._characters.issuperset(text):
            return text
        return f"[{self.numbers.setdefault(text, len(self.numbers) + 1)}]"


def _best_font(needed: set[str]) -> tuple[str, set[str]]:
    """The machine's font that has the most of the characters, a usual one for Chinese if several do; and what it has."""
    from matplotlib import font_manager

    def unusual(entry) -> tuple[int, str]:
        return next((k for k, name in enumerate(FONTS) if entry.name.startswith(name)), len(FONTS)), entry.fname

    best, has = "DejaVu Sans", set()
    for entry in sorted(font_manager.fontManager.ttflist, key=unusual):
        if entry.name.startswith(NO_FONT):
            continue
        characters = _characters(entry.fname)
        if len(needed & characters) > len(needed & has):
            best, has = entry.name, characters
        if needed <= has:
            break
    return best, has


def _characters(path: str) -> set[str]:
    """The characters of a font's file; none if it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return set(map(chr, FT2Font(path).get_charmap()))
    except (OSError, RuntimeError):
        return set()


class Picture:
    """A row for each word, a column for each layer; a point for each occurrence, with key words of its sentence."""

    def __init__(self, args: argparse.Namespace, words: Sequence[Word], layers: Sequence[int], background: list):
        self.path, self.projection, self.seed = args.plot, args.projection, args.seed
        self.words, self.layers = words, layers
        self.keys = {word.text: key_words(word, background) for word in words}
        names = [printable(name) for word in words for name in (word.text, *sorted(set(word.senses.tolist())))]
        self.lettering = Lettering([*names, *itertools.chain.from_iterable(self.keys.values())], args.font)
        for name in names:  # they get the first numbers
            self.lettering(name)

    def save(self) -> None:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        n_rows, n_columns = len(self.words), len(self.layers)
        with matplotlib.rc_context({"font.family": self.lettering.families, "text.parse_math": False}):
            figure = Figure(figsize=(8.5 * n_columns, 6.5 * n_rows), dpi=DPI)
            FigureCanvasAgg(figure)
            panels = figure.subplots(n_rows, n_columns, squeeze=False)
            figure.tight_layout(pad=2.5)
            for word, row in zip(self.words, panels, strict=True):
                for layer, axes in zip(self.layers, row, strict=True):
                    self.draw(axes, word, layer)
            with disk.atomic_write(self.path, "wb") as file:
                figure.savefig(file, format="png", dpi=DPI)
        print(f"picture: {self.path}")
        self.explain()

    def draw(self, axes, word: Word, layer: int) -> None:
        """One panel: the points, in a colour for each sense, the senses, and the key words."""
        points, how = project(word.vectors[layer], self.projection, self.seed)
        axes.set(xticks=[], yticks=[])
        axes.margins(0.1)
        axes.spines[:].set_color("#cccccc")
        senses = [sense for sense, _ in Counter(word.senses.tolist()).most_common()]
        colours = {sense: COLOURS[k % len(COLOURS)] for k, sense in enumerate(senses)}
        for sense, colour in colours.items():
            mine = points[word.senses == sense]
            label = f"{self.lettering(sense)} ({len(mine)})"
            axes.scatter(*mine.T, s=22, color=colour, alpha=0.7, linewidths=0, label=label)
        if any(senses):
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(senses), frameon=False)
        texts = [self.lettering(text) for text in self.keys[word.text]]
        labelled = write_labels(axes, points, texts, [colours[sense] for sense in word.senses.tolist()], self.seed)
        what = f"{self.lettering(printable(word.text))}, layer {layer}"
        axes.set_title(f"{what}   ({how}; {labelled} of {len(points)} points have a label)", fontsize=11)

    def explain(self) -> None:
        """Write the texts that the picture has numbers for, if any."""
        numbers = self.lettering.numbers
        if not numbers:
            return
        path = self.path.with_name(f"{self.path.name}.txt")
        with disk.atomic_write(path) as file:
            file.writelines(f"[{number}]\t{text}\n" for text, number in numbers.items())
        characters = "".join(self.lettering.missing)
        log.warning(
            f"No font here has {characters[:10]}{' ...' if len(characters) > 10 else ''}: where they are needed the picture "
            f"has numbers, which {path} explains. Install a font (Debian, Ubuntu: apt-get install fonts-noto-cjk; then "
            "remove ~/.cache/matplotlib), or give one by --font."
        )


def project(vectors: np.ndarray, how: str, seed: int) -> tuple[np.ndarray, str]:
    """Points (n, 2) for vectors (n, D), and a phrase about them."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # threads of such small work wait for each other on a busy machine, t-SNE's for minutes
        if how == "pca":
            pca = PCA(2, random_state=seed)
            points = pca.fit_transform(vectors)
            return points, f"PCA, {pca.explained_variance_ratio_.sum():.0%} of the variance"
        perplexity = min(30.0, (len(vectors) - 1) / 3)
        points = TSNE(perplexity=perplexity, random_state=seed).fit_transform(vectors)
        return points, f"t-SNE of perplexity {perplexity:.2g}"


def write_labels(axes, points: np.ndarray, texts: Sequence[str], colours: Sequence[str], seed: int) -> int:
    """Write texts beside as many points as have room, tried in random order, so that none hides another or a point."""
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
    """Of each occurrence's sentence the two words that tell most: frequent beside this word, rare elsewhere."""
    sentences = [set(occurrence.tokens) for occurrence in word.occurrences]
    here = Counter(itertools.chain.from_iterable(sentences))
    everywhere = Counter(token for tokens in background for token in set(tokens))

    def tells(token: str) -> float:
        elsewhere = (everywhere[token] + 1) / (len(background) + 1)
        times = here[token] / len(sentences) / elsewhere  # as frequent as in general
        return math.log(1 + here[token]) * max(0.0, math.log(times)) ** 2

    texts = []
    for occurrence in word.occurrences:
        others = [token for token in dict.fromkeys(occurrence.tokens) if token != word.text and is_word(token)]
        best = sorted(others, key=tells)[-2:]
        texts.append(cut(printable(" ".join(token for token in others if token in best)), LABEL_WIDTH))
    return texts
