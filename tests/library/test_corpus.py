"""A corpus: its files, its counts, and what is no corpus."""

import gzip
import itertools

import pytest
from shards import MARKERS, WORDS, write, write_shards

from elmo_core.messages import UserError
from elmo_core.text import corpus as corpus_module
from elmo_core.text import text_files
from elmo_core.text.corpus import Corpus
from elmo_core.text.speller import UnknownWords
from elmo_core.text.vocabulary import Vocabulary
from elmo_tools.pretraining.streams import EvalStream, TrainStream


@pytest.fixture
def vocabulary():
    return Vocabulary(MARKERS + WORDS)


def test_corpus_resolves_files_folders_and_globs(tmp_path, monkeypatch):
    write(tmp_path / "b.txt", [["b"]])
    write(tmp_path / "a.txt", [["a"]])
    write(tmp_path / ".hidden", [["h"]])
    (tmp_path / "inner").mkdir()
    write(tmp_path / "inner" / "c[1].txt", [["c"]])
    monkeypatch.chdir(tmp_path)

    def names(source):
        return [path.name for path in Corpus(source).paths]

    assert (
        names(tmp_path)
        == names(str(tmp_path))
        == names("*")
        == names(f"{tmp_path}/*.txt")
        == ["a.txt", "b.txt"]
    )
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
        (
            "c.txt.gz",
            gzip.compress(b"a sentence\n" * 999, mtime=0)[:-20],
            "c.txt.gz cannot be read",
        ),
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
def test_counts_are_exact_and_irregular_lines_logged_once(
    tmp_path, vocabulary, caplog, monkeypatch, block
):
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
    assert [record.message.split(": ")[1][:7] for record in caplog.records] == [
        "3 blank",
        "1 marke",
    ]


def test_a_vocabulary_is_not_a_corpus_even_with_a_byte_order_mark(tmp_path, vocabulary):
    vocabulary.save(tmp_path / "v.txt")
    (tmp_path / "v.txt").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "v.txt").read_bytes())
    assert Vocabulary.from_file(tmp_path / "v.txt").tokens == vocabulary.tokens
    with pytest.raises(UserError, match="is a vocabulary"):
        Corpus(tmp_path / "v.txt")


def test_a_sample_of_the_words_is_looked_up_and_everything_counted(
    tmp_path, vocabulary, monkeypatch
):
    corpus, sentences = write_shards(tmp_path / "corpus", 50, 70)
    exact = corpus.count(vocabulary)
    words = list(itertools.chain.from_iterable(sentences))
    unknown = [word for word in words if word not in vocabulary]
    assert exact.sentences == 120
    assert exact.tokens == exact.looked_up == len(words)
    assert exact.unknown == len(unknown) > 120
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 100)
    sample = corpus.count(vocabulary, sample=True)
    assert (sample.sentences, sample.tokens) == (exact.sentences, exact.tokens)
    assert (
        0 < sample.looked_up < exact.tokens / 5
        and 0.5 < sample.unknown_share / exact.unknown_share < 2
    )


def test_unknown_words_are_counted(tmp_path, monkeypatch):
    (tmp_path / "1.txt").write_text("the b b a <UNK>\n<S> z a </S>\nthe d\n", encoding="utf-8")
    (tmp_path / "2.txt").write_text("e e e\nthe b\n", encoding="utf-8")
    corpus = Corpus(tmp_path)
    vocabulary = Vocabulary([*MARKERS, "the"])
    expected = UnknownWords({"b": 3, "e": 3, "a": 2, "z": 1, "d": 1}, total=10)
    found = corpus.unknown_words(vocabulary)
    assert found == expected
    assert list(found.counts) == list(expected.counts)
    assert corpus.unknown_words(vocabulary, limit=3) == UnknownWords({"b": 3, "e": 3, "a": 2}, 10)
    # of long files, only the first part
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 3)
    monkeypatch.setattr(corpus_module, "BLOCK_BYTES", 3)
    monkeypatch.setattr(corpus_module, "COUNTED_BYTES", 12)
    assert corpus.unknown_words(vocabulary).counts == {"a": 2, "b": 3, "z": 1, "e": 3}
    # of many files, only some
    monkeypatch.setattr(corpus_module, "COUNTED_BYTES", 3)
    assert corpus.unknown_words(vocabulary).counts == {"b": 2, "a": 1}
