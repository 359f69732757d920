"""The curve of a pretraining run: what its log has, as a picture."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmo_core.display.curve import Axis, Panel, Series, draw

WORDS = {  # in the picture, by whether the text is Chinese
    False: {
        "loss": "training loss",
        "perplexity": "held-out perplexity",
        "learning_rate": "learning rate",
        "forward": "forward",
        "backward": "backward",
        "step": "step",
        "epoch": "epoch",
    },
    True: {
        "loss": "训练损失",
        "perplexity": "验证集困惑度",
        "learning_rate": "学习率",
        "forward": "前向",
        "backward": "后向",
        "step": "步数",
        "epoch": "轮",
    },
}


def draw_run(lines: Sequence[Mapping[str, Any]], is_chinese: bool) -> str:
    """Draw the lines of log.jsonl: loss, held-out perplexities and learning rate."""
    words = WORDS[is_chinese]
    loss = Series("", _points(lines, "training", "loss"))
    forward = Series(words["forward"], _points(lines, "evaluation", "forward_perplexity"))
    backward = Series(words["backward"], _points(lines, "evaluation", "backward_perplexity"))
    rate = Series("", _points(lines, "training", "learning_rate"))
    panels = [
        Panel(words["loss"], [loss]),
        Panel(words["perplexity"], [forward, backward], is_logarithmic=True),
        Panel(words["learning_rate"], [rate]),
    ]
    marks = _epochs(_points(lines, "training", "epoch"))
    axis = Axis(words["step"], start=0, marks=marks, marks_title=words["epoch"])
    return draw(panels, axis)


def _points(lines: Sequence[Mapping[str, Any]], event: str, name: str) -> list[tuple[float, float]]:
    """The steps and values of the lines of an event. A repeated step has its last value."""
    values = {}
    for line in lines:
        if line["event"] == event and isinstance(line.get(name), int | float):
            values[line["step"]] = line[name]
    return sorted(values.items())


def _epochs(points: Sequence[tuple[float, float]]) -> list[tuple[float, str]]:
    """The steps at which epochs have ended, between those whose epochs are logged."""
    steps = [0.0] + [step for step, _ in points]
    epochs = [0.0] + [epoch for _, epoch in points]
    ended = range(1, int(epochs[-1]) + 1)
    return [(float(np.interp(epoch, epochs, steps)), f"{epoch}") for epoch in ended]
