"""Tagged words, as in LAC's corpora, and their pieces: entries of a vocabulary.

A line of a tagged corpus is `word/TAG word/TAG ...`; a word may contain `/`, the last one counts. In LAC's scheme a word of
one piece is labelled with its bare tag, one of several pieces with `tag-B tag-I tag-I`.
"""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError
from elmo_core.text.text_files import read_lines
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_tasks.tagging.data import Sentence
from elmo_tasks.tagging.scheme import OUTSIDE, spans, split_lac_label

TaggedWords = list[tuple[str, str]]  # words with their tags


class PieceSplitter:
    """Splits words into the tagger's tokens.

    vocabulary: its tokens are the pieces; a character that none of them matches is a piece.
    whole: keep words whole.

    Full-width characters become half-width (`Ａ` becomes `A`), unless the vocabulary contains them: a biLM pretrained on
    `，` does not know `,`.
    """

    def __init__(self, vocabulary: Vocabulary | None, whole: bool = False):
        self.known = set(vocabulary.tokens).difference(SPECIAL_TOKENS) if vocabulary else set()
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

    def labelled_pieces(self, word: str, tag: str) -> Sentence:
        pieces = self.split(word)
        if len(pieces) == 1 or tag == OUTSIDE:
            return Sentence(pieces, [tag] * len(pieces))
        return Sentence(pieces, [f"{tag}-B", *[f"{tag}-I"] * (len(pieces) - 1)])


def joined_words(tokens: Sequence[str], labels: Sequence[str]) -> TaggedWords:
    """Join tokens into tagged words, by labels of LAC's scheme. A token outside all words gets the tag O."""
    words, done = [], 0
    for begin, end, tag in spans(labels):
        words += [(token, OUTSIDE) for token in tokens[done:begin]]
        words.append(("".join(tokens[begin:end]), tag))
        done = end
    return words + [(token, OUTSIDE) for token in tokens[done:]]


def read_tagged(path: Path, splitter: PieceSplitter) -> list[Sentence]:
    """Read the sentences of a tagged corpus, split into labelled pieces. Blank lines are skipped."""
    disk.check_input(path, "lines of word/TAG")
    sentences = []
    for number, line in enumerate(read_lines(path), 1):
        sentence = Sentence([], [])
        for text in line.split():
            word, _, tag = text.rpartition("/")
            if not word or not tag:
                raise UserError(f"{path}:{number}: {text!r:.60}, expected a word, a slash and its tag, as in 故事/n.")
            if not splitter.whole and split_lac_label(tag)[1]:
                raise UserError(
                    f"{path}:{number}: the tag {tag!r} ends with -B or -I, as the labels of pieces do. Rename it, or leave "
                    "out --pieces."
                )
            pieces = splitter.labelled_pieces(word, tag)
            sentence.tokens += pieces.tokens
            sentence.labels += pieces.labels
        if sentence.tokens:
            sentences.append(sentence)
    if not sentences:
        raise UserError(f"{path}: no sentences. Expected lines of word/TAG.")
    return sentences
