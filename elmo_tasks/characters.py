"""Words for a tagger of characters: jieba finds them, and each character gets the vectors of its word."""

from collections.abc import Sequence

import numpy as np

from elmo_core.text.tokenise import jieba_cut


def jieba_words(sentences: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[np.ndarray]]:
    """The words of sentences of characters, and for each sentence the number (T,) of every token's word.

    A token of several characters belongs to the word that its first character is in.
    """
    words, numbers = [jieba_cut()("".join(tokens)) for tokens in sentences], []
    for tokens, row in zip(sentences, words, strict=True):
        starts = np.cumsum([0, *map(len, tokens)])[:-1]
        ends = np.cumsum(list(map(len, row)))
        numbers.append(np.searchsorted(ends, starts, side="right"))
    return words, numbers
