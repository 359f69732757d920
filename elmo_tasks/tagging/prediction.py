"""A trained tagger at work on text or columns, and its labels as columns, JSON or `word/TAG`."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, tee
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
    """A sentence: what the input has for each token (the line of a column), its tokens and their labels."""

    given: list[str]
    tokens: list[str]
    labels: list[str]

    def formatted(self, form: str, scheme: str) -> str:
        """As `columns`: a line for each token, and a blank one; as `tagged`: a line of `word/TAG`, in LAC's scheme; as
        `json`: a line with the tokens, their labels and, unless they are plain, the spans.
        """
        if form == "tagged":
            return " ".join(f"{word}/{tag}" for word, tag in joined_words(self.given, self.labels)) + "\n"
        if form == "columns":
            separator = " " if self.given and " " in self.given[0] and "\t" not in self.given[0] else "\t"
            lines = [f"{text}{separator}{label}\n" for text, label in zip(self.given, self.labels, strict=True)]
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
    """Tag lines. form: text (white space separates the tokens), raw (a tokeniser finds them), or characters.

    lang: of raw text; by default that of the training.
    """
    if tagger.features:
        raise UserError("This tagger reads a feature of each token from a column: it tags columns, not text.")
    if form == "characters":
        cut = lambda line: [character for character in line if not character.isspace()]  # noqa: E731
    else:
        lang = (lang or tagger.settings.lang) if form == "raw" else "none"
        cut = jieba_cut() if lang == "zh" else TOKENISERS[lang]
    if tagger.labels.scheme == "lac" and form != "characters":
        pieces = PieceSplitter(tagger.pieces or tagger.words, whole=tagger.pieces is None)
        return _tagged(tagger, (_cut_into_pieces(cut(line), pieces) for line in lines))
    # characters have no places that could be stripped
    segmentation = (
        "none" if (form, tagger.settings.segmentation) == ("characters", "strip") else tagger.settings.segmentation
    )

    def texts() -> Iterator[tuple[list[str], list[str]]]:
        for number, line in enumerate(lines, 1):
            words = cut(line)
            yield words, [parse_token([word], 0, segmentation, None, f"{source}:{number}") for word in words]

    return _tagged(tagger, texts())


def _cut_into_pieces(words: Sequence[str], pieces: PieceSplitter) -> tuple[list[str], list[str]]:
    """The pieces of words in the words' own characters, and as the tagger knows them."""
    words = [word for word in words if not word.isspace()]
    tokens = [piece for word in words for piece in pieces.split(word)]
    characters = iter("".join(words))
    return ["".join(islice(characters, len(token))) for token in tokens], tokens


def tag_columns(tagger: Tagger, lines: Iterable[str], source: str | Path, column: int = 0) -> Iterator[Tagged]:
    """Tag columns, a token a line. column: that of the tokens."""
    segmentation, feature = tagger.settings.segmentation, tagger.feature_column

    def texts() -> Iterator[tuple[list[str], list[str]]]:
        for rows in sentence_rows(lines, source, column, feature or 0):
            tokens = [parse_token(row, column, segmentation, feature, f"{source}:{n}") for n, _, row in rows]
            yield [line for _, line, _ in rows], tokens

    return _tagged(tagger, texts())


def _tagged(tagger: Tagger, texts: Iterable[tuple[list[str], list[str]]]) -> Iterator[Tagged]:
    texts, ahead = tee(texts)
    for text, labels in zip(texts, tagger.iter_tag(tokens for _, tokens in ahead), strict=True):
        yield Tagged(*text, labels)
