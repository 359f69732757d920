"""Checkpoints on disk: weights, optimizer and progress as dictionaries of arrays, and the configuration beside them.

    checkpoints/
      config.json        what is needed to rebuild the model, and the version of the format
      10000.pdparams     weights; a checkpoint exists if and only if this file does
      10000.pdopt        optimizer
      10000.pdstate      progress: step, epoch, position in the data, ...
      final.*  best.*

A checkpoint is called by its prefix, `checkpoints/10000`. This module knows nothing of the network.

Format. A file is the pickle of a dictionary, as `paddle.save` writes it, and behind it a trailer: magic, length of the
pickle, id of the save, CRC-32 of all before. `paddle.load` stops at the end of the pickle, so it reads our files; those
of `paddle.save`, which have no trailer, are read here.

Whole or not at all. A file is written under a temporary name in its own folder, synced to the disk, then renamed. The
three files of a save carry its id. Where a prefix is overwritten, the rename of `.pdparams` is what replaces the old
checkpoint by the new one: a `.pdopt` or `.pdstate` whose rename a kill has prevented is found by its id under its
temporary name, and the next save in the folder finishes the renaming.

Safety. A pickle is a program, and `paddle.load` runs it. Here it is read by an unpickler that knows arrays and plain
containers only and refuses everything else by name.
"""

import difflib
import errno
import json
import math
import os
import pickle
import re
import shutil
import socket
import struct
import tempfile
import time
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from runtime import UserError, listed, log

FORMAT_VERSION = 1
PARAMS, OPTIMIZER, PROGRESS = SUFFIXES = (".pdparams", ".pdopt", ".pdstate")
VOCABULARY = "vocab.txt"
TRAILER = struct.Struct("<8sQ8sI")  # magic, length of the pickle, id of the save, CRC-32 of all before
MAGIC = b"\x89ELMockp"
NAME_TABLE = "StructuredToParameterName@@"  # paddle.save adds it to a state_dict
TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<id>[0-9a-f]{16})\.(?P<host>[0-9a-f]{8})\.(?P<pid>\d{1,9})\.tmp")
HOST = f"{zlib.crc32(socket.gethostname().encode()):08x}"  # whose processes the numbers in such names are
ABANDONED = 24 * 3600  # seconds after which nobody is still writing a temporary file
DTYPE = re.compile(r"[biufcSU][1-9]\d{0,8}")
_being_written: set[Path] = set()  # temporary files of this process


def save(
    prefix: str | Path,
    params: Mapping[str, Any],
    optimizer: Mapping[str, Any] | None = None,
    progress: Mapping[str, Any] | None = None,
) -> None:
    """Write the checkpoint `prefix`. A failure or a kill leaves the one that was there or the new one, never a mixture.

    params: {name: array}. optimizer, progress: arrays, numbers, strings and plain containers of them; `resolve` goes by
    the "step" of progress. An array is one of NumPy, or what NumPy can make one of, such as Paddle's tensors. In a
    distributed job only rank 0 calls this.
    """
    for name, value in params.items():
        if not isinstance(name, str) or not hasattr(value, "__array__"):
            raise TypeError(f"params: expected names with arrays, found {name!r} with {type(value).__name__}.")
    prefix = Path(prefix)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    _tidy(prefix.parent)

    parts = {OPTIMIZER: optimizer, PROGRESS: progress, PARAMS: params}
    contents = {_file(prefix, part): dict(content) for part, content in parts.items() if content is not None}
    save_id = os.urandom(8)
    temporaries = {path: _temporary(path, save_id) for path in contents}
    with _discarded_on_failure(prefix, temporaries.values(), contents.values()):
        for path, content in contents.items():
            with _create(temporaries[path], "wb") as file:
                _write(content, save_id, file)

    # Renaming the weights is what makes a checkpoint: with all the rest in place if it is new, before it otherwise.
    for path in reversed(contents) if _file(prefix, PARAMS).exists() else contents:
        _rename(temporaries[path], path)
    for path in {_file(prefix, part) for part in parts}.difference(contents):
        path.unlink(missing_ok=True)


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO]:
    """Open `path` to write ("w": UTF-8 text, "wb": bytes). The file appears once the block has ended without error."""
    path = Path(path)
    if path.is_symlink():  # which stays: what it leads to is written
        path = path.resolve()
    _need_file(path, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path, os.urandom(8))
    with _discarded_on_failure(path, [temporary]):
        with _create(temporary, mode) as file:
            yield file
        _rename(temporary, path)


def check_output(flag: str, path: Path, *inputs: Path | None) -> None:
    """Refuse, before anything is computed, a file that could not be written in the end, or that is itself to be read."""
    _need_file(path, f"{flag} {path}")
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UserError(f"{flag} {path}: no file can be written there ({error.strerror}).") from error
    if any(path.exists() and source and source.exists() and path.samefile(source) for source in inputs):
        raise UserError(f"{flag} {path} is what is to be read. Name another file.")


def _need_file(path: Path, what: str) -> None:
    """Refuse to write what is there and is no file."""
    if path.exists() and not path.is_file():
        found = "a folder" if path.is_dir() else "a device or a pipe"
        raise UserError(f"{what} is {found}. Expected the name of a file to write.")


def prune(folder: str | Path, keep: int) -> None:
    """Delete all numbered checkpoints but the `keep` with the highest numbers; never `final` or `best`."""
    if keep < 1:
        raise UserError(f"{keep} checkpoints to keep: expected 1 or more.")
    found = {path.stem for path in Path(folder).iterdir() if path.suffix in SUFFIXES and _is_number(path.stem)}
    kept = [name for name in _names(Path(folder)) if _is_number(name)][-keep:]
    for name in found.difference(kept):
        delete(Path(folder, name))


def delete(prefix: Path) -> None:
    """Delete the files of a checkpoint; the weights first, for without them the rest is none."""
    for suffix in SUFFIXES:
        _file(prefix, suffix).unlink(missing_ok=True)


def files(prefix: Path) -> list[Path]:
    """What a checkpoint consists of."""
    beside = [prefix.parent / name for name in ("config.json", VOCABULARY)]
    return [path for path in (*(_file(prefix, suffix) for suffix in SUFFIXES), *beside) if path.exists()]


def exists(prefix: Path) -> bool:
    return _file(prefix, PARAMS).is_file()


def resolve(path: str | Path) -> Path:
    """The prefix that `path` means: itself a prefix, or one of the checkpoint's files, or a folder, then its latest.

    The latest is the one of the highest step, by its number or, for `final`, its progress; `best` if there is no other.
    """
    path = Path(path)
    prefix = path.with_suffix("") if path.suffix in SUFFIXES else path
    folder, weights = prefix.parent, _file(prefix, PARAMS)
    if weights.is_file():
        return prefix
    if path.is_dir():
        return path / _latest(path)
    if not folder.is_dir():
        raise UserError(f"{path}: no checkpoint, for there is no folder {folder}.")
    if path == prefix and path.exists():
        raise UserError(f"{path} is no checkpoint: expected a {PARAMS}. {_what_there_is(folder, path.name)}.")
    rest = " and ".join(f"{prefix.name}{part}" for part in SUFFIXES if _file(prefix, part).exists())
    rest = f" (only {rest}: the weights were deleted, or a save was interrupted)" if rest else ""
    raise UserError(f"{path}: there is no {weights}{rest}. {_what_there_is(folder, prefix.name)}.")


def names(folder: str | Path) -> list[str]:
    """The checkpoints that a run has left in a folder: the numbers, rising, then `best` and `final`."""
    return [name for name in _names(Path(folder)) if _is_number(name) or name in ("best", "final")]


def step_of(prefix: str | Path) -> int:
    """The step at which a checkpoint was saved, by its number or its progress; -1 if that cannot be told."""
    prefix = Path(prefix)
    if _is_number(prefix.name):
        return int(prefix.name)
    try:
        return int(load_progress(prefix)["step"])
    except (UserError, KeyError, TypeError, ValueError) as error:
        log.warning("%s: the step is not known (%s). The numbered checkpoints are taken to be later.", prefix, error)
        return -1


def load_params(path: str | Path) -> dict[str, np.ndarray]:
    """The weights of a checkpoint, {name: array}. `path` as in `resolve`."""
    path = _file(resolve(path), PARAMS)
    params = _read(path)
    for name, value in params.items():
        if not isinstance(value, np.ndarray):
            raise UserError(f"{path}: expected names with arrays, found {name!r:.80} with {type(value).__name__}.")
    return params


def load_optimizer(path: str | Path) -> dict[str, Any]:
    """The state of a checkpoint's optimizer, as it was given to `save`. `path` as in `resolve`."""
    return _read(_part(resolve(path), OPTIMIZER))


def load_progress(path: str | Path) -> dict[str, Any]:
    """How far the training of a checkpoint had come, as it was given to `save`. `path` as in `resolve`."""
    return _read(_part(resolve(path), PROGRESS))


def save_config(folder: str | Path, config: Mapping[str, Any]) -> None:
    """Write `config` to the folder's config.json, with the version of the format."""
    config = {"format_version": FORMAT_VERSION, **config}
    with atomic_write(Path(folder, "config.json")) as file:
        file.write(json.dumps(config, indent=2, allow_nan=False) + "\n")


def save_vocabulary(folder: str | Path, vocabulary) -> None:
    """Write the vocabulary's file beside the checkpoints."""
    with atomic_write(Path(folder, VOCABULARY), "wb") as file:
        vocabulary.write(file)


def load_config(folder: str | Path) -> dict[str, Any]:
    """What was given to `save_config`."""
    path = Path(folder, "config.json")
    if not path.is_file():
        raise UserError(f"There is no {path}: it belongs to the checkpoints beside it and has to be copied with them.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}, column {error.colno}: no valid JSON: {error.msg}.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: no valid JSON: {error}.") from error
    version = config.pop("format_version", None) if isinstance(config, dict) else None
    if type(version) is not int or version < 1:
        raise UserError(f"{path}: expected an object with format_version {FORMAT_VERSION}, found {version!r:.80}.")
    if version > FORMAT_VERSION:
        raise UserError(f"{path} has format_version {version}, this program knows {FORMAT_VERSION}: upgrade it.")
    return config


def match(expected: Mapping[str, Sequence[int]], found: Mapping[str, np.ndarray], what: str) -> None:
    """Raise a UserError about `what` that names all weights which are missing, unexpected, or not usable.

    expected: {name: shape}. Usable is an array of that shape, of a floating-point type and with finite values only.
    """
    shapes = {name: tuple(shape) for name, shape in expected.items()}
    both = [name for name in shapes if name in found]
    fitting = [name for name in both if found[name].shape == shapes[name]]
    floating = [name for name in fitting if found[name].dtype.kind == "f"]
    faults = {
        "missing": [f"{name} {shapes[name]}" for name in shapes if name not in found],
        "unexpected": [f"{name} {found[name].shape}" for name in found if name not in shapes],
        "of another shape": [f"{n} {found[n].shape}, expected {shapes[n]}" for n in both if n not in fitting],
        "not floating-point": [f"{name} {found[name].dtype}" for name in fitting if name not in floating],
        "not finite": [name for name in floating if not is_finite(found[name])],
    }
    lines = [f"\n  {len(names)} {fault}: {listed(names)}" for fault, names in faults.items() if names]
    if lines:
        raise UserError(f"{what}: the weights are not those of the model." + "".join(lines))


def is_finite(array: np.ndarray) -> bool:
    """Whether all values are. The extremes tell, and need no memory."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def _file(prefix: Path, suffix: str) -> Path:
    return Path(f"{prefix}{suffix}")


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _names(folder: Path) -> list[str]:
    """All weights of a folder, the numbers first and rising."""
    found = sorted(path.stem for path in folder.glob(f"*{PARAMS}"))
    return sorted(found, key=lambda name: int(name) if _is_number(name) else math.inf)


def _latest(folder: Path) -> str:
    found = names(folder)
    steps = {name: int(name) for name in found if _is_number(name)}
    if "final" in found:
        steps["final"] = step_of(folder / "final") if steps else 0
    elif "best" in found and not steps:
        steps["best"] = 0
    if not steps:
        raise UserError(f"{folder}: no checkpoint by a number, final or best. {_what_there_is(folder)}.")
    return max(steps, key=lambda name: (steps[name], name == "final"))


def _what_there_is(folder: Path, wanted: str = "") -> str:
    """The checkpoints of a folder, the likest to the wanted one first, or else the folders in it that have some."""
    if found := _names(folder):
        found = difflib.get_close_matches(wanted, found, len(found), cutoff=0) if wanted else found
        return f"In {folder} there is {listed(found)}"
    folders = sorted({str(path.parent) for path in folder.glob(f"*/*{PARAMS}")})
    return f"There are checkpoints in {listed(folders)}" if folders else f"In {folder} there is no checkpoint"


def _part(prefix: Path, suffix: str) -> Path:
    """The file saved together with the weights of `prefix`, under its temporary name if a kill has left it so."""
    path = _file(prefix, suffix)
    wanted, found = _save_id(_file(prefix, PARAMS)), _save_id(path)
    if wanted != found:
        for temporary, parts in _temporaries(prefix.parent):
            if parts["name"] == path.name and parts["id"] == wanted.hex():
                return temporary
    if not path.exists():
        raise UserError(f"There is no {path}: this checkpoint is weights only, training cannot be resumed from it.")
    if wanted and found and wanted != found:
        raise UserError(f"{path} is refused: it was not saved together with {prefix.name}{PARAMS}.")
    return path


def _temporary(path: Path, save_id: bytes) -> Path:
    return path.with_name(f".{path.name}.{save_id.hex()}.{HOST}.{os.getpid()}.tmp")


def _temporaries(folder: Path) -> list[tuple[Path, re.Match]]:
    found = ((path, TEMPORARY.fullmatch(path.name)) for path in folder.iterdir())
    return [(path, parts) for path, parts in found if parts]


@contextmanager
def _create(temporary: Path, mode: str) -> Iterator[IO]:
    """A file that is not there yet, and on the disk when the block has ended."""
    with temporary.open(mode.replace("w", "x"), encoding=None if "b" in mode else "utf-8") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _rename(temporary: Path, path: Path) -> None:
    temporary.replace(path)
    sync_folder(path.parent)


class Busy(UserError):
    """Another process writes there."""


def lock(handle: int, path: Path) -> None:
    """Refuse an open file or folder that another process has locked. The lock ends with the process, however it ends."""
    import fcntl  # here: Windows, where checkpoints can be read all the same, has none

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Busy(f"{path} is being written by another process. Wait for its end, or end it.") from error
    except OSError as error:  # some network file systems have no locks
        log.warning(f"{path} cannot be locked ({error.strerror}): make sure that no other process writes there.")


def sync_folder(folder: Path) -> None:
    """Have the folder's names on the disk."""
    with suppress(OSError):  # some network file systems refuse
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def _discarded_on_failure(path: Path, temporaries: Collection[Path], contents: Collection[dict] = ()) -> Iterator[None]:
    """Remove the temporary files if the block fails. If that is for want of space, say how much is needed and free."""
    _being_written.update(temporaries)
    try:
        yield
    except BaseException as error:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        needed = f"{sum(_write(content) for content in contents) / 1e6:,.1f} MB are needed, " if contents else ""
        free = f"{shutil.disk_usage(path.parent).free / 1e6:,.1f} MB free"
        raise UserError(
            f"{path} could not be written, the disk is full: {needed}{free} in {path.parent}. "
            "What was there before is intact. Make room or choose another folder."
        ) from error
    finally:
        _being_written.difference_update(temporaries)


def _tidy(folder: Path) -> None:
    """Finish the renaming that a killed save has begun, and remove what else killed processes have left."""
    for temporary, parts in _temporaries(folder):
        path = folder / parts["name"]
        if _may_be_written(temporary, parts["host"], int(parts["pid"])):
            continue
        if path.suffix in (OPTIMIZER, PROGRESS) and _save_id(path.with_suffix(PARAMS)).hex() == parts["id"]:
            _rename(temporary, path)
        else:
            temporary.unlink(missing_ok=True)


def _may_be_written(temporary: Path, host: str, pid: int) -> bool:
    """Whether a living process may still be writing the file. Of another machine's or container's only time tells."""
    if temporary in _being_written:
        return True
    try:
        recent = time.time() - temporary.stat().st_mtime < ABANDONED  # if not, the number is another process's by now
        if host != HOST:
            return recent
        os.kill(pid, 0)
    except (FileNotFoundError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return recent and pid != os.getpid()


class _Summed:
    """A file, with the length and the checksum of what has been written to it or read from it.

    At most `left` bytes can be read. Asking for more is an error and costs no memory, whatever length a pickle claims.
    """

    def __init__(self, file: IO[bytes] | None, left: int = 0):
        self.file, self.left, self.length, self.crc = file, left, 0, 0

    def write(self, data: bytes) -> None:
        self._count(data)
        if self.file:
            self.file.write(data)

    def read(self, n: int) -> bytes:
        data = self.file.read(n) if n <= self.left else b""
        if len(data) < n:
            raise pickle.UnpicklingError("it ends too early")
        return self._count(data)

    def readline(self) -> bytes:
        return self._count(self.file.readline(self.left))

    def _count(self, data: bytes) -> bytes:
        self.left -= len(data)
        self.length += len(data)
        self.crc = zlib.crc32(data, self.crc)
        return data


def _write(content: dict, save_id: bytes = b"", file: IO[bytes] | None = None) -> int:
    """Write a dictionary and its trailer. Without a file: only find out how many bytes they are."""
    summed = _Summed(file)
    _Pickler(summed).dump(content)
    summed.write(_trailer(summed, save_id))
    return summed.length


def _read(path: Path) -> dict[str, Any]:
    """The dictionary in a file, with every byte of it verified if there is a trailer."""
    try:
        with path.open("rb") as file:
            trailer = _find_trailer(file)
            summed = _Summed(file, os.fstat(file.fileno()).st_size - len(trailer))
            content = _Unpickler(summed).load()
        if summed.left:
            raise pickle.UnpicklingError(f"{summed.left} bytes follow its end")
        if trailer and trailer != _trailer(summed, TRAILER.unpack(trailer)[2]):
            raise pickle.UnpicklingError("its checksum is wrong")
        if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
            raise pickle.UnpicklingError("it is no dictionary of names")
    except OSError:
        raise
    except Exception as error:  # a damaged pickle can lead to any
        reason = error if isinstance(error, pickle.UnpicklingError) else f"{type(error).__name__} {error}"
        raise UserError(
            f"{path} is refused: {reason}. A checkpoint holds arrays and plain containers, nothing else. "
            "The file is truncated or damaged, or was not written by this program or by paddle.save."
        ) from error
    content.pop(NAME_TABLE, None)
    return content


def _trailer(pickled: _Summed, save_id: bytes) -> bytes:
    unsealed = TRAILER.pack(MAGIC, pickled.length, save_id, 0)[:-4]
    return unsealed + struct.pack("<I", zlib.crc32(unsealed, pickled.crc))


def _find_trailer(file: IO[bytes]) -> bytes:
    """The trailer of a file, empty if it has none. Leaves the file at its beginning."""
    file.seek(max(0, os.fstat(file.fileno()).st_size - TRAILER.size))
    trailer = file.read()
    file.seek(0)
    return trailer if len(trailer) == TRAILER.size and trailer.startswith(MAGIC) else b""


def _save_id(path: Path) -> bytes:
    """The id of the save that wrote the file; empty if there is no file or no trailer."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        trailer = _find_trailer(file)
        return TRAILER.unpack(trailer)[2] if trailer else b""
    return b""


class _Pickler(pickle.Pickler):
    """Writes what `_Unpickler` reads, and refuses the rest."""

    AS_THEY_ARE = (np.ndarray, np.dtype, OrderedDict, np.empty(0).__reduce__()[0], np.float32(0).__reduce__()[0])

    def __init__(self, file: _Summed):
        super().__init__(file, protocol=4)  # the highest that paddle.save has
        self.fast = True  # no memo: it would keep a copy of every array until the end

    def reducer_override(self, value: Any) -> Any:
        """How to write what is no number, string or built-in container."""
        if isinstance(value, np.dtype | OrderedDict) or any(value is known for known in self.AS_THEY_ARE):
            return NotImplemented
        if not hasattr(value, "__array__"):
            raise TypeError(f"A checkpoint holds arrays and plain containers, not {type(value)}: {value!r:.80}.")
        array = np.asarray(value)
        if not DTYPE.fullmatch(array.dtype.str[1:]):
            raise TypeError(f"A checkpoint holds arrays of numbers or strings, not of dtype {array.dtype}.")
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        return NotImplemented if isinstance(value, np.generic) else array.__reduce__()


DATA_OPCODES = """
    PROTO FRAME STOP MARK MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET GLOBAL STACK_GLOBAL INST REDUCE NONE NEWTRUE
    NEWFALSE BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES
    BINBYTES8 EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS EMPTY_SET
    ADDITEMS FROZENSET
"""


class _Opcodes(dict):
    def __missing__(self, code: int) -> None:
        raise pickle.UnpicklingError(f"it has the pickle opcode {chr(code)!r}")


class _Unpickler(pickle._Unpickler):
    """Reads what `_Pickler` and paddle.save write. It knows the opcodes of data, and calls what is in KNOWN, no more.

    It extends the Python one of the standard library, whose opcodes can be chosen one by one. That costs no time: the
    data of an array are one opcode.
    """

    dispatch = _Opcodes(
        {code: pickle._Unpickler.dispatch[code] for code in (getattr(pickle, n)[0] for n in DATA_OPCODES.split())}
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in KNOWN:
            raise pickle.UnpicklingError(f"it asks for {f'{module}.{name}'!r:.120}")
        return KNOWN[module, name]

    def load_build(self) -> None:
        """Fill an array. The state of a dtype must say what its name has said."""
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, np.ndarray):
            _fill(target, *state[1:])
        elif not isinstance(target, np.dtype):
            raise pickle.UnpicklingError(f"it sets the state of a {type(target).__name__}")
        elif len(state) != 8 or state[2:5] != (None, None, None) or target.newbyteorder(state[1]) != target:
            raise pickle.UnpicklingError("it has an array with fields or of another byte order")

    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.BYTEARRAY8[0]] = pickle._Unpickler.load_binbytes8


def _fill(array: np.ndarray, shape: tuple, dtype: np.dtype, fortran: bool, data: bytes) -> np.ndarray:
    """Make an array what it was, from data of which it takes no copy."""
    known = isinstance(dtype, np.dtype) and type(data) is bytes and all(type(n) is int and n >= 0 for n in shape)
    # NumPy does not check the number of axes here, and reads on beyond the 32 or 64 for which it has room.
    if not known or len(shape) > 32 or math.prod(shape) * dtype.itemsize != len(data):
        raise pickle.UnpicklingError("the shape of an array does not agree with its data")
    array.__setstate__((1, tuple(shape), dtype, bool(fortran), data))
    return array


def _reconstruct(kind: str, *_: Any) -> np.ndarray:
    """An array that is yet to be filled."""
    if kind != "numpy.ndarray":
        raise pickle.UnpicklingError("it has an array of a kind of its own")
    return np.empty(0, np.int8)


def _dtype(name: str, *_: Any) -> np.dtype:
    if not DTYPE.fullmatch(name):
        raise pickle.UnpicklingError(f"it has an array of dtype {name!r:.80}")
    return np.dtype(name)


def _scalar(dtype: np.dtype, data: bytes) -> np.generic:
    return _fill(np.empty(0, np.int8), (), dtype, False, data)[()]


def _from_buffer(data: bytes, dtype: np.dtype, shape: tuple, order: str, axes: tuple | None = None) -> np.ndarray:
    """What protocol 5 makes of an array."""
    return _fill(np.empty(0, np.int8), shape, dtype, order == "F", data).transpose(axes or range(len(shape)))


def _tensor(value: tuple) -> Any:
    """What paddle.save makes of a tensor outside a state_dict: a tuple of its name and its array."""
    return value[1] if len(value) == 2 and isinstance(value[1], np.ndarray) else tuple(value)


def _encode(text: str = "", _encoding: str = "latin1") -> bytes:
    """What protocol 2 makes of bytes."""
    return text.encode("latin1")


KNOWN = {
    ("collections", "OrderedDict"): OrderedDict,
    ("_codecs", "encode"): _encode,
    ("numpy", "dtype"): _dtype,
    ("numpy", "ndarray"): "numpy.ndarray",
}
for _builtins in ("builtins", "__builtin__"):
    KNOWN |= {(_builtins, kind.__name__): kind for kind in (set, frozenset)}
    KNOWN |= {(_builtins, "bytes"): _encode, (_builtins, "tuple"): _tensor}
for _core in ("numpy.core", "numpy._core"):  # NumPy 1 and 2
    KNOWN |= {(f"{_core}.multiarray", "_reconstruct"): _reconstruct, (f"{_core}.multiarray", "scalar"): _scalar}
    KNOWN |= {(f"{_core}.numeric", "_frombuffer"): _from_buffer}
