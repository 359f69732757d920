"""Words into pieces of a vocabulary, with the labels that LAC's tagger gives them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import root  # noqa: F401
from reader import Words

from elmo_core.machine.messages import UserError
from elmo_core.text.tokens import MARKERS, Vocabulary
from elmo_tasks.tagging.data import Labels, Sentence
from elmo_tasks.tagging.scheme import OUTSIDE, split_label


class Pieces:
    """How words become what the tagger reads.

    vocabulary: its tokens are the pieces; where none of them matches, a character is a piece by itself.
    replacements: half-width characters for full-width ones. A word or a character that the vocabulary has stays as it is:
    a biLM that was pretrained on `，` knows nothing of `,`.
    whole: leave words whole, for biLMs that read characters.
    """

    def __init__(self, vocabulary: Vocabulary | None, replacements: Mapping[str, str], whole: bool = False):
        self.known = set(vocabulary.tokens).difference(MARKERS) if vocabulary else set()
        self.longest = max(map(len, self.known), default=1)
        self.whole = whole
        self.replacements = {wide: narrow for wide, narrow in replacements.items() if wide not in self.known}

    def normalised(self, word: str) -> str:
        """The word in the forms that the vocabulary has. Its length does not change."""
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
            given = [tag] * len(pieces)
            if len(pieces) > 1 and tag != OUTSIDE:
                given = [f"{tag}-B"] + [f"{tag}-I"] * (len(pieces) - 1)
            if any(label not in labels.index for label in given):
                pieces, given = [self.normalised(word)], [tag]
                if tag not in labels.index:
                    return tag
            sentence.tokens += pieces
            sentence.labels += given
        return sentence


def labels_of_corpus(corpus: Iterable[Words], whole_words: bool, source: str | Path) -> Labels:
    """All tags in alphabetical order; with their -B and -I where words are spread over pieces.

    source: the file of the corpus, for messages.
    """
    tags = sorted({tag for words in corpus for _, tag in words})
    if not tags:
        raise UserError(f"{source}: no sentence that can be used, so no tags to make labels of.")
    taken = next((tag for tag in tags if split_label(tag)[1]), None)
    if taken and not whole_words:
        raise UserError(
            f"{source}: the tag {taken!r} ends as the labels of a word's pieces do, with -B or -I. Rename it, or give "
            "--whole_words if the corpus's words are pieces already."
        )
    parts = ("",) if whole_words else ("", "-B", "-I")
    return Labels([tag + part for tag in tags for part in (parts if tag != OUTSIDE else ("",))], source)


def tagged_line(words: Words) -> str:
    """`word/TAG word/TAG ...`"""
    return " ".join(f"{word}/{tag}" for word, tag in words)
