"""Sentences with their words shaded by surprisal, in both directions, as a picture."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elmo_core.checks import describe, import_optional
from elmo_core.display.terminal import printable, truncate
from elmo_core.encoding.surprisal import Surprisals
from elmo_core.files import disk
from elmo_core.messages import UserError, log
from elmo_core.text.characters import BOS

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
DPI = 110
DARKEST = 16  # bits
BLUE = (0x00 / 255, 0x72 / 255, 0xB2 / 255)
WIDTH = 10  # of the picture, in inches
LEFT = 0.9  # inches up to the first word
LINE = 0.3  # of a line, in inches
LONGEST_WORD = 60  # columns
ABOUT = (
    f"Shaded: surprisal, the darkest words have {DARKEST} bits or more. "
    "Forward: given the words before, backward: given those after. "
    "Dashed: outside the vocabulary."
)


class _Text(NamedTuple):
    """A text of the picture. x, y: in inches, from the upper left. style: Matplotlib's."""

    x: float
    y: float
    text: str
    style: dict[str, Any]


def plot_surprisal(path: str | Path, sentences: Sequence[Surprisals]) -> None:
    """Draw sentences with their words shaded by surprisal, as `ELMoEmbedder.surprisal` returns it.

    The name of the picture ends in its format: .png, .svg, .pdf, or another that Matplotlib writes.
    """
    path = Path(path)
    sentences = [sentences] if isinstance(sentences, Surprisals) else list(sentences)
    if not all(isinstance(records, Surprisals) for records in sentences):
        raise TypeError(
            f"found {describe(sentences)}, expected what `ELMoEmbedder.surprisal` returned."
        )
    installed = import_optional("matplotlib.font_manager", "a picture").get_font_names()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    families = ["DejaVu Sans"] + [name for name in CHINESE_FONTS if name in installed]
    settings = {"font.family": families, "text.parse_math": False}
    with matplotlib.rc_context(settings), warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "Glyph")
        figure = Figure(figsize=(WIDTH, 1), dpi=DPI)
        formats = FigureCanvasAgg(figure).get_supported_filetypes()
        format_name = path.suffix.lower().removeprefix(".")
        if format_name not in formats:
            raise UserError(f"{path}: expected a name that ends in .{', .'.join(sorted(formats))}.")
        placed, height = _lay_out(figure, sentences)
        figure.set_size_inches(WIDTH, height)
        for x, y, text, style in placed:
            figure.text(x=x / WIDTH, y=1 - y / height, s=text, **style)
        with disk.atomic_write(path, "wb") as file:
            figure.savefig(file, format=format_name, dpi=DPI)
    if any("Glyph" in str(warning.message) for warning in caught):
        log.warning(
            f"{path}: characters that no font has are drawn as boxes. "
            f"Add a font, remove ~/.cache/matplotlib."
        )


def _lay_out(figure: Any, sentences: Sequence[Surprisals]) -> tuple[list[_Text], float]:
    """Place the words line by line. Returns texts, and the height in inches that they need."""
    measured = figure.text(0, 0, "")

    def width(text: str) -> float:
        measured.set_text(text)
        return measured.get_window_extent().width / DPI

    about = ABOUT.replace(". ", ".\n", 1)
    placed = [_Text(x=0.1, y=0.2, text=about, style={"fontsize": 8, "va": "top"})]
    gap = width("nn")
    y = 0.9
    for records in sentences:
        for direction, words in _directions(records):
            placed.append(_Text(0.1, y, direction, {"color": "gray", "va": "center"}))
            x = LEFT
            for token, bits, known in words:
                text = truncate(printable(token), LONGEST_WORD)
                if x > LEFT and x + width(text) > WIDTH - 0.1:
                    x = LEFT
                    y += LINE
                placed.append(_Text(x, y, text, {"bbox": _box(bits, known), "va": "center"}))
                x += width(text) + gap
            y += LINE
        y += LINE / 2
    measured.remove()
    return placed, y


def _box(bits: float, known: bool) -> dict[str, Any]:
    """Return the style of a word's box, which is darker the higher its surprisal is."""
    shade = 0.7 * min(1, bits / DARKEST)
    mixed = [1 - shade * (1 - part) for part in BLUE]  # PostScript has no transparency
    return {
        "boxstyle": "square,pad=0.15",
        "facecolor": mixed,
        "edgecolor": "none" if known else "black",
        "linewidth": 0.8,
        "linestyle": "--",
    }


def _directions(records: Surprisals) -> Iterator[tuple[str, list[tuple[str, float, bool]]]]:
    """Yield each direction with its words in the text's order.

    A word is the token, its bits, and whether it is in the vocabulary.
    """
    yield "forward", [(record.token, record.forward, record.in_vocabulary) for record in records]
    begin = records[-1]._replace(token=BOS)
    backward = [begin, *records[:-1]]
    yield "backward", [(record.token, record.backward, record.in_vocabulary) for record in backward]
