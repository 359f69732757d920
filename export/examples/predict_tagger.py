"""The labels of lines of text, as run_tag.py predicts them."""

import re
from collections.abc import Iterator

from model_io import SETTINGS, Run, arrays, table

from elmo_core.text.tokenise import TOKENISERS, jieba_cut
from elmo_tasks.tagging.scheme import spans


def predict(run: Run, lines: list[str], lang: str) -> Iterator[dict]:
    """The tokens of each line, their labels and, unless the scheme is plain, the spans."""
    cut, scheme, names = (
        jieba_cut() if lang == "zh" else TOKENISERS[lang],
        SETTINGS["scheme"],
        list(table("labels.txt")),
    )
    sentences = [[re.sub(r"\s+", "_", token) for token in cut(line)] for line in lines]
    for tokens, row in zip(sentences, run(arrays(sentences)).tolist(), strict=True):
        labels = [names[k] for k in row[: len(tokens)]]
        answer = {"tokens": tokens, "labels": labels}
        if scheme != "plain":
            answer["spans"] = [
                {"begin": begin, "end": end, "label": tag, "tokens": tokens[begin:end]}
                for begin, end, tag in spans(labels, scheme)
            ]
        yield answer


def as_text(answer: dict) -> str:
    return "".join(f"{token}\t{label}\n" for token, label in zip(answer["tokens"], answer["labels"], strict=True))
