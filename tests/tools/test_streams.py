"""Streams of batches, compared with naive versions written here; resuming, ranks, noise."""

import pickle
import tracemalloc
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from shards import MARKERS, WORDS, write, write_shards

from elmo_core.messages import UserError
from elmo_core.text.corpus import Corpus
from elmo_core.text.vocabulary import Vocabulary
from elmo_tools.pretraining.streams import TrainStream

# Of ten sentences with seed 7: the same on every platform and with every version of NumPy.
PINNED_ORDER = [5, 9, 1, 2, 7, 6, 4, 0, 8, 3]


@pytest.fixture
def vocabulary():
    return Vocabulary(MARKERS + WORDS)


def decode(tokens, vocabulary):
    """The strings of a batch's distinct tokens."""
    if tokens.characters is None:
        return [vocabulary[i] for i in tokens.words]
    words = []
    for row, length in zip(tokens.characters, tokens.lengths, strict=True):
        assert (
            row[0] == 259
            and row[length - 1] == 260
            and (row[length:] == 261).all()
            and (row > 0).all()
        )
        inner = row[1 : length - 1] - 1
        words.append(
            MARKERS[inner[0] - 256] if inner[:1] >= 256 else bytes(inner.astype(np.uint8)).decode()
        )
    return words


def steps_of(batch, vocabulary):
    """Of each row, its steps: forward input and target, backward input and target, as strings."""
    words = decode(batch.tokens, vocabulary)
    rows = []
    for b, length in enumerate(batch.lengths):
        steps = [
            (
                words[batch.forward_input[b, t]],
                vocabulary[batch.forward_target[b, t]],
                words[batch.backward_input[b, t]],
                vocabulary[batch.backward_target[b, t]],
            )
            for t in range(length)
        ]
        rows.append(steps)
    return rows


def naive_steps(sentence, vocabulary, input="char"):
    """The steps of one sentence, as `steps_of` returns them."""

    def known(words):
        return [word if word in vocabulary else "<UNK>" for word in words]

    entering = known if input == "word" else list
    forward, backward = ["<S>", *sentence, "</S>"], ["</S>", *sentence[::-1], "<S>"]
    return list(
        zip(
            entering(forward[:-1]),
            known(forward[1:]),
            entering(backward[:-1]),
            known(backward[1:]),
            strict=True,
        )
    )


def naive_batches(sentences, batch_size, steps, vocabulary, input="char"):
    """Batches of rows of steps, built step by step until the sentences run out."""
    sentences = iter(sentences)
    rows = [[] for _ in range(batch_size)]
    while True:
        batch = [[] for _ in rows]
        for row, taken in zip(rows, batch, strict=True):
            while len(taken) < steps:
                if not row:
                    row.extend(naive_steps(next(sentences, []), vocabulary, input))
                    if row[0][1] == "</S>":
                        row.clear()
                        break
                taken.append(row.pop(0))
        if not any(batch):
            return
        yield batch


def fields_of(batch):
    arrays = [
        batch.tokens.words if batch.tokens.characters is None else batch.tokens.characters,
        batch.forward_input,
        batch.backward_input,
        batch.forward_target,
        batch.backward_target,
        batch.lengths,
    ]
    if batch.tokens.lengths is not None:
        arrays.append(batch.tokens.lengths)
    return arrays


def assert_same_batch(a, b):
    for left, right in zip(fields_of(a), fields_of(b), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    np.testing.assert_equal(a.position, b.position)


@pytest.mark.parametrize("input", ["char", "word"])
@pytest.mark.parametrize(("batch_size", "steps"), [(1, 1), (2, 3), (5, 7), (3, 40)])
def test_train_stream_equals_the_naive_one(
    tmp_path, vocabulary, monkeypatch, input, batch_size, steps
):
    monkeypatch.setattr(TrainStream, "_permutation", lambda stream, n, key: np.arange(n))
    corpus, sentences = write_shards(tmp_path / "c", 9, 4, 11)
    stream = TrainStream(corpus, vocabulary, batch_size, steps, input)
    naive = naive_batches(sentences * 30, batch_size, steps, vocabulary, input)
    for _ in range(20):
        batch = next(stream)
        assert batch.lengths.tolist() == [steps] * batch_size
        assert steps_of(batch, vocabulary) == next(naive)
        assert batch.forward_input.shape == batch.backward_target.shape == (batch_size, steps)
        assert {array.dtype for array in fields_of(batch)[1:6]} == {np.dtype(np.int64)}
        ids = batch.tokens.characters if input == "char" else batch.tokens.words
        assert len(np.unique(ids, axis=0)) == len(ids)
        assert input == "word" or (np.diff(batch.tokens.lengths) >= 0).all()


def sentences_by_epoch(stream, epochs):
    """The sentences of the first epochs of a stream, each as a list of inputs.

    The stream has one row and one step.
    """
    dealt = [[] for _ in range(epochs)]
    for batch in stream:
        if batch.position["epoch"] == epochs:
            return dealt
        word = decode(batch.tokens, None)[batch.forward_input[0, 0]]
        if word == "<S>":
            dealt[batch.position["epoch"]].append([])
        else:
            dealt[batch.position["epoch"]][-1].append(word)


def test_the_words_of_a_file_that_was_read_are_forgotten(tmp_path, vocabulary):
    """Each file has its own unknown words, and memory does not grow from file to file."""
    for k in range(12):
        write(tmp_path / f"{k}.txt", [[f"only-{k}-{n}-{i}" for i in range(10)] for n in range(100)])
    held = {}  # the most bytes during each file
    tracemalloc.start()
    for batch in TrainStream(Corpus(tmp_path), vocabulary, 1, 50):
        if batch.position["epoch"]:
            break
        shard = batch.position["shard"]
        held[shard] = max(held.get(shard, 0), tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert len(held) == 12 and held[11] < 2 * held[1]


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize(
    "sizes", [(20,), (7, 9), (5, 6, 7), (3, 4, 5, 6, 2, 7, 3), (1, 1, 1, 1, 9)]
)
def test_the_ranks_together_read_each_sentence_once_an_epoch(
    tmp_path, vocabulary, world_size, sizes
):
    corpus, sentences = write_shards(tmp_path / "c", *sizes)
    ranks = [
        sentences_by_epoch(
            TrainStream(corpus, vocabulary, 1, 1, rank=rank, world_size=world_size), 3
        )
        for rank in range(world_size)
    ]
    orders = []
    for epoch in range(3):
        order = [" ".join(sentence) for rank in ranks for sentence in rank[epoch]]
        assert Counter(order) == Counter(map(" ".join, sentences))
        orders.append(order)
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_order_depends_on_the_seed_alone(tmp_path, vocabulary):
    corpus, sentences = write_shards(tmp_path / "c", 10)

    def order(seed):
        (dealt,) = sentences_by_epoch(TrainStream(corpus, vocabulary, 1, 1, seed=seed), 1)
        return [sentences.index(sentence) for sentence in dealt]

    assert order(1) == order(1) != order(2)
    assert order(7) == PINNED_ORDER


def test_rank_without_a_sentence(tmp_path, vocabulary):
    corpus, _ = write_shards(tmp_path / "c", 1)
    with pytest.raises(UserError, match="rank 1 of 2"):
        next(TrainStream(corpus, vocabulary, 1, 1, rank=1, world_size=2))


@pytest.mark.parametrize(
    ("sizes", "batch_size", "steps", "options"),
    [
        ((30, 40), 3, 5, {}),
        ((1, 2, 1, 3, 1), 4, 6, {}),
        ((5, 1, 6), 3, 4, {"input": "word"}),
        ((7, 8, 9), 2, 6, {"rank": 1, "world_size": 2}),
        ((6, 7), 3, 8, {"seed": 3}),
        ((5, 6, 4), 3, 4, {"noise": 0.5, "input": "char+word"}),
    ],
)
def test_a_stream_resumes_exactly_anywhere(tmp_path, vocabulary, sizes, batch_size, steps, options):
    write_shards(tmp_path / "c", *sizes)

    def make():
        return TrainStream(Corpus(tmp_path / "c"), vocabulary, batch_size, steps, **options)

    stream = make()
    start = stream.position
    batches = [next(stream) for _ in range(60)]
    visited = {(batch.position["epoch"], batch.position["shard"]) for batch in batches}
    assert len(visited) > 3 and max(visited)[0] >= 1, (
        "the positions should include the boundaries of shards and epochs"
    )
    for i, position in enumerate([start, *(batch.position for batch in batches[:-3])]):
        resumed = make()
        resumed.seek(pickle.loads(pickle.dumps(position)))
        for batch in batches[i : i + 3]:
            assert_same_batch(next(resumed), batch)
    again = make()
    next(again), next(again)
    again.seek(batches[7].position)
    assert_same_batch(next(again), batches[8])


def test_noise_is_read_but_not_predicted(tmp_path, vocabulary):
    """It depends on seed, epoch and file, not on rows and ranks."""
    corpus, _ = write_shards(tmp_path / "c", 30, 40)
    clean = TrainStream(corpus, vocabulary, 3, 5, seed=2)
    noisy = TrainStream(corpus, vocabulary, 3, 5, seed=2, noise=0.3)
    n_changed = {"forward": 0, "backward": 0}
    n_steps = 0
    for _ in range(60):
        clean_rows = steps_of(next(clean), vocabulary)
        noisy_rows = steps_of(next(noisy), vocabulary)
        pairs = zip(chain.from_iterable(clean_rows), chain.from_iterable(noisy_rows), strict=True)
        for (forward, target, backward, backward_target), with_noise in pairs:
            assert (target, backward_target) == (with_noise[1], with_noise[3])
            n_changed["forward"] += forward != with_noise[0]
            n_changed["backward"] += backward != with_noise[2]
            n_steps += 1
    for n in n_changed.values():
        assert 0.1 < n / n_steps < 0.3  # not markers, not "."

    def read(size, **options):
        ranks = [
            TrainStream(corpus, vocabulary, 1, 1, rank=k, world_size=size, **options)
            for k in range(size)
        ]
        epochs = zip(*(sentences_by_epoch(stream, 2) for stream in ranks), strict=True)
        return [sorted(chain.from_iterable(dealt)) for dealt in epochs]

    first, second = read(1, seed=2, noise=0.3)
    assert read(3, seed=2, noise=0.3) == [first, second] and first != second != read(1, seed=2)[1]
    assert read(1, seed=3, noise=0.3)[0] != first
