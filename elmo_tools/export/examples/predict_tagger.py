"""The labels of lines of text, as run_tag.py predicts them."""

from collections.abc import Iterator

import numpy as np
from model_io import SETTINGS, Run, arrays, table, tokenise

from elmo_tasks.tagging.text import Line, PieceSplitter
from elmo_tasks.tagging.viterbi import best_paths

SCHEME = SETTINGS["scheme"]
CRF = [np.array(scores, np.float32) for scores in SETTINGS["crf"]]
HAS_PIECES = SCHEME == "lac" and SETTINGS["lang"] != "characters"
PIECES = PieceSplitter(table(SETTINGS["pieces"]), SETTINGS["whole"]) if HAS_PIECES else None


def predict(run: Run, lines: list[str]) -> Iterator[tuple[dict, str]]:
    """Yield the tokens of each line, their labels and the spans; and the words with their labels, as text."""
    texts = []
    for text in lines:
        words = tokenise(text)
        texts.append(Line(text, *(PIECES.split_line(words) if PIECES else (words, words))))
    for line, row in zip(texts, label_ids(run, [line.tokens for line in texts]), strict=True):
        labels = [SETTINGS["labels"][k] for k in row]
        spans = [span._asdict() for span in line.spans(labels, SCHEME)]
        for span in spans:
            del span["score"]  # which the graph does not compute
        columns = "".join(
            f"{word}\t{label}\n" for word, label in zip(line.words, labels, strict=True)
        )
        yield {"text": line.text, "tokens": line.tokens, "labels": labels, "spans": spans}, columns


def label_ids(run: Run, sentences: list[list[str]]) -> list[list[int]]:
    """The numbers of each token's label, from 0."""
    inputs = arrays(sentences)
    (scores,) = run(inputs)
    return [path.tolist() for path in best_paths(scores, *CRF, inputs["lengths"])]
