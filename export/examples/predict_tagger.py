"""The labels of lines of text, as run_tag.py predicts them."""

import re
from collections.abc import Iterator

from model_io import MODEL, SETTINGS, Run, arrays, table, tokeniser

from elmo_core.messages import UserError
from elmo_tasks.tagging.pieces import PieceSplitter
from elmo_tasks.tagging.text import Line

SCHEME = SETTINGS["scheme"]
PIECES = PieceSplitter(table(SETTINGS["pieces"]), SETTINGS["whole"]) if SCHEME == "lac" else None


def predict(run: Run, lines: list[str], lang: str = SETTINGS["lang"]) -> Iterator[tuple[dict, str]]:
    """The tokens of each line, their labels and the spans; and the words with their labels, as text."""
    if "features" in MODEL["inputs"]:
        raise UserError("this tagger reads a feature of each token: pass both to model_io.arrays.")
    cut, names = tokeniser(lang), list(table("labels.txt"))
    has_positions = SETTINGS["segmentation"] != "none" and lang != "characters"
    texts, positions = [], []
    for text in lines:
        words = cut(text)
        pairs = [split_position(word) if has_positions else (word, 0) for word in words]
        split = PIECES.split_line(words) if PIECES and lang != "characters" else (words, [token for token, _ in pairs])
        texts.append(Line(text, *split))
        positions.append([position for _, position in pairs])
    sentences = [line.tokens for line in texts]
    for line, row in zip(texts, run(arrays(sentences, positions=positions)).tolist(), strict=True):
        labels = [names[k] for k in row[: len(line.tokens)]]
        spans = [span.to_dict() for span in line.spans(labels, SCHEME)]
        for span in spans:
            del span["score"]  # which the graph does not compute
        columns = "".join(f"{word}\t{label}\n" for word, label in zip(line.words, labels, strict=True))
        yield {"text": line.text, "tokens": line.tokens, "labels": labels, "spans": spans}, columns


def split_position(token: str) -> tuple[str, int]:
    """Split a character from its position in its word, counted from 0 in the text (科0) and from 1 in the result."""
    match = re.fullmatch(r"(.|\D+)(\d+)", token)
    if not match:
        raise UserError(f"found {token!r:.40}, expected a character and its position in the word, as in 科0.")
    return match[1], int(match[2]) + 1
