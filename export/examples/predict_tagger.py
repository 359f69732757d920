"""The labels of lines of text, as run_tag.py predicts them."""

import re
from collections.abc import Iterator

from model_io import MODEL, SETTINGS, Run, arrays, table

from elmo_core.machine.messages import UserError
from elmo_core.text.tokenise import TOKENISERS, jieba_cut
from elmo_tasks.tagging.pieces import PieceSplitter
from elmo_tasks.tagging.scheme import spans

SCHEME = SETTINGS["scheme"]
PIECES = PieceSplitter(list(table(SETTINGS["pieces"]))[3:], SETTINGS["whole"]) if SCHEME == "lac" else None


def predict(run: Run, lines: list[str], lang: str) -> Iterator[dict]:
    """The tokens of each line, their labels and, unless the scheme is plain, the spans."""
    if "features" in MODEL["inputs"]:
        raise UserError("this tagger reads a feature of each token: pass both to model_io.arrays.")
    cut, names = jieba_cut() if lang == "zh" else TOKENISERS[lang], list(table("labels.txt"))
    sentences, places = [], []
    for line in lines:
        tokens = PIECES.split_line(cut(line))[1] if PIECES else [re.sub(r"\s+", "_", token) for token in cut(line)]
        pairs = [split_position(token) if SETTINGS["segmentation"] != "none" else (token, 0) for token in tokens]
        sentences.append([token for token, _ in pairs])
        places.append([place for _, place in pairs])
    for tokens, row in zip(sentences, run(arrays(sentences, places=places)).tolist(), strict=True):
        labels = [names[k] for k in row[: len(tokens)]]
        answer = {"tokens": tokens, "labels": labels}
        if SCHEME != "plain":
            answer["spans"] = [
                {"begin": begin, "end": end, "label": tag, "tokens": tokens[begin:end]}
                for begin, end, tag in spans(labels, SCHEME)
            ]
        yield answer


def split_position(token: str) -> tuple[str, int]:
    """Split a character from its position in its word, counted from 0 in the text (科0) and from 1 in the result."""
    match = re.fullmatch(r"(.|\D+)(\d+)", token)
    if not match:
        raise UserError(f"found {token!r:.40}, expected a character and its position in the word, as in 科0.")
    return match[1], int(match[2]) + 1


def as_text(answer: dict) -> str:
    return "".join(f"{token}\t{label}\n" for token, label in zip(answer["tokens"], answer["labels"], strict=True))
