"""The surprisal that the spelling of its unknown words adds to a text, and the text's size.

Bits per character and per byte are of the text without white space: so they do not depend on how it
was cut into words, nor on the vocabulary.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from elmo_core.text.vocabulary import UNK_ID, Vocabulary
from elmo_tools.pretraining.perplexity import Score


class Spelling:
    """Counts the unknown words of sentences, their characters and bytes."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self.unknown: Counter[str] = Counter()
        self.characters = 0  # of all words
        self.bytes = 0  # of all words, in UTF-8

    def add(self, tokens: Sequence[str]) -> None:
        """Count the words of a sentence."""
        text = "".join(tokens)
        self.characters += len(text)
        self.bytes += len(text.encode("utf-8", "surrogatepass"))
        is_unknown = self.vocabulary.ids(tokens) == UNK_ID
        self.unknown.update(tokens[k] for k in is_unknown.nonzero()[0])

    def add_all(self, sentences: Iterable[Sequence[str]]) -> "Spelling":
        for tokens in sentences:
            self.add(tokens)
        return self

    def nats(self) -> float:
        """Return the surprisal of how the unknown words are spelled, given that they are unknown.

        The vocabulary has a speller.
        """
        if not self.unknown:
            return 0.0  # without a speller, which takes seconds
        words = list(self.unknown)
        surprisals = self.vocabulary.speller.surprisals(words)
        return sum(
            self.unknown[word] * nats for word, nats in zip(words, surprisals.tolist(), strict=True)
        )

    def open_score(self, closed: Score) -> Score:
        """Return the score of the text in an open vocabulary. closed: where `<UNK>` is a word."""
        nats = self.nats()
        return Score(closed.forward_sum - nats, closed.backward_sum - nats, closed.predictions)

    def closed_score(self, in_open: Score) -> Score:
        """Undo `open_score`."""
        nats = self.nats()
        return Score(in_open.forward_sum + nats, in_open.backward_sum + nats, in_open.predictions)

    def bits_per_character(self, log_probability: float) -> float:
        return -log_probability / math.log(2) / max(1, self.characters)

    def bits_per_byte(self, log_probability: float) -> float:
        return -log_probability / math.log(2) / max(1, self.bytes)
