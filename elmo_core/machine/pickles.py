"""Pickles of arrays and plain containers, read without running anything.

A pickle is a program, and `paddle.load` runs it. Here it is read by an unpickler that knows arrays and plain containers
only and refuses everything else by name. A small file cannot fill the memory either: what its opcodes create is of the
order of its own size; what its calls create, and its containers written out in full, is limited to a multiple of that.
"""

import math
import pickle
import re
import sys
import zlib
from collections import OrderedDict
from collections.abc import Collection
from typing import IO, Any

import numpy as np

DTYPE = re.compile(r"[biufcSU][1-9]\d{0,8}")
MAX_AXES = 32  # of an array; and the most parts of a tuple that is a key


class ChecksumFile:
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


class Pickler(pickle.Pickler):
    """Writes what `Unpickler` reads, and refuses the rest."""

    AS_THEY_ARE = (np.ndarray, np.dtype, OrderedDict, np.empty(0).__reduce__()[0], np.float32(0).__reduce__()[0])

    def __init__(self, file: ChecksumFile):
        super().__init__(file, protocol=4)  # the highest that paddle.save has
        self.fast = True  # no memo: it would keep a copy of every array until the end

    def reducer_override(self, value: Any) -> Any:
        """How to write anything but numbers, strings and built-in containers."""
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
    PROTO FRAME STOP MARK MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET GLOBAL STACK_GLOBAL NONE NEWTRUE NEWFALSE BININT
    BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 EMPTY_TUPLE
    TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS EMPTY_DICT EMPTY_SET
"""


class Opcodes(dict):
    """What an unpickler does at each opcode. Every other one is refused by name."""

    def __missing__(self, code: int) -> None:
        raise pickle.UnpicklingError(f"it has the pickle opcode {chr(code)!r}")


class Unpickler(pickle._Unpickler):
    """Reads what `Pickler` and paddle.save write. It knows the opcodes of data, and calls what is in `known`, no more.

    It extends the Python one of the standard library, whose opcodes can be chosen one by one. That costs no time: the
    data of an array are one opcode.
    """

    known: dict[tuple[str, str], Any]  # what a pickle may ask for, by module and name
    dispatch = Opcodes(
        {code: pickle._Unpickler.dispatch[code] for code in (getattr(pickle, n)[0] for n in DATA_OPCODES.split())}
    )

    def __init__(self, file: ChecksumFile):
        super().__init__(file)
        self.budget = 16 * file.left + (1 << 20)  # bytes that calls may produce

    def charge(self, *produced: Any) -> None:
        """Count what a call has produced. A reader with calls of its own counts theirs, too."""
        self.budget -= sum(map(sys.getsizeof, produced))
        if self.budget < 0:
            raise pickle.UnpicklingError("it would take far more memory than the file has bytes")

    def load(self) -> Any:
        """Walk its containers once: with shared parts, walking them could take exponential time."""
        content = super().load()
        rest = [content]
        while rest:
            value = rest.pop()
            if isinstance(value, dict):
                value = [*value.keys(), *value.values()]
            if isinstance(value, list | tuple | set | frozenset):
                self.charge(value)
                rest.extend(value)
        return content

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise pickle.UnpicklingError(f"it asks for {f'{module}.{name}'!r:.120}")
        return self.known[module, name]

    def load_reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        result = function(*arguments)
        self.charge(arguments, result)
        self.append(result)

    def load_build(self) -> None:
        """Fill an array. The state of a dtype must agree with its name."""
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, np.ndarray):
            _fill(target, *state[1:])
            self.charge(target)
        elif not isinstance(target, np.dtype):
            raise pickle.UnpicklingError(f"it sets the state of a {type(target).__name__}")
        elif len(state) != 8 or state[2:5] != (None, None, None) or target.newbyteorder(state[1]) != target:
            raise pickle.UnpicklingError("it has an array with fields or of another byte order")

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set_items([key], [value])

    def load_setitems(self) -> None:
        items = self.pop_mark()
        self._set_items(items[::2], items[1::2])

    def _set_items(self, keys: list, values: list) -> None:
        if not isinstance(self.stack[-1], dict):
            raise pickle.UnpicklingError(f"it sets items of a {type(self.stack[-1]).__name__}")
        self.stack[-1].update(zip(_hashable(keys), values, strict=True))

    def load_additems(self) -> None:
        items = self.pop_mark()
        set.update(self.stack[-1], _hashable(items))

    def load_frozenset(self) -> None:
        items = self.pop_mark()  # which replaces the stack, and with it `append`
        self.append(frozenset(_hashable(items)))

    dispatch |= {
        pickle.REDUCE[0]: load_reduce,
        pickle.BUILD[0]: load_build,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
        pickle.ADDITEMS[0]: load_additems,
        pickle.FROZENSET[0]: load_frozenset,
        pickle.BYTEARRAY8[0]: pickle._Unpickler.load_binbytes8,
    }


def _hashable(values: Collection) -> Collection:
    """Keys of a dictionary or members of a set. Nested tuples are refused: hashing them can take exponential time."""
    for value in values:
        if type(value) is tuple and (len(value) > MAX_AXES or any(type(part) is tuple for part in value)):
            raise pickle.UnpicklingError("it has a tuple of tuples or of many parts for a key")
    return values


def _fill(array: np.ndarray, shape: tuple, dtype: np.dtype, fortran: bool, data: bytes) -> np.ndarray:
    """Restore an array from its data, without copying them."""
    # NumPy does not check the number of axes here, and reads on beyond the 32 or 64 for which it has room.
    valid = isinstance(dtype, np.dtype) and type(data) is bytes and len(shape) <= MAX_AXES
    valid = valid and all(type(n) is int and n >= 0 for n in shape)
    if not valid or math.prod(shape) * dtype.itemsize != len(data):
        raise pickle.UnpicklingError("the shape of an array does not agree with its data")
    array.__setstate__((1, tuple(shape), dtype, bool(fortran), data))
    return array


def _reconstruct(kind: str, *_: Any) -> np.ndarray:
    """An empty array, which BUILD fills."""
    if kind != "numpy.ndarray":
        raise pickle.UnpicklingError("it has an array of another class")
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


Unpickler.known = KNOWN = {
    ("collections", "OrderedDict"): lambda: OrderedDict(),
    ("_codecs", "encode"): _encode,
    ("numpy", "dtype"): _dtype,
    ("numpy", "ndarray"): "numpy.ndarray",
}

for _builtins in ("builtins", "__builtin__"):
    KNOWN[_builtins, "set"] = lambda members=(): set(_hashable(members))
    KNOWN[_builtins, "frozenset"] = lambda members=(): frozenset(_hashable(members))
    KNOWN |= {(_builtins, "bytes"): _encode, (_builtins, "tuple"): _tensor}

for _core in ("numpy.core", "numpy._core"):  # NumPy 1 and 2
    KNOWN |= {(f"{_core}.multiarray", "_reconstruct"): _reconstruct, (f"{_core}.multiarray", "scalar"): _scalar}
    KNOWN |= {(f"{_core}.numeric", "_frombuffer"): _from_buffer}
