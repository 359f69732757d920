"""Curves of a training as an SVG picture, readable on light and dark backgrounds."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from elmo_core.display.surprisal_plot import CHINESE_FONTS
from elmo_core.files import disk
from elmo_core.messages import UserError, log

CURVE = "curve.svg"
MARK = "<!-- drawn by ELMo in PaddlePaddle -->"  # of files that may be replaced
WIDTH = 760  # of the picture, as all lengths in pixels
LEFT = 70  # up to the panels
RIGHT = 620  # end of the panels; the last values follow
TOP = 40  # above the first panel's title, with the marks
BOTTOM = 48  # below the last panel
TITLE = 26  # of a panel
HEIGHT = 150  # of a panel
GAP = 20  # between panels
LINE = 17  # height of a text
PADDING = 0.06  # of a vertical axis beyond its values, at either end
LEAST_DECADES = 0.2  # of a logarithmic axis
MOST_POINTS = 400  # of a line; of more, means are drawn
MOST_DOTS = 30  # points that are marked
MOST_MARKS = 12  # vertical lines
TICKS = 5  # of an axis, about
FONTS = ["-apple-system", "Segoe UI", "Noto Sans", "DejaVu Sans", *CHINESE_FONTS]
STYLE = """
text { font: 13px FONTS, sans-serif; fill: #24292f }
.title { font-weight: 600 }
.tick { fill: #57606a; font-size: 12px }
.paper { fill: #ffffff }
.grid { stroke: #d8dee4; stroke-width: 1 }
.mark { stroke: #afb8c1; stroke-width: 1; stroke-dasharray: 2 3 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
.line0 { stroke: #0072b2 } .fill0 { fill: #0072b2 }
.line1 { stroke: #c2510a } .fill1 { fill: #c2510a }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.tick { fill: #9ea7b3 }
.paper { fill: #0d1117 }
.grid { stroke: #272d35 }
.mark { stroke: #57606a }
.line0 { stroke: #58b0e8 } .fill0 { fill: #58b0e8 }
.line1 { stroke: #f0913e } .fill1 { fill: #f0913e }
}
"""


class Series(NamedTuple):
    """A line, and its label, which is written after its end with the last value."""

    label: str
    points: Sequence[tuple[float, float]]


class Panel(NamedTuple):
    """A picture of one or two lines that share a vertical axis."""

    title: str
    series: Sequence[Series]
    is_logarithmic: bool = False


class Axis(NamedTuple):
    """The horizontal axis of whole numbers, which all panels share.

    start: where it begins. marks: places of vertical lines, and their texts, named `marks_title`.
    """

    title: str
    start: int
    marks: Sequence[tuple[float, str]] = ()
    marks_title: str = ""


class CurveFile:
    """The file of a picture that is drawn again and again.

    What cannot be written ends no training: the first time, a warning says so. A file that was not
    drawn by this class stays as it is.
    """

    def __init__(self, path: Path):
        self.path = path
        self.has_warned = False

    def write(self, picture: Callable[[], str]) -> None:
        """Replace the picture by what a function draws, which may read files."""
        try:
            if self.is_of_others():
                raise UserError(f"{self.path} was not drawn by this program. Rename it.")
            drawn = picture()
            with disk.atomic_write(self.path) as file:
                file.write(drawn)
        except (OSError, UserError) as error:
            if not self.has_warned:
                log.warning(f"Training continues without its curve: {error}")
            self.has_warned = True

    def remove(self) -> None:
        """Delete the picture, if there is one."""
        with suppress(OSError):
            if not self.is_of_others():
                self.path.unlink()

    def is_of_others(self) -> bool:
        """Whether there is a file that was not drawn by this class."""
        return self.path.is_file() and MARK.encode() not in self.path.read_bytes()


def draw(panels: Sequence[Panel], axis: Axis) -> str:
    """Draw panels one below another as SVG. Panels without points are left out."""
    panels = [_finite(panel) for panel in panels]
    panels = [panel for panel in panels if panel.series]
    height = TOP + len(panels) * (TITLE + HEIGHT) + (len(panels) - 1) * GAP + BOTTOM
    fonts = ", ".join(f"'{font}'" if " " in font else font for font in FONTS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">',
        MARK,
        f"<title>{escape(', '.join(panel.title for panel in panels))}</title>",
        f"<style>{STYLE.replace('FONTS', fonts)}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
    ]
    places = [float(axis.start)]
    for panel in panels:
        for series in panel.series:
            places.extend(x for x, _ in series.points)
    across = _Scale(places, ends=(LEFT, RIGHT), padding=0)
    bottom = height - BOTTOM
    parts += _marks(axis, across, bottom)
    top = TOP
    for panel in panels:
        parts += _panel(panel, across, top)
        top += TITLE + HEIGHT + GAP
    for x in across.ticks(is_whole=True):
        parts.append(_text(across.place(x), bottom + 18, _number(x), "tick", "middle"))
    parts.append(_text((LEFT + RIGHT) / 2, bottom + 38, axis.title, "tick", "middle"))
    return "\n".join([*parts, "</svg>", ""])


def _finite(panel: Panel) -> Panel:
    """The panel without points that cannot be drawn, and without lines that have no others."""
    kept = []
    for label, points in panel.series:
        drawn = [(x, y) for x, y in points if _can_be_drawn(y, panel.is_logarithmic)]
        if drawn:
            kept.append(Series(label, drawn))
    return panel._replace(series=kept)


def _can_be_drawn(value: float, is_logarithmic: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not is_logarithmic)


class _Scale:
    """Places numbers between two ends of the picture.

    padding: room before the lowest and after the highest, as a share of their distance.
    """

    def __init__(
        self,
        values: Sequence[float],
        ends: tuple[float, float],
        padding: float,
        is_logarithmic: bool = False,
    ):
        self.ends = ends
        self.is_logarithmic = is_logarithmic
        low = self._position(min(values))
        high = self._position(max(values))
        room = (high - low) * padding
        if is_logarithmic:
            room = max(room, (LEAST_DECADES - (high - low)) / 2)
        elif math.isclose(low, high, rel_tol=1e-9):  # one value
            room = abs(low) / 10 or 1.0
        self.low = low - room
        self.high = high + room

    def _position(self, value: float) -> float:
        return math.log10(value) if self.is_logarithmic else value

    def place(self, value: float) -> float:
        """Return the place of a number in the picture."""
        share = (self._position(value) - self.low) / (self.high - self.low)
        start, end = self.ends
        return start + share * (end - start)

    def ticks(self, is_whole: bool = False) -> list[float]:
        """Round numbers between the ends. is_whole: no fractions."""
        if not self.is_logarithmic:
            return _round_numbers(self.low, self.high, is_whole)
        numbers = []
        for power in range(math.floor(self.low), math.ceil(self.high) + 1):
            numbers += [factor * 10.0**power for factor in (1, 2, 5)]
        inside = [number for number in numbers if self.low <= math.log10(number) <= self.high]
        if len(inside) < 3:
            return _round_numbers(10**self.low, 10**self.high)
        if len(inside) > 2 * TICKS:
            return [number for number in inside if math.log10(number).is_integer()]
        return inside


def _round_numbers(low: float, high: float, is_whole: bool = False) -> list[float]:
    """About TICKS multiples of 1, 2 or 5 times a power of ten."""
    least = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(least))
    distance = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.99 * least)
    if is_whole:
        distance = max(1.0, distance)
    first = math.ceil(low / distance - 1e-9)
    last = math.floor(high / distance + 1e-9)
    return [k * distance for k in range(first, last + 1)]


def _marks(axis: Axis, across: _Scale, bottom: float) -> list[str]:
    """Draw the vertical lines of the axis, with their texts above the panels."""
    distance = math.ceil(len(axis.marks) / MOST_MARKS)
    parts = []
    for k, (x, text) in enumerate(axis.marks, 1):
        if k % distance == 0:
            place = across.place(x)
            parts.append(_rule("mark", place, TOP - 10, place, bottom))
            parts.append(_text(place, TOP - 16, text, "tick", "middle"))
    if parts:
        parts.append(_text(RIGHT + 14, TOP - 16, axis.marks_title, "tick"))
    return parts


def _panel(panel: Panel, across: _Scale, top: float) -> list[str]:
    """Draw a panel: title, grid, lines, and their last values."""
    upper = top + TITLE
    values = []
    for series in panel.series:
        values.extend(y for _, y in series.points)
    down = _Scale(
        values,
        ends=(upper + HEIGHT, upper),
        padding=PADDING,
        is_logarithmic=panel.is_logarithmic,
    )
    parts = [_text(LEFT, upper - 9, panel.title, "title")]
    for tick in down.ticks():
        place = down.place(tick)
        parts.append(_rule("grid", LEFT, place, RIGHT, place))
        parts.append(_text(LEFT - 8, place + 4, _number(tick), "tick", "end"))
    ends = []
    for k, series in enumerate(panel.series):
        points = [(across.place(x), down.place(y)) for x, y in _thinned(series.points)]
        parts += _line(points, k)
        ends.append(points[-1][1])
    for k, place in enumerate(_apart(ends)):
        series = panel.series[k]
        text = f"{series.label} {_number(series.points[-1][1])}".strip()
        parts.append(_text(RIGHT + 14, place + 4, text, f"fill{k}"))
    return parts


def _line(points: Sequence[tuple[float, float]], k: int) -> list[str]:
    """Draw line number k of a panel. Its last point is marked, or all if they are few."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [f'<polyline class="line line{k}" points="{path}"/>']
    marked = points if len(points) <= MOST_DOTS else points[-1:]
    for x, y in marked:
        parts.append(f'<circle class="fill{k}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
    return parts


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most MOST_POINTS points: means of neighbours if there are more, then the last point."""
    size = math.ceil(len(points) / MOST_POINTS)
    if size <= 1:
        return list(points)
    means = []
    for start in range(0, len(points), size):
        part = points[start : start + size]
        x = sum(point[0] for point in part) / len(part)
        y = sum(point[1] for point in part) / len(part)
        means.append((x, y))
    return [*means[:-1], points[-1]]


def _apart(places: Sequence[float]) -> list[float]:
    """Heights of one or two texts, moved apart if one would cover the other."""
    if len(places) < 2 or abs(places[0] - places[1]) >= LINE:
        return list(places)
    middle = sum(places) / 2
    upper = middle - LINE / 2
    lower = middle + LINE / 2
    return [upper, lower] if places[0] <= places[1] else [lower, upper]


def _number(value: float) -> str:
    """Format a number: 12,345, 123.4, 0.0002."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'


def _rule(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
