"""Lines of words, with their tags or without, and pieces of words: entries of a vocabulary.

tagged     `word/TAG word/TAG ...`, as in LAC's corpora and the People's Daily. A word may contain `/`, the last one counts.
           The latter's numbers of paragraphs, `19980101-01-001-001/m`, and brackets, `[中国/ns 银行/n]nt`, are left out.
segmented  words with spaces between them, as in SIGHAN's corpora. Their characters are tokens, labelled B, M, E, or S.

In LAC's scheme a word of one piece is labelled with its bare tag, one of several pieces with `tag-B tag-I tag-I`.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import islice

from elmo_core.machine.messages import UserError
from elmo_tasks.tagging.data import Sentence
from elmo_tasks.tagging.scheme import OUTSIDE, spans, split_lac_label

PARAGRAPH = re.compile(r"\s*\d{8}-\d\d-\d{3}-\d{3}/m\s")
BRACKETED = re.compile(r"(.*/[^/\]]+)\](/?\w*)")


class PieceSplitter:
    """Splits words into the tagger's tokens.

    known: the pieces of a vocabulary; a character that none of them matches is a piece.
    whole: keep words whole. The known pieces, such as the words of a biLM, then only keep their full-width characters.

    Full-width characters become half-width (`Ａ` becomes `A`), unless they are known pieces: a biLM pretrained on
    `，` does not know `,`.
    """

    def __init__(self, known: Iterable[str], whole: bool = False):
        self.known = set(known)
        self.max_length = max(map(len, self.known), default=1)
        self.whole = whole

    def normalised(self, word: str) -> str:
        """Return the word in half-width characters, as far as the vocabulary lacks them. Its length does not change."""
        return word if word in self.known else "".join(map(self._narrow, word))

    def _narrow(self, character: str) -> str:
        kind, _, code = unicodedata.decomposition(character).partition(" ")
        return chr(int(code, 16)) if kind == "<wide>" and code != "0020" and character not in self.known else character

    def split(self, word: str) -> list[str]:
        """Split a word from left to right, each time into the longest piece that the vocabulary contains."""
        word = self.normalised(word)
        if self.whole or word in self.known:
            return [word]
        pieces, begin = [], 0
        while begin < len(word):
            ends = range(min(len(word), begin + self.max_length), begin + 1, -1)
            end = next((end for end in ends if word[begin:end] in self.known), begin + 1)
            pieces.append(word[begin:end])
            begin = end
        return pieces

    def split_line(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """Split the words of a line. Returns the pieces in the words' original characters and as the tagger's tokens."""
        words = [word for word in words if not word.isspace()]
        tokens = [piece for word in words for piece in self.split(word)]
        characters = iter("".join(words))
        return ["".join(islice(characters, len(token))) for token in tokens], tokens


def joined_words(tokens: Sequence[str], labels: Sequence[str]) -> list[tuple[str, str]]:
    """Join tokens into tagged words, by labels of LAC's scheme. A token outside all words gets the tag O."""
    words, done = [], 0
    for begin, end, tag in spans(labels):
        words += [(token, OUTSIDE) for token in tokens[done:begin]]
        words.append(("".join(tokens[begin:end]), tag))
        done = end
    return words + [(token, OUTSIDE) for token in tokens[done:]]


def labelled_pieces(word: str, tag: str, splitter: PieceSplitter) -> Sentence:
    pieces = splitter.split(word)
    if len(pieces) == 1 or tag == OUTSIDE:
        return Sentence(pieces, [tag] * len(pieces))
    return Sentence(pieces, [f"{tag}-B", *[f"{tag}-I"] * (len(pieces) - 1)])


def tagged_sentence(line: str, where: str, splitter: PieceSplitter) -> Sentence:
    """The words of a line, split into labelled pieces."""
    sentence, in_brackets = Sentence([], [], where), False
    for text in PARAGRAPH.sub("", line, count=1).split():
        if text[0] == "[" and text[1:2] not in ("", "/"):
            text, in_brackets = text[1:], True
        if in_brackets and (closed := BRACKETED.fullmatch(text)):
            text, in_brackets = closed[1], False
        word, _, tag = text.rpartition("/")
        if not word or not tag:
            raise UserError(f"{where}: {text!r:.60}, expected a word, a slash and its tag, as in 故事/n.")
        if not splitter.whole and split_lac_label(tag)[1]:
            raise UserError(
                f"{where}: the tag {tag!r} ends with -B or -I, as the labels of pieces do. Rename it, or leave out `pieces`."
            )
        pieces = labelled_pieces(word, tag, splitter)
        sentence.tokens += pieces.tokens
        sentence.labels += pieces.labels
    return sentence


def segmented_sentence(line: str, where: str) -> Sentence:
    """The characters of a line of words."""
    words = line.split()
    labels = ["S" if len(word) == 1 else f"B{'M' * (len(word) - 2)}E" for word in words]
    return Sentence(list("".join(words)), list("".join(labels)), where)
