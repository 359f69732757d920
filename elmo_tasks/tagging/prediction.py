"""A trained tagger at work on text or columns, and its labels as columns, JSON or `word/TAG`."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from elmo_core.machine.messages import UserError
from elmo_core.text.tokenise import TOKENISERS, jieba_cut
from elmo_tasks.tagging.columns import sentence_rows, token_reader, tokens_of
from elmo_tasks.tagging.pieces import Pieces, joined_words, tagged_line
from elmo_tasks.tagging.scheme import spans
from elmo_tasks.tagging.tagger import Tagger

INPUT_FORMATS = ("text", "raw", "characters", "columns")


@dataclass
class Tagged:
    """A sentence: what the input has for each token (the line of a column), its tokens and their labels."""

    given: list[str]
    tokens: list[str]
    labels: list[str]

    def as_columns(self) -> str:
        """A line for each token, and a blank one."""
        separator = " " if self.given and " " in self.given[0] and "\t" not in self.given[0] else "\t"
        lines = [f"{text}{separator}{label}\n" for text, label in zip(self.given, self.labels, strict=True)]
        return "".join(lines) + "\n"

    def as_json(self, scheme: str) -> str:
        """A line: the tokens, their labels and, unless they are plain, the spans."""
        values: dict = {"tokens": self.tokens, "labels": self.labels}
        if scheme != "plain":
            values["spans"] = [
                {"begin": begin, "end": end, "label": tag, "tokens": self.tokens[begin:end]}
                for begin, end, tag in spans(self.labels, scheme)
            ]
        return json.dumps(values, ensure_ascii=False) + "\n"

    def as_tagged(self) -> str:
        """A line of `word/TAG`, in LAC's scheme."""
        return tagged_line(joined_words(self.given, self.labels)) + "\n"


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
        lang = (lang or tagger.lang) if form == "raw" else "none"
        cut = jieba_cut() if lang == "zh" else TOKENISERS[lang]
    if tagger.labels.scheme == "lac" and form != "characters":
        pieces = Pieces(tagger.pieces or tagger.words, whole=tagger.pieces is None)
        return _tagged(tagger, (_cut_into_pieces(cut(line), pieces) for line in lines))
    strip = form == "characters" and tagger.segmentation == "strip"  # text has no places that could be stripped
    read = token_reader("none" if strip else tagger.segmentation)

    def texts() -> Iterator[tuple[list[str], list[str]]]:
        for number, line in enumerate(lines, 1):
            words = cut(line)
            yield words, tokens_of([(word, [word]) for word in words], 0, read, source, number, step=0)

    return _tagged(tagger, texts())


def _cut_into_pieces(words: Sequence[str], pieces: Pieces) -> tuple[list[str], list[str]]:
    """The pieces of words in the words' own characters, and as the tagger knows them."""
    words = [word for word in words if not word.isspace()]
    tokens = [piece for word in words for piece in pieces.split(word)]
    characters = iter("".join(words))
    return ["".join(islice(characters, len(token))) for token in tokens], tokens


def tag_columns(tagger: Tagger, lines: Iterable[str], source: str | Path, column: int = 0) -> Iterator[Tagged]:
    """Tag columns, a token a line. column: that of the tokens."""
    read, feature = token_reader(tagger.segmentation), tagger.feature_column
    texts = (
        ([line for line, _ in rows], tokens_of(rows, column, read, source, first, feature=feature))
        for first, rows in sentence_rows(lines, source, column, feature or 0)
    )
    return _tagged(tagger, texts)


def _tagged(tagger: Tagger, texts: Iterable[tuple[list[str], list[str]]]) -> Iterator[Tagged]:
    waiting: deque[tuple[list[str], list[str]]] = deque()  # that are being tagged

    def tokens() -> Iterator[list[str]]:
        for text in texts:
            waiting.append(text)
            yield text[1]

    for labels in tagger.iter_tag(tokens()):
        yield Tagged(*waiting.popleft(), labels)
