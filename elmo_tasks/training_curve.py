"""The curve of a training: a picture of its epochs in the model's folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo_core.display.curve import CURVE, Axis, CurveFile, Panel, Series, draw
from elmo_tasks.score import Score

CHINESE_NAMES = {  # in a picture of a training on Chinese text
    "training loss": "训练损失",
    "learning rate": "学习率",
    "dev accuracy": "验证集准确率",
    "dev score": "验证集分数",
    "epoch": "轮",
    "best epoch": "最好的一轮",
}
CHINESE_KINDS = {"dev": "验证集", "phase": "阶段"}  # of other names, such as "dev F1" and "phase 2"


class TrainingCurve:
    """The epochs of a training, of all its phases, and their picture.

    folder: of the model; None: no picture.
    """

    def __init__(self, folder: Path | None, is_chinese: bool):
        self.file = CurveFile(folder / CURVE) if folder else None
        self.is_chinese = is_chinese
        self.epochs: list[dict[str, Any]] = []

    def add(
        self, phase: int, loss: float, learning_rate: float, score: Score, is_best: bool
    ) -> None:
        """Add an epoch. score: on the dev set. is_best: it is the best so far."""
        figures = {f"dev {name}": value for name, value in score.main_figures.items()}
        values = {"training loss": loss, **figures, "learning rate": learning_rate}
        self.epochs.append({"phase": phase, "is_best": is_best, "values": values})

    def draw(self) -> None:
        """Draw all epochs in the model's folder; if there are none, delete an older picture."""
        if self.file and self.epochs:
            self.file.write(lambda: draw_training(self.epochs, self.is_chinese))
        elif self.file:
            self.file.remove()


def draw_training(epochs: Sequence[dict[str, Any]], is_chinese: bool) -> str:
    """Draw the values of epochs, a panel for each, and a mark at the best epoch."""
    phases = sorted({epoch["phase"] for epoch in epochs})
    panels = []
    for name in epochs[-1]["values"]:
        series = [Series("", _points(epochs, name, phases))]
        if len(phases) == 2:
            series = []
            for phase in phases:
                label = _label(f"phase {phase}", is_chinese)
                series.append(Series(label, _points(epochs, name, [phase])))
        panels.append(Panel(_label(name, is_chinese), series))
    best = [number for number, epoch in enumerate(epochs, 1) if epoch["is_best"]]
    axis = Axis(
        _label("epoch", is_chinese),
        start=1,
        marks=[(number, f"{number}") for number in best[-1:]],
        marks_title=_label("best epoch", is_chinese),
    )
    return draw(panels, axis)


def _points(
    epochs: Sequence[dict[str, Any]], name: str, phases: Sequence[int]
) -> list[tuple[float, float]]:
    """The numbers and the values of the epochs of phases."""
    points = []
    for number, epoch in enumerate(epochs, 1):
        if epoch["phase"] in phases and name in epoch["values"]:
            points.append((number, epoch["values"][name]))
    return points


def _label(name: str, is_chinese: bool) -> str:
    """The name of a panel, a line or an axis, in the language of the text."""
    if not is_chinese:
        return name
    if name in CHINESE_NAMES:
        return CHINESE_NAMES[name]
    kind, _, rest = name.partition(" ")
    return f"{CHINESE_KINDS[kind]} {rest}"
