"""How far a run has come, what a checkpoint keeps of that, and going on from it, bit for bit."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dataset import TrainStream
from elmo import BiLMState
from elmo_core.config import differences
from elmo_core.ranks import Ranks
from elmo_core.runtime import UserError, log, paddle


@dataclass
class Progress:
    """How far a run has come. What is random in a step follows from the seed, the step and the rank."""

    total: int  # steps of the whole run
    steps_per_epoch: int
    position: dict  # of this rank in the text: `TrainStream.position`
    state: BiLMState  # in which the last batch of this rank has left the LSTMs
    step: int = 0
    evaluated: int = 0  # step of the last evaluation
    best: float = math.inf  # the lowest held-out perplexity
    without_gain: int = 0  # evaluations since
    losses: np.ndarray = field(default_factory=lambda: np.zeros(3))  # of this rank since the last log line: see Meter

    def evaluation_is_due(self, eval_freq: int | None) -> bool:
        """eval_freq: steps between evaluations; None if there are none."""
        due = eval_freq and (self.step % eval_freq == 0 or self.step >= self.total)
        return bool(due) and self.evaluated != self.step

    def is_over(self, patience: int | None) -> bool:
        """Whether the last step is done, or so many evaluations were without gain."""
        return self.step >= self.total or bool(patience and self.without_gain >= patience)

    def is_finished(self, patience: int | None, eval_freq: int | None) -> bool:
        return self.is_over(patience) and not self.evaluation_is_due(eval_freq)

    def add_evaluation(self, perplexity: float) -> bool:
        """Note an evaluation at this step. Returns whether it is the best so far."""
        self.evaluated = self.step
        gain = perplexity < self.best
        self.best, self.without_gain = (perplexity, 0) if gain else (self.best, self.without_gain + 1)
        return gain

    def to_dict(self, settings: Mapping, ranks: Ranks) -> dict:
        """What a checkpoint's .pdstate holds, on every rank."""
        state = [[[part.numpy() for part in layer] for layer in direction] for direction in self.state]
        return {
            "step": self.step,
            "total": self.total,
            "evaluated": self.evaluated,
            "best": self.best,
            "without_gain": self.without_gain,
            "settings": settings,
            "ranks": ranks.gather({"position": self.position, "state": state, "losses": self.losses}),
        }


def changed_settings(source: Path, saved: Mapping, settings: Mapping, allow_changes: bool) -> set[str]:
    """The names of settings that differ from those of the checkpoint `source`: an error unless that is allowed."""
    changes = differences(saved, settings)
    listed = "; ".join(changes.values())
    if changes and not allow_changes:
        raise UserError(
            f"{source} was made with other settings: {listed}. Give the same, or --allow_changes to go on with what is "
            "well defined."
        )
    if changes:
        log.warning(f"Going on although {listed}.")
    return set(changes)


def resume(progress: Progress, saved: Mapping, changes: set[str], stream: TrainStream, ranks: Ranks) -> None:
    """Set the progress and the stream to where the checkpoint left them, as far as the changed settings let them be."""
    same_ranks = len(saved["ranks"]) == ranks.size
    mine = saved["ranks"][ranks.rank if same_ranks else 0]
    progress.step = saved["step"]
    if "dev_data" not in changes:
        progress.evaluated, progress.best = saved["evaluated"], saved["best"]
        progress.without_gain = saved["without_gain"]
    if same_ranks:
        progress.losses[:] = mine["losses"]
    stream.seek(mine["position"], strict=False)
    progress.position = stream.position
    if np.array_equal(progress.position["rows"], mine["position"]["rows"]):  # the sentences that the states belong to
        progress.state = [
            [tuple(paddle.to_tensor(part) for part in layer) for layer in direction] for direction in mine["state"]
        ]
