"""Vocabulary, character ids, streams and sentence batches, compared with naive versions written here."""

import gzip
import math
import pickle
import random
import threading
import time
import tracemalloc
from collections import Counter
from itertools import chain

import numpy as np
import pytest
import reference
from tiny import char_ids

from dataset import EvalStream, TrainStream
from elmo_core.messages import UserError
from elmo_core.text import text_files
from elmo_core.text.characters import CodePoints
from elmo_core.text.corpus import Corpus
from elmo_core.text.noise import add_noise, variants
from elmo_core.text.tokens import Vocabulary, sentence_batches, shuffled_batches, token_batch
from pretraining.prefetch import prefetched

MARKERS = ["<S>", "</S>", "<UNK>"]
# Of ten sentences with seed 7: the same on every platform and with every version of NumPy.
PINNED_ORDER = [5, 9, 1, 2, 7, 6, 4, 0, 8, 3]
WORDS = ["birds", "sing", "苹果", "rain", "a", "很", "bank", ".", "internationalization"]


@pytest.fixture
def vocabulary():
    return Vocabulary(MARKERS + WORDS)


def make_sentences(n, seed=0):
    """Sentences of 1 to 9 tokens. The vocabulary lacks 未知 and the last word of each, which no other sentence has."""
    rng = random.Random(seed)
    return [[*rng.choices([*WORDS, "未知"], k=rng.randrange(9)), f"未{seed}-{i}"] for i in range(n)]


def write(path, sentences):
    path.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences), encoding="utf-8")
    return path


def write_shards(folder, *sizes):
    """Write one file per size. Returns the corpus and its sentences in file order."""
    folder.mkdir(exist_ok=True)
    shards = [make_sentences(size, seed=i) for i, size in enumerate(sizes)]
    for i, shard in enumerate(shards):
        write(folder / f"shard-{i}.txt", shard)
    return Corpus(folder), [sentence for shard in shards for sentence in shard]


def decode(tokens, vocabulary):
    """The strings of a batch's distinct tokens."""
    if tokens.characters is None:
        return [vocabulary[i] for i in tokens.words]
    words = []
    for row, length in zip(tokens.characters, tokens.lengths, strict=True):
        assert row[0] == 259 and row[length - 1] == 260 and (row[length:] == 261).all() and (row > 0).all()
        inner = row[1 : length - 1] - 1
        words.append(MARKERS[inner[0] - 256] if inner[:1] >= 256 else bytes(inner.astype(np.uint8)).decode())
    return words


def steps_of(batch, vocabulary):
    """rows × steps of (forward input, forward target, backward input, backward target), as strings."""
    words = decode(batch.tokens, vocabulary)
    return [
        [
            (
                words[batch.forward_input[b, t]],
                vocabulary[batch.forward_target[b, t]],
                words[batch.backward_input[b, t]],
                vocabulary[batch.backward_target[b, t]],
            )
            for t in range(batch.lengths[b])
        ]
        for b in range(len(batch.lengths))
    ]


def naive_steps(sentence, vocabulary, input="char"):
    """The steps of one sentence, as `steps_of` returns them."""

    def known(words):
        return [word if word in vocabulary else "<UNK>" for word in words]

    entering = known if input == "word" else list
    forward, backward = ["<S>", *sentence, "</S>"], ["</S>", *sentence[::-1], "<S>"]
    return list(
        zip(entering(forward[:-1]), known(forward[1:]), entering(backward[:-1]), known(backward[1:]), strict=True)
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
    ]
    return arrays + [batch.lengths] + ([] if batch.tokens.lengths is None else [batch.tokens.lengths])


def assert_same_batch(a, b):
    for left, right in zip(fields_of(a), fields_of(b), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    np.testing.assert_equal(a.position, b.position)


@pytest.mark.parametrize(
    "token",
    ["cat", "苹果", "👩‍🚀", "x" * 60, "x" * 48, "x" * 49, "y" + "果" * 20, "", "<S>", "</S>", "<UNK>", "\x00\x7f", "ÿ"],
)
def test_char_ids_are_those_of_bilm_tf(token):
    ids = char_ids(["before", token, "after"])
    assert ids.dtype == np.int32
    np.testing.assert_array_equal(ids, [reference.char_ids(word) for word in ("before", token, "after")])


def test_words_are_looked_up_as_they_are_cut():
    ids = {name: k for k, name in enumerate([*CodePoints.NAMES, "x"])}
    vocabulary = Vocabulary([*MARKERS, "x" * 48], alphabet=CodePoints(ids))
    assert token_batch([["x" * 60, "y"]], "char+word", vocabulary).tokens.words.tolist() == [0, 2, 1, 3]
    assert CodePoints(ids).is_truncated("果" * 49) and not CodePoints(ids).is_truncated("果" * 48)


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("the\nof\n", ["the", "of"]),
        ("UNK\n<S>\n</S>\n<PAD>\nthe\nof\n", ["the", "of"]),
        ("<S>\r\n</S>\r\n<UNK>\r\nUNK\r\n<PAD>\r\n", ["UNK", "<PAD>"]),
    ],
    ids=["no markers", "PaddleNLP's markers", "our markers"],
)
def test_a_vocabulary_with_other_markers_or_none(tmp_path, caplog, content, tokens):
    """PaddleNLP's reader puts its own before the words, so its published files have none."""
    caplog.set_level("INFO", logger="elmo")
    (tmp_path / "v.txt").write_bytes(content.encode())
    vocabulary = Vocabulary.from_file(tmp_path / "v.txt")
    assert vocabulary.tokens == [*MARKERS, *tokens]
    assert len(caplog.records) == ("<UNK>" not in content)
    vocabulary.save(tmp_path / "copy.txt")
    assert Vocabulary.from_file(tmp_path / "copy.txt").fingerprint == vocabulary.fingerprint


@pytest.mark.parametrize(
    ("content", "location"),
    [
        (None, "v.txt: "),
        (b"", "v.txt: "),
        (b"<S>\n</S>\n<UNK>\nok\ncaf\xe9\n", "v.txt:5: "),
        (b"the\nof\n<UNK>\n", "v.txt:1: "),
        (b"the\nUNK\n", "v.txt:1: "),
        (b"<S>\n<UNK>\n</S>\n", "v.txt:1: "),
        (b"<S>\n</S>\n", "v.txt:1: "),
        (b"<S>\n</S>\n<UNK>\na\nb\na\n", "v.txt:6: "),
        (b"<S>\n</S>\n<UNK>\na\n\nb\n", "v.txt:5: "),
        (b"<S>\n</S>\n<UNK>\nNew York\n", "v.txt:4: "),
        (b"the\nof\n\nand\n", "v.txt:3: "),
        (b"UNK\n<S>\n</S>\n<PAD>\na\nb\na\n", "v.txt:7: .*line 5"),
        ("<S>\n</S>\n<UNK>\na\n\u3000\n".encode(), "v.txt:5: "),
        ("<S>\n</S>\n<UNK>\nx\u2028y\n".encode(), "v.txt:4: "),
    ],
)
def test_bad_vocabulary_names_file_and_line(tmp_path, content, location):
    path = tmp_path / "v.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=location):
        Vocabulary.from_file(path)


def test_corpus_resolves_files_folders_and_globs(tmp_path, monkeypatch):
    write(tmp_path / "b.txt", [["b"]])
    write(tmp_path / "a.txt", [["a"]])
    write(tmp_path / ".hidden", [["h"]])
    (tmp_path / "inner").mkdir()
    write(tmp_path / "inner" / "c[1].txt", [["c"]])
    monkeypatch.chdir(tmp_path)

    def names(source):
        return [path.name for path in Corpus(source).paths]

    assert names(tmp_path) == names(str(tmp_path)) == names("*") == names(f"{tmp_path}/*.txt") == ["a.txt", "b.txt"]
    assert names("b.txt") == ["b.txt"]
    assert names("**/*.txt") == ["a.txt", "b.txt", "c[1].txt"]
    assert names("inner/c[1].txt") == ["c[1].txt"]
    assert names([tmp_path / "b.txt", "inner"]) == ["b.txt", "c[1].txt"]
    (tmp_path / "inner").rename("a[b]c")
    assert names("a[b]c") == ["c[1].txt"]


def test_folders_are_skipped_and_dangling_links_refused(tmp_path, messages):
    write(tmp_path / "a.txt", [["a"]])
    (tmp_path / "train").mkdir()
    assert [path.name for path in Corpus(tmp_path).paths] == ["a.txt"]
    assert "train" in messages()
    (tmp_path / "b.txt").symlink_to(tmp_path / "gone")
    with pytest.raises(UserError, match=r"b\.txt.*gone"):
        Corpus(f"{tmp_path}/*.txt")


def test_corpus_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"'train/\*'"):
        Corpus("train/*")
    with pytest.raises(UserError):
        Corpus(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.txt", b"", "c.txt: "),
        ("c.txt", b"fine\n" * 1000 + b"caf\xe9\n", "c.txt:1001: "),
        ("c.txt", b"fine\n" * 1000 + b"fine " * 500, "c.txt:1001: a line of more than 2,000"),
        ("c.txt", b"fine\n" * 2 + b"f\0i\0n\0e\0\n", "c.txt:3: a NUL"),
        ("vocab.txt", b"<S>\n</S>\n<UNK>\na\n", "vocab.txt .*vocabulary"),
        ("vocab.txt", b"<S>\r\n</S>\r\n<UNK>\r\na\r\n", "vocab.txt .*vocabulary"),
        ("c.txt.gz", gzip.compress(b"a sentence\n" * 999, mtime=0)[:-20], "c.txt.gz cannot be read"),
    ],
    ids=["empty", "line-1001", "long", "utf-16", "vocabulary", "vocabulary of Windows", "short-gz"],
)
def test_bad_corpus_names_the_file(tmp_path, vocabulary, monkeypatch, name, content, message):
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(text_files, "MAX_LINE", 2000)
    (tmp_path / name).write_bytes(content)
    for read in (
        lambda: next(TrainStream(Corpus(tmp_path / name), vocabulary, 1, 1)),
        lambda: list(EvalStream(Corpus(tmp_path / name), vocabulary, 1, 1)),
        lambda: Corpus(tmp_path / name).count(vocabulary),
    ):
        with pytest.raises(UserError, match=message):
            read()


def test_a_corpus_of_blank_lines_names_the_file(tmp_path, vocabulary):
    (tmp_path / "c.txt").write_bytes(b"\n  \n\t\n")
    with pytest.raises(UserError, match=r"c\.txt: .*blank.*3"):
        Corpus(tmp_path / "c.txt").count(vocabulary)
    (tmp_path / "e.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(UserError, match=r"e\.gz: .*empty"):
        Corpus(tmp_path / "e.gz").count(vocabulary)


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_counts_are_exact_and_irregular_lines_logged_once(tmp_path, vocabulary, caplog, monkeypatch, block):
    monkeypatch.setattr(text_files, "BLOCK_BYTES", block)
    content = "\ufeffbirds sing\r\n\n  \nrain\u3000new <S>\x0bx\n \u3000\nlast 苹果 <UNK>"
    (tmp_path / "c.txt").write_text(content, encoding="utf-8", newline="")
    corpus = Corpus(tmp_path / "c.txt")
    counts = corpus.count(vocabulary)
    assert (counts.sentences, counts.tokens, counts.predictions) == (3, 9, 12)
    assert (counts.unknown, counts.blank_lines, counts.markers) == (4, 3, 1)
    batches = list(EvalStream(corpus, vocabulary, 2, 3))
    assert sum(batch.lengths.sum() for batch in batches) == counts.predictions
    next(TrainStream(corpus, vocabulary, 1, 50))
    assert [record.message.split(": ")[1][:7] for record in caplog.records] == ["3 blank", "1 marke"]


def test_a_vocabulary_is_not_a_corpus_even_with_a_byte_order_mark(tmp_path, vocabulary):
    vocabulary.save(tmp_path / "v.txt")
    (tmp_path / "v.txt").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "v.txt").read_bytes())
    assert Vocabulary.from_file(tmp_path / "v.txt").tokens == vocabulary.tokens
    with pytest.raises(UserError, match="is a vocabulary"):
        Corpus(tmp_path / "v.txt")


def test_a_sample_of_the_words_is_looked_up_and_everything_counted(tmp_path, vocabulary, monkeypatch):
    corpus, sentences = write_shards(tmp_path / "corpus", 50, 70)
    exact = corpus.count(vocabulary)
    assert exact.sentences == 120 and exact.tokens == exact.looked_up == sum(map(len, sentences))
    assert exact.unknown == sum(word not in vocabulary for sentence in sentences for word in sentence) > 120
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 100)
    sample = corpus.count(vocabulary, sample=True)
    assert (sample.sentences, sample.tokens) == (exact.sentences, exact.tokens)
    assert 0 < sample.looked_up < exact.tokens / 5 and 0.5 < sample.unknown_share / exact.unknown_share < 2


@pytest.mark.parametrize("input", ["char", "word"])
@pytest.mark.parametrize(("batch_size", "steps"), [(1, 1), (2, 3), (5, 7), (3, 40)])
def test_train_stream_equals_the_naive_one(tmp_path, vocabulary, monkeypatch, input, batch_size, steps):
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
    """The sentences of the first epochs of a stream with one row and one step, each as a list of inputs."""
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
@pytest.mark.parametrize("sizes", [(20,), (7, 9), (5, 6, 7), (3, 4, 5, 6, 2, 7, 3), (1, 1, 1, 1, 9)])
def test_the_ranks_together_read_each_sentence_once_an_epoch(tmp_path, vocabulary, world_size, sizes):
    corpus, sentences = write_shards(tmp_path / "c", *sizes)
    ranks = [
        sentences_by_epoch(TrainStream(corpus, vocabulary, 1, 1, rank=rank, world_size=world_size), 3)
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
    assert len(visited) > 3 and max(visited)[0] >= 1, "the positions should include the boundaries of shards and epochs"
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
    clean, noisy = (TrainStream(corpus, vocabulary, 3, 5, seed=2, noise=noise) for noise in (0, 0.3))
    pairs = [steps_of(next(stream), vocabulary) for _ in range(60) for stream in (clean, noisy)]
    steps = [list(chain.from_iterable(chain.from_iterable(part))) for part in (pairs[::2], pairs[1::2])]
    changed = [0, 0]
    for one, other in zip(*steps, strict=True):
        assert one[1::2] == other[1::2]
        changed = [n + (one[2 * k] != other[2 * k]) for k, n in enumerate(changed)]
    assert all(0.1 < n / len(steps[0]) < 0.3 for n in changed)  # not markers, not "."

    def read(size, **options):
        ranks = [TrainStream(corpus, vocabulary, 1, 1, rank=k, world_size=size, **options) for k in range(size)]
        epochs = zip(*(sentences_by_epoch(stream, 2) for stream in ranks), strict=True)
        return [sorted(chain.from_iterable(dealt)) for dealt in epochs]

    first, second = read(1, seed=2, noise=0.3)
    assert read(3, seed=2, noise=0.3) == [first, second] and first != second != read(1, seed=2)[1]
    assert read(1, seed=3, noise=0.3)[0] != first


@pytest.mark.parametrize(
    ("kind", "word", "expected"),
    [
        ("swap", "abba", {"baba", "abab"}),
        ("drop", "天气", {"天", "气"}),
        ("drop", "a", set()),
        ("double", "at", {"aat", "att"}),
        ("keyboard", "P!", {"O!", "L!"}),
        ("keyboard", "天", set()),
        ("ocr", "turn", {"tum", "furn", "tvrn", "turh", "turri"}),
        ("ocr", "未来", {"末来"}),
        ("swap", "2019", set()),
    ],
)
def test_misprints(kind, word, expected):
    assert {*variants(word, kind)} == expected and len(variants(word, kind)) == len(expected)


def test_more_noise_changes_the_same_words_and_others():
    words = ["<S>", *("wider", "film", ".", "天气") * 500, "</S>"]
    changed = []
    for share in (0, 0.1, 0.2):
        noisy = add_noise(words, share, random.Random("a"))
        assert len(noisy) == len(words) and noisy == add_noise(words, share, random.Random("a"))
        changed.append({k for k, pair in enumerate(zip(words, noisy, strict=True)) if pair[0] != pair[1]})
        assert len(changed[-1]) == pytest.approx(1500 * share, abs=40)
    assert not changed[0] and changed[1] < changed[2]


@pytest.mark.parametrize(
    ("batch_size", "max_tokens", "window"), [(4, 60, 16), (1, 1000, 5), (100, 20, 100), (8, 1, 50), (8, 400, math.inf)]
)
def test_sentence_batches_keep_to_the_budget(batch_size, max_tokens, window):
    rng = random.Random(0)
    sentences = [[str(i)] * rng.choice([0, 1, 2, 5, 9, 30]) for i in range(100)]
    seen = []
    for positions, batch in sentence_batches(iter(sentences), batch_size, max_tokens, window):
        assert positions.dtype == np.int64 and [sentences[i] for i in positions] == batch
        lengths = list(map(len, batch))
        assert lengths == sorted(lengths, reverse=True) and 1 <= len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * (lengths[0] + 2) <= max_tokens
        assert len({i // window for i in positions}) == 1
        seen.extend(positions)
    assert sorted(seen) == list(range(100))


def test_shuffled_batches_hold_every_sentence_once():
    lengths_of_all = [i % 23 for i in range(300)]
    random = np.random.default_rng(0)
    first, second = (shuffled_batches(lengths_of_all, 10, random) for _ in range(2))
    for batches in first, second:
        assert sorted(np.concatenate(batches)) == list(range(300)) and max(map(len, batches)) == 10
        lengths = [[lengths_of_all[k] for k in batch] for batch in batches]
        assert np.mean([max(batch) - min(batch) for batch in lengths]) < 3  # like lengths together
        longest = [max(batch) for batch in lengths[:16]]  # as many as are sorted by length together
        assert longest != sorted(longest, reverse=True)
    assert [batch.tolist() for batch in first] != [batch.tolist() for batch in second]
    again = shuffled_batches(lengths_of_all, 10, np.random.default_rng(0))
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in first]


def test_prefetching_keeps_order_and_stays_within_its_depth():
    taken, n_threads = [], threading.active_count()
    with prefetched(taken.append(i) or i for i in range(100)) as items:
        assert next(items) == 0
        until = time.monotonic() + 5
        while len(taken) < 5 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.1)
        assert len(taken) == 5  # one used, four prepared
        assert list(items) == list(range(1, 100))
    with prefetched(iter(int, 1)) as endless:
        next(endless)
    assert threading.active_count() == n_threads


def test_prefetching_raises_what_the_iterator_raised():
    def failing():
        yield 1
        yield 2
        raise UserError("bad line")

    with prefetched(failing()) as items:
        assert [next(items), next(items)] == [1, 2]
        with pytest.raises(UserError, match="bad line"):
            next(items)
        with pytest.raises(StopIteration):
            next(items)
