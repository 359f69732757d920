"""The labels of lines of text, as run_tag.py predicts them."""

from collections.abc import Iterator

import numpy as np
from model_io import SEGMENT, SETTINGS, Run, arrays, table, tokenise

from elmo_tasks.tagging.constraints import WordConstraints, with_spaces
from elmo_tasks.tagging.scheme import are_of_words
from elmo_tasks.tagging.text import Line, PieceSplitter
from elmo_tasks.tagging.viterbi import best_paths

SCHEME = SETTINGS["scheme"]
LABELS = SETTINGS["labels"]
# The CRF's.
TRANSITIONS, START, STOP = [np.array(scores, np.float32) for scores in SETTINGS["crf"]]
PIECES = None
if "pieces" in SETTINGS:
    PIECES = PieceSplitter(table(SETTINGS["pieces"]), SETTINGS["whole"])
HAS_CHARACTERS = SETTINGS["lang"] == "characters"
CONSTRAINTS = None
if HAS_CHARACTERS and are_of_words(LABELS, SCHEME):
    CONSTRAINTS = WordConstraints(LABELS, SCHEME, SEGMENT)


def predict(run: Run, lines: list[str]) -> Iterator[tuple[dict, str]]:
    """Yield the tokens of each line, their labels and the spans; and words with labels, as text."""
    texts = [read(line) for line in lines]
    for line, ids in zip(texts, label_ids(run, texts), strict=True):
        labels = [LABELS[k] for k in ids]
        spans = [span._asdict() for span in line.spans(labels, SCHEME)]
        for span in spans:
            del span["score"]  # which the graph does not compute
        rows = [f"{word}\t{label}\n" for word, label in zip(line.words, labels, strict=True)]
        values = {"text": line.text, "tokens": line.tokens, "labels": labels, "spans": spans}
        yield values, "".join(rows)


def read(line: str) -> Line:
    """Split a line into words, and for some models these into the pieces that are labelled."""
    words = tokenise(line)
    if HAS_CHARACTERS:
        tokens = [PIECES.normalised(word) for word in words]
        return Line(line, words, tokens, spaced=with_spaces(line))
    if not PIECES:
        return Line(line, words, words)
    pieces, tokens = PIECES.split_line(words)
    return Line(line, pieces, tokens)


def label_ids(run: Run, lines: list[Line]) -> list[list[int]]:
    """Return the numbers of each token's label, from 0."""
    sentences = [line.tokens for line in lines]
    inputs = arrays(sentences)
    (scores,) = run(inputs)
    if CONSTRAINTS:
        texts = [line.spaced for line in lines]
        scores = scores + CONSTRAINTS.scores(sentences, texts, scores.shape[1])
    paths = best_paths(
        emissions=scores,
        transitions=TRANSITIONS,
        start=START,
        stop=STOP,
        lengths=inputs["lengths"],
    )
    return [path.tolist() for path in paths]
