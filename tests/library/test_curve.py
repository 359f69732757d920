"""The picture of a training: what it shows, few points and many, and a file that fails."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from elmo_core.display.curve import MOST_POINTS, Axis, CurveFile, Panel, Series, draw

SVG = "{http://www.w3.org/2000/svg}"
AXIS = Axis("step", start=0)


def elements(picture: str, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(picture).iter(SVG + name))


def texts(picture: str) -> list[str]:
    return [element.text for element in elements(picture, "text")]


def line(picture: str, k: int = 0) -> list[tuple[float, float]]:
    """The points of a line, in pixels."""
    points = elements(picture, "polyline")[k].get("points").split()
    return [tuple(float(number) for number in point.split(",")) for point in points]


def test_the_picture_has_titles_the_last_values_and_axes():
    falling = Series("forward", [(10, 400.0), (20, 200.0), (30, 100.0)])
    rising = Series("a < b", [(10, 1.0), (30, 12345.6)])
    marks = [(10.0, "1"), (30.0, "2")]
    axis = Axis("step", start=0, marks=marks, marks_title="epoch")
    picture = draw([Panel("perplexity", [falling], True), Panel("<other>", [rising])], axis)
    assert {"perplexity", "forward 100", "<other>", "a < b 12,346", "step"} <= set(texts(picture))
    assert {"1", "2", "epoch", "0", "10", "20", "30", "200"} <= set(texts(picture))
    xs, ys = zip(*line(picture), strict=True)
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert ys[1] - ys[0] == pytest.approx(ys[2] - ys[1], abs=0.2), "logarithmic"
    assert ys[0] < ys[2], "high values are above"
    rules = [rule for rule in elements(picture, "line") if rule.get("class") == "mark"]
    assert [float(rule.get("x1")) for rule in rules] == [xs[0], xs[2]]
    assert "@media (prefers-color-scheme: dark)" in picture


@pytest.mark.parametrize("value", [0.0, 0.2, -3.0, 1e-9, 5e6])
@pytest.mark.parametrize("is_logarithmic", [False, True])
def test_one_point_is_in_the_picture_with_its_value(value, is_logarithmic):
    picture = draw([Panel("one", [Series("", [(10, value)])], is_logarithmic)], AXIS)
    if is_logarithmic and value <= 0:
        assert not elements(picture, "circle")
        return
    (circle,) = elements(picture, "circle")
    top, bottom = 66, 66 + 150
    assert top < float(circle.get("cy")) < bottom and "10" in texts(picture)


def test_what_is_not_finite_is_left_out():
    points = [(1, float("nan")), (2, 4.0), (3, float("inf"))]
    panels = [Panel("a", [Series("", points), Series("none", [])]), Panel("no points", [])]
    picture = draw(panels, AXIS)
    assert len(line(picture)) == 1 and "4" in texts(picture)
    assert not {"none", "no points"} & set(texts(picture))


def test_a_long_training_has_a_small_picture_that_ends_with_the_last_point():
    points = [(step, float(step % 2)) for step in range(100_001)]
    picture = draw([Panel("loss", [Series("", points)])], AXIS)
    drawn = line(picture)
    assert MOST_POINTS / 2 < len(drawn) <= MOST_POINTS + 1 and len(picture) < 20_000
    assert drawn[-1][0] == 620
    height = {y for _, y in drawn[:-1]}
    assert max(height) - min(height) < 2, "means of neighbours"


@pytest.mark.parametrize(("first", "second"), [(5.0, 5.01), (5.01, 5.0), (5.0, 5.0), (5.0, 9.0)])
def test_labels_do_not_cover_each_other_and_are_in_the_order_of_the_lines(first, second):
    series = [Series("a", [(1, 1.0), (2, first)]), Series("b", [(1, 1.0), (2, second)])]
    picture = draw([Panel("both", series)], AXIS)
    heights = {}
    for element in elements(picture, "text"):
        if re.match("[ab] ", element.text):
            heights[element.text[0]] = float(element.get("y"))
    assert abs(heights["a"] - heights["b"]) >= 16.9
    if first != second:
        assert (heights["a"] < heights["b"]) == (first > second)


def test_many_marks_are_thinned():
    marks = [(float(k), str(k)) for k in range(1, 101)]
    picture = draw([Panel("a", [Series("", [(100, 1.0)])])], AXIS._replace(marks=marks))
    assert sum(rule.get("class") == "mark" for rule in elements(picture, "line")) <= 12


def test_a_file_that_cannot_be_written_is_one_warning(tmp_path, messages):
    file = CurveFile(tmp_path / "no" / "curve.svg")
    (tmp_path / "no").write_text("a file")
    for _ in range(3):
        file.write(lambda: "picture")
    assert messages().count("Training continues") == 1


def test_the_picture_is_replaced_but_not_the_file_of_a_user(tmp_path, messages):
    path = tmp_path / "curve.svg"
    for value in (1.0, 2.0):
        CurveFile(path).write(
            lambda value=value: draw([Panel("a", [Series("", [(1, value)])])], AXIS)
        )
        assert f">{value:g}</text>" in path.read_text(encoding="utf-8")
    assert not messages()
    path.write_text("<svg>of a user</svg>", encoding="utf-8")
    CurveFile(path).write(lambda: draw([], AXIS))
    assert path.read_text(encoding="utf-8") == "<svg>of a user</svg>"
    assert "curve.svg was not drawn by this program. Rename it" in messages()
