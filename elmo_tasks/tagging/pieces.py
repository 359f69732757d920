"""Words with tags, as in LAC's corpora, and the pieces of a vocabulary that they are cut into.

A line of a tagged corpus is `word/TAG word/TAG ...`; a word may hold `/`, the last one counts. In LAC's scheme a word of one
piece carries its bare tag, one of several pieces `tag-B tag-I tag-I`.
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

Words = list[tuple[str, str]]  # a sentence's words with their tags


class PieceSplitter:
    """Cuts words into what a tagger reads.

    vocabulary: its tokens are the pieces; where none of them matches, a character is a piece by itself.
    whole: leave words whole.

    Full-width forms become half-width ones (`Ａ` is `A`), unless the vocabulary has them as they are: a biLM that was
    pretrained on `，` knows nothing of `,`.
    """

    def __init__(self, vocabulary: Vocabulary | None, whole: bool = False):
        self.known = set(vocabulary.tokens).difference(SPECIAL_TOKENS) if vocabulary else set()
        self.longest = max(map(len, self.known), default=1)
        self.whole = whole

    def normalised(self, word: str) -> str:
        """The word in the forms that the vocabulary has. Its length does not change."""
        return word if word in self.known else "".join(map(self._narrow, word))

    def _narrow(self, character: str) -> str:
        kind, _, code = unicodedata.decomposition(character).partition(" ")
        return chr(int(code, 16)) if kind == "<wide>" and code != "0020" and character not in self.known else character

    def split(self, word: str) -> list[str]:
        """The pieces of a word: from its beginning, always the longest that the vocabulary has."""
        word = self.normalised(word)
        if self.whole or word in self.known:
            return [word]
        pieces, begin = [], 0
        while begin < len(word):
            ends = range(min(len(word), begin + self.longest), begin + 1, -1)
            end = next((end for end in ends if word[begin:end] in self.known), begin + 1)
            pieces.append(word[begin:end])
            begin = end
        return pieces

    def sentence(self, words: Words) -> Sentence:
        """The words' pieces with their labels."""
        sentence = Sentence([], [])
        for word, tag in words:
            pieces = self.split(word)
            several = len(pieces) > 1 and tag != OUTSIDE
            sentence.tokens += pieces
            sentence.labels += [f"{tag}-{'I' if k else 'B'}" if several else tag for k in range(len(pieces))]
        return sentence


def joined_words(tokens: Sequence[str], labels: Sequence[str]) -> Words:
    """The words that labels of LAC's scheme make of tokens, with their tags. A token outside is a word with the tag O."""
    words, done = [], 0
    for begin, end, tag in spans(labels):
        words += [(token, OUTSIDE) for token in tokens[done:begin]]
        words.append(("".join(tokens[begin:end]), tag))
        done = end
    return words + [(token, OUTSIDE) for token in tokens[done:]]


def read_tagged(path: Path, pieces: PieceSplitter) -> list[Sentence]:
    """The sentences of a tagged corpus, their words in pieces. Blank lines are left out."""
    disk.check_input(path, "lines of word/TAG")
    sentences = []
    for number, line in enumerate(read_lines(path), 1):
        words = [(word, tag) for word, _, tag in (token.rpartition("/") for token in line.split())]
        for token, (word, tag) in zip(line.split(), words, strict=True):
            if not word or not tag:
                raise UserError(f"{path}:{number}: {token!r:.60}, expected a word, a slash and its tag, as in 故事/n.")
            if not pieces.whole and split_lac_label(tag)[1]:
                raise UserError(
                    f"{path}:{number}: the tag {tag!r} ends as the labels of a word's pieces do, with -B or -I. Rename it, "
                    "or leave out --pieces."
                )
        if words:
            sentences.append(pieces.sentence(words))
    if not sentences:
        raise UserError(f"{path}: no sentence. Expected lines of word/TAG.")
    return sentences
