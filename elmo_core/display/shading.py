"""A page for browsers of texts whose words are shaded: one HTML file, without a server or downloads."""

import html
from collections.abc import Iterable
from pathlib import Path

from elmo_core.display.terminal import printable

TEMPLATE = Path(__file__).with_name("shaded.html")


def shaded_page(title: str, about: str, articles: Iterable[str]) -> str:
    """The page. articles: HTML, see `article`."""
    text = TEMPLATE.read_text(encoding="utf-8").replace("{{title}}", title).replace("{{about}}", about)
    return text.replace("{{texts}}", "\n".join(articles))


def article(heading: str, number: str, paragraphs: Iterable[str]) -> str:
    """A text as HTML. paragraphs: HTML, of words from `shaded`."""
    lines = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f'<article><b>{html.escape(heading)}</b><span class="number">{html.escape(number)}</span>{lines}</article>'


def shaded(token: str, share: float, hint: str, unknown: bool = False) -> str:
    """A word as HTML, shaded by its share from -1 to 1. hint: shown under the pointer. unknown: underline it."""
    kind = ("for" if share >= 0 else "against") + " unknown" * unknown
    style = f'class="{kind}" style="--share: {0.7 * abs(share):.2f}" title="{html.escape(hint)}"'
    return f"<span {style}>{html.escape(printable(token))}</span>"
