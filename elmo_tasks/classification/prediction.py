"""Classifying lines, and formatting the predictions."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from elmo_tasks.classification.classifier import TEXTS_PER_BATCH, Classifier
from elmo_tasks.classification.texts import iter_texts

OUTPUT_FORMATS = ("tsv", "json")


def classify_lines(
    classifier: Classifier, lines: Iterable[str], source: str | Path, form: str, window: int = TEXTS_PER_BATCH
) -> Iterator[str]:
    """Yield for each text its class, the probability of this class and the text, separated by tabs; or a JSON object.

    A blank line stays blank. lines, source: see `iter_texts`. window: how many lines to read ahead.
    """
    texts = iter_texts(lines, source, classifier.classes, classifier.settings.pairs)
    while group := list(islice(texts, window)):
        rows = iter(classifier.probabilities([text if len(text) > 1 else text[0] for text in group if text]))
        for text in group:
            yield _formatted(text, next(rows), classifier.classes, form) if text else ""


def _formatted(text: tuple[str, ...], row: np.ndarray, classes: list[str], form: str) -> str:
    label = classes[row.argmax()]
    if form == "tsv":
        return "\t".join([label, f"{row.max():.4f}", *text])
    values = dict(zip(("text", "text2"), text, strict=False)) | {"label": label}
    values["probabilities"] = dict(zip(classes, row.astype(float).round(6).tolist(), strict=True))
    return json.dumps(values, ensure_ascii=False)
