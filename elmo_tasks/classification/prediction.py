"""Classifying lines, and formatting the predictions."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.texts import iter_texts

OUTPUT_FORMATS = ("tsv", "json")


def classify_lines(
    classifier: Classifier,
    groups: Iterable[Iterable[str]],
    source: str | Path,
    format_name: str,
    columns: Sequence[str] | None = None,
) -> Iterator[list[str]]:
    """Yield, for each group of lines, a line per text: its class, the probability of this class and the text; or JSON.

    A blank line stays blank. groups, source, columns: see `iter_texts`.
    """
    pairs, usual = classifier.settings.pairs, classifier.columns
    for texts in iter_texts(groups, source, classifier.classes, pairs, columns, usual):
        rows = iter(classifier.probabilities([text if len(text) > 1 else text[0] for text in texts if text]))
        yield [_formatted(text, next(rows), classifier.classes, format_name) if text else "" for text in texts]


def _formatted(text: tuple[str, ...], row: np.ndarray, classes: Sequence[str], format_name: str) -> str:
    label = classes[row.argmax()]
    if format_name == "tsv":
        return "\t".join([label, f"{row.max():.4f}", *text])
    values = dict(zip(("text", "text2"), text, strict=False)) | {"label": label}
    values["probabilities"] = dict(zip(classes, row.astype(float).round(6).tolist(), strict=True))
    return json.dumps(values, ensure_ascii=False)
