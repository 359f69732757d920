"""Pickles of arrays and plain containers, read without running anything.

A pickle is a program, and `paddle.load` runs it. Here it is read by an unpickler that knows arrays and plain containers
only and refuses everything else by name.
"""

import math
import pickle
import re
import zlib
from collections import OrderedDict
from typing import IO, Any

import numpy as np

DTYPE = re.compile(r"[biufcSU][1-9]\d{0,8}")


class Summed:
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

    def __init__(self, file: Summed):
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


class Unpickler(pickle._Unpickler):
    """Reads what `Pickler` and paddle.save write. It knows the opcodes of data, and calls what is in KNOWN, no more.

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
