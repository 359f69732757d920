"""Safe pickles: arrays and plain containers, read without running code.

A pickle can run arbitrary code when loaded, and `paddle.load` lets it. Here, `scan` first checks a pickle without running
it: only opcodes that build data, no length beyond the end of the file, at most MAX_OPCODES, and what is repeated is short.
Then `Unpickler` builds the data and calls only the few functions below. Arrays share the memory of the bytes in the file.
Together they limit the memory to 300 MB plus 10 times the file's size.
"""

import math
import pickle
import pickletools
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import IO, Any

import numpy as np

DTYPE = re.compile(r"[biufcSU][1-9]\d{0,8}")
MAX_AXES = 32  # of an array
MAX_REPEATED = 256  # bytes of a text that a pickle repeats, such as the name of a type, and of a NumPy scalar
MAX_OPCODES = 300_000  # each creates at most 250 bytes, besides text and bytes from the file; an array takes 40
PUT, GET = {"MEMOIZE", "BINPUT", "LONG_BINPUT"}, {"BINGET", "LONG_BINGET"}
TEXT = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"}
REPEATABLE = {*TEXT, "GLOBAL", "STACK_GLOBAL", "REDUCE", "EMPTY_DICT"}  # no lists or tuples: nested, they take forever
OPCODES = {
    *REPEATABLE, *PUT, *GET, "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2",
    "LONG1", "BINFLOAT", "EMPTY_LIST", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "APPEND",
    "APPENDS", "SETITEM", "SETITEMS", "BUILD",
}  # fmt: skip


class ChecksumFile:
    """Counts the bytes that are written to or read from a file, with their checksum.

    At most `remaining` bytes can be read. Requesting more is an error and allocates nothing.
    """

    def __init__(self, file: IO[bytes], remaining: int = 0):
        self.file, self.remaining, self.length, self.crc = file, remaining, 0, 0

    def write(self, data: bytes) -> None:
        self.file.write(self._count(data))

    def read(self, n: int) -> bytes:
        data = self.file.read(n) if n <= self.remaining else b""
        if len(data) < n:
            raise pickle.UnpicklingError("it ends too early")
        return self._count(data)

    def readline(self) -> bytes:
        return self._count(self.file.readline(self.remaining))

    def _count(self, data: bytes) -> bytes:
        self.remaining -= len(data)
        self.length += len(data)
        self.crc = zlib.crc32(data, self.crc)
        return data


class Pickler(pickle.Pickler):
    """Writes only types that `Unpickler` reads; anything else is a TypeError."""

    PASS_THROUGH = (np.ndarray, np.dtype, OrderedDict, np.empty(0).__reduce__()[0], np.float32(0).__reduce__()[0])

    def __init__(self, file: ChecksumFile):
        super().__init__(file, protocol=4)  # the highest that paddle.save supports
        self.fast = True  # without memo, which would keep a copy of every array until the end

    def reducer_override(self, value: Any) -> Any:
        """Called for anything but numbers, strings and built-in containers."""
        if isinstance(value, np.dtype | OrderedDict) or any(value is known for known in self.PASS_THROUGH):
            return NotImplemented
        if not hasattr(value, "__array__"):
            raise TypeError(f"A checkpoint contains arrays and plain containers, not {type(value)}: {value!r:.80}.")
        array = np.asarray(value)
        if not DTYPE.fullmatch(array.dtype.str[1:]):
            raise TypeError(f"A checkpoint contains arrays of numbers or strings, not of dtype {array.dtype}.")
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        return NotImplemented if isinstance(value, np.generic) else array.__reduce__()


def scan(file: IO[bytes], size: int, opcodes: Collection[str] = OPCODES) -> ChecksumFile:
    """Check a pickle of at most `size` bytes without running it, then return to its start.

    Raises an UnpicklingError if it might do more than build data or take far more memory than the file has bytes.
    """
    begin, counted, previous = file.tell(), ChecksumFile(file, size), ""
    memo: dict[int, str] = {}  # the opcode that created each entry
    for count, (opcode, argument, _) in enumerate(pickletools.genops(counted)):
        name = opcode.name
        if name not in opcodes:
            raise pickle.UnpicklingError(f"it has the pickle opcode {name}")
        if name == "FRAME" and argument > counted.remaining:
            raise pickle.UnpicklingError("it ends too early")
        if name in GET and memo.get(argument) not in REPEATABLE:
            raise pickle.UnpicklingError("it repeats a list, a tuple, a long text or an object that does not exist")
        if count >= MAX_OPCODES or (name in PUT and (argument or 0) > count):
            raise pickle.UnpicklingError("it would take far more memory than the file has bytes")
        if name in PUT:
            memo[len(memo) if name == "MEMOIZE" else argument] = previous
        elif name != "FRAME":
            previous = name if name not in TEXT or len(argument) <= MAX_REPEATED else ""
    file.seek(begin)
    return counted


class Unpickler(pickle.Unpickler):
    """Reads the pickles of `Pickler` and paddle.save, after `scan` has accepted them."""

    def __init__(self, file: IO[bytes]):
        super().__init__(file)
        self.functions: dict[tuple[str, str], Callable] = {
            ("collections", "OrderedDict"): lambda: OrderedDict(),
            ("_codecs", "encode"): lambda text, _encoding="latin1": text.encode("latin1"),  # bytes, in protocol 2
            ("numpy", "dtype"): Dtype,
        }
        for builtins in ("builtins", "__builtin__"):
            self.functions |= {(builtins, "bytes"): lambda: b"", (builtins, "tuple"): _tensor}
        for core in ("numpy.core", "numpy._core"):  # NumPy 1 and 2
            self.functions |= {(f"{core}.multiarray", "_reconstruct"): Array, (f"{core}.multiarray", "scalar"): _scalar}

    def load(self) -> Any:
        return _arrays_in(super().load(), set())

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("numpy", "ndarray"):
            return "numpy.ndarray"
        if (module, name) not in self.functions:
            raise pickle.UnpicklingError(f"it asks for {f'{module}.{name}'!r:.120}")
        return Function(self.functions[module, name])


class Unchangeable:
    """An object whose state a pickle cannot set."""

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError(f"it sets the state of a {type(self).__name__}")


class Function(Unchangeable):
    """A function that a pickle may call."""

    def __init__(self, function: Callable):
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)


class Dtype:
    """A dtype being read: its state must agree with its name."""

    def __init__(self, name: str, *_: Any):
        if not DTYPE.fullmatch(name):
            raise pickle.UnpicklingError(f"it has an array of dtype {name!r:.80}")
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple) -> None:
        if len(state) != 8 or state[2:5] != (None, None, None) or self.dtype.newbyteorder(state[1]) != self.dtype:
            raise pickle.UnpicklingError("it has an array with fields or of another byte order")


class Array:
    """An array being read."""

    __hash__ = None

    def __init__(self, kind: str, *_: Any):
        if kind != "numpy.ndarray":
            raise pickle.UnpicklingError("it has an array of another class")
        self.array = np.empty(0, np.int8)

    def __setstate__(self, state: tuple) -> None:
        self.array = _array(*state[1:])


def _array(shape: tuple, dtype: Dtype, fortran: bool, data: bytes) -> np.ndarray:
    """An array that shares the memory of `data`."""
    # NumPy does not check the number of axes here, and reads beyond its limit of 32 or 64.
    valid = isinstance(dtype, Dtype) and type(data) is bytes and len(shape) <= MAX_AXES
    valid = valid and all(type(n) is int and n >= 0 for n in shape)
    if not valid or math.prod(shape) * dtype.dtype.itemsize != len(data):
        raise pickle.UnpicklingError("the shape of an array does not agree with its data")
    array = np.empty(0, np.int8)
    array.__setstate__((1, tuple(shape), dtype.dtype, bool(fortran), data))
    return array


def _scalar(dtype: Dtype, data: bytes) -> np.generic:
    if len(data) > MAX_REPEATED:
        raise pickle.UnpicklingError(f"it has a scalar of {len(data):,} bytes")
    return _array((), dtype, False, data)[()]


def _tensor(value: tuple) -> Array:
    """The array of a tensor: outside a state_dict, paddle.save writes a tuple of name and array."""
    if len(value) != 2 or not isinstance(value[1], Array):
        raise pickle.UnpicklingError("it has a tuple that is not a tensor")
    return value[1]


def _arrays_in(value: Any, seen: set[int]) -> Any:
    """Replace every `Array` in a value by its array. seen: the ids of dictionaries that have been visited."""
    if isinstance(value, Array):
        return value.array
    if isinstance(value, dict) and id(value) not in seen:
        seen.add(id(value))
        value.update({key: _arrays_in(part, seen) for key, part in value.items()})
    elif isinstance(value, list):
        value[:] = [_arrays_in(part, seen) for part in value]
    elif isinstance(value, tuple):
        return tuple(_arrays_in(part, seen) for part in value)
    return value
