"""Pictures of text: Matplotlib figures as PNG, with fonts for Chinese."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmo_core.checks import import_optional
from elmo_core.files import disk
from elmo_core.messages import UserError, log

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


def font_families(font: Path | None = None) -> list[str]:
    """Font families in Matplotlib's search order: its own, then `font` or installed Chinese ones."""
    font_manager = import_optional("matplotlib.font_manager", "a picture")
    if font is None:
        installed = font_manager.get_font_names()
        return ["DejaVu Sans", *(name for name in CHINESE_FONTS if name in installed)]
    disk.check_input(font, "a font")
    try:
        font_manager.fontManager.addfont(str(font))
        return ["DejaVu Sans", font_manager.FontProperties(fname=str(font)).get_name()]
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(f"{font} cannot be read as a font ({error}). Expected .ttf, .otf or .ttc.") from error


@contextmanager
def figure_file(path: Path, size: tuple[float, float], font: Path | None = None) -> Iterator[Any]:
    """A Matplotlib figure of this size in inches, written as PNG at the end of the block."""
    families = font_families(font)
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
            "fonts-noto-cjk; then remove ~/.cache/matplotlib), or give one as `font`."
        )
