"""The verdict on a complete run: its perplexity, whether to train longer, unknown words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from elmo_core.messages import format_count
from elmo_core.text.corpus import Counts
from elmo_tools.pretraining.baseline import Baseline
from elmo_tools.pretraining.progress import Progress
from elmo_tools.pretraining.settings import PretrainingSettings

CLEAR_RISE = 0.01  # of the held-out perplexity over its lowest
CLEAR_FALL = 0.03  # in an epoch
MANY_UNKNOWN = 0.05  # share of the words


@dataclass(frozen=True)
class Trend:
    """How the held-out perplexity went at the end of a run.

    rise: of the last one over the lowest, as a share. since, fall: the step of the evaluation an
    epoch before, or of the first one in a shorter run, and how much the perplexity fell from it to
    the end, as a share; negative if it rose. None: there is one evaluation only.
    """

    rise: float
    since: int | None
    fall: float | None


def find_trend(evaluations: Sequence[tuple[int, float]], steps_per_epoch: float) -> Trend:
    """The trend at the end of a run.

    evaluations: steps and held-out perplexities, by step; at least one.
    """
    last_step, last = evaluations[-1]
    lowest = min(perplexity for _, perplexity in evaluations)
    rise = last / lowest - 1
    earlier = evaluations[:-1]
    if not earlier:
        return Trend(rise, since=None, fall=None)
    # evaluations by the clock are not exactly an epoch apart
    an_epoch_before = last_step - 0.9 * steps_per_epoch
    old = [pair for pair in earlier if pair[0] <= an_epoch_before]
    since, before = old[-1] if old else earlier[0]
    return Trend(rise, since=since, fall=1 - last / before)


def verdict(
    progress: Progress,
    evaluations: Sequence[tuple[int, float]],
    baseline: Baseline | None,
    settings: PretrainingSettings,
) -> tuple[str, dict[str, Any]]:
    """The lines of a verdict, and its values for log.jsonl.

    evaluations: steps and held-out perplexities, by step; none without held-out text.
    """
    lines = []
    values: dict[str, Any] = {"unknown_share": progress.counts.unknown_share}
    if baseline and math.isfinite(progress.best):
        lines.append(_beside(progress.best, baseline))
        values["perplexity"] = progress.best
        values["kneser_ney_perplexity"] = baseline.perplexity
        values["kneser_ney_tokens"] = baseline.sample
    if evaluations:
        steps_per_epoch = progress.counts.predictions / progress.tokens_per_step
        trend = find_trend(evaluations, steps_per_epoch)
        lines.append(_advice(trend, progress.best_step, settings))
        values["rise"] = trend.rise
        values["fall"] = trend.fall
    lines += _unknown_words(progress.counts)
    text = "verdict       " + "\n              ".join(lines) if lines else ""
    return text, values


def _beside(perplexity: float, baseline: Baseline) -> str:
    """The perplexity beside that of n-grams."""
    text = "the same text"
    if baseline.sample < baseline.tokens:
        text = f"{format_count(baseline.sample, 'tokens')} of the text"
    return (
        f"held-out perplexity {perplexity:.2f}; of Kneser-Ney 5-grams of {text}, "
        f"{baseline.perplexity:.2f}"
    )


def _advice(trend: Trend, best_step: int, settings: PretrainingSettings) -> str:
    """What the trend advises."""
    if trend.rise > CLEAR_RISE:
        stop = "" if settings.patience else ", or `patience=3`"
        return (
            f"it has risen by {trend.rise:.1%} since its best, at step {best_step:,}: more "
            f"`dropout`, fewer epochs{stop}"
        )
    if trend.since is None or trend.fall is None:
        return "it was measured only once: with a lower `eval_freq`, it tells whether to train on"
    fall = f"fell by {trend.fall:.1%} from step {trend.since:,} to the end"
    if trend.fall > CLEAR_FALL:
        longer = f"epochs={2 * settings.epochs}"
        if settings.max_steps:
            longer = f"max_steps={2 * settings.max_steps}"
        return f"it still {fall}: train longer, with `{longer}`"
    return f"it {fall}: what helps is more text"


def _unknown_words(counts: Counts) -> list[str]:
    """What to do about many unknown words."""
    if counts.unknown_share <= MANY_UNKNOWN:
        return []
    return [
        f"{counts.unknown_share:.1%} of the words are outside the vocabulary: make a larger one, "
        "with a lower `min_count`"
    ]
