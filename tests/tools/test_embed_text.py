"""run_embed.py: its files, interruptions, shared work, and vectors of a vocabulary."""

import gzip
import itertools
import json
import random
import re
import shutil
import signal
import time
from pathlib import Path
from unittest import mock

import h5py
import numpy as np
import pytest
import runs
import tiny

import run_embed
from elmo import ELMoEmbedder
from elmo_core.messages import UserError
from elmo_core.text.text_files import read_sentences
from elmo_tools.embedding import embed_text

DIM = 2 * tiny.CHAR["projection_dim"]


def text_of(folder: Path, n: int = 300, seed: int = 0, longest: int = 9) -> Path:
    """Write a text of n lines, some blank, some repeated."""
    generator = random.Random(seed)
    words = [*tiny.WORDS[3:], "日本語", 'a"quote\\', "x" * 60, *(f"u{k}" for k in range(200))]
    lines = [" ".join(generator.choices(words, k=generator.randrange(longest))) for _ in range(n)]
    path = folder / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return text_of(tmp_path_factory.mktemp("text"))


@pytest.fixture
def output(tmp_path) -> Path:
    return tmp_path / "v.hdf5"


def embed(model: str, text: Path, output: Path, *more: str, batch_size: int = 2) -> Path:
    """Run on windows of 32 lines."""
    run_embed.main([*flags(model, text, output, batch_size), *more])
    return output


def flags(model: str, text: Path, output: Path, batch_size: int = 2) -> list[str]:
    values = {
        "init_from_ckpt": model,
        "input": text,
        "output": output,
        "batch_size": batch_size,
        "device": "cpu",
    }
    return [f"--{name}={value}" for name, value in values.items()]


def contents(path: Path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: dataset[()] for name, dataset in file.items()}


def sentences_of(path: Path) -> list[list[str]]:
    return list(read_sentences(path))


@pytest.fixture(scope="module")
def whole(model, text, tmp_path_factory):
    """The datasets of an uninterrupted run's file."""
    return contents(embed(model, text, tmp_path_factory.mktemp("whole") / "vectors.hdf5"))


def assert_close(path: Path, expected: dict[str, np.ndarray]) -> None:
    """Check that a file has the expected datasets and its parts are deleted."""
    found = contents(path)
    assert (
        found.keys() == expected.keys()
        and found["sentence_to_index"] == expected["sentence_to_index"]
    )
    for name in expected.keys() - {"sentence_to_index"}:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5, err_msg=name)
    assert not Path(f"{path}.parts").exists()


# What is in the file


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--layers=average"], {"layers": "average"}),
        (["--layers=2,0", "--dtype=float16"], {"layers": "2,0", "dtype": "float16"}),
        (
            ["--pool=mean", "--layers=1", "--dtype=float16"],
            {"pool": "mean", "layers": 1, "dtype": "float16"},
        ),
    ],
)
def test_the_vectors_are_those_of_the_embedder(model, text, output, arguments, options):
    found = contents(embed(model, text, output, *arguments))
    expected = ELMoEmbedder(model, device="cpu", **options).encode(sentences_of(text))
    assert len(found) == len(expected) + 1
    for line, array in enumerate(expected):
        assert (found[str(line)].shape, found[str(line)].dtype) == (array.shape, array.dtype)
        tolerance = 1e-5 if array.dtype == np.float32 else 2e-3
        np.testing.assert_allclose(found[str(line)], array, rtol=tolerance, atol=tolerance)


def test_the_file_has_allennlps_layout(model, text, output):
    """Read it as contexteval and others do: lines by sentence, and all other keys are numbers."""
    lines = [" ".join(tokens) for tokens in sentences_of(text)]
    with h5py.File(embed(model, text, output)) as file:
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
        numbers = {int(key) for key in file if key != "sentence_to_index"}
        assert numbers == set(range(len(lines)))
        for line in filter(None, lines):
            assert file[index[line]].shape == (3, len(line.split()), DIM)
            assert file[index[line]].dtype == np.float32
    assert len(set(lines)) < len(lines)
    assert index == {
        line: str(number) for number, line in enumerate(lines) if line
    }  # the last of equals


def test_blank_lines_keep_their_place(model, tmp_path, output, messages):
    path = tmp_path / "text.txt"
    path.write_text("the bank\n\n  \t\na river\n\n", encoding="utf-8")
    found = contents(embed(model, path, output))
    assert [found[str(k)].shape for k in range(5)] == [
        (3, n, DIM) for n in (2, 0, 0, 2, 0)
    ] and len(found) == 6
    assert f"{path}: 3 blank" in messages()
    found = contents(embed(model, path, tmp_path / "pooled.hdf5", "--pool=mean", "--layers=top"))
    assert [found[str(k)].any() for k in range(5)] == [True, False, False, True, False]


def test_long_and_unknown_tokens_are_counted(model, word_model, tmp_path, messages):
    path = tmp_path / "text.txt"
    path.write_text(f"the {'好' * 17}\n{'y' * 49} new {'z' * 48}\n", encoding="utf-8")
    embed(model, path, tmp_path / "c.hdf5")
    assert re.search(r"^.* 2 tokens .* 48 bytes", messages(), re.M)
    embed(word_model, path, tmp_path / "w.hdf5")
    assert "80.0%" in messages()


def test_sentences_can_be_left_out_and_texts_compressed(model, text, whole, tmp_path, output):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(text.read_bytes()))
    found = contents(embed(model, path, output, "--forget_sentences"))
    assert found.keys() == whole.keys() - {"sentence_to_index"}
    np.testing.assert_array_equal(found["7"], whole["7"])


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(model, tmp_path):
    """Compare the peak for 18,000 lines, whose vectors take 90 MB, with that for 3,000.

    HDF5 keeps up to 32 MB.
    """
    source = text_of(tmp_path, n=500, longest=60)
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    peaks = []
    for times in (6, 36):
        text, output = tmp_path / f"{times}.txt", tmp_path / "output"
        text.write_text("".join(lines * times), encoding="utf-8")
        process = runs.start(
            "run_embed.py", flags(model, text, tmp_path / f"{times}.hdf5", batch_size=64), output
        )
        peaks.append(runs.peak_memory(process, output))
    assert (tmp_path / "36.hdf5").stat().st_size > 90e6 and peaks[1] < peaks[0] + 50


# Interruptions


def n_parts(output: Path) -> int:
    return len(list(Path(f"{output}.parts").glob("*.hdf5")))


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_file(model, tmp_path):
    text = text_of(tmp_path, n=600, longest=12)
    output, generator = tmp_path / "v.hdf5", random.Random(0)
    for least in (1, 10):
        process = runs.start("run_embed.py", flags(model, text, output), tmp_path / "output")
        runs.wait_until(lambda least=least: n_parts(output) >= least, process, tmp_path / "output")
        time.sleep(generator.random() / 20)
        process.kill()
        assert process.wait() == -signal.SIGKILL and not output.exists()
    embed(model, text, output)
    assert_close(output, contents(embed(model, text, tmp_path / "whole.hdf5")))


class Stop(Exception):
    pass


def embed_some(
    model: str, text: Path, output: Path, n: int, error: type = Stop, more: tuple[str, ...] = ()
) -> None:
    """Run until n parts are written."""
    write, calls = embed_text._write_window, itertools.count()

    def counted(*arguments):
        if next(calls) == n:
            raise error
        write(*arguments)

    with mock.patch.object(embed_text, "_write_window", counted), pytest.raises(error):
        embed(model, text, output, *more)


def test_finished_windows_are_not_computed_again(model, text, whole, output, messages):
    embed_some(model, text, output, 5, KeyboardInterrupt)
    embed_some(model, text, output, 2)
    assert "5 of 10 windows" in messages() and n_parts(output) == 7
    embed(model, text, output)
    assert "7 of 10 windows done" in messages()
    assert_close(output, whole)


@pytest.mark.parametrize("window", [0, 4, 9])
def test_the_same_command_twice_makes_one_file(model, text, whole, output, window):
    """The second one begins, ends, and removes the parts while the first computes a window."""
    write, calls = embed_text._write_window, itertools.count()

    def interleaved(*arguments):
        if next(calls) == window:
            embed(model, text, output)
        write(*arguments)

    with mock.patch.object(embed_text, "_write_window", interleaved):
        embed(model, text, output)
    assert_close(output, whole)


@pytest.mark.parametrize(
    "interrupted", ["h5py.Group.copy", "elmo_tools.embedding.embed_text._remove_parts"]
)
def test_an_interruption_while_the_parts_are_joined(model, text, whole, output, interrupted):
    embed_some(model, text, output, 9)
    with mock.patch(interrupted, side_effect=Stop), pytest.raises(Stop):
        embed(model, text, output)
    assert n_parts(output) == 10 and output.exists() == (interrupted != "h5py.Group.copy")
    with mock.patch.object(ELMoEmbedder, "iter_encode", side_effect=AssertionError):
        embed(model, text, output)
    assert_close(output, whole)


@pytest.mark.parametrize(
    ("more", "changed"),
    [
        (["--layers=average"], "mix"),
        (["--layers=concat"], "layers"),
        (["--forget_sentences"], "forget_sentences"),
        (["--init_from_ckpt=OTHER"], "model"),
        (["--input=OTHER"], "text"),
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_other_settings_are_refused(model, text, tmp_path, more, changed, finished):
    output, other = tmp_path / "v.hdf5", tmp_path / "other"
    if finished:
        embed(model, text, output)
    else:
        embed_some(model, text, output, 3)
    if changed == "model":
        other = tiny.save(tiny.random_bilm(seed=2), other)
    elif changed == "text":
        other.write_text(text.read_text(encoding="utf-8").replace("u7", "u8", 1), encoding="utf-8")
    with pytest.raises(UserError, match=f"v.hdf5.* {changed} was "):
        embed(model, text, output, *(flag.replace("OTHER", str(other)) for flag in more))


def test_shares_of_different_models_are_not_joined(model, text, tmp_path, output):
    embed(model, text, output, "--shard=0/2")
    other = tiny.save(tiny.random_bilm(seed=2), tmp_path / "other")
    config = Path(shutil.copytree(model, tmp_path / "same weights")) / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace("true", "false"), encoding="utf-8")
    for folder in other, config.parent:
        with pytest.raises(UserError, match="model was"):
            embed(str(folder), text, output, "--shard=1/2")


def test_a_model_and_text_that_have_moved_are_the_same(model, text, whole, tmp_path, output):
    embed_some(model, text, output, 3)
    moved = shutil.copytree(model, tmp_path / "moved")
    assert_close(embed(str(moved), Path(shutil.copy(text, tmp_path / "copy.txt")), output), whole)


@pytest.mark.parametrize("finished", [False, True])
def test_the_files_of_others_are_kept(model, tmp_path, output, finished):
    """In the folder of the parts, and beside the output."""
    text, parts = text_of(tmp_path, n=3), Path(f"{output}.parts")
    if finished:
        embed(model, text, output)
    parts.mkdir()
    killed = [parts / ".lock", parts / f".000003.hdf5.{'a' * 16}.tmp"]
    others = [
        parts / "notes.txt",
        parts / "000001.hdf5.bak",
        output.with_name(f".{output.name}.mine.tmp"),
    ]
    for path in [*killed, *others]:
        path.write_text("precious")
    embed(model, text, output)
    assert len(contents(output)) == 3 + 1
    assert {*parts.iterdir()} == {*others[:2]} and all(
        path.read_text() == "precious" for path in others
    )


@pytest.mark.parametrize("kind", ["file", "link to nothing", "link to a folder"])
def test_the_place_of_the_parts_is_taken(model, tmp_path, output, kind):
    text = text_of(tmp_path, n=3)
    parts, notes = Path(f"{output}.parts"), tmp_path / "notes" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("precious")
    if kind == "file":
        parts.write_text("precious")
    else:
        parts.symlink_to("nothing" if kind == "link to nothing" else notes.parent)
    if kind == "link to a folder":
        embed(model, text, output)
        assert [*notes.parent.iterdir()] == [notes]
    else:
        with pytest.raises(UserError, match=re.escape(str(parts))):
            embed(model, text, output)
    assert parts.is_symlink() == (kind != "file") and notes.read_text() == "precious"


# Several processes


@pytest.mark.parametrize("n", [2, 12])
def test_shares_equal_one_process(model, text, whole, output, n):
    """Shares, one of which was interrupted and resumed; also more shares than windows."""
    embed_some(model, text, output, 1 if n == 2 else 0, more=(f"--shard=0/{n}",))
    for k in range(n):
        assert output.exists() == (k >= 10), "it is joined before all windows exist"
        embed(model, text, output, f"--shard={k}/{n}")
    assert_close(output, whole)


@pytest.mark.ranks
def test_two_ranks_make_one_file(model, text, whole, tmp_path, output):
    processes = runs.start_ranks("run_embed.py", flags(model, text, output), tmp_path)
    ended = [process.wait(timeout=120) for process in processes]
    assert ended == [0, 0], [(tmp_path / f"rank{k}").read_text(encoding="utf-8") for k in range(2)]
    assert_close(output, whole)


def test_a_dead_process_does_not_block_the_others(model, text, whole, output, monkeypatch):
    """Rank 0 of 2 dies, rank 1 does its share. A single process finishes the work."""
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    embed_some(model, text, output, 2)
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    embed(model, text, output, "--shard=1/2")  # of which rank 1 does a half, windows 3 and 7
    assert n_parts(output) == 2 + 2 and not output.exists()
    embed(model, text, output)
    assert n_parts(output) == 2 + 5 and not output.exists()
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "1")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    embed(model, text, output)
    assert_close(output, whole)
