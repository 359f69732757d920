"""Chinese words with a dictionary of one's own."""

import copy
import marshal
import pickle
import tempfile

import jieba
import pytest

from elmo_core.messages import UserError
from elmo_core.text.segmenter import Segmenter, segmenter
from elmo_core.text.tokenise import Tokeniser

TEXT = "小明在云原生团队做图神经网络"


def test_a_dictionary_is_jiebas_own_but_does_not_change_the_programs_jieba(tmp_path):
    lines = ["\ufeff云原生 10 n", "图神经网络", "", "在 0"]
    (tmp_path / "words.txt").write_text("\n".join(lines), encoding="utf-8")
    before = jieba.lcut(TEXT)
    expected = jieba.Tokenizer()
    segment = Segmenter.from_file(tmp_path / "words.txt")
    expected.load_userdict(str(tmp_path / "words.txt"))
    assert segment.cut(TEXT) == ["小明", "在", "云原生", "团队", "做", "图神经网络"]
    assert expected.lcut(TEXT) == segment.cut(TEXT)
    assert before != segment.cut(TEXT)
    assert jieba.lcut(TEXT) == before
    assert segmenter().cut(TEXT) == before


def test_a_dictionary_that_another_user_left_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "jieba.cache").write_bytes(marshal.dumps(({"在北": 10**9}, 10**9)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    assert Segmenter(["云原生"]).cut("他在北京") == ["他", "在", "北京"]
    assert (tmp_path / "mine" / "elmo" / "jieba.cache").exists()


def test_a_word_of_frequency_0_is_split():
    jieba_words = segmenter().cut("他在北京大学学习")
    assert "北京大学" in jieba_words and "北京大学" not in Segmenter(["北京大学 0"]).cut(
        "他在北京大学学习"
    )
    assert jieba.lcut("他在北京大学学习") == jieba_words
    assert Segmenter(["一丁 0"]).cut("一丁") == [
        "一",
        "丁",
    ]  # although jieba finds it again, as a new word
    words, positions = segmenter().words_of([["北", "京", ""]])  # an empty token has a word, too
    assert [words[0][k] for k in positions[0]] == ["北京", "北京", " "]


def test_copies_segment_the_same():
    segment = Segmenter(["云原生", "图神经网络 5"])
    segment.cut(TEXT)
    for other in (copy.deepcopy(segment), pickle.loads(pickle.dumps(segment))):
        assert other.cut(TEXT) == segment.cut(TEXT)


@pytest.mark.parametrize(
    "line",
    [
        "云原生\t5 n x",
        "云原生 5 n x",
        "云原生 n 5",
        "云原生 -5",
        "云原生 0.5",
        "云原生，10，n",
        "云原生,10",
        "云原生，10 n",
    ],
)
def test_a_broken_line_is_named(tmp_path, line):
    (tmp_path / "words.txt").write_text(f"图神经网络\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"words\.txt:2: "):
        Segmenter.from_file(tmp_path / "words.txt")
    assert Segmenter.from_file(["云原生 9"]).cut("在云原生") == ["在", "云原生"]


def test_words_that_jieba_cannot_find_are_counted(caplog):
    Segmenter(["云原生", "贝拉克·奥巴马", "《红楼梦》 3"]).cut(TEXT)
    assert "2 words" in caplog.text and "贝拉克·奥巴马" in caplog.text


def test_characters_have_the_sentences_of_chinese():
    raw = "“走吧。”他说\u200b。<br>Ａ1 好 &amp; 坏……"
    split = Tokeniser("characters").sentences(raw)
    assert [" ".join(tokens) for tokens in split] == [
        "“ 走 吧 。 ”",
        "他 说 。",
        "Ａ 1 好 & 坏 … …",
    ]
    words = Tokeniser("zh").sentences(raw)
    assert ["".join(tokens) for tokens in split] == ["".join(tokens) for tokens in words]
