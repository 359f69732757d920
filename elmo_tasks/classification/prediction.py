"""Classifying lines, and formatting the predictions; a page that shades the words by their weights."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from elmo_core.display.shading import article, shaded, shaded_page
from elmo_core.text.tokenise import CHINESE
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.texts import iter_texts

OUTPUT_FORMATS = ("tsv", "json")


def classify_lines(
    classifier: Classifier,
    groups: Iterable[Iterable[str]],
    source: str | Path,
    format_name: str,
    columns: Sequence[str] | None = None,
    classified: list[tuple[str, ...]] | None = None,
) -> Iterator[list[str]]:
    """Yield, for each group of lines, a line per text: its class, the probability of this class and the text; or JSON.

    A blank line stays blank. groups, source, columns: see `iter_texts`. classified: a list to which the texts are added.
    """
    pairs, usual = classifier.settings.pairs, classifier.columns
    for texts in iter_texts(groups, source, classifier.classes, pairs, columns, usual):
        if classified is not None:
            classified += filter(None, texts)
        rows = iter(classifier.probabilities([text if len(text) > 1 else text[0] for text in texts if text]))
        yield [_formatted(text, next(rows), classifier.classes, format_name) if text else "" for text in texts]


def _formatted(text: tuple[str, ...], row: np.ndarray, classes: Sequence[str], format_name: str) -> str:
    label = classes[row.argmax()]
    if format_name == "tsv":
        return "\t".join([label, f"{row.max():.4f}", *text])
    values = dict(zip(("text", "text2"), text, strict=False)) | {"label": label}
    values["probabilities"] = dict(zip(classes, row.astype(float).round(6).tolist(), strict=True))
    return json.dumps(values, ensure_ascii=False)


def explanation_page(classifier: Classifier, texts: Iterable[tuple[str, ...]]) -> str:
    """An HTML page of texts, or pairs, whose words are shaded by the weights of `Classifier.explain`."""
    articles, is_attention = [], classifier.settings.head == "attention"
    space = "" if classifier.settings.lang in CHINESE else " "
    for text in texts:
        given = text if classifier.settings.pairs else text[0]
        row, parts = classifier.probabilities([given])[0], classifier.explain(given)
        parts = parts if classifier.settings.pairs else (parts,)
        largest = max((abs(weight) for part in parts for _, weight in part), default=0.0) or 1.0
        lines = [space.join(shaded(token, w / largest, f"{w:+.4f}") for token, w in part) for part in parts]
        articles.append(article(classifier.classes[row.argmax()], f"{row.max():.2%}", lines))
    about = (
        "Shaded: the weight that the classifier gives a word."
        if is_attention
        else "Blue words make the class more likely, orange ones less: the change of its probability without them."
    )
    return shaded_page("Classes of texts, word by word", about, articles)
