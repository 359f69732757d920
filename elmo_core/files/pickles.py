"""Safe pickles: arrays and plain containers, read without running code.

A pickle can run arbitrary code when loaded, and `paddle.load` lets it. Here, `load` interprets it: only opcodes that build
data, no length beyond the end of the file, at most MAX_OPCODES, and what is repeated is short. It calls only the functions
in KNOWN. Arrays share the memory of the bytes in the file. So it takes at most 300 MB plus 10 times the file's size.
"""

import math
import pickle
import pickletools
import re
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

DTYPE = re.compile(r"[biufcSU][1-9]\d{0,8}")
MAX_AXES = 32  # of an array
MAX_DEPTH = 100  # of containers
MAX_REPEATED = 256  # bytes of a text that a pickle repeats, such as the name of a type, and of a NumPy scalar
MAX_OPCODES = 300_000  # each creates at most 250 bytes, besides text and bytes from the file; an array takes 40
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
DATA = {
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8",
}  # fmt: skip
ITEMS = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1, "SETITEM": 2}  # number that they take from the stack
ITEMS |= {"TUPLE": 0, "APPENDS": 0, "SETITEMS": 0}  # all above the last mark


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


def _set_state(value: Any, state: tuple) -> None:
    if type(value) is np.ndarray:
        _fill(value, *state[1:])
    elif isinstance(value, np.dtype):
        if len(state) != 8 or state[2:5] != (None, None, None) or value.newbyteorder(state[1]) != value:
            raise pickle.UnpicklingError("it has an array with fields or of another byte order")
    elif type(value) is not OrderedDict:  # whose state is an attribute of PyTorch's
        raise pickle.UnpicklingError(f"it sets the state of a {type(value).__name__}")


def _fill(array: np.ndarray, shape: tuple, dtype: np.dtype, fortran: bool, data: bytes) -> np.ndarray:
    """Make an empty array share the memory of `data`."""
    # NumPy does not check the number of axes here, and reads beyond its limit of 32 or 64.
    valid = isinstance(dtype, np.dtype) and type(data) is bytes and len(shape) <= MAX_AXES
    valid = valid and all(type(n) is int and n >= 0 for n in shape)
    if not valid or math.prod(shape) * dtype.itemsize != len(data):
        raise pickle.UnpicklingError("the shape of an array does not agree with its data")
    array.__setstate__((1, tuple(shape), dtype, bool(fortran), data))
    return array


def _array(kind: str, *_: Any) -> np.ndarray:
    if kind != "numpy.ndarray":
        raise pickle.UnpicklingError("it has an array of another class")
    return np.empty(0, np.int8)  # to be filled


def _dtype(name: str, *_: Any) -> np.dtype:
    if not DTYPE.fullmatch(name):
        raise pickle.UnpicklingError(f"it has an array of dtype {name!r:.80}")
    return np.dtype(name)


def _scalar(dtype: np.dtype, data: bytes) -> np.generic:
    if len(data) > MAX_REPEATED:
        raise pickle.UnpicklingError(f"it has a scalar of {len(data):,} bytes")
    return _fill(np.empty(0, np.int8), (), dtype, False, data)[()]


def _tensor(value: tuple) -> np.ndarray:
    """The array of a tensor: outside a state_dict, paddle.save writes a tuple of name and array."""
    if len(value) != 2 or not isinstance(value[1], np.ndarray):
        raise pickle.UnpicklingError("it has a tuple that is not a tensor")
    return value[1]


KNOWN: dict[str, Any] = {
    "collections OrderedDict": lambda: OrderedDict(),
    "_codecs encode": lambda text, _encoding="latin1": text.encode("latin1"),  # bytes, in protocol 2
    "numpy dtype": _dtype,
    "numpy ndarray": "numpy.ndarray",
    **dict.fromkeys(("builtins bytes", "__builtin__ bytes"), lambda: b""),
    **dict.fromkeys(("builtins tuple", "__builtin__ tuple"), _tensor),
    **{f"numpy.{core}.multiarray _reconstruct": _array for core in ("core", "_core")},  # NumPy 1 and 2
    **{f"numpy.{core}.multiarray scalar": _scalar for core in ("core", "_core")},
}


def load(file: IO[bytes], size: int, known: Mapping[str, Any] = KNOWN) -> tuple[Any, ChecksumFile]:
    """Read a pickle of at most `size` bytes: its content, and the count of its bytes. A damaged one can raise anything.

    known: what it may ask for; "persistent id": a function of the tuple that identifies an object outside the pickle.
    """
    counted = ChecksumFile(file, size)
    stack: list[Any] = []
    below: list[list] = []  # the stack before each mark
    memo: dict[int, Any] = {}
    for count, (opcode, argument, _) in enumerate(pickletools.genops(counted)):
        name = opcode.name
        if count >= MAX_OPCODES:
            raise pickle.UnpicklingError("it would take far more memory than the file has bytes")
        if name in DATA:
            stack.append(argument)
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name == "MARK":
            below.append(stack)
            stack = []
        elif name in ITEMS:
            if ITEMS[name]:
                items = [stack.pop() for _ in range(ITEMS[name])][::-1]
            else:
                items, stack = stack, below.pop()
            _add(stack, name, items)
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            value = memo[argument]
            if isinstance(value, list | tuple | dict) or (isinstance(value, str | bytes) and len(value) > MAX_REPEATED):
                raise pickle.UnpicklingError("it repeats a container or a long text")
            stack.append(value)
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            asked = argument or " ".join([stack.pop(), stack.pop()][::-1])
            if asked not in known:
                raise pickle.UnpicklingError(f"it asks for {asked.replace(' ', '.')!r:.120}")
            stack.append(known[asked])
        elif name == "REDUCE" and isinstance(stack[-1], tuple):
            arguments, function = stack.pop(), stack.pop()  # nothing on the stack can be called, but what is known
            stack.append(function(*arguments))
        elif name == "BUILD":
            state = stack.pop()
            _set_state(stack[-1], state)
        elif name == "BINPERSID" and "persistent id" in known and isinstance(stack[-1], tuple):
            stack.append(known["persistent id"](stack.pop()))
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise pickle.UnpicklingError(f"it has the pickle opcode {name}")
    (content,) = stack
    _check_depth(content)
    return content, counted


def _add(stack: list, opcode: str, items: list) -> None:
    """Make a tuple of the items, or add them to the list or dictionary on the stack."""
    if opcode.startswith("TUPLE"):
        stack.append(tuple(items))
    elif opcode.startswith("APPEND") and isinstance(stack[-1], list):
        stack[-1].extend(items)
    elif opcode.startswith("SETITEM") and isinstance(stack[-1], dict):
        _check_depth(items[::2])  # before Python computes the hash of a tuple
        stack[-1].update(zip(items[::2], items[1::2], strict=True))
    else:
        raise pickle.UnpicklingError(f"it adds items to a {type(stack[-1]).__name__}")


def _check_depth(value: Any, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise pickle.UnpicklingError(f"it has more than {MAX_DEPTH} containers inside each other")
    if isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            _check_depth(part, depth + 1)
