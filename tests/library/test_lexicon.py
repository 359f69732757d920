"""Ids of tokens, unknown ones included, and the distinct tokens of a batch."""

import numpy as np

from elmo_core.text.characters import BOS, EOS
from elmo_core.text.lexicon import Lexicon, LMBatch, pad_rows, token_batch
from elmo_core.text.vocabulary import SPECIAL_TOKENS, UNK_ID, Vocabulary

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, "the", "bank"])


def test_an_unknown_word_has_an_id_of_its_own_where_characters_are_read():
    lexicon = Lexicon(VOCABULARY, "char+word")
    ids = lexicon.ids(["bank", "zyx", "the", "abc", "zyx"])
    assert ids.tolist() == [4, 5, 3, 6, 5]
    assert lexicon.targets(ids).tolist() == [4, UNK_ID, 3, UNK_ID, UNK_ID]
    assert Lexicon(VOCABULARY, "word").ids(["zyx", "bank"]).tolist() == [UNK_ID, 4]


def test_distinct_tokens_are_sorted_by_length_and_indexed():
    lexicon = Lexicon(VOCABULARY, "char+word")
    tokens, index = lexicon.unique(lexicon.ids(["bank", "a", "the", "bank", "a"]))
    assert tokens.lengths.tolist() == [3, 5, 6]  # with two markers
    assert index.tolist() == [2, 0, 1, 2, 0]
    assert tokens.words.tolist() == [UNK_ID, 3, 4]
    assert tokens.characters[0, 1] == ord("a") + 1


def test_pruned_words_are_renumbered():
    lexicon = Lexicon(VOCABULARY, "char")
    kept = lexicon.ids(["zyx", "abc", "bank", "def"])[1:]
    lexicon.prune(kept)
    assert kept.tolist() == [5, 4, 6]
    assert lexicon.ids(["abc", "def", "zyx"]).tolist() == [5, 6, 7]
    tokens, index = lexicon.unique(kept)
    assert tokens.characters[index[0], 1] == ord("a") + 1


def test_a_batch_to_embed_has_the_markers_of_each_sentence():
    batch = token_batch([["the", "bank"], []])
    assert batch.lengths.tolist() == [4, 2] and batch.index.shape == (2, 4)
    assert (batch.index[1, 2:] == 0).all()
    assert batch.index[0, 0] == batch.index[1, 0]
    assert batch.index[0, 3] == batch.index[1, 1] != batch.index[0, 0]


def test_some_rows_of_a_batch_have_only_their_tokens():
    lexicon = Lexicon(VOCABULARY, "char+word")
    words = [["the", "bank", "a"], ["b", "the"]]
    ids = lexicon.ids([*words[0], *words[1], BOS, EOS])
    tokens, index = lexicon.unique(ids[:5])
    lengths = np.array([3, 2])
    inputs = pad_rows(index, lengths, 3)
    batch = LMBatch(
        tokens=tokens,
        forward_input=inputs,
        backward_input=inputs,
        forward_target=np.arange(6).reshape(2, 3),
        backward_target=np.arange(6, 12).reshape(2, 3),
        lengths=lengths,
    )
    part = batch.take(slice(1, 2))
    assert part.tokens.words.tolist() == [UNK_ID, 3]
    assert part.forward_input.tolist() == [[0, 1, 0]]
    assert part.forward_target.tolist() == [[3, 4, 5]] and part.lengths.tolist() == [2]
    assert batch.take(slice(0, 2)) is batch
