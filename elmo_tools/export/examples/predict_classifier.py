"""The classes of lines of text, as run_finetune.py predicts them.

A line of a classifier of pairs is two texts, separated by a tab.
"""

import json
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from model_io import HERE, MODEL, SETTINGS, Run, arrays, tokenise

from elmo_core.messages import UserError
from elmo_tasks.classification.ngrams import NGrams

# Of each text in an answer.
NAMES = ("text", "text2")
# The numbers of a text's n-grams, and their tf-idf.
Counted = tuple[np.ndarray, np.ndarray]


def load_ngrams() -> NGrams | None:
    """Load the n-grams, if the model reads them."""
    if "ngrams" not in MODEL["inputs"]:
        return None
    path = HERE / MODEL["inputs"]["ngrams"]["table"]
    table = json.loads(path.read_text(encoding="utf-8"))
    return NGrams(table["ngrams"], table["texts"], SETTINGS["lang"])


NGRAMS = load_ngrams()


def predict(run: Run, lines: list[str]) -> Iterator[tuple[dict, str]]:
    """Yield the class of each line, or the labels, and the probabilities of all.

    The text of an answer is the class, its probability and the line; of several labels, each has
    its probability.
    """
    texts = [split(line) for line in lines]
    if SETTINGS["pairs"]:
        # As the model expects them: all first texts, then all second ones.
        stacked = [first for first, _ in texts] + [second for _, second in texts]
    else:
        stacked = [text for (text,) in texts]
    (output,) = run(inputs([tokenise(text) for text in stacked]))
    labels = SETTINGS["labels"]
    names = [str(label) for label in labels]
    for text, row in zip(texts, output, strict=True):
        probabilities = row.astype(float).round(6).tolist()
        values = dict(zip(NAMES, text, strict=False))
        if SETTINGS["multi_label"]:
            predicted = (row >= SETTINGS["threshold"]).nonzero()[0]
            values["labels"] = [labels[k] for k in predicted]
        else:
            predicted = [row.argmax()]
            values["label"] = labels[predicted[0]]
        values["probabilities"] = dict(zip(names, probabilities, strict=True))
        separator = SETTINGS.get("label_separator", "")
        columns = [
            separator.join(names[k] for k in predicted),
            separator.join(f"{row[k]:.4f}" for k in predicted),
        ]
        yield values, "\t".join([*columns, *text])


def inputs(texts: list[list[str]]) -> dict[str, np.ndarray]:
    """Return the inputs of texts by name.

    texts: as tokens; of pairs, all first texts before all second ones.
    """
    named = {}
    if "lengths" in MODEL["inputs"]:
        named.update(arrays([tokens[: SETTINGS["max_seq_len"]] for tokens in texts]))
    if NGRAMS:
        named.update(ngram_arrays(texts))
    return named


def ngram_arrays(texts: list[list[str]]) -> dict[str, np.ndarray]:
    """Return the inputs of n-grams, each (B, N), by name. texts: as of `inputs`."""
    found = NGRAMS.vectors(texts)
    rows: list[Counted] = []
    for start, end in pairwise(found.starts):
        rows.append((found.columns[start:end], found.values[start:end]))
    if SETTINGS["pairs"]:
        n_pairs = len(rows) // 2
        rows = [combined(a, b) for a, b in zip(rows[:n_pairs], rows[n_pairs:], strict=True)]
    longest = max([1, *[len(columns) for columns, _ in rows]])
    shape = (len(rows), longest)
    ngrams = np.zeros(shape, np.int64)
    tfidf = np.zeros(shape, np.float32)
    for k, (columns, values) in enumerate(rows):
        ngrams[k, : len(columns)] = columns
        tfidf[k, : len(values)] = values
    return {"ngrams": ngrams, "tfidf": tfidf}


def combined(a: Counted, b: Counted) -> Counted:
    """Return the n-grams of a pair: [a; b; |a - b|; a * b; sum of a * b]."""
    columns = np.union1d(a[0], b[0])
    both = np.zeros((2, len(columns)), np.float32)
    for row, (own, values) in zip(both, (a, b), strict=True):
        row[np.searchsorted(columns, own)] = values
    first, second = both
    product = first * second
    parts = [first, second, abs(first - second), product]
    n_ngrams = len(NGRAMS.idf)
    offsets = n_ngrams * np.arange(len(parts))
    numbers = columns + offsets[:, None]
    cosine = product.sum()
    return np.append(numbers, len(parts) * n_ngrams), np.append(np.concatenate(parts), cosine)


def split(line: str) -> list[str]:
    """Return the text or the two texts of a line, with single spaces."""
    if not SETTINGS["pairs"]:
        return [" ".join(line.split())]
    texts = [" ".join(part.split()) for part in line.split("\t")]
    if len(texts) != 2:
        raise UserError(f"{line!r:.60}: expected two texts separated by a tab.")
    return texts
