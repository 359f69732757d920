"""Text as the tagger's tokens: lines with their offsets, and pieces of words.

Pieces are entries of a vocabulary. In LAC's scheme a word of one piece is labelled with its bare
tag, one of several pieces with `tag-B tag-I tag-I`.
"""

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from elmo_core.checks import Label
from elmo_core.text.offsets import token_offsets
from elmo_tasks.tagging.scheme import OUTSIDE, spans

TaggedWords = list[tuple[str, str]]  # words with their tags


class Span(NamedTuple):
    """Tokens with one label: text[begin:end] of a line.

    score: the probability of exactly these labels at these tokens.
    """

    begin: int
    end: int
    text: str
    label: Label
    score: float


@dataclass
class Line:
    """A line of text.

    words: its tokens in its own characters. tokens: the same as the tagger reads them.
    begin: its place in a text of several lines. is_last: of these.
    spaced: its characters with the white space between them (constraints.with_spaces); "": unknown.
    """

    text: str
    words: Sequence[str]
    tokens: Sequence[str]
    begin: int = 0
    is_last: bool = True
    spaced: str = ""

    @classmethod
    def from_tokens(cls, tokens: Sequence[str]) -> "Line":
        return cls(" ".join(tokens), tokens, tokens)

    def spans(
        self, labels: Sequence[Label], scheme: str, scores: Sequence[float] = ()
    ) -> list[Span]:
        """The spans of the labels, or the tokens if the scheme has no spans.

        scores: one per span; none: NaN.
        """
        labelled = spans(labels, scheme)
        if not scores:
            scores = [math.nan] * len(labelled)
        offsets = token_offsets(self.words, self.text).tolist()
        result = []
        for (first, end_token, tag), score in zip(labelled, scores, strict=True):
            begin = offsets[first][0]
            end = offsets[end_token - 1][1]
            # A plain label is kept as it is: it may be an integer or a boolean.
            label = labels[first] if scheme == "plain" else tag
            text = self.text[begin:end]
            result.append(Span(self.begin + begin, self.begin + end, text, label, score))
        return result


class PieceSplitter:
    """Splits words into the tagger's tokens.

    known: the pieces of a vocabulary; a character that none of them matches is a piece.
    whole: keep words whole. The known pieces, such as the words of a biLM, then only keep their
        full-width characters.

    Full-width characters become half-width (`Ａ` becomes `A`), unless they are known pieces: a biLM
    pretrained on `，` does not know `,`.
    """

    def __init__(self, known: Iterable[str], whole: bool = False):
        self.known = set(known)
        self.max_length = max((len(piece) for piece in self.known), default=1)
        self.whole = whole

    def normalised(self, word: str) -> str:
        """Return the word in half-width characters, as far as the vocabulary lacks them.

        Its length does not change.
        """
        if word in self.known:
            return word
        return "".join(self._narrow(character) for character in word)

    def _narrow(self, character: str) -> str:
        kind, _, code = unicodedata.decomposition(character).partition(" ")
        if kind != "<wide>" or code == "0020" or character in self.known:  # 0020: a space
            return character
        return chr(int(code, 16))

    def split(self, word: str) -> list[str]:
        """Split a word from left to right, each time into the longest piece of the vocabulary."""
        word = self.normalised(word)
        if self.whole or word in self.known:
            return [word]
        pieces = []
        begin = 0
        while begin < len(word):
            ends = range(min(len(word), begin + self.max_length), begin + 1, -1)
            end = next((end for end in ends if word[begin:end] in self.known), begin + 1)
            pieces.append(word[begin:end])
            begin = end
        return pieces

    def split_line(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """Split the words of a line.

        Returns the pieces in the words' original characters, and as the tagger's tokens.
        """
        originals = []
        tokens = []
        for word in words:
            if word.isspace():
                continue
            begin = 0
            for piece in self.split(word):
                end = begin + len(piece)
                originals.append(word[begin:end])
                tokens.append(piece)
                begin = end
        return originals, tokens


def joined_words(tokens: Sequence[str], labels: Sequence[str], scheme: str = "lac") -> TaggedWords:
    """Join tokens into tagged words by their labels. A token outside all words gets the tag O."""
    words = []
    done = 0
    for begin, end, tag in spans(labels, scheme):
        words += [(token, OUTSIDE) for token in tokens[done:begin]]
        words.append(("".join(tokens[begin:end]), tag))
        done = end
    return words + [(token, OUTSIDE) for token in tokens[done:]]
