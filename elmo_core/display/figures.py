"""Pictures of text: Matplotlib figures as PNG, with fonts for Chinese."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmo_core.checks import import_optional
from elmo_core.files import disk
from elmo_core.messages import log

DPI = 110
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


def font_families() -> list[str]:
    """List font families in Matplotlib's search order: its own, then installed Chinese ones."""
    installed = import_optional("matplotlib.font_manager", "a picture").get_font_names()
    return ["DejaVu Sans", *(name for name in CHINESE_FONTS if name in installed)]


@contextmanager
def figure_file(path: Path, size: tuple[float, float]) -> Iterator[Any]:
    """Yield a Matplotlib figure of this size in inches, written as PNG at the end of the block."""
    families = font_families()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings = {"font.family": families, "text.parse_math": False}
    with matplotlib.rc_context(settings), warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "Glyph")
        figure = Figure(figsize=size, dpi=DPI)
        FigureCanvasAgg(figure)
        yield figure
        with disk.atomic_write(path, "wb") as file:
            figure.savefig(file, format="png", dpi=DPI)
    if any("Glyph" in str(warning.message) for warning in caught):
        log.warning(
            f"{path}: characters that no font has are drawn as boxes. Install a font (Debian, Ubuntu: apt-get install "
            "fonts-noto-cjk; then remove ~/.cache/matplotlib)."
        )
