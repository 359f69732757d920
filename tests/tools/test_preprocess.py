"""preprocess.py: vocabularies, and the commands from raw text to one."""

import logging
import re
import shlex

import pytest
import runs
from preprocessing_runs import files_of, run

from elmo_core.messages import UserError
from elmo_core.text.corpus import Corpus
from elmo_core.text.vocabulary import Vocabulary


def vocab(tmp_path, corpus: str, *options) -> list[str]:
    (tmp_path / "corpus.txt").write_text(corpus, encoding="utf-8", newline="\n")
    (tmp_path / "v.txt").unlink(missing_ok=True)
    run("vocab", *[tmp_path / "corpus.txt"] * 2, "--output", tmp_path / "v.txt", *options)
    return Vocabulary.from_file(tmp_path / "v.txt").tokens


def test_vocabulary_is_sorted_by_frequency_then_token(tmp_path):
    corpus = "b a 中\u3000a\n\nÉ b\u00a0zz a\x85Z 中\r\n"
    special = ["<S>", "</S>", "<UNK>"]
    assert vocab(tmp_path, corpus) == [*special, "a", "b", "中", "Z", "zz", "É"]
    assert vocab(tmp_path, corpus, "--min_count", 2) == [
        *special,
        "a",
        "b",
        "中",
    ]  # a file given twice counts once
    assert vocab(tmp_path, corpus, "--max_size", 5) == [*special, "a", "b"]
    assert vocab(tmp_path, corpus, "--max_size", 50) == vocab(tmp_path, corpus)
    with pytest.raises(UserError, match="`max_size` is too low"):
        vocab(tmp_path, corpus, "--max_size", 2)


def test_vocabulary_reports_coverage(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="elmo")
    long = "长" * 17  # 51 bytes
    tokens = vocab(
        tmp_path, f"a a a b <S> {long}\n<UNK> a </S> <S> {'x' * 48} c c\n", "--max_size", 5
    )
    assert tokens == ["<S>", "</S>", "<UNK>", "a", "c"]
    assert "2 of 8" in caplog.text and "46.15%" in caplog.text


def test_the_script_from_raw_text_to_vocabulary(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="elmo")
    source, out = tmp_path / "raw.txt", tmp_path / "my corpus"
    source.write_text(
        "".join(f"苹果很好吃。我喜欢苹果公司第{i}号楼！\n" for i in range(30)), encoding="utf-8"
    )
    options = ["--shards", 2, "--processes"]  # the language is recognised
    output = tmp_path / "output"
    argv = ["text", source, "--output", out, *options, 2]
    assert runs.start("preprocess.py", list(map(str, argv)), output).wait(timeout=120) == 0
    output = output.read_text(encoding="utf-8")
    assert not re.search("jieba|prefix dict|Warning", output)
    run("text", source, "--output", tmp_path / "alone", *options, 1)
    assert files_of(tmp_path / "alone") == files_of(out)
    script, *argv = shlex.split(re.search("next: python (.*)", output)[1])
    assert script == "preprocess.py"
    run(*argv)
    assert f"--train_data_path='{out}/train/*'" in caplog.text
    vocabulary = Vocabulary.from_file(out / "vocab.txt")
    assert "苹果" in vocabulary
    assert Corpus(f"{out}/train/*").count(vocabulary).sentences == 60
