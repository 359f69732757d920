"""Words into pieces of a vocabulary, and pieces with labels into words again."""

from collections.abc import Mapping, Sequence

import root  # noqa: F401
from reader import OUTSIDE, Labels, Sentence, Words, chunks

from elmo_core.tokens import MARKERS, Vocabulary


class Pieces:
    """How words become what the tagger reads.

    vocabulary: whose tokens the pieces are; a character that is in no longer match is a piece by itself.
    replacements: half-width characters for full-width ones. What the vocabulary has as it is written, a word or a
    character, is left so: a biLM that was pretrained on `，` knows nothing of `,`.
    whole: leave words whole, for biLMs that read characters.
    """

    def __init__(self, vocabulary: Vocabulary | None, replacements: Mapping[str, str], whole: bool = False):
        self.known = set(vocabulary.tokens).difference(MARKERS) if vocabulary else set()
        self.longest = max(map(len, self.known), default=1)
        self.whole = whole
        self.replacements = {wide: narrow for wide, narrow in replacements.items() if wide not in self.known}

    def normalised(self, word: str) -> str:
        """The word in the forms that the vocabulary has; as long as it was."""
        if word in self.known:
            return word
        return "".join(self.replacements.get(character, character) for character in word)

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

    def sentence(self, words: Words, labels: Labels) -> Sentence | str:
        """The words' pieces with their labels; or a tag that is not among the labels.

        A word of several pieces whose tag has no -B and -I, as punctuation has none, stays whole.
        """
        sentence = Sentence([], [])
        for word, tag in words:
            pieces = self.split(word)
            given = labels.of_word(tag, len(pieces))
            if given is None:
                pieces, given = [self.normalised(word)], labels.of_word(tag, 1)
            if given is None:
                return tag
            sentence.pieces += pieces
            sentence.labels += given
        return sentence


def words_of(pieces: Sequence[str], labels: Sequence[str]) -> Words:
    """The words that the labels make of the pieces, with their tags; a piece outside has the label of that."""
    words, done = [], 0
    for begin, end, tag in chunks(labels):
        words += [(piece, OUTSIDE) for piece in pieces[done:begin]]
        words.append(("".join(pieces[begin:end]), tag))
        done = end
    return words + [(piece, OUTSIDE) for piece in pieces[done:]]


def tagged_line(words: Words) -> str:
    """`word/TAG word/TAG ...`"""
    return " ".join(f"{word}/{tag}" for word, tag in words)
