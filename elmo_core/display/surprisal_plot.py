"""Sentences with their words shaded by surprisal, in both directions, as a picture or a page."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from elmo_core.checks import describe
from elmo_core.display.figures import DPI, figure_file, font_families
from elmo_core.display.shading import article, shaded, shaded_page
from elmo_core.display.terminal import printable, truncate
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.network.surprisal import Surprisals
from elmo_core.text.tokens import BOS

DARKEST = 16  # bits
BLUE = "#0072b2"
WIDTH, LEFT, LINE = 10, 0.9, 0.3  # inches: of the picture, up to the first word, and of a line
MOST_PIXELS = 2**16 - 1  # of Matplotlib
LONGEST_WORD = 60  # columns
ABOUT = (
    f"Shaded: surprisal, the darkest words have {DARKEST} bits or more. Forward: given the words before, backward: given "
    "those after. Dashed: outside the vocabulary, with the probability of all such words together."
)


def check_plot(path: Path, font: Path | None) -> None:
    """Raise, before anything is computed, if a plot with this name and font cannot be drawn."""
    if path.suffix.lower() not in (".png", ".html", ".htm"):
        raise UserError(f"{path}: expected a name that ends in .png (a picture) or .html (a page).")
    if path.suffix.lower() == ".png":
        font_families(font)


def plot_surprisal(path: str | Path, sentences: Sequence[Surprisals], font: str | Path | None = None) -> None:
    """Shade the words of sentences by their surprisal in bits, as `ELMoEmbedder.surprisal` returns it, in both directions.

    path: of a picture if it ends in .png, of a page for browsers if in .html. font: a file, for the picture.
    """
    path, font = Path(path), None if font is None else Path(font)
    sentences = [sentences] if isinstance(sentences, Surprisals) else list(sentences)
    if not all(isinstance(records, Surprisals) for records in sentences):
        raise TypeError(f"found {describe(sentences)}, expected what `ELMoEmbedder.surprisal` returned.")
    check_plot(path, font)
    if path.suffix.lower() == ".png":
        _draw(path, sentences, font)
    else:
        _write_page(path, sentences)


def _directions(records: Surprisals) -> Iterator[tuple[str, list[tuple]]]:
    """Each direction, and its words in the text's order: token, bits, entropy, rank, whether it is in the vocabulary."""
    *words, end = records
    for k, direction, ordered in ((0, "forward", records), (1, "backward", [end._replace(token=BOS), *words])):
        yield direction, [(record.token, *record[1 + k : 7 : 2], record.in_vocabulary) for record in ordered]


def _write_page(path: Path, sentences: Sequence[Surprisals]) -> None:
    articles = []
    for number, records in enumerate(sentences, 1):
        lines = []
        for direction, words in _directions(records):
            hints = [f"{bits:.2f} bits, entropy {entropy:.2f}, rank {rank:,}" for _, bits, entropy, rank, _ in words]
            pairs = zip(words, hints, strict=True)
            spans = (shaded(token, min(1, bits / DARKEST), hint, not known) for (token, bits, *_, known), hint in pairs)
            lines.append(f'<span class="soft">{direction}</span> {" ".join(spans)}')
        forward, backward = records.total()
        articles.append(article(str(number), f"forward {forward:.1f}, backward {backward:.1f} bits", lines))
    with disk.atomic_write(path) as file:
        file.write(shaded_page("Surprisal, word by word", ABOUT, articles))


def _draw(path: Path, sentences: Sequence[Surprisals], font: Path | None) -> None:
    """Lay out the words, measuring them, then make the figure as high as they need."""
    with figure_file(path, (WIDTH, 1), font) as figure:
        measured = figure.text(0, 0, "")

        def width(text: str) -> float:
            measured.set_text(text)
            return measured.get_window_extent().width / DPI

        placed, gap, y = [(0.1, 0.2, ABOUT.replace(". ", ".\n", 1), {"fontsize": 8, "va": "top"})], width("nn"), 0.9
        for records in sentences:
            for direction, words in _directions(records):
                placed.append((0.1, y, direction, {"color": "gray"}))
                x = LEFT
                for token, bits, *_, known in words:
                    text = truncate(printable(token), LONGEST_WORD)
                    if x > LEFT and x + width(text) > WIDTH - 0.1:
                        x, y = LEFT, y + LINE
                    box = {"boxstyle": "square,pad=0.15", "facecolor": (BLUE, 0.7 * min(1, bits / DARKEST))}
                    box |= {"edgecolor": "none" if known else "black", "linewidth": 0.8, "linestyle": "--"}
                    placed.append((x, y, text, {"bbox": box}))
                    x += width(text) + gap
                y += LINE
            y += LINE / 2
        if y * DPI > MOST_PIXELS:
            raise UserError(f"{path}: the sentences are too long for a picture. Expected fewer, or a name in .html.")
        measured.remove()
        figure.set_size_inches(WIDTH, y)
        for x, top, text, style in placed:
            figure.text(x / WIDTH, 1 - top / y, text, **{"va": "center", **style})
