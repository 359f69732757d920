"""An HDF5 file of the vectors of a text's lines, filled window by window, by a process that may be killed at any moment.

    "0", "1", ...         the vectors of line 0, 1, ..., (layers, n, 2P), as bilm-tf and AllenNLP write them
    "sentence_to_index"   (1,) a string: a JSON object, {sentence: line}, as AllenNLP writes it
    attribute "run_embed" JSON: what the vectors depend on, and which lines the file is for

How it survives. All lengths are known from the text, so all datasets are made at once, still empty, and HDF5 has done its
work: what follows only asks where in the file a dataset's numbers belong, and puts them there. HDF5's own structures, which
a kill in the midst of a change would ruin, are never changed again; each has HDF5's checksum, in the format of HDF5 1.8.

Behind the end of what is HDF5's, where HDF5 does not look, stands the ledger:

    table     of every window (a run of lines): its number of lines, and its bytes in `sentence_to_index`
    entries   of every window: CRC-32 of each line's vectors, of its part of `sentence_to_index`, and of this entry
    footer    where the ledger begins, the number of windows, CRC-32 of the table; it ends the file and is written last

A window's entry is written last. A window is done if its entry is whole and all bytes are those that it says, which is
looked at before anything is built on it: a kill costs one window, a power failure what was not on the disk yet, and damage
is found. A finished file that has no use for its ledger loses it.

`sentence_to_index` is a string of fixed length, which can be written piece by piece; AllenNLP's is of variable length, for
which HDF5 needs several copies in memory. Who reads the dataset gets bytes in either case.
"""

import errno
import json
import os
import shutil
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import h5py
import numpy as np
from h5py import h5d, h5f, h5p, h5s, h5t

from elmo_core import disk
from elmo_core.runtime import UserError, log

SETTINGS, SENTENCES = "run_embed", "sentence_to_index"
PARTIAL = ".partial"  # ends the name of a file that is not finished
MAGIC = b"\x89ELMovec"
FOOTER = struct.Struct("<8sQQII")  # magic, where the ledger begins, windows, CRC-32 of the table, CRC-32 of this
TABLE = np.dtype([("lines", "<u4"), ("text", "<u8")])
SUM = np.dtype("<u4")
META_BLOCK = 1 << 16  # bytes that HDF5 sets aside at a time for its own, so that vectors lie side by side
SIGNATURE = b"\x89HDF\r\n\x1a\n"
PER_DATASET = 310  # bytes of HDF5's own for each line, measured
LONGEST_STRING = 2**31 - 1  # bytes: that NumPy has always been able to read


class Unfinished(UserError):
    """There is no ledger at the file's end."""


class Window(NamedTuple):
    """A run of lines that are written together, and how many bytes of `sentence_to_index` are theirs."""

    lines: int
    text: int


def entries(first: int, sentences: Iterable[Sequence[str]]) -> bytes:
    """What `sentence_to_index` says of the lines from number `first` on: `,"the sentence":"7"`. Blank ones have no entry."""
    numbered = ((str(line), " ".join(tokens)) for line, tokens in enumerate(sentences, first) if tokens)
    return "".join(f',{json.dumps(text, ensure_ascii=False)}:"{line}"' for line, text in numbered).encode()


def expected_size(lines: int, numbers: int, text: int) -> int:
    """Bytes of a file, ledger included, with so many bytes of numbers and so many in `sentence_to_index`."""
    return lines * (PER_DATASET + SUM.itemsize) + numbers + text + META_BLOCK


class VectorFile:
    """A file that has its datasets; of its windows some may be still to be written.

    settings: what the attribute holds, among it `first_line`, `dtype`, and `sentences`: whether there is a
    `sentence_to_index`.
    """

    def __init__(self, path: Path, writable: bool = False):
        self.path = path
        self._raw = path.open("r+b" if writable else "rb", buffering=0)
        self._hdf5: h5py.File | None = None
        try:
            self._read_ledger()
            self.settings = self._open()
            self.first_line, self.dtype = self.settings["first_line"], np.dtype(self.settings["dtype"])
            self._text_place = self._place_of_text() if self.settings["sentences"] else None
        except UserError:
            self.close()
            raise
        except Exception as error:  # a damaged file can lead to any
            self.close()
            raise self._damaged("it", error) from error

    def __enter__(self) -> "VectorFile":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self._hdf5:
            self._hdf5.close()
        self._raw.close()

    @property
    def size(self) -> int:
        """Bytes of the file when it is finished, without its ledger."""
        return self._ledger

    def _read_ledger(self) -> None:
        size = os.fstat(self._raw.fileno()).st_size
        footer = self._get(max(0, size - FOOTER.size), min(size, FOOTER.size))
        if len(footer) < FOOTER.size or not footer.startswith(MAGIC) or zlib.crc32(footer[:-4]) != _last(footer):
            raise Unfinished(
                f"{self.path} has no ledger at its end: it was not written by run_embed.py --shard, or it was cut off or "
                "changed since."
            )
        _, self._ledger, windows, checksum, _ = FOOTER.unpack(footer)
        table = self._get(self._ledger, min(size, windows * TABLE.itemsize))
        if zlib.crc32(table) != checksum:
            raise UserError(
                f"{self.path} is damaged: the checksum of its ledger is wrong. Delete it and make it again."
            )
        self.windows = [Window(*pair) for pair in np.frombuffer(table, TABLE).tolist()]
        counts = np.array([(0, 0), *self.windows], np.int64).cumsum(axis=0)
        self._lines, self._texts = counts.T
        self._entries = (
            self._ledger + len(table) + self._lines * SUM.itemsize + np.arange(windows + 1) * 2 * SUM.itemsize
        )
        if self._entries[-1] + FOOTER.size != size:
            raise UserError(
                f"{self.path} is damaged: its length is not that of its ledger. Delete it and make it again."
            )

    def _open(self) -> dict[str, Any]:
        self._hdf5 = h5py.File(self.path, "r", locking=False)  # `under_way` holds a lock of its own
        return json.loads(bytes(self._hdf5.attrs[SETTINGS]))

    def _place_of_text(self) -> int:
        dataset = h5d.open(self._hdf5.id, SENTENCES.encode())
        length, place = dataset.dtype.itemsize, dataset.get_offset()
        if length != self._texts[-1] + 2 or self._get(place, 1) + self._get(place + length - 1, 1) != b"{}":
            raise ValueError(f"{SENTENCES} is not what the ledger says")
        return place

    def _damaged(self, what: str, error: object) -> UserError:
        return UserError(f"{self.path} is damaged, {what} cannot be read ({error}). Delete it and make it again.")

    # Reading

    def shapes(self) -> Iterator[tuple[int, ...]]:
        """The shapes of all lines' datasets."""
        for line in range(self.first_line, self.first_line + int(self._lines[-1])):
            yield self._place(line)[0]

    def _place(self, line: int) -> tuple[tuple[int, ...], int | None]:
        """A dataset's shape, and where in the file its numbers are."""
        try:
            dataset = h5d.open(self._hdf5.id, str(line).encode())
            shape, place = dataset.shape, dataset.get_offset()
            if dataset.dtype != self.dtype:
                raise ValueError(f"it is of type {dataset.dtype}")
            if place is not None and place + dataset.get_storage_size() > self._ledger:
                raise ValueError("it lies outside the file")
        except Exception as error:  # a damaged file can lead to any
            raise self._damaged(f"dataset {line}", error) from error
        return shape, place

    def vectors(self, window: int) -> Iterator[tuple[int, np.ndarray]]:
        """The lines of a window that is done, and their arrays, verified one by one."""
        first = self.first_line + int(self._lines[window])
        for line, checksum in enumerate(self._entry(window)[:-2].tolist(), first):
            shape, place = self._place(line)
            data = self._get(place or 0, int(np.prod(shape)) * self.dtype.itemsize)
            if zlib.crc32(data) != checksum:
                raise self._damaged(f"dataset {line}", "its checksum is wrong")
            yield line, np.frombuffer(data, self.dtype).reshape(shape)

    def text(self, window: int) -> bytes:
        """What a window that is done has in `sentence_to_index`, verified."""
        begin, end = self._texts[window : window + 2].tolist()
        if self._text_place is None or begin == end:
            return b""
        data = self._get(self._text_place + 1 + begin, end - begin)
        if begin == 0:  # where the comma of the first entry would be there is a blank
            data = (b"," if data.startswith(b" ") else b"") + data[1:]
        if zlib.crc32(data) != self._entry(window)[-2]:
            raise self._damaged(SENTENCES, "its checksum is wrong")
        return data

    def is_done(self, window: int) -> bool:
        """Whether a window has been written and is what was written."""
        if not self.is_begun(window):
            return False
        try:
            self.text(window)
            return all(True for _ in self.vectors(window))
        except UserError:
            return False

    def is_begun(self, window: int) -> bool:
        """Whether there is an entry for the window, be it a damaged one."""
        return any(self._get_entry(window))

    def _entry(self, window: int) -> np.ndarray:
        """The checksums of a window that is done."""
        data = self._get_entry(window)
        if zlib.crc32(data[:-4], window) != _last(data):
            raise self._damaged(f"window {window}", "it was not written to its end")
        return np.frombuffer(data, SUM)

    def _get_entry(self, window: int) -> bytes:
        begin, end = self._entries[window : window + 2].tolist()
        return self._get(begin, end - begin)

    def _get(self, place: int, length: int) -> bytes:
        parts = []
        while length > 0 and (part := os.pread(self._raw.fileno(), length, place)):
            parts.append(part)
            place, length = place + len(part), length - len(part)
        return b"".join(parts)

    # Writing

    def write(self, window: int, arrays: Iterable[tuple[int, np.ndarray]], text: bytes) -> None:
        """Write a window: its lines' arrays, in any order, and what it has in `sentence_to_index`."""
        begin, end = self._lines[window : window + 2].tolist()
        checksums = np.zeros(end - begin + 1, SUM)
        written = 0
        for line, array in arrays:
            shape, place = self._place(line)
            if shape != array.shape:
                raise UserError(
                    f"line {line + 1}: its vectors are {array.shape}, the file has been laid out for {shape}."
                )
            data = np.ascontiguousarray(array, self.dtype).reshape(-1).view(np.uint8)
            if data.size:
                self._put(data, place)
            checksums[line - self.first_line - begin] = zlib.crc32(data)
            written += 1
        if written != end - begin:
            raise ValueError(f"window {window}: {written} arrays for {end - begin} lines")
        self._write_text(window, text)
        checksums[-1] = zlib.crc32(text)
        entry = checksums.tobytes()
        self._put(entry + SUM.type(zlib.crc32(entry, window)).tobytes(), int(self._entries[window]))

    def _write_text(self, window: int, text: bytes) -> None:
        begin, end = self._texts[window : window + 2].tolist()
        if len(text) != end - begin:
            raise ValueError(f"window {window}: {len(text)} bytes of text for {end - begin}")
        if text:
            self._put(text if begin else b" " + text[1:], self._text_place + 1 + begin)

    def finish(self, path: Path, keep_ledger: bool) -> None:
        """Give the file, whose windows are all done, its name."""
        _sync(self._raw, self.path)
        self.path.replace(path)
        if not keep_ledger:
            os.ftruncate(self._raw.fileno(), self._ledger)
        disk.sync_folder(path.parent)

    def _put(self, data: bytes | np.ndarray, place: int) -> None:
        put(self._raw.fileno(), data, place, self.path)


@contextmanager
def under_way(
    path: Path, settings: Mapping[str, Any], windows: Sequence[Window], shapes: Iterable[tuple[int, ...]]
) -> Iterator[VectorFile]:
    """The unfinished file of `path`, for this process alone: that of an interrupted run of the same settings, or a new one.

    shapes: those of all lines' datasets, which are taken for a new file.
    """
    partial = partial_of(path)
    _check_text(path, settings, windows)
    with partial.open("a+b") as handle:
        _lock(handle, partial)
        handle.seek(0)
        if handle.read(len(SIGNATURE)).strip(b"\0") not in (b"", SIGNATURE):
            raise UserError(
                f"{partial} would be overwritten, and is no file of vectors. Move it away, or choose another --output."
            )
        try:
            file = VectorFile(partial, writable=True)
        except Unfinished:
            if partial.stat().st_size:
                log.warning(
                    f"{partial} has no ledger: it was abandoned before anything was in it, or cut off. It is made again."
                )
            _create(partial, settings, windows, shapes)
            file = VectorFile(partial, writable=True)
        with file:
            if changes := differences(file.settings, settings):
                raise UserError(
                    f"{partial} is of an interrupted run with other settings: {changes}. Give the same to go on, or delete "
                    "it to begin anew."
                )
            yield file


def partial_of(path: Path) -> Path:
    return Path(f"{path}{PARTIAL}")


def allocated(path: Path) -> int:
    """Bytes of the disk that a file has already, finished or not: what is not yet written has none."""
    there = [file for file in (path, partial_of(path)) if file.exists()]
    return sum(file.stat().st_blocks * 512 for file in there)


def check_room(path: Path, needed: int, advice: str = "") -> None:
    """Refuse a file that the disk cannot hold."""
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise UserError(
            f"{path}: {size(needed)} are needed, {size(free)} are free in {path.parent}. {advice}make room, or choose "
            "another disk."
        )


def is_finished(path: Path, settings: Mapping[str, Any]) -> bool:
    """True if a file that is there is what is asked for. One that is something else is not overwritten."""
    try:
        with h5py.File(path, "r") as hdf5:
            saved = dict(json.loads(bytes(hdf5.attrs[SETTINGS])))
    except Exception as error:  # what is not ours can lead to any
        raise UserError(f"{path} exists, and was not written by run_embed.py. Choose another --output.") from error
    if changes := differences(saved, settings):
        raise UserError(f"{path} exists, and is another file: {changes}. Choose another --output, or delete it.")
    log.info(f"{path} is finished, nothing is left to do.")
    return True


def size(n: int) -> str:
    """A number of bytes in words."""
    return f"{n / 1e9:,.2f} GB" if n >= 1e9 else f"{n / 1e6:,.2f} MB"


def size_of(path: Path) -> str:
    return size(path.stat().st_size)


def differences(saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What differs between the settings of a file and those that are wanted."""
    names = [name for name in {**wanted, **saved} if saved.get(name) != wanted.get(name)]
    return "; ".join(f"{name} was {saved.get(name)}, is {wanted.get(name)}" for name in names)


def _lock(handle: IO, path: Path) -> None:
    """Refuse to work where another process works. The lock ends with the process, however it ends."""
    disk.lock(handle.fileno(), path)
    if not path.exists() or not os.path.samestat(os.fstat(handle.fileno()), path.stat()):
        raise disk.Busy(f"{path} has just been finished by another process.")


def _check_text(path: Path, settings: Mapping[str, Any], windows: Sequence[Window]) -> None:
    text = _length_of_text(windows)
    if settings["sentences"] and text > LONGEST_STRING:
        raise UserError(
            f"{path}: {SENTENCES} would take {text:,} bytes, a string can have {LONGEST_STRING:,}. Leave it out with "
            "--forget_sentences: dataset 0 is line 0 of the text in any case."
        )


def _length_of_text(windows: Sequence[Window]) -> int:
    return sum(window.text for window in windows) + len("{}")


def _create(
    path: Path, settings: Mapping[str, Any], windows: Sequence[Window], shapes: Iterable[tuple[int, ...]]
) -> None:
    """Make a file with all its datasets, and an empty ledger behind them."""
    text, place = _length_of_text(windows), None
    with _room_needed(path), _new_hdf5(path) as hdf5:
        hdf5.attrs[SETTINGS] = np.bytes_(json.dumps(settings))
        kind, lines = h5t.py_create(np.dtype(settings["dtype"])), 0
        for lines, shape in enumerate(shapes, 1):
            _empty_dataset(hdf5, str(settings["first_line"] + lines - 1), kind, shape)
        if lines != sum(window.lines for window in windows):
            raise ValueError(f"{lines} shapes for {sum(window.lines for window in windows)} lines")
        if settings["sentences"]:
            kind = h5t.C_S1.copy()
            kind.set_size(text)
            kind.set_cset(h5t.CSET_UTF8)
            place = _empty_dataset(hdf5, SENTENCES, kind, (1,)).get_offset()
    with path.open("r+b") as file:
        if place is not None:
            put(file.fileno(), b"{", place, path)
            put(file.fileno(), b"}", place + text - 1, path)
        _append_ledger(file, path, windows)


def _new_hdf5(path: Path) -> h5py.File:
    """An empty file. The same input makes the same file: h5py's own way notes the time, or not, as its version goes."""
    creation, access = h5p.create(h5p.FILE_CREATE), h5p.create(h5p.FILE_ACCESS)
    creation.set_obj_track_times(False)
    version = h5f.LIBVER_V18  # checksums, and a group whose names need not all be in memory
    access.set_libver_bounds(version, version)
    access.set_meta_block_size(META_BLOCK)
    access.set_file_locking(False, True)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    return h5py.File(h5f.create(os.fsencode(path), h5f.ACC_TRUNC, creation, access))


def _empty_dataset(hdf5: h5py.File, name: str, kind: h5t.TypeID, shape: tuple[int, ...]) -> h5d.DatasetID:
    """A dataset that has its place in the file, but no numbers yet."""
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    return h5d.create(hdf5.id, name.encode(), kind, h5s.create_simple(shape), properties)


def _append_ledger(file: IO[bytes], path: Path, windows: Sequence[Window]) -> None:
    """Its table; room for its entries; and its footer, when all before is on the disk."""
    begin = os.fstat(file.fileno()).st_size
    table = np.array(windows, TABLE).tobytes()
    length = len(table) + sum(window.lines + 2 for window in windows) * SUM.itemsize
    put(file.fileno(), table, begin, path)
    os.ftruncate(file.fileno(), begin + length)
    _sync(file, path)
    footer = FOOTER.pack(MAGIC, begin, len(windows), zlib.crc32(table), 0)[:-4]
    put(file.fileno(), footer + SUM.type(zlib.crc32(footer)).tobytes(), begin + length, path)


def put(handle: int, data: bytes | np.ndarray, place: int, path: Path) -> None:
    """Write all of the data at a place in a file."""
    view = memoryview(data)
    with _room_needed(path):
        while view:
            written = os.pwrite(handle, view, place)
            view, place = view[written:], place + written


def _sync(file: IO, path: Path) -> None:
    with _room_needed(path):
        os.fsync(file.fileno())


@contextmanager
def _room_needed(path: Path) -> Iterator[None]:
    """Say what a full disk means."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UserError(
            f"{path} could not be written, the disk is full: {size(shutil.disk_usage(path.parent).free)} free in "
            f"{path.parent}. What is there is intact: make room, and the same command goes on."
        ) from error


def _last(data: bytes) -> int:
    """The checksum at the end."""
    return int.from_bytes(data[-SUM.itemsize :], "little")
