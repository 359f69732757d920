"""run_embed.py: what is in its files, interruptions, parts, damage, and vectors of a vocabulary."""

import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path
from unittest import mock

import h5py
import models
import numpy as np
import pytest
import runs
import vector_writes

import elmo
import run_embed
from elmo import ELMoEmbedder, ScalarMix
from elmo_core import token_vectors
from elmo_core.runtime import UserError, paddle
from elmo_core.text import read_sentences
from elmo_core.tokens import Tokens, char_ids
from embedding import vector_file, vector_parts
from embedding.vector_file import VectorFile

DIM = 2 * models.CHAR["projection_dim"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return models.save(models.random_bilm(), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def word_model(tmp_path_factory):
    return models.save(models.random_bilm(input="word"), tmp_path_factory.mktemp("word"))


def text_of(folder: Path, n: int = 300, seed: int = 0, longest: int = 9) -> Path:
    """A text of so many lines, some of them blank, some twice there."""
    generator = random.Random(seed)
    words = [*models.WORDS[3:], "日本語", 'a"quote\\', "x" * 60, *(f"u{k}" for k in range(200))]
    lines = [" ".join(generator.choices(words, k=generator.randrange(longest))) for _ in range(n)]
    path = folder / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return text_of(tmp_path_factory.mktemp("text"))


def embed(model: str, text: Path, output: Path, *more: str, batch_size: int = 2) -> Path:
    """Run on windows of 32 lines."""
    run_embed.main([*flags(model, text, output, batch_size), *more])
    return output


def flags(model: str, text: Path, output: Path, batch_size: int = 2) -> list[str]:
    values = {"init_from_ckpt": model, "input": text, "output": output, "batch_size": batch_size, "device": "cpu"}
    return [f"--{name}={value}" for name, value in values.items()]


def contents(path: Path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: dataset[()] for name, dataset in file.items()}


def sentences_of(path: Path) -> list[list[str]]:
    return list(read_sentences(path))


@pytest.fixture(scope="module")
def whole(model, text, tmp_path_factory):
    """The file that one uninterrupted run makes."""
    return embed(model, text, tmp_path_factory.mktemp("whole") / "vectors.hdf5")


# What is in the file


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ([], {}),
        (["--layers=top"], {"layers": "top"}),
        (["--layers=average"], {"layers": "average"}),
        (["--layers=0"], {"layers": 0}),
        (["--layers=0,1"], {"layers": "0,1"}),
        (["--layers=2,0", "--dtype=float16"], {"layers": "2,0", "dtype": "float16"}),
        (["--pool=mean"], {"pool": "mean"}),
        (["--pool=mean", "--layers=1", "--dtype=float16"], {"pool": "mean", "layers": 1, "dtype": "float16"}),
    ],
)
def test_the_vectors_are_those_of_the_embedder(model, text, tmp_path, given, options):
    found = contents(embed(model, text, tmp_path / "v.hdf5", *given))
    expected = ELMoEmbedder(model, device="cpu", **options).encode(sentences_of(text))
    assert len(found) == len(expected) + 1
    for line, array in enumerate(expected):
        assert (found[str(line)].shape, found[str(line)].dtype) == (array.shape, array.dtype)
        tolerance = 1e-5 if array.dtype == np.float32 else 2e-3
        np.testing.assert_allclose(found[str(line)], array, rtol=tolerance, atol=tolerance)


def test_a_mix_is_what_a_scalar_mix_makes(model, text, tmp_path):
    found = contents(embed(model, text, tmp_path / "v.hdf5", "--mix=-0.3,1.2,0.4,1.7"))
    mix = ScalarMix(3)
    mix.scalars.set_value(np.array([-0.3, 1.2, 0.4], np.float32))
    mix.gamma.set_value(np.array([1.7], np.float32))
    for line, array in enumerate(ELMoEmbedder(model, device="cpu").encode(sentences_of(text))):
        expected = mix([paddle.to_tensor(layer) for layer in array]).numpy()
        np.testing.assert_allclose(found[str(line)], expected, atol=1e-5)


def test_several_layers_are_asked_for_by_their_numbers(model):
    every = ELMoEmbedder(model, device="cpu").encode(models.SENTENCES)
    for layers, numbers in {"0,1": [0, 1], "2,0": [2, 0], "1": 1}.items():
        found = ELMoEmbedder(model, device="cpu", layers=layers).encode(models.SENTENCES)
        for array, expected in zip(found, every, strict=True):
            np.testing.assert_array_equal(array, expected[numbers])
    for wrong in ("0,3", "3", "0,", "0,-1", "a,b"):
        with pytest.raises(UserError, match=f"layers='{wrong}'"):
            ELMoEmbedder(model, layers=wrong)


def test_it_reads_as_a_file_of_allennlp(whole, text):
    """As contexteval and others do: sentences by their text, and every other key a number."""
    lines = [" ".join(tokens) for tokens in sentences_of(text)]
    with h5py.File(whole) as file:
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
        numbers = {int(key) for key in file if key != "sentence_to_index"}
        assert numbers == set(range(len(lines)))
        for line in filter(None, lines):
            assert file[index[line]].shape == (3, len(line.split()), DIM)
            assert file[index[line]].dtype == np.float32
    assert len(set(lines)) < len(lines)
    assert index == {line: str(number) for number, line in enumerate(lines) if line}  # the last of equals


def test_blank_lines_keep_their_place(model, tmp_path, said):
    path = tmp_path / "text.txt"
    path.write_text("the bank\n\n  \t\na river\n\n", encoding="utf-8")
    found = contents(embed(model, path, tmp_path / "v.hdf5"))
    assert [found[str(k)].shape for k in range(5)] == [(3, n, DIM) for n in (2, 0, 0, 2, 0)] and len(found) == 6
    assert f"{path}: 3 blank lines: their datasets are empty" in said()
    found = contents(embed(model, path, tmp_path / "pooled.hdf5", "--pool=mean", "--layers=top"))
    assert [found[str(k)].any() for k in range(5)] == [True, False, False, True, False]
    assert "3 blank lines: their vectors are zero" in said()


def test_what_is_odd_about_the_text_is_told(model, word_model, tmp_path, said):
    path = tmp_path / "text.txt"
    path.write_text(f"the {'好' * 17}\n{'y' * 49} new {'z' * 48}\n", encoding="utf-8")
    embed(model, path, tmp_path / "c.hdf5")
    assert f"{path}: 2 tokens with more than 48 bytes" in said()
    embed(word_model, path, tmp_path / "w.hdf5")
    assert f"{path}: 4 tokens that the model's vocabulary lacks" in said()


def test_sentences_can_be_left_out_and_texts_compressed(model, text, whole, tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(text.read_bytes()))
    found, expected = contents(embed(model, path, tmp_path / "v.hdf5", "--forget_sentences")), contents(whole)
    del expected["sentence_to_index"]
    assert_same(found, expected)


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """The same datasets, bit for bit."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("longest", [1, 200])
def test_the_size_is_told_before(model, tmp_path, said, longest):
    """To 3 % for tokens enough, and never too small by more."""
    path = text_of(tmp_path, n=1000, longest=longest + 1)
    output = embed(model, path, tmp_path / "v.hdf5", batch_size=64)
    found = output.stat().st_size / 1e6
    told = [float(number) for number in re.findall(r"size +([\d.]+) MB", said())]
    assert told == [pytest.approx(found, rel=0.03, abs=0.07)]
    assert f"v.hdf5.partial, {found:.2f} MB when it is done" in said()


def test_memory_does_not_grow_with_the_text(model, tmp_path):
    """The peak over 30,000 lines, whose vectors are 150 MB, against that over 3,000. HDF5 and malloc keep some."""
    lines = text_of(tmp_path, n=500, longest=60).read_text(encoding="utf-8").splitlines(keepends=True)
    peaks = []
    for times in (6, 60):
        text, output = tmp_path / f"{times}.txt", tmp_path / "output"
        text.write_text("".join(lines * times), encoding="utf-8")
        process = runs.start("run_embed.py", flags(model, text, tmp_path / f"{times}.hdf5", batch_size=64), output)
        peaks.append(runs.peak_memory(process, output))
    assert (tmp_path / "60.hdf5").stat().st_size > 150e6 and peaks[1] < peaks[0] + 75


# Interruptions


def test_a_kill_at_any_call_that_writes_loses_a_window_at_the_most(tmp_path):
    environment = {**os.environ, "PYTHONPATH": f"{runs.PROJECT}:{runs.PROJECT / 'tests'}"}
    script = str(runs.PROJECT / "tests" / "vector_writes.py")
    done = subprocess.run(
        [sys.executable, script, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert int(re.fullmatch(r"killed (\d+) times\n", done.stdout)[1]) > 40


def test_runs_that_were_killed_end_as_one_that_was_not(model, tmp_path):
    """Killed at random moments while it computes, it goes on to the end, and its file has the same bytes."""
    text = text_of(tmp_path, n=1000, longest=12)
    output, generator, done = tmp_path / "v.hdf5", random.Random(0), 0
    for _ in range(3):
        process = runs.start("run_embed.py", flags(model, text, output), tmp_path / "output")
        while windows_begun(output) < done + 2:
            assert process.poll() is None, output_of(tmp_path)
            time.sleep(0.01)
        time.sleep(generator.random() / 10)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        done = windows_begun(output)
    assert done >= 6 and not output.exists()
    embed(model, text, output)
    assert output.read_bytes() == embed(model, text, tmp_path / "whole.hdf5").read_bytes()


def windows_begun(output: Path) -> int:
    try:
        with VectorFile(vector_file.partial_of(output)) as file:
            return sum(map(file.is_begun, range(len(file.windows))))
    except (UserError, OSError):
        return 0


class Stop(Exception):
    pass


def embed_some(model: str, text: Path, output: Path, windows: int, error: type = Stop) -> None:
    """Run until so many windows are written."""
    write, calls = VectorFile.write, 0

    def counted(*arguments):
        nonlocal calls
        if calls == windows:
            raise error
        calls += 1
        write(*arguments)

    with mock.patch.object(VectorFile, "write", counted), pytest.raises(error):
        embed(model, text, output)


def test_an_interruption_is_told_and_what_is_done_is_not_done_again(model, text, whole, tmp_path, said):
    """In a second block of windows, so that tokens are met again."""
    output = tmp_path / "v.hdf5"
    with mock.patch.object(run_embed, "BLOCK", 3):
        embed_some(model, text, output, 5, KeyboardInterrupt)
        assert "stopped       5 of 10 windows are done: the same command goes on" in said()
        embed_some(model, text, output, 2)
        assert "goes on       5 of 10 windows are done" in said()
        embed(model, text, output)
        assert "goes on       7 of 10 windows are done" in said()
        assert output.read_bytes() == embed(model, text, tmp_path / "again.hdf5").read_bytes()
    found, expected = contents(output), contents(whole)
    assert found.pop("sentence_to_index") == expected.pop("sentence_to_index")
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5)


def test_tokens_that_are_met_decide_the_bits(model, text):
    """What a block has met before is what makes a window's vectors the same; without it the last bits may differ."""
    embedder = ELMoEmbedder(model, device="cpu", batch_size=4)
    first, second = sentences_of(text)[:100], sentences_of(text)[100:200]
    list(embedder.batches(first))
    expected = [(places.tolist(), arrays) for places, arrays in embedder.batches(second)]
    embedder.forget()
    embedder.meet(first)
    for (places, arrays), (wanted_places, wanted) in zip(embedder.batches(second), expected, strict=True):
        assert places.tolist() == wanted_places
        for array, other in zip(arrays, wanted, strict=True):
            np.testing.assert_array_equal(array, other)


def test_sigterm_ends_a_run_as_ctrl_c_does(model, tmp_path):
    text = text_of(tmp_path, n=4000, longest=20)
    process = runs.start("run_embed.py", flags(model, text, tmp_path / "v.hdf5"), tmp_path / "output")
    while windows_begun(tmp_path / "v.hdf5") < 2:
        assert process.poll() is None, output_of(tmp_path)
        time.sleep(0.01)
    process.terminate()
    assert process.wait(timeout=60) == 130
    assert re.search(
        r"stopped +\d+ of 125 windows are done: the same command goes on\ninterrupted\n$", output_of(tmp_path)
    )


def output_of(folder: Path) -> str:
    return (folder / "output").read_text(encoding="utf-8").replace("\r", "\n")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--layers=top"], r"layers was all, is top; shape was \[3, None, 14\], is \[None, 14\]"),
        (["--mix=0,0,0,1"], r"layers was all, is mix 0.0,0.0,0.0,1.0"),
        (["--dtype=float16"], "dtype was float32, is float16"),
        (["--pool=mean"], "pool was None, is mean"),
        (["--forget_sentences"], "sentences was True, is False"),
        (["--shard=0/2"], "lines was 300, is"),
        (["--batch_size=3"], "batch_size was 2, is 3"),
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_another_run_is_not_mixed_in(model, text, whole, tmp_path, more, message, finished):
    output = tmp_path / "v.hdf5"
    if finished:
        shutil.copy(whole, output)
    else:
        embed_some(model, text, output, 3)
    with pytest.raises(UserError, match=message):
        embed(model, text, output, *more)


def test_another_text_or_model_is_not_mixed_in(model, word_model, text, tmp_path):
    output = tmp_path / "v.hdf5"
    embed_some(model, text, output, 3)
    with pytest.raises(UserError, match=r"model was char input.*, is word input"):
        embed(word_model, text, output)
    other = models.save(models.random_bilm(seed=2), tmp_path / "other")
    with pytest.raises(UserError, match=r"other settings: model was char input, P 7, H 13 \(CRC-32"):
        embed(other, text, output)
    changed = tmp_path / "changed.txt"
    changed.write_text(text.read_text(encoding="utf-8").replace("u7", "u8", 1), encoding="utf-8")
    with pytest.raises(UserError, match=r"other settings: text was 300 lines.*, is 300 lines"):
        embed(model, changed, output)


def test_a_model_and_text_that_have_moved_are_the_same(model, text, whole, tmp_path):
    embed_some(model, text, tmp_path / "v.hdf5", 3)
    moved = Path(shutil.copytree(Path(model).parent, tmp_path / "moved"), "1")
    output = embed(str(moved), Path(shutil.copy(text, tmp_path / "copy.txt")), tmp_path / "v.hdf5")
    assert output.read_bytes() == whole.read_bytes()


def test_a_finished_file_is_left_alone(model, text, whole, said):
    before = whole.stat()
    embed(model, text, whole)
    assert whole.stat() == before and f"{whole} is finished, nothing is left to do." in said()


def test_two_processes_do_not_write_one_file(model, text, tmp_path):
    output = tmp_path / "v.hdf5"
    embed_some(model, text, output, 3)
    with vector_file.partial_of(output).open("ab") as handle:
        vector_file._lock(handle, vector_file.partial_of(output))
        with pytest.raises(UserError, match=r"v.hdf5.partial is being written by another process"):
            embed(model, text, output)
    embed(model, text, output)


EDITS = {
    "changed": lambda text: text.replace("u7", "u8", 1),
    "longer": lambda text: text + "one more\n",
    "empty": lambda text: "",
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_text_that_changes_while_it_is_read_is_noticed(model, tmp_path, edit):
    path = text_of(tmp_path)
    before = path.read_text(encoding="utf-8")

    def change(*_, is_begun=VectorFile.is_begun):
        path.write_text(EDITS[edit](before), encoding="utf-8")
        return is_begun(*_)

    with (
        mock.patch.object(VectorFile, "is_begun", change),
        pytest.raises(UserError, match=r"text.txt has changed while it"),
    ):
        embed(model, path, tmp_path / "v.hdf5")
    assert not (tmp_path / "v.hdf5").exists()


# Parts


@pytest.mark.parametrize("n", [2, 3, 12])
def test_shares_merge_to_what_one_process_makes(model, text, whole, tmp_path, n):
    """More shares than windows, too."""
    parts = [embed(model, text, tmp_path / f"part{k}", f"--shard={k}/{n}") for k in range(n)]
    names = [name for part in parts for name in contents(part) if name != "sentence_to_index"]
    assert sorted(map(int, names)) == list(range(300))
    merge(tmp_path / "v.hdf5", *reversed(parts))
    assert (tmp_path / "v.hdf5").read_bytes() == whole.read_bytes()


def merge(output: Path, *parts: Path) -> None:
    run_embed.main([f"--output={output}", "--merge", *map(str, parts)])


def test_a_merge_goes_on_after_an_interruption(model, text, whole, tmp_path):
    parts = [embed(model, text, tmp_path / f"part{k}", f"--shard={k}/2") for k in range(2)]
    write, calls = VectorFile.write, []

    def interrupted(*arguments):
        calls.append(arguments[1])
        if len(calls) == 4:
            raise Stop
        write(*arguments)

    with mock.patch.object(VectorFile, "write", interrupted):
        with pytest.raises(Stop):
            merge(tmp_path / "v.hdf5", *parts)
        merge(tmp_path / "v.hdf5", *parts)
    assert calls == [0, 1, 2, 3, *range(3, 10)]
    assert (tmp_path / "v.hdf5").read_bytes() == whole.read_bytes()


def test_parts_that_are_no_whole_are_refused(model, text, whole, tmp_path):
    parts = [embed(model, text, tmp_path / f"part{k}", f"--shard={k}/3") for k in range(3)]
    half = embed(model, text, tmp_path / "half", "--shard=1/2")
    top = embed(model, text, tmp_path / "top", "--shard=1/3", "--layers=top")
    for given, message in (
        ([parts[0], parts[2]], r"Lines 97 to 192 are in no part, seen at .*part2"),
        ([parts[1], parts[2]], r"Lines 1 to 96 are in no part"),
        ([parts[0], parts[1]], r"Lines 193 to 300 are in no part"),
        ([parts[0], parts[0], parts[1], parts[2]], r"Lines 1 to 96 are in two parts"),
        ([parts[0], half], r"Lines 97 to 160 are in no part"),
        ([parts[0], top, parts[2]], "part0 and .*top do not belong together: layers was all, is top"),
        ([parts[0], whole], f"{whole} has no ledger at its end"),
        ([parts[0], text], f"{text} has no ledger at its end"),
        ([parts[0], tmp_path / "nothing"], "--merge .*nothing: there is no such file"),
    ):
        with pytest.raises(UserError, match=message):
            merge(tmp_path / "v.hdf5", *given)
        assert not (tmp_path / "v.hdf5").exists()
    with pytest.raises(UserError, match=r"--output .*part0 is one of the parts"):
        merge(parts[0], *parts)


def test_two_ranks_make_one_file(model, text, whole, tmp_path):
    processes = runs.start_ranks("run_embed.py", flags(model, text, tmp_path / "v.hdf5"), tmp_path)
    ended = [process.wait(timeout=120) for process in processes]
    said = [(tmp_path / f"rank{k}").read_text(encoding="utf-8") for k in range(2)]
    assert ended == [0, 0], said
    assert (tmp_path / "v.hdf5").read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0", "rank1", "v.hdf5"]
    assert sum("merged        2 parts into" in text for text in said) == 1


@pytest.fixture
def launched(monkeypatch):
    """Be a process of the launcher."""

    def be(rank: int, of: int) -> None:
        monkeypatch.setenv("PADDLE_TRAINERS_NUM", str(of))
        monkeypatch.setenv("PADDLE_TRAINER_ID", str(rank))

    return be


def test_a_dead_process_holds_nobody_up(model, text, whole, tmp_path, launched, said):
    """Rank 0 dies. Rank 1 finishes its part; the same command finishes the rest and puts it together."""
    output = tmp_path / "v.hdf5"
    launched(0, 2)
    embed_some(model, text, output, 2)
    launched(1, 2)
    embed(model, text, output)
    assert "The process that finishes last puts the parts together" in said() and not output.exists()
    assert {path.name for path in tmp_path.glob("v*")} == {"v.hdf5.0of2.partial", "v.hdf5.1of2"}
    launched(0, 3)
    with pytest.raises(UserError, match=r"There is .*v.hdf5.0of2.partial, made by one of 2 processes"):
        embed(model, text, output)
    launched(0, 1)
    with pytest.raises(UserError, match=r"There is .*v.hdf5.0of2.partial, made by one of 2 processes"):
        embed(model, text, output)
    for rank in (0, 1):
        launched(rank, 2)
        embed(model, text, output)
    assert output.read_bytes() == whole.read_bytes()
    assert [path.name for path in tmp_path.glob("v*")] == ["v.hdf5"]
    with pytest.raises(UserError, match=r"--shard and paddle.distributed.launch"):
        embed(model, text, output, "--shard=0/2")


def test_the_processes_end_with_their_launcher(model, text, tmp_path, launched):
    launched(0, 2)
    with mock.patch("os.getppid", side_effect=[7, 7, 1]), pytest.raises(KeyboardInterrupt):
        embed(model, text, tmp_path / "v.hdf5")
    assert windows_begun(tmp_path / "v.hdf5.0of2") == 2


# The disk


Usage = namedtuple("Usage", "total used free")


def test_a_disk_without_room_is_refused_before_anything_is_written(model, text, tmp_path, launched):
    with mock.patch("shutil.disk_usage", return_value=Usage(10**6, 0, 12345)):
        with pytest.raises(UserError, match=r"v.hdf5: 0\.\d\d MB are needed, 0.01 MB are free in .*--layers top"):
            embed(model, text, tmp_path / "v.hdf5")
        with pytest.raises(UserError, match=r"are needed, 0.01 MB are free"):
            run_embed.main(
                [
                    f"--init_from_ckpt={model}",
                    f"--vocab={vocabulary(tmp_path, 2000)}",
                    f"--output={tmp_path / 'v.hdf5'}",
                ]
            )
    assert not list(tmp_path.glob("v.hdf5*"))
    parts = [embed(model, text, tmp_path / f"part{k}", f"--shard={k}/2") for k in range(2)]
    room = sum(part.stat().st_size for part in parts)
    half_full = mock.patch("shutil.disk_usage", return_value=Usage(10**9, 0, room // 2))
    with half_full, pytest.raises(UserError, match=r"v.hdf5: 0\.\d\d MB are needed"):
        merge(tmp_path / "v.hdf5", *parts)
    with mock.patch("shutil.disk_usage", return_value=Usage(10**9, 0, room + room // 2)):
        embed(model, text, tmp_path / "one.hdf5")  # which would not do for the launcher's parts beside it
        launched(0, 2)
        with pytest.raises(UserError, match=r"v.hdf5: 0\.\d\d MB are needed"):
            embed(model, text, tmp_path / "v.hdf5")


def test_a_resumed_run_needs_only_what_is_missing(model, tmp_path):
    text, output = text_of(tmp_path, n=600, longest=60), tmp_path / "v.hdf5"
    embed_some(model, text, output, 17)
    rest = vector_file.expected_size(600, 0, 10**5) + 10**5
    with mock.patch("shutil.disk_usage", return_value=Usage(10**9, 0, rest + 500000)):
        embed(model, text, output)
        assert output.stat().st_size > 2 * (rest + 500000)


def test_a_disk_that_fills_up_is_told_and_the_run_goes_on_when_there_is_room(model, text, whole, tmp_path):
    pwrite, calls = os.pwrite, 0

    def full(*arguments):
        nonlocal calls
        calls += 1
        if calls > 150:
            raise OSError(28, "No space left on device")
        return pwrite(*arguments)

    output = tmp_path / "v.hdf5"
    with (
        mock.patch("os.pwrite", full),
        pytest.raises(UserError, match=r"the disk is full: .* the same command goes on"),
    ):
        embed(model, text, output)
    assert 0 < windows_begun(output) < 10
    assert embed(model, text, output).read_bytes() == whole.read_bytes()


# Damage


def test_damaged_windows_are_computed_again(model, text, whole, tmp_path, said):
    """Those in a hole between whole ones, too, and the file is what it would have been."""
    output = tmp_path / "v.hdf5"
    embed_some(model, text, output, 5)
    partial = vector_file.partial_of(output)
    with VectorFile(partial) as file:
        place = next(place for shape, place in map(file._place, range(40, 60)) if shape[1])
    data = bytearray(partial.read_bytes())
    data[place] ^= 1
    partial.write_bytes(data)
    assert embed(model, text, output).read_bytes() == whole.read_bytes()
    assert "1 windows are cut short or damaged. They are computed again" in said()


def damaged(data: bytes, generator: random.Random) -> bytes:
    """Cut short, or with a byte changed."""
    place = generator.randrange(len(data))
    if generator.random() < 0.3:
        return data[:place]
    changed = bytearray(data)
    changed[place] ^= 1 << generator.randrange(8)
    return bytes(changed)


def test_damage_to_an_unfinished_file_is_found(tmp_path):
    """It is refused, or what is damaged is written again: the end is right."""
    vector_writes.write(tmp_path / "whole")
    vector_writes.write(tmp_path / "v", most=4)
    partial, generator, refused = tmp_path / "v.partial", random.Random(0), 0
    data, expected = partial.read_bytes(), contents(tmp_path / "whole")
    for _ in range(200):
        partial.write_bytes(damaged(data, generator))
        try:
            vector_writes.write(tmp_path / "v")
        except UserError as error:
            assert "v.partial is damaged" in str(error)
            refused += 1
            continue
        assert_same(contents(tmp_path / "v"), expected)
        (tmp_path / "v").unlink()
    assert 10 < refused < 190


def test_damage_to_a_part_is_found(tmp_path):
    """It is refused, or it was where nothing is."""
    vector_writes.write(tmp_path / "whole")
    parts = [tmp_path / "a", tmp_path / "b"]
    vector_writes.write(parts[0], end=6, keep_ledger=True)
    vector_writes.write(parts[1], first=6, keep_ledger=True)
    data, expected, generator, refused = parts[1].read_bytes(), contents(tmp_path / "whole"), random.Random(0), 0
    for _ in range(200):
        parts[1].write_bytes(damaged(data, generator))
        try:
            vector_parts.merge(parts, tmp_path / "v")
        except UserError as error:
            assert re.search("/b (is damaged|has no ledger)", str(error)), error
            refused += 1
            continue
        assert_same(contents(tmp_path / "v"), expected)
        (tmp_path / "v").unlink()
    assert 10 < refused < 200


# Vectors of a vocabulary


WORDS = [*models.WORDS, "日本語", "x" * 60, "unseen"]


def vocabulary(folder: Path, n: int = 0) -> Path:
    path = folder / "words.txt"
    path.write_text("\n".join([*WORDS, *(f"w{k}" for k in range(n))]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def words(model, tmp_path_factory):
    """A vocabulary's file, and the file of its vectors."""
    path = vocabulary(tmp_path_factory.mktemp("words"), 5000)
    output = path.with_name("words.hdf5")
    run_embed.main([f"--init_from_ckpt={model}", f"--vocab={path}", f"--output={output}", "--device=cpu"])
    return path, output


def test_vectors_of_a_vocabulary_are_layer_0(model, words):
    path, output = words
    tokens = [token for (token,) in sentences_of(path)]
    found = contents(output)
    assert found.keys() == {"embedding"} and found["embedding"].dtype == np.float32
    array = ELMoEmbedder(model, layers=0, device="cpu").encode([tokens])[0]
    np.testing.assert_allclose(found["embedding"], array[:, : DIM // 2], atol=1e-5)
    marker = models.random_bilm().token_encoder(Tokens(char_ids(["<S>"]), np.array([3]))).numpy()
    np.testing.assert_allclose(found["embedding"][0], marker[0], atol=1e-5)  # the marker, not the letters < S >


def test_they_take_the_place_of_the_characters(model, words):
    path, output = words
    sentences = [["the", "bank", "日本語"], [], ["x" * 60, "unseen", "w4999", "a"]]
    expected = ELMoEmbedder(model, device="cpu").encode(sentences)
    embedder = ELMoEmbedder(model, device="cpu", token_vectors=output, vocabulary=path)
    with mock.patch.object(elmo.CharCNN, "forward", side_effect=AssertionError):
        for found in (embedder.encode(sentences), list(embedder.iter_encode(iter(sentences)))):
            for array, wanted in zip(found, expected, strict=True):
                np.testing.assert_allclose(array, wanted, atol=1e-5)
    assert embedder.oov_share == 0
    carried = ELMoEmbedder(model, device="cpu", token_vectors=output, vocabulary=path, carry_state=True, batch_size=2)
    wanted = ELMoEmbedder(model, device="cpu", carry_state=True, batch_size=2).encode(sentences)
    for array, other in zip(carried.encode(sentences), wanted, strict=True):
        np.testing.assert_allclose(array, other, atol=1e-5)


def test_words_without_a_vector_are_refused_with_their_place(model, words):
    path, output = words
    embedder = ELMoEmbedder(model, token_vectors=output, vocabulary=path)
    sentences = [["the"], ["a", "bank", "missing"]]
    for call in (embedder.encode, lambda sentences: list(embedder.iter_encode(iter(sentences)))):
        with pytest.raises(
            UserError, match=r"sentence 1, token 2: 'missing' is not among the 5,015 words of .*words.hdf5"
        ):
            call(sentences)


def test_files_of_bilm_tf_are_read(model, tmp_path):
    """No attributes, words in any order, without <UNK>."""
    tokens = ["bank", "</S>", "the", "<S>"]
    path, output = tmp_path / "words.txt", tmp_path / "tokens.hdf5"
    path.write_text("\n".join(tokens), encoding="utf-8")
    plain = ELMoEmbedder(model, device="cpu")
    with h5py.File(output, "w") as file:
        file.create_dataset("embedding", (4, DIM // 2), dtype="float32", data=plain.encode_tokens(tokens))
    embedder = ELMoEmbedder(model, device="cpu", token_vectors=output, vocabulary=path)
    for array, wanted in zip(embedder.encode([["the", "bank"]]), plain.encode([["the", "bank"]]), strict=True):
        np.testing.assert_allclose(array, wanted, atol=1e-5)


def test_vectors_and_words_that_do_not_belong_together_are_refused(model, words, tmp_path):
    path, output = words
    other, lines = tmp_path / "other.txt", path.read_text(encoding="utf-8")
    for content, message in (
        (lines.replace("unseen", "seen"), "was made for other words than those of .*other.txt"),
        (lines + "more\n", r"embedding is \(5015, 7\), expected \(5016, 7\) by the model and .*other.txt"),
        (lines.replace("<S>\n", ""), "other.txt: there is no <S>"),
        (lines.replace("unseen", "not seen"), "other.txt:15: found 'not seen', expected one token a line"),
        (lines.replace("unseen", ""), "other.txt:15: found an empty line"),
    ):
        other.write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=message):
            ELMoEmbedder(model, token_vectors=output, vocabulary=other)
    wide = models.save(models.random_bilm(projection_dim=5), tmp_path / "wide")
    for changes, message in (
        ({"params": wide}, r"embedding is \(5015, 7\), expected \(5015, 5\)"),
        ({"vocabulary": None}, r"token_vectors=.*vocabulary=None: expected both"),
        ({"vocabulary": tmp_path / "nothing"}, "nothing: there is no such file"),
        ({"token_vectors": tmp_path / "nothing"}, "nothing: there is no such file"),
        ({"token_vectors": path}, "is no HDF5 file"),
    ):
        with pytest.raises(UserError, match=message):
            ELMoEmbedder(**{"params": model, "token_vectors": output, "vocabulary": path, **changes})


def test_damage_to_vectors_of_a_vocabulary_is_found(model, tmp_path):
    path, output = vocabulary(tmp_path, 30), tmp_path / "v.hdf5"
    run_embed.main([f"--init_from_ckpt={model}", f"--vocab={path}", f"--output={output}", "--device=cpu"])
    data, generator, refused = output.read_bytes(), random.Random(0), 0
    _, expected = token_vectors.read(output, path, DIM // 2)
    for _ in range(200):
        output.write_bytes(damaged(data, generator))
        try:
            _, found = token_vectors.read(output, path, DIM // 2)
            np.testing.assert_array_equal(found, expected)
        except UserError as error:
            assert str(output) in str(error)
            refused += 1
    assert refused > 50


def test_a_word_model_has_vectors_for_its_own_words(word_model, tmp_path, said):
    path, output = vocabulary(tmp_path), tmp_path / "v.hdf5"
    run_embed.main([f"--init_from_ckpt={word_model}", f"--vocab={path}", f"--output={output}", "--device=cpu"])
    bilm, _ = elmo.load_bilm(word_model)
    table = bilm.token_encoder.embedding.weight.numpy()
    np.testing.assert_array_equal(contents(output)["embedding"], table[[*range(len(models.WORDS)), 2, 2, 2]])
    assert "words.txt: 3 words that the model lacks: they have the vector of <UNK>" in said()


# Mistakes


MISTAKES = {
    "missing text": ({"input": "FOLDER/x"}, "", "--input .*x is missing"),
    "folder for a text": ({"input": "FOLDER"}, "", "--input .* is a folder"),
    "empty text": ({"input": "FILE"}, "", "FILE: the file is empty. Expected one sentence a line"),
    "blank text": ({"input": "FILE"}, "\n \n", "FILE: nothing but 2 blank lines"),
    "latin-1": ({"input": "FILE"}, b"the\ncaf\xe9\n", "FILE:2: byte 0xe9 is not UTF-8"),
    "no such layer": ({"layers": "3"}, "", "layers='3': expected 'all'"),
    "short mix": ({"mix": "1,2,3"}, "", "--mix has 3 numbers, expected 4: a scalar for each of 3 layers, and gamma"),
    "too large for float16": (
        {"mix": "0,0,0,1e7", "dtype": "float16"},
        "",
        r"text.txt:\d+: the vectors are not finite",
    ),
    "missing folder": ({"output": "FOLDER/no/v"}, "", "--output .*: there is no folder .*no"),
    "folder for a file": ({"output": "FOLDER"}, "", "--output .* is a folder"),
    "a file that is there": ({"output": "FILE"}, "mine", "FILE exists, and was not written by run_embed.py"),
    "missing checkpoint": ({"init_from_ckpt": "FOLDER/x"}, "", "there is no .*x.pdparams"),
    "device": ({"device": "gpu"}, "", "device gpu"),
    "vocabulary over a file": ({"input": None, "vocab": "FILE", "output": "FILE"}, "<S>\n</S>\n", "--output .* exists"),
    "missing vocabulary": ({"input": None, "vocab": "FOLDER/x"}, "", "x: there is no such file"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_explained(model, text, tmp_path, mistake, monkeypatch):
    monkeypatch.setattr(paddle, "is_compiled_with_cuda", lambda: False)
    changes, content, message = MISTAKES[mistake]
    path = tmp_path / "FILE"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    values = {"init_from_ckpt": model, "input": text, "output": tmp_path / "v.hdf5", **changes}
    given = [f"--{name}={value}" for name, value in values.items() if value is not None]
    given = [flag.replace("FOLDER", str(tmp_path)).replace("FILE", str(path)) for flag in given]
    with np.errstate(over="ignore"), pytest.raises(UserError, match=message):
        run_embed.main(given)
    assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--shard=2/2"], "expected I/N, the share I from 0 to N - 1"),
        (["--shard=1"], "expected I/N"),
        (["--mix=0,a"], "expected numbers"),
        (["--mix=0,0,0,1", "--layers=top"], "not allowed with argument"),
        (["--dtype=int8"], "invalid choice: 'int8'"),
        (["--pool=max"], "invalid choice: 'max'"),
        (["--batch_size=0"], "expected a whole number above 0"),
        (["--vocab=x"], "not allowed with argument --input"),
    ],
)
def test_a_wrong_value_is_named(model, text, tmp_path, capsys, wrong, message):
    with pytest.raises(SystemExit, match="2"):
        embed(model, text, tmp_path / "v", *wrong)
    last = capsys.readouterr().err.splitlines()[-1]
    assert message in last and wrong[0].split("=")[0] in last


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--vocab=x", "--layers=top"], "--layers has no effect with --vocab: leave it out"),
        (["--merge", "x", "--init_from_ckpt=y"], "--init_from_ckpt has no effect with --merge: leave it out"),
        (["--input=x"], "--input needs a model: --init_from_ckpt"),
        ([], "one of the arguments --input --vocab --merge is required"),
    ],
)
def test_flags_without_effect_are_refused(capsys, given, message):
    with pytest.raises(SystemExit, match="2"):
        run_embed.main([*given, "--output=v"])
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_help_does_not_wait_for_paddle():
    environment = {**os.environ, "PYTHONPATH": str(runs.PROJECT)}
    code = "import sys, run_embed\ntry: run_embed.main(['--help'])\nexcept SystemExit: print('paddle' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.endswith("False\n") and "--layers L" in done.stdout
