"""Batches of sentences: within the budget, of one window, each sentence once."""

import math
import random

import numpy as np
import pytest

from elmo_core.text.batches import sentence_batches, shuffled_batches


@pytest.mark.parametrize(
    ("batch_size", "max_tokens", "window"),
    [(4, 60, 16), (1, 1000, 5), (100, 20, 100), (8, 1, 50), (8, 400, math.inf)],
)
def test_sentence_batches_keep_to_the_budget(batch_size, max_tokens, window):
    rng = random.Random(0)
    sentences = [[str(i)] * rng.choice([0, 1, 2, 5, 9, 30]) for i in range(100)]
    seen = []
    for positions, batch in sentence_batches(iter(sentences), batch_size, max_tokens, window):
        assert positions.dtype == np.int64 and [sentences[i] for i in positions] == batch
        lengths = [len(sentence) for sentence in batch]
        assert lengths == sorted(lengths, reverse=True) and 1 <= len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * (lengths[0] + 2) <= max_tokens
        assert len({i // window for i in positions}) == 1
        seen.extend(positions)
    assert sorted(seen) == list(range(100))


def test_shuffled_batches_hold_every_sentence_once():
    lengths_of_all = [i % 23 for i in range(300)]
    random = np.random.default_rng(0)
    first = shuffled_batches(lengths_of_all, 10, random)
    second = shuffled_batches(lengths_of_all, 10, random)
    for batches in first, second:
        assert sorted(np.concatenate(batches)) == list(range(300))
        assert max(len(batch) for batch in batches) == 10
        lengths = [np.array(lengths_of_all)[batch] for batch in batches]
        assert np.mean([np.ptp(batch) for batch in lengths]) < 3  # like lengths together
        longest = [max(batch) for batch in lengths[:16]]  # as many as are sorted by length together
        assert longest != sorted(longest, reverse=True)
    assert [batch.tolist() for batch in first] != [batch.tolist() for batch in second]
    again = shuffled_batches(lengths_of_all, 10, np.random.default_rng(0))
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in first]
