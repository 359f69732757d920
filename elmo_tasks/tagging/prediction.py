"""Tagging text or columns, and formatting the labels as columns, JSON or `word/TAG`."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import tee
from pathlib import Path

from elmo_core.machine.messages import UserError
from elmo_core.text.tokenise import TOKENISERS, jieba_cut
from elmo_tasks.tagging.columns import parse_token, sentence_rows
from elmo_tasks.tagging.pieces import PieceSplitter, joined_words
from elmo_tasks.tagging.scheme import spans
from elmo_tasks.tagging.tagger import Tagger

INPUT_FORMATS = ("text", "raw", "characters", "columns")


@dataclass
class Tagged:
    """A tagged sentence. originals: each token as it is in the input; of columns, its line."""

    originals: list[str]
    tokens: list[str]
    labels: list[str]

    def formatted(self, form: str, scheme: str) -> str:
        """Format the sentence, with a final newline.

        form: columns (a line per token, then a blank one), tagged (one line of `word/TAG`, in LAC's scheme), or json
        (one line with the tokens, their labels and, unless the scheme is plain, the spans).
        """
        if form == "tagged":
            return " ".join(f"{word}/{tag}" for word, tag in joined_words(self.originals, self.labels)) + "\n"
        if form == "columns":
            first = self.originals[0] if self.originals else ""
            separator = " " if " " in first and "\t" not in first else "\t"
            lines = [f"{text}{separator}{label}\n" for text, label in zip(self.originals, self.labels, strict=True)]
            return "".join(lines) + "\n"
        values: dict = {"tokens": self.tokens, "labels": self.labels}
        if scheme != "plain":
            values["spans"] = [
                {"begin": begin, "end": end, "label": tag, "tokens": self.tokens[begin:end]}
                for begin, end, tag in spans(self.labels, scheme)
            ]
        return json.dumps(values, ensure_ascii=False) + "\n"


def tag_text(
    tagger: Tagger, lines: Iterable[str], source: str | Path, form: str = "text", lang: str = ""
) -> Iterator[Tagged]:
    """Tag lines of text.

    form: text (tokens separated by white space), raw (tokenised by the rules of lang), or characters (each is a token).
    lang: by default the language of the training text.
    """
    if tagger.features:
        raise UserError("This tagger was trained with --feature_column: it tags columns, not text.")
    if form == "characters":
        cut = lambda line: [character for character in line if not character.isspace()]  # noqa: E731
    else:
        lang = (lang or tagger.settings.lang) if form == "raw" else "none"
        cut = jieba_cut() if lang == "zh" else TOKENISERS[lang]
    if tagger.settings.scheme == "lac" and form != "characters":
        pieces = PieceSplitter((tagger.pieces or tagger.words).words, whole=tagger.pieces is None)
        return _tagged(tagger, (pieces.split_line(cut(line)) for line in lines))
    segmentation = tagger.settings.segmentation
    if form == "characters" and segmentation == "strip":  # they carry no positions
        segmentation = "none"

    def texts() -> Iterator[tuple[list[str], list[str]]]:
        for number, line in enumerate(lines, 1):
            words = cut(line)
            yield words, [parse_token([word], 0, segmentation, None, f"{source}:{number}") for word in words]

    return _tagged(tagger, texts())


def tag_columns(tagger: Tagger, lines: Iterable[str], source: str | Path, column: int = 0) -> Iterator[Tagged]:
    """Tag columns, one token per line. column: the tokens' column."""
    segmentation, feature = tagger.settings.segmentation, tagger.feature_column

    def texts() -> Iterator[tuple[list[str], list[str]]]:
        for rows in sentence_rows(lines, source, column, feature or 0):
            tokens = [parse_token(row, column, segmentation, feature, f"{source}:{n}") for n, _, row in rows]
            yield [line for _, line, _ in rows], tokens

    return _tagged(tagger, texts())


def _tagged(tagger: Tagger, texts: Iterable[tuple[list[str], list[str]]]) -> Iterator[Tagged]:
    texts, ahead = tee(texts)
    for text, labels in zip(texts, tagger.iter_predict(tokens for _, tokens in ahead), strict=True):
        yield Tagged(*text, labels)
