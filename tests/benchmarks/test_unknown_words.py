"""Bits for unknown words: the command's table."""

import re

import runs


def test_words_that_are_known_take_fewer_bits(tmp_path):
    corpus = runs.write_corpus(tmp_path)
    with (corpus / "dev.txt").open("a", encoding="utf-8") as file:
        file.write("xyzzy\n")
    argv = [
        f"--train_data_path={corpus}/train",
        f"--dev_data_path={corpus}/dev.txt",
        f"--vocab_file={corpus}/vocab.txt",
        "--words=2",
        "--orders",
        "1",
        "3",
    ]
    output = tmp_path / "output"
    assert runs.start("benchmarks/unknown_words.py", argv, output).wait(timeout=60) == 0
    text = output.read_text(encoding="utf-8")
    rows = re.findall(r"^2 +(\d) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", text, re.M)
    assert [row[0] for row in rows] == ["1", "3"]
    for row in rows:
        spelled_all, spelled_new, known_all, known_new = [float(figure) for figure in row[1:]]
        assert 0 < known_all < spelled_all < spelled_new < known_new
