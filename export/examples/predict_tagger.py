"""The labels of lines of text, as run_tag.py predicts them."""

from collections.abc import Iterator

from model_io import SETTINGS, Run, arrays, table, tokeniser

from elmo_tasks.tagging.pieces import PieceSplitter
from elmo_tasks.tagging.text import Line

SCHEME = SETTINGS["scheme"]
PIECES = PieceSplitter(table(SETTINGS["pieces"]), SETTINGS["whole"]) if SCHEME == "lac" else None


def predict(run: Run, lines: list[str], lang: str = SETTINGS["lang"]) -> Iterator[tuple[dict, str]]:
    """Yield the tokens of each line, their labels and the spans; and the words with their labels, as text."""
    cut, names = tokeniser(lang), list(table("labels.txt"))
    texts = []
    for text in lines:
        words = cut(text)
        texts.append(Line(text, *(PIECES.split_line(words) if PIECES and lang != "characters" else (words, words))))
    sentences = [line.tokens for line in texts]
    for line, row in zip(texts, run(arrays(sentences)).tolist(), strict=True):
        labels = [names[k] for k in row[: len(line.tokens)]]
        spans = [span.to_dict() for span in line.spans(labels, SCHEME)]
        for span in spans:
            del span["score"]  # which the graph does not compute
        columns = "".join(f"{word}\t{label}\n" for word, label in zip(line.words, labels, strict=True))
        yield {"text": line.text, "tokens": line.tokens, "labels": labels, "spans": spans}, columns
