"""jieba's words for character taggers: each character gets its word's vectors."""

from collections.abc import Sequence

import numpy as np

from elmo_core.text.tokenise import jieba_cut


def jieba_words(sentences: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[np.ndarray]]:
    """Segment sentences of characters. Returns their words and, per sentence, the index (T,) of each token's word.

    A token of several characters belongs to the word of its first character.
    """
    words, word_index = [jieba_cut()("".join(tokens)) for tokens in sentences], []
    for tokens, segmented in zip(sentences, words, strict=True):
        starts = np.cumsum([0, *map(len, tokens)])[:-1]
        ends = np.cumsum(list(map(len, segmented)))
        word_index.append(np.searchsorted(ends, starts, side="right"))
    return words, word_index
