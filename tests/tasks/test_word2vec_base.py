"""word2vec_base.py on a small dataset."""

import pytest

import word2vec_base


def test_the_published_command(tmp_path, capsys):
    for name, word in (("pos", "good"), ("neg", "bad")):
        (tmp_path / f"rt-polarity.{name}").write_text(f"{word} film\n" * 40, encoding="latin-1")
    (tmp_path / "vectors.txt").write_text("2 2\ngood 1 0\nbad 0 1\n", encoding="utf-8")
    vectors = f"--pretrained_word2vec_file={tmp_path / 'vectors.txt'}"
    word2vec_base.main([f"--data_dir={tmp_path}", vectors, "--epochs=4", "--device=cpu"])
    assert "== test: accuracy 100.00%" in capsys.readouterr().out


def test_the_file_of_vectors_is_required(tmp_path, capsys):
    with pytest.raises(SystemExit):
        word2vec_base.main([f"--data_dir={tmp_path}"])
    assert "--pretrained_word2vec_file" in capsys.readouterr().err
