"""A trained tagger at work on text or columns, and its labels as columns or JSON."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from elmo_core.machine.messages import UserError
from elmo_tasks.tagging.columns import sentence_rows, token_reader, tokens_of
from elmo_tasks.tagging.data import Sentence
from elmo_tasks.tagging.scheme import spans
from elmo_tasks.tagging.tagger import Tagger


def tag_text(
    tagger: Tagger, lines: Iterable[str], source: str | Path, characters: bool = False
) -> Iterator[tuple[Sentence, list[str]]]:
    """A line's tokens with their labels, and what a line of columns begins with for each of them.

    characters: the tokens are all characters but white space; otherwise white space separates them.
    """
    raw = characters and tagger.segmentation == "strip"  # text has no places that could be stripped
    read = token_reader("none" if raw else tagger.segmentation)
    if tagger.features:
        raise UserError("This tagger reads a feature of each token from a column: it tags columns, not text.")

    def texts() -> Iterator[tuple[list[str], list[str]]]:
        for number, line in enumerate(lines, 1):
            words = [character for character in line if not character.isspace()] if characters else line.split()
            yield words, tokens_of([(word, [word]) for word in words], 0, read, source, number, step=0)

    return _tagged(tagger, texts())


def tag_columns(
    tagger: Tagger, lines: Iterable[str], source: str | Path, column: int = 0
) -> Iterator[tuple[Sentence, list[str]]]:
    """The same of columns, a token a line. column: that of the tokens."""
    read, feature = token_reader(tagger.segmentation), tagger.feature_column
    texts = (
        ([line for line, _ in rows], tokens_of(rows, column, read, source, first, feature=feature))
        for first, rows in sentence_rows(lines, source, column, feature or 0)
    )
    return _tagged(tagger, texts)


def _tagged(tagger: Tagger, texts: Iterable[tuple[list[str], list[str]]]) -> Iterator[tuple[Sentence, list[str]]]:
    waiting: deque[tuple[list[str], list[str]]] = deque()  # that are being tagged

    def tokens() -> Iterator[list[str]]:
        for text in texts:
            waiting.append(text)
            yield text[1]

    for labels in tagger.iter_tag(tokens()):
        beginnings, found = waiting.popleft()
        yield Sentence(found, labels), beginnings


def as_columns(sentence: Sentence, beginnings: Sequence[str]) -> str:
    """A line for each token, and a blank one."""
    separator = " " if beginnings and " " in beginnings[0] and "\t" not in beginnings[0] else "\t"
    return (
        "".join(f"{text}{separator}{label}\n" for text, label in zip(beginnings, sentence.labels, strict=True)) + "\n"
    )


def as_json(sentence: Sentence, scheme: str) -> str:
    """A line: the tokens, their labels and, unless they are plain, the spans."""
    values: dict = {"tokens": sentence.tokens, "labels": sentence.labels}
    if scheme != "plain":
        values["spans"] = [
            {"begin": begin, "end": end, "label": tag, "tokens": sentence.tokens[begin:end]}
            for begin, end, tag in spans(sentence.labels, scheme)
        ]
    return json.dumps(values, ensure_ascii=False) + "\n"
