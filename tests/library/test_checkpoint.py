"""Checkpoints: atomic whatever happens to process, disk and file, and never executed."""

import copyreg
import errno
import io
import json
import math
import os
import pickle
import resource
import shutil
import struct
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from damage import accepted
from project import PROJECT

from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_core.messages import UserError
from elmo_core.weights import checkpoint

LOADS = {
    ".pdparams": checkpoint.load_params,
    ".pdopt": checkpoint.load_optimizer,
    ".pdstate": checkpoint.load_progress,
}


def weights(value: float, rows: int = 7) -> dict[str, np.ndarray]:
    return {"softmax.weight": np.full((rows, 13), value, np.float32), "softmax.bias": np.full(rows, value, np.float32)}


def save(prefix: Path, value: int, rows: int = 7) -> None:
    """Save a checkpoint with a single value in all files."""
    checkpoint.save(prefix, weights(value, rows), {"moment": np.full((rows, 13), value)}, {"step": value})


def saved_value(prefix: Path) -> int:
    values = {float(x) for array in checkpoint.load_params(prefix).values() for x in np.unique(array)}
    values |= set(np.unique(checkpoint.load_optimizer(prefix)["moment"])) | {checkpoint.load_progress(prefix)["step"]}
    assert len(values) == 1, f"a mixture of {values}"
    return int(values.pop())


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def paddle():
    return runtime.import_paddle()


def test_arrays_come_back_as_they_were(tmp_path):
    generator = np.random.default_rng(0)
    params = {
        "float32": generator.standard_normal((37, 13), np.float32),
        "float16": generator.standard_normal(5).astype(np.float16),
        "float64": generator.standard_normal((2, 3, 5)),
        "fortran": np.asfortranarray(generator.standard_normal((7, 11))),
        "strided": generator.standard_normal((20, 30))[::3, ::7],
        "scalar": np.array(3.5),
        "empty": np.zeros((0, 4), np.float32),
        "large": generator.standard_normal((300, 301)),
        "uint16": np.arange(9, dtype=np.uint16),
        "bool": np.array([True, False]),
        "complex": np.array([1 + 2j]),
        "strings": np.array(["été", "x"]),
        "bytes": np.array([b"ab", b"c"]),
    }
    checkpoint.save(tmp_path / "1", {**params, "float32": params["float32"].astype(">f4")})
    loaded = checkpoint.load_params(tmp_path / "1")
    assert list(loaded) == list(params)
    for name, array in params.items():
        assert loaded[name].dtype == array.dtype and loaded[name].shape == array.shape
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].flags.writeable and loaded[name].flags.aligned


def test_only_what_can_be_loaded_is_saved(tmp_path):
    save(tmp_path / "final", 1)
    before = files(tmp_path)
    objects, record, date = np.array([{}, 1], dtype=object), np.zeros(2, "f4,i4"), np.datetime64("2020-01-01")
    for value in (Path("x"), print, objects, record, date, slice(3), bytearray(3), np.load, np.float32):
        with pytest.raises(TypeError):
            checkpoint.save(tmp_path / "final", weights(2), progress={"a": [value]})
    assert files(tmp_path) == before and saved_value(tmp_path / "final") == 1


def test_a_checkpoint_needs_no_second_copy_in_memory(tmp_path):
    megabytes = {str(i): np.ones(1 << 18, np.float32) for i in range(24)}
    tracemalloc.start()
    try:
        checkpoint.save(tmp_path / "1", megabytes)
        assert tracemalloc.get_traced_memory()[1] < 3e6
        tracemalloc.reset_peak()
        checkpoint.load_params(tmp_path / "1")
        assert tracemalloc.get_traced_memory()[1] < 27e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("protocol", [2, 4])
def test_we_read_what_paddle_writes_and_it_reads_what_we_write(tmp_path, paddle, protocol):
    layer = paddle.nn.Linear(7, 13)
    rate = paddle.optimizer.lr.LinearWarmup(paddle.optimizer.lr.CosineAnnealingDecay(0.1, 9), 3, 0.0, 0.1)
    optimizer = paddle.optimizer.Adam(rate, parameters=layer.parameters())
    layer(paddle.ones([3, 7])).sum().backward()
    optimizer.step()
    rate.step()
    states = {".pdparams": layer.state_dict(), ".pdopt": optimizer.state_dict()}

    def in_numpy(state) -> dict:
        return {name: value.numpy() if isinstance(value, paddle.Tensor) else value for name, value in state.items()}

    checkpoint.save(tmp_path / "ours", *states.values())
    for suffix, state in states.items():
        paddle.save(state, f"{tmp_path}/theirs{suffix}", protocol=protocol)
        loaded = LOADS[suffix](tmp_path / "theirs")
        assert not any(isinstance(value, paddle.Tensor) for value in loaded.values())
        np.testing.assert_equal(loaded, in_numpy(state))
        loaded = paddle.load(f"{tmp_path}/ours{suffix}")
        assert any(isinstance(value, paddle.Tensor) for value in loaded.values())
        np.testing.assert_equal(in_numpy(loaded), in_numpy(state))


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("core", [b"numpy.core", b"numpy._core"])
def test_pickles_of_either_numpy(tmp_path, protocol, core):
    arrays = {
        "c": np.arange(35, dtype=np.float32).reshape(5, 7),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "transposed": np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
        "scalar": np.array(1.5),
        "empty": np.zeros((0, 3)),
        "large": np.random.default_rng(0).standard_normal((100, 200)),
    }
    file = io.BytesIO()
    pickler = pickle._Pickler(file, protocol)
    pickler.framer.start_framing = lambda: None  # so that no length depends on the names
    pickler.dump(arrays)
    content = file.getvalue()
    for present in (b"numpy.core", b"numpy._core"):
        for module in (b".multiarray", b".numeric"):
            old, new = present + module, core + module
            content = content.replace(b"c" + old + b"\n", b"c" + new + b"\n")
            content = content.replace(bytes([0x8C, len(old)]) + old, bytes([0x8C, len(new)]) + new)
    (tmp_path / "1.pdparams").write_bytes(content)
    loaded = checkpoint.load_params(tmp_path / "1")
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == array.dtype


class Call:
    """An object that pickles as a function call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def opcodes(*parts: bytes | str) -> bytes:
    """Assemble a pickle from opcodes and strings; "module:name" is a global."""
    content = b"\x80\x04"
    for part in parts:
        if isinstance(part, bytes):
            content += part
        elif part.count(":") == 1:
            content += b"c" + part.replace(":", "\n").encode() + b"\n"
        else:
            content += b"\x8c" + bytes([len(part)]) + part.encode()
    return content + b"."


def attacks(command: str) -> dict[str, bytes]:
    """Pickles that run a command when loaded, in every way that the format allows."""
    set_state = (b"}", "__setstate__", "os:system", b"sb", command, b"b")
    return {
        "GLOBAL": opcodes("os:system", command, b"\x85R"),
        "STACK_GLOBAL": opcodes("os", "system", b"\x93", command, b"\x85R"),
        "dotted": opcodes("shutil", "os.system", b"\x93", command, b"\x85R"),
        "INST": opcodes(b"(", command, b"ios\nsystem\n"),
        "OBJ": opcodes(b"(", "os:system", command, b"o"),
        "NEWOBJ": opcodes("builtins:bytes", "builtins:map", "os:system", b"(", command, b"l\x86\x81\x85\x81"),
        "BUILD": opcodes("argparse:Namespace", b")R", *set_state),
        "BUILD of what is admitted": opcodes("collections:OrderedDict", b")R", *set_state),
        "EXT1": opcodes(b"\x82\xf0", command, b"\x85R"),
        "protocol 0": pickle.dumps({"w": Call(os.system, command)}, 0),
        "in an object array": pickle.dumps({"w": np.array([Call(os.system, command)], dtype=object)}),
        "behind an array": pickle.dumps({"w": np.zeros(3), "x": [Call(os.system, command)]}),
        "as a key": pickle.dumps({Call(os.system, command): 1}),
    }


@pytest.fixture
def extension():
    copyreg.add_extension("posix", "system", 0xF0)
    yield
    copyreg.remove_extension("posix", "system", 0xF0)


@pytest.mark.parametrize("way", attacks(""))
def test_no_pickle_runs_a_command(tmp_path, extension, way):
    trace = tmp_path / "trace"
    content = attacks(f"touch '{trace}'")[way]
    try:
        pickle.loads(content)
    except TypeError:
        assert way == "as a key" or way.startswith("NEWOBJ")  # after the fact
    assert trace.exists(), "this is no attack"
    trace.unlink()
    for suffix, load in LOADS.items():
        checkpoint.save(tmp_path / "1", weights(1))
        (tmp_path / f"1{suffix}").write_bytes(content)
        with pytest.raises(UserError, match=rf"1{suffix}.*(asks for|opcode|dtype)"):
            load(tmp_path / "1")
    assert not trace.exists()


RECONSTRUCT = ("numpy.core.multiarray:_reconstruct", "numpy:ndarray", b"K\0\x85C\1b\x87R")


def entry(*parts: bytes | str) -> bytes:
    """Assemble the pickle of a dictionary with one weight."""
    return opcodes(b"}", "w", *parts, b"s")


def array(shape: bytes, dtype: str, *data: bytes | str) -> bytes:
    return entry(*RECONSTRUCT, b"(K\1" + shape, "numpy:dtype", dtype, b"\x85R\x89", *data, b"tb")


F4, STATE = ("numpy:dtype", "f4", b"\x85R"), (b"(K\3", "<", b"N")
STRANGE = {
    "array of objects": array(b"K\1\x85", "O8", b"C\x08" + bytes(8)),
    "dtype of Python": entry("numpy:dtype", "object", b"\x85R"),
    "dtype with fields": entry("numpy:dtype", "f4,O", b"\x85R"),
    "state of a dtype, fields": entry(*F4, *STATE, "a", b"\x85}K\4K\1K\0tb"),
    "state of a dtype, metadata": pickle.dumps({"w": np.zeros(2, np.dtype("f4", metadata={"a": 1}))}),
    "state of a dtype, byte order": pickle.dumps({"w": np.zeros(2, ">f4")}),
    "state of a dictionary": entry(b"}}b"),
    "record": pickle.dumps({"w": np.zeros(2, "f4,i4")}),
    "subclass": pickle.dumps({"w": np.zeros(2).view(np.recarray)}),
    "subclass by a dtype": entry("numpy.core.multiarray:_reconstruct", "numpy:dtype", b"K\0\x85C\1b\x87R"),
    "class of arrays": entry("numpy:ndarray", b"K\5\x85\x85R"),
    "list for data": array(b"K\0\x85", "f4", b"]"),
    "negative shapes": array(b"J\xff\xff\xff\xffJ\xfc\xff\xff\xff\x86", "i1", b"C\4abcd"),
    "too little data": array(b"K\3\x85", "f4", b"C\4abcd"),
    "too many axes": array(b"(" + b"K\1" * 33 + b"t", "i1", b"C\1a"),
    "no data": entry(*RECONSTRUCT, b"K\1b"),
    "scalar": entry("numpy.core.multiarray:scalar", "numpy:dtype", "f8", b"\x85RC\1a\x86R"),
    "items of an array": entry(*RECONSTRUCT, b"K\0K\1s"),
    "persistent id": b"Pid\n.",
    "buffer elsewhere": b"\x80\x05\x97.",
    "unknown opcode": entry(b"\xff"),
    "list": pickle.dumps([np.zeros(3)]),
    "numbers for names": pickle.dumps({3: np.zeros(3)}),
    "numbers for arrays": pickle.dumps({"w": 3}),
    "function for an array": entry("numpy:dtype"),
    "empty file": b"",
}


@pytest.mark.parametrize("content", STRANGE.values(), ids=STRANGE)
def test_anything_but_plain_data_is_refused(tmp_path, content):
    (tmp_path / "1.pdparams").write_bytes(content)
    with pytest.raises(UserError, match=r"1\.pdparams"):
        checkpoint.load_params(tmp_path / "1")


def test_a_correct_pickle_made_by_hand_is_read(tmp_path):
    (tmp_path / "1.pdparams").write_bytes(array(b"K\1K\2\x86", "i1", b"C\2\7\x08"))
    assert checkpoint.load_params(tmp_path / "1")["w"].tolist() == [[7, 8]]


def test_false_lengths_take_no_memory(tmp_path):
    huge = struct.pack("<Q", 100 << 30)
    lies = [opcodes(code + huge) for code in (b"\x8e", b"\x8d", b"\x95", b"\x96")]
    lies += [opcodes(code + struct.pack("<I", 2**32 - 1)) for code in (b"B", b"X", b"Nr")]
    lies += [opcodes(f"builtins:{name}", b"J" + struct.pack("<i", 2**31 - 1) + b"\x85R") for name in ("bytes", "set")]
    lies += [opcodes("numpy:dtype", "U999999999", b"\x85R\x8a\5", bytes([0, 0, 0, 0, 1]), b"\x85")]
    lies += [array(b"\x8a\6\0\0\0\0\0\1\x85", "f4", b"C\4abcd")]
    for content in lies:
        (tmp_path / "1.pdparams").write_bytes(content)
        tracemalloc.start()
        try:
            with pytest.raises(UserError, match=r"1\.pdparams"):
                checkpoint.load_params(tmp_path / "1")
            assert tracemalloc.get_traced_memory()[1] < 4e6
        finally:
            tracemalloc.stop()


def doubled(start: bytes, container: bytes, times: int = 60) -> bytes:
    """Nested containers, each with two references to the next, made with the memo."""
    part = start + b"q\0"
    return part + b"".join(container.replace(b"x", b"h\0h\0") + b"q\0" for _ in range(times))


TEXT = b"X" + struct.pack("<I", 100_000) + b"a" * 100_000
BOMBS = {
    "encode": (TEXT, b"q\0", "_codecs:encode", b"q\1", b"h\1h\0\x85R" * 50_000),
    "scalars": (b"B" + struct.pack("<I", 100_000) + b"a" * 100_000, b"q\0", "numpy:dtype", "S100000", b"\x85Rq\2",
                "numpy.core.multiarray:scalar", b"q\1", b"h\1h\2h\0\x86R" * 50_000),
    "nested lists": (doubled(b"]", b"](xe"),),
    "nested tuples": (doubled(b")", b"x\x86"),),
    "a list in itself": (b"]q\0h\0a",),
    "nested tuples for a key": (b"}", doubled(b")", b"x\x86"), b"K\1s"),
    "nested tuples in a set": (b"\x8f(", doubled(b")", b"x\x86"), b"\x90"),
    "a tuple that is repeated under another number": (b"}", doubled(b")", b"x\x86Nb"), b"K\1s"),
    "empty sets": (b"\x8f" * 3_000_000,),
    "a place far away in the memo": (b"Nr" + struct.pack("<I", 2**27),),
}  # fmt: skip


def read_bombs(folder: str) -> None:
    """Print which files are rejected, in a process that can take 300 MB more than it has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 300_000_000,) * 2)
    for path in sorted(Path(folder).iterdir()):
        try:
            checkpoint.load_params(path)
        except UserError:
            print(path.stem)


def test_a_small_file_cannot_take_much_memory_or_time(tmp_path):
    for number, parts in enumerate(BOMBS.values()):
        (tmp_path / f"{number}.pdparams").write_bytes(opcodes(b"}", "w", b"(", *parts, b"ts"))
    process = in_python("read_bombs", tmp_path, stdout=subprocess.PIPE)
    assert len(process.communicate(timeout=120)[0].split()) == len(BOMBS)


@pytest.mark.parametrize("suffix", LOADS)
def test_any_damage_to_a_file_is_noticed(tmp_path, suffix):
    prefix, load = tmp_path / "damaged", LOADS[suffix]
    progress = {"step": 5, "random": np.random.RandomState(3).get_state()}
    checkpoint.save(prefix, weights(1, rows=300), {"moment": np.ones(50), "LR": {"last": 0.1}}, progress)
    path, expected = Path(f"{prefix}{suffix}"), load(prefix)
    assert not list(accepted(path, lambda: load(prefix)))
    content, n_accepted = path.read_bytes(), 0
    for changed in [content[:-n] for n in range(1, 2 * checkpoint.TRAILER.size)] + [content + b"\0", content * 2]:
        path.write_bytes(changed)
        with suppress(UserError):
            np.testing.assert_equal(load(prefix), expected)
            n_accepted += 1
    assert n_accepted == 1  # cut to the pickle it is whole, and what paddle.save would have written


@pytest.mark.parametrize("protocol", [2, 4])
def test_damage_to_a_file_of_paddle_is_an_error(tmp_path, protocol):
    path = tmp_path / "paddle.pdparams"
    arrays = weights(1) | {"name": np.array(["a"]), checkpoint.NAME_TABLE: {"softmax.bias": "linear_0.b_0"}}
    path.write_bytes(pickle.dumps(arrays, protocol))
    results = list(accepted(path, lambda: checkpoint.load_params(path)))
    assert results and {length for length, _ in results} == {path.stat().st_size}  # damage to numbers cannot be noticed


def in_python(call: str, *arguments, **options) -> subprocess.Popen:
    """Start a process that calls a function of this file."""
    paths = os.pathsep.join([str(PROJECT), str(Path(__file__).parent), str(PROJECT / "tests" / "support")])
    code = f"import sys, test_checkpoint; test_checkpoint.{call}(*sys.argv[1:])"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}, text=True, **options)


def kill_at_every_line(folder: str, scenario: str) -> None:
    """Print the checkpoint's value if the process that replaces 1 by 2 is killed before its first, second, ... line."""
    os.fsync = lambda _: None  # nobody pulls the plug
    line, status = 0, None
    while status != 0:
        line += 1
        here = Path(folder, str(line))
        save(here / "1" if scenario == "another" else here / "best", 1)
        child = os.fork()
        if child == 0:
            die_at(line)
            replace(here, scenario)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 9), status
        prefix = checkpoint.resolve(here)
        value = value_left(prefix)
        print(value)
        save(here / "3", 3)
        assert value_left(prefix) == value
        assert not any(name.endswith(".tmp") for name in files(here)), files(here)


def die_at(line: int) -> None:
    """End this process abruptly after so many lines of checkpoint.py and disk.py."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename not in (checkpoint.__file__, disk.__file__):
            return None
        lines += event == "line"
        if lines == line:
            os._exit(9)
        return trace

    sys.settrace(trace)


def replace(here: Path, scenario: str) -> None:
    if scenario == "another":
        save(here / "2", 2)
    elif scenario == "same":
        save(here / "best", 2)
    else:
        checkpoint.save(here / "best", weights(2), progress={"step": 2})


def value_left(prefix: Path) -> int:
    if checkpoint.load_progress(prefix)["step"] == 2 and "fewer" in prefix.parts[-3]:
        assert (checkpoint.load_params(prefix)["softmax.bias"] == 2).all()
        with pytest.raises(UserError):
            checkpoint.load_optimizer(prefix)
        return 2
    value = saved_value(prefix)
    if prefix.name != "best":
        assert prefix.name == str(value)
        assert {f"{value}{suffix}" for suffix in checkpoint.SUFFIXES} <= set(files(prefix.parent))
    return value


@pytest.mark.parametrize("scenario", ["another", "same", "fewer"])
def test_a_kill_at_any_line_of_a_save_leaves_a_whole_checkpoint(tmp_path, scenario):
    """It leaves the old or the new one, and the next save removes or finishes the rest."""
    process = in_python("kill_at_every_line", tmp_path / scenario, scenario, stdout=subprocess.PIPE)
    values = process.communicate()[0].split()
    assert process.returncode == 0
    assert len(values) > 80 and set(values) == {"1", "2"} and values == sorted(values)


def test_a_save_removes_what_killed_saves_left_and_nothing_else(tmp_path):
    for name in (f".1.pdparams.{'a' * 16}.tmp", f".2.pdopt.{'b' * 16}.tmp"):
        (tmp_path / name).write_bytes(b"x")
    others = {f".scores.tsv.{'c' * 16}.tmp", ".1.pdparams.tmp"}
    for name in others:
        (tmp_path / name).write_bytes(b"x")
    save(tmp_path / "1", 1)
    assert set(files(tmp_path)) == others | {"1.pdparams", "1.pdopt", "1.pdstate"}


@pytest.mark.parametrize("call", ["fsync", "open"])
def test_a_full_disk_leaves_earlier_checkpoints_intact(tmp_path, monkeypatch, call):
    save(tmp_path / "10000", 1)
    save(tmp_path / "final", 1)
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    calls = 0

    def full(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(*args, **kwargs)

    owner = os if call == "fsync" else Path
    original = getattr(owner, call)
    monkeypatch.setattr(owner, call, full)
    rows = 20000
    for name in ("20000", "final"):
        calls = 0
        with pytest.raises(UserError, match=rf"{name}.*disk is full"):
            save(tmp_path / name, 2, rows)
    monkeypatch.undo()
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == before


def test_files_of_different_saves_are_not_mixed(tmp_path):
    save(tmp_path / "1", 1)
    save(tmp_path / "2", 2)
    shutil.copy(tmp_path / "2.pdopt", tmp_path / "1.pdopt")
    with pytest.raises(UserError, match=r"1\.pdopt"):
        checkpoint.load_optimizer(tmp_path / "1")
    checkpoint.save(tmp_path / "1", weights(3))
    assert files(tmp_path) == ["1.pdparams", "2.pdopt", "2.pdparams", "2.pdstate"]
    with pytest.raises(UserError, match=r"1\.pdstate"):
        checkpoint.load_progress(tmp_path / "1")


def test_a_checkpoint_is_found_by_prefix_file_and_folder(tmp_path, monkeypatch):
    for step in (9000, 10000, 500):
        save(tmp_path / str(step), step)
    save(tmp_path / "best", 9000)
    save(tmp_path / "other-1.5", 20000)
    for name in ("9000", "best", "other-1.5"):
        for suffix in ("", *checkpoint.SUFFIXES):
            assert checkpoint.resolve(f"{tmp_path}/{name}{suffix}") == tmp_path / name
    assert checkpoint.resolve(tmp_path) == checkpoint.resolve(f"{tmp_path}/") == tmp_path / "10000"
    assert saved_value(tmp_path / "9000.pdparams") == 9000 and saved_value(tmp_path) == 10000
    monkeypatch.chdir(tmp_path)
    assert checkpoint.resolve(".") == Path("10000") and checkpoint.resolve("500") == Path("500")


def test_the_latest_checkpoint_is_the_furthest_trained(tmp_path, caplog):
    for name, step in (("best", 30), ("10", 10), ("final", 10), ("20", 20), ("final", 25)):
        save(tmp_path / name, step)
        assert checkpoint.resolve(tmp_path).name == name
    assert not caplog.records
    (tmp_path / "final.pdstate").write_bytes(b"damaged")
    assert checkpoint.resolve(tmp_path).name == "20"
    assert "final.pdstate" in caplog.text
    for name in ("10", "20", "best"):
        (tmp_path / f"{name}.pdparams").unlink()
    assert checkpoint.resolve(tmp_path).name == "final"


def test_a_missing_checkpoint_lists_the_existing_ones(tmp_path):
    for step in range(1, 13):
        checkpoint.save(tmp_path / "run" / f"{step}0000", weights(1))
    checkpoint.save(tmp_path / "other" / "mine", weights(1))
    places = {"run/10001": "run/10001.pdparams.*10000", "nowhere/1": "nowhere/1", "other": "mine", "": "other.*run"}
    for path, found in places.items():
        with pytest.raises(UserError, match=found):
            checkpoint.load_params(tmp_path / path)


def test_weights_are_compared_by_name_shape_and_value():
    found = {"a": np.ones((3, 4), np.float32), "b": np.ones(5, np.float16), "empty": np.ones((0, 3), np.float32)}
    checkpoint.match({"b": [5], "a": (3, 4), "empty": (0, 3)}, found, "x.pdparams")
    expected = {"a": (4, 3), "gone": (7, 2), "nan": (2,), "inf": (2,), "int": (2,), "b": (5,)}
    found |= {"nan": np.array([1, np.nan]), "inf": np.array([-np.inf, 1]), "int": np.arange(2), "b": found["b"]}
    with pytest.raises(UserError, match=r"x\.pdparams") as error:
        checkpoint.match(expected, found, "x.pdparams")
    for names in ("missing: gone", "unexpected: empty", "shape: a (3, 4)", "floating-point: int", "finite: nan, inf"):
        assert names in str(error.value)


def test_pruning_keeps_the_last(tmp_path):
    for step in (9, 10, 100, 20):
        save(tmp_path / str(step), step)
    for name in ("final", "best", "mine"):
        save(tmp_path / name, 1)
    (tmp_path / "5.pdopt").write_bytes(b"left by a kill")
    (tmp_path / "7.pdf").write_bytes(b"no checkpoint")
    checkpoint.prune(tmp_path, 2)
    assert {name.split(".")[0] for name in files(tmp_path)} == {"20", "100", "final", "best", "mine", "7"}
    checkpoint.prune(tmp_path, 2)
    assert saved_value(tmp_path / "20") == 20


def test_the_configuration_comes_back_as_it_was(tmp_path):
    config = {"hidden": 17, "filters": [[1, 32]], "activation": "relu", "clip": 3.0, "name": "é", "none": None}
    config["path"] = os.fsdecode(b"/home/caf\xe9")
    checkpoint.save_config(tmp_path / "new", config)
    assert checkpoint.load_config(tmp_path / "new") == config
    written = json.loads((tmp_path / "new" / "config.json").read_text(encoding="utf-8"))
    assert written["format_version"] == checkpoint.FORMAT_VERSION
    with pytest.raises(ValueError):
        checkpoint.save_config(tmp_path / "new", {"clip": math.nan})
    assert checkpoint.load_config(tmp_path / "new") == config and files(tmp_path / "new") == ["config.json"]


@pytest.mark.parametrize(
    "content",
    [b'{"format_version": 2}', b'{"hidden": 17}', b'{"format_version": true}', b"\xff", b"[" * 100_000, b"[1]", None],
)
def test_a_configuration_that_cannot_be_used_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UserError, match=r"config\.json"):
        checkpoint.load_config(tmp_path)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "vocab.txt"
    with disk.atomic_write(path) as file:
        file.write("é\n")
        assert not path.exists()
    assert path.read_bytes() == "é\n".encode()
    for failure in (ValueError(), KeyboardInterrupt(), OSError(errno.EIO, "broken")):
        with pytest.raises(type(failure)), disk.atomic_write(path, "wb") as file:
            file.write(b"half")
            raise failure
    assert path.read_bytes() == "é\n".encode() and files(path.parent) == ["vocab.txt"]


def test_a_link_stays_and_a_device_is_refused(tmp_path):
    (tmp_path / "there").write_text("old", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    with disk.atomic_write(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there").read_text(encoding="utf-8") == "new"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe"), disk.atomic_write(tmp_path / "pipe"):
        pass


def test_outputs_are_checked_before_the_work(tmp_path):
    text = tmp_path / "text"
    text.write_text("mine", encoding="utf-8")
    disk.check_output("--output", tmp_path / "new" / "folder" / "file", text, None)
    for path in (tmp_path, text / "file", Path("/proc/nowhere/file"), tmp_path / "." / "text"):
        with pytest.raises(UserError, match=f"--output {path}"):
            disk.check_output("--output", path, text)
    assert files(tmp_path) == ["text"]
