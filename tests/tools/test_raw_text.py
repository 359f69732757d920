"""Raw text to shards: each sentence once, the same with any number of processes, mistakes."""

import gzip
import logging
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
import runs
from preprocessing_runs import files_of, run
from splitting import english

from elmo_core.messages import UserError
from elmo_tools.preprocessing import raw_text

# Each sentence of this corpus tells which document it belongs to.


def document(i: int) -> str:
    return " ".join(
        f"This is document {i} sentence {j} of Mr. Smith's file." for j in range(1 + i % 4)
    )


@pytest.fixture
def raw(tmp_path):
    (tmp_path / "raw").mkdir()
    for name, numbers in (("a.txt", range(90)), ("b.txt", range(90, 150))):
        (tmp_path / "raw" / name).write_text(
            "".join(document(i) + "\n" for i in numbers), encoding="utf-8"
        )
    return tmp_path / "raw"


def text(source, output, *options) -> dict[str, bytes]:
    """Write a corpus and return its files and their bytes."""
    sources = source if isinstance(source, list) else [source]
    run(
        "text",
        *sources,
        "--lang",
        "en",
        "--output",
        output,
        "--shards",
        3,
        "--processes",
        1,
        *options,
    )
    return files_of(output)


def sentences(files: dict[str, bytes], part: str) -> list[str]:
    text = "".join(data.decode("utf-8") for name, data in files.items() if name.startswith(part))
    return text.removesuffix("\n").split("\n")


def documents(files: dict[str, bytes], part: str) -> set[int]:
    return {int(line.split()[3]) for line in sentences(files, part)}


def test_every_sentence_is_in_one_shard_once(raw, tmp_path):
    files = text(raw, tmp_path / "out")
    assert list(files) == [f"train/part-0000{i}-of-00003.txt" for i in range(3)]
    expected = [s for i in range(150) for s in english(document(i))]
    found = sentences(files, "train")
    assert Counter(found) == Counter(expected) and found != expected
    sizes = [data.count(b"\n") for data in files.values()]
    assert max(sizes) - min(sizes) <= 1
    places = [
        i
        for sentence in expected
        for i, data in enumerate(files.values())
        if sentence in data.decode()
    ]
    assert (
        len(set(zip(places[::3], places[1::3], places[2::3], strict=False))) > 3
    )  # not dealt in a fixed order
    for data in files.values():  # each shard holds sentences from the whole corpus
        numbers = [int(line.split()[3]) for line in data.decode().splitlines()]
        assert numbers != sorted(numbers) and min(numbers) < 30 and max(numbers) > 120


@pytest.mark.parametrize("split", ["random", "last"])
def test_neither_processes_nor_batches_change_a_byte(raw, tmp_path, monkeypatch, split):
    options = ["--dev_fraction", 0.2, "--dev_split", split, "--seed", 5]
    expected = text(raw, tmp_path / "1", *options)
    for processes, size in ((2, 1), (3, 700), (1, 99)):
        monkeypatch.setattr(raw_text, "BATCH_BYTES", size)
        assert (
            text(raw, tmp_path / f"{processes}-{size}", *options, "--processes", processes)
            == expected
        )
    other = text(raw, tmp_path / "seed", *options[:-1], 6)
    assert other != expected
    if split == "last":
        assert sorted(sentences(other, "dev")) == sorted(sentences(expected, "dev"))


def test_dev_holds_whole_documents(raw, tmp_path):
    files = text(raw, tmp_path / "random", "--dev_fraction", 0.2)
    dev, train = documents(files, "dev"), documents(files, "train")
    assert not dev & train and dev | train == set(range(150))
    assert 15 <= len(dev) <= 45 and dev != set(range(150 - len(dev), 150))
    files = text(raw, tmp_path / "last", "--dev_fraction", 0.1, "--dev_split", "last")
    assert documents(files, "dev") == set(range(135, 150)) and documents(files, "train") == set(
        range(135)
    )


def test_equal_lines_are_on_the_same_side(raw, tmp_path):
    once = text(raw, tmp_path / "once", "--dev_fraction", 0.2)
    (raw / "c.txt").write_bytes((raw / "a.txt").read_bytes() + (raw / "b.txt").read_bytes())
    twice = text(raw, tmp_path / "twice", "--dev_fraction", 0.2)
    assert sorted(sentences(twice, "dev")) == sorted(sentences(once, "dev") * 2)
    assert not documents(twice, "dev") & documents(twice, "train")


def test_little_text_has_one_held_out_line_and_one_shard(tmp_path):
    """Whatever the number of processes; the commands would otherwise fail."""
    source = tmp_path / "little.txt"
    source.write_text("".join(f"{document(4 * i)}\n" for i in range(4)), encoding="utf-8")
    options = ["--dev_fraction", 1e-6, "--shards", 9]
    files = text(source, tmp_path / "out", *options)
    assert list(files) == ["dev/part-00000-of-00001.txt", "train/part-00000-of-00001.txt"]
    assert len(sentences(files, "train")) == 3 and len(sentences(files, "dev")) == 1
    assert text(source, tmp_path / "two", *options, "--processes", 2) == files


@pytest.mark.parametrize(("line", "is_warned"), [("ฉันรักแมว", True), ("Ich möchte Öl.", False)])
def test_a_script_without_spaces_is_told(tmp_path, messages, line, is_warned):
    source = tmp_path / "a.txt"
    source.write_text(f"{line} {line}\n" * 9, encoding="utf-8")
    run("text", source, "--output", tmp_path / "out", "--processes", 1)
    assert ("no spaces between words" in messages()) == is_warned


def test_documents_that_are_files_or_blocks(raw, tmp_path):
    options = ["--dev_fraction", 0.1, "--dev_split", "last", "--document"]
    assert documents(text(raw, tmp_path / "file", *options, "file"), "dev") == set(range(90, 150))
    (raw / "a.txt").write_text(
        "\n".join(document(i) + "\n" * (i % 5 == 4) for i in range(98)), encoding="utf-8"
    )
    (raw / "b.txt").unlink()
    files = text(raw, tmp_path / "block", *options, "block")
    assert documents(files, "dev") == set(range(90, 98))  # the last two of 20 blocks


def test_files_globs_folders_and_gzip(raw, tmp_path, monkeypatch):
    expected = text(raw, tmp_path / "folder")
    monkeypatch.chdir(tmp_path)
    assert text("raw/[ab].txt", tmp_path / "glob") == expected
    assert text([raw / "a.txt", raw / "b.txt", raw], tmp_path / "twice") == expected
    (raw / "below").mkdir()
    (raw / "below" / "b.txt.gz").write_bytes(gzip.compress((raw / "b.txt").read_bytes()))
    (raw / "b.txt").unlink()
    (raw / ".hidden").write_bytes(b"\xff")
    assert text(raw, tmp_path / "gz") == expected
    monkeypatch.setenv("HOME", str(tmp_path))
    assert text("~/raw/**/*.*", tmp_path / "home") == expected


def test_lower_encoding_byte_order_mark_and_line_ends(tmp_path):
    source = tmp_path / "a.txt"
    source.write_bytes("\ufeffCafé Noir.\r\nIt's OK\x85\r\n".encode())
    files = text(source, tmp_path / "lower", "--lower", "--shards", 1)
    assert sorted(sentences(files, "train")) == ["café noir .", "it 's ok ..."]
    assert (
        text(source, tmp_path / "sig", "--lower", "--shards", 1, "--encoding", "utf-8-sig") == files
    )
    files = text(source, tmp_path / "none", "--lang", "none", "--shards", 1)
    assert sorted(sentences(files, "train")) == ["Café Noir.", "It's OK"]
    source.write_bytes("他来了。\n".encode("gb18030"))
    files = text(source, tmp_path / "gb", "--lang", "zh", "--shards", 1, "--encoding", "gb18030")
    assert sentences(files, "train") == ["他来 了 。"]


def test_tokenised_text_is_not_changed(tmp_path):
    lines = ["l' eau U.S. <br /> &amp; cafe\u0301 .", "ฉัน ไป โรงเรียน", "don 't stop ! Go on ."]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    files = text(tmp_path / "a.txt", tmp_path / "out", "--lang", "none", "--shards", 1)
    assert sorted(sentences(files, "train")) == sorted(lines)


def test_what_is_left_out_is_counted(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="elmo")
    source = tmp_path / "a.txt"
    source.write_bytes(b"Good one.\n\n \t\n<br />\n* * *\nNo\nFar too long it is.\nFine too.\n")
    files = text(source, tmp_path / "out", "--max_tokens", 4, "--shards", 1)
    assert sorted(sentences(files, "train")) == ["Fine too .", "Good one ."]
    few, many = "sentences of fewer than 2 tokens: 1", "sentences of more than 4 tokens: 1"
    for part in (
        "8 lines, 6 tokens",
        "empty lines: 3",
        few,
        many,
        "sentences without a letter or digit: 1",
    ):
        assert part in caplog.text
    with pytest.raises(
        UserError, match=r"no sentences for training.*sentences of fewer than 9 tokens: 4"
    ):
        text(source, tmp_path / "none", "--max_tokens", 5, "--min_tokens", 9, "--shards", 1)


def test_the_line_of_an_undecodable_byte_is_named_from_another_process(tmp_path, monkeypatch):
    monkeypatch.setattr(raw_text, "BATCH_BYTES", 100)
    source = tmp_path / "a.txt"
    source.write_bytes(b"Good one.\n" * 500 + b"A caf\xe9.\n" + b"Good one.\n" * 500 + b"\xff\n")
    with pytest.raises(UserError, match=r"a\.txt:501:"):
        text(source, tmp_path / "out", "--processes", 2)


def test_only_a_new_folder_is_written_and_a_failure_leaves_none(raw, tmp_path, monkeypatch):
    text(raw, tmp_path / "out")
    for output in (tmp_path / "out", raw, raw / "a.txt"):
        with pytest.raises(UserError, match="output"):
            text(raw, output)

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", fail)  # of a shard that has been shuffled
    with pytest.raises(KeyboardInterrupt):
        text(raw, tmp_path / "fresh" / "out")
    assert not list((tmp_path / "fresh").iterdir())


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_killed_script_tidies_up(tmp_path, sign, code):
    source, out = tmp_path / "a.txt", tmp_path / "out"
    source.write_text((document(3) + "\n") * 300_000, encoding="utf-8")
    argv = ["text", str(source), "--lang=en", f"--output={out}", "--processes=2"]
    script = runs.start("preprocess.py", argv, tmp_path / "errors")
    runs.wait_until(lambda: list(tmp_path.glob(".out.*.tmp/train/*")), script, tmp_path / "errors")
    script.send_signal(sign)
    assert script.wait(timeout=60) == code and "Traceback" not in (tmp_path / "errors").read_text(
        encoding="utf-8"
    )
    assert not out.exists() and not list(tmp_path.glob(".out.*"))


def test_processes_read_only_a_little_ahead():
    read = []
    results = raw_text._parallel_map(abs, (read.append(n) or n for n in range(0, -100, -1)), 2)
    for n, result in enumerate(results):
        assert result == n and len(read) <= n + 2 * raw_text.BATCHES_AHEAD
    assert n == 99


def test_a_killed_process_is_reported():
    with pytest.raises(UserError, match="killed"):
        list(raw_text._parallel_map(os._exit, iter([1, 2, 3]), 2))
