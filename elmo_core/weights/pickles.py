"""State dictionaries of PyTorch and of Paddle, {name: array}: read without either.

No code is run. A pickle names the functions that rebuild its objects; here only those of arrays
and dictionaries are admitted, and our own are called in their place. PyTorch's files are either
zip archives (`data.pkl`, and `data/0`, `data/1` ... with the values of each storage), or sequences
of pickles (magic, version, machine, the object, the keys of its storages) followed, per key, by
the number of elements and the values.
"""

import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from elmo_core.files.disk import check_input
from elmo_core.files.foreign_files import damage_named

STORAGES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ByteStorage": "u1",
}
MAX_DEPTH = 10  # of nested tuples; the weights of PyTorch and Paddle have 2
NAME_TABLE = "StructuredToParameterName@@"  # paddle.save adds it to a state_dict


class Type:
    """Stands for NumPy's dtype."""

    def __init__(self, name: str, *_: Any):
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


class Array:
    """Stands for NumPy's array."""

    def __init__(self, *_: Any):
        self.array = np.empty(0)

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, is_fortran, data = state
        order = "F" if is_fortran else "C"
        self.array = np.frombuffer(data, kind.dtype).reshape(shape, order=order)


class Tensor:
    """Stands for PyTorch's tensor, a view of a storage.

    storage: its key and type. offset, strides: in elements.
    """

    __setstate__ = None  # a pickle cannot set attributes, of the class either

    def __init__(
        self, storage: tuple[str, np.dtype], offset: int, shape: tuple, strides: tuple, *_: Any
    ):
        self.key, self.dtype = storage
        self.offset = offset
        self.shape = shape
        self.strides = strides

    def array(self, data: bytes) -> np.ndarray:
        """Return the view of a storage's values. NumPy checks that it lies within the data."""
        size = self.dtype.itemsize
        return np.ndarray(
            shape=self.shape,
            dtype=self.dtype,
            buffer=data,
            offset=size * self.offset,
            strides=[size * stride for stride in self.strides],
        )


ADMITTED = {
    "collections.OrderedDict": OrderedDict,
    "_codecs.encode": str.encode,  # bytes, in protocol 2
    "numpy.dtype": Type,
    "numpy.ndarray": "ndarray",
    "numpy.core.multiarray._reconstruct": Array,  # NumPy 1
    "numpy._core.multiarray._reconstruct": Array,  # NumPy 2
    "torch._utils._rebuild_tensor": Tensor,
    "torch._utils._rebuild_tensor_v2": Tensor,
}
for _name in STORAGES:
    ADMITTED[f"torch.{_name}"] = _name
    ADMITTED[f"torch.cuda.{_name}"] = _name


class Unpickler(pickle._Unpickler):
    """Admits arrays and dictionaries of them. Anything else that a pickle asks for is an error.

    It is Python's own in Python, whose opcodes can be replaced: the one in C crashes at a key of
    many nested tuples.
    """

    dispatch: ClassVar = dict(pickle._Unpickler.dispatch)

    def load_build(self) -> None:
        """Set the state of one of our objects. That of PyTorch's dictionaries is not needed."""
        state = self.stack.pop()
        if not isinstance(self.stack[-1], OrderedDict):
            self.stack[-1].__setstate__(state)

    dispatch[pickle.BUILD[0]] = load_build

    def find_class(self, module: str, name: str) -> Any:
        found = ADMITTED.get(f"{module}.{name}")
        if found is None:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return found

    def persistent_load(self, identity: tuple) -> tuple[str, np.dtype]:
        """Return the key and type of a storage. identity: "storage", type, key and other facts."""
        name, key = identity[1:3]
        return key, np.dtype(STORAGES[name])


def _with_shallow_tuple(load: Callable[[Unpickler], None]) -> Callable[[Unpickler], None]:
    """An opcode that makes a tuple. Tuples deeper than in any file of weights are an error."""

    def load_tuple(unpickler: Unpickler) -> None:
        load(unpickler)
        if _depth(unpickler.stack[-1]) > MAX_DEPTH:
            raise pickle.UnpicklingError("its tuples are nested too deep")

    return load_tuple


def _depth(values: tuple) -> int:
    return 1 + max((_depth(value) for value in values if isinstance(value, tuple)), default=0)


for _code in (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3):
    Unpickler.dispatch[_code[0]] = _with_shallow_tuple(Unpickler.dispatch[_code[0]])


@contextmanager
def _enough_memory(path: Path) -> Iterator[None]:
    """Report a lack of memory as damage if a whole file fits.

    Damaged lengths ask for any amount.
    """
    try:
        yield
    except MemoryError as error:
        np.empty(2 * path.stat().st_size, np.uint8)  # raises a MemoryError if there is not
        raise ValueError("it asks for more memory than a whole file takes") from error


def read_torch(path: Path) -> dict[str, np.ndarray]:
    """Read a file written by `torch.save(module.state_dict(), path)`."""
    check_input(path, "a file of PyTorch's weights")
    advice = "Expected a state dictionary of PyTorch."
    with damage_named(path, advice), _enough_memory(path), path.open("rb") as file:
        read = _read_archive if zipfile.is_zipfile(path) else _read_sequence
        tensors, values = read(file)
        return {str(name): tensor.array(values[tensor.key]) for name, tensor in tensors.items()}


def _read_archive(file: IO[bytes]) -> tuple[dict[str, Tensor], dict[str, bytes]]:
    """Read a zip archive: tensors, and the values of each storage."""
    archive = zipfile.ZipFile(file)
    (name,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    folder = name.removesuffix("data.pkl")
    tensors = Unpickler(archive.open(name)).load()
    keys = {tensor.key for tensor in tensors.values()}
    values = {key: archive.read(f"{folder}data/{key}") for key in keys}
    return tensors, values


def _read_sequence(file: IO[bytes]) -> tuple[dict[str, Tensor], dict[str, bytes]]:
    """Read a sequence of pickles: tensors, and the values of each storage."""
    for _ in ("magic", "version", "machine"):
        Unpickler(file).load()
    tensors = Unpickler(file).load()
    keys = Unpickler(file).load()
    sizes = {tensor.key: tensor.dtype.itemsize for tensor in tensors.values()}
    values = {}
    for key in keys:
        (n_elements,) = struct.unpack("<q", file.read(8))
        values[key] = file.read(n_elements * sizes[key])
    return tensors, values


def read_paddle(path: Path) -> dict[str, np.ndarray]:
    """Read a file written by `paddle.save(layer.state_dict(), path)`."""
    check_input(path, "a file of Paddle's weights")
    advice = "Expected a state dictionary of Paddle."
    with damage_named(path, advice), _enough_memory(path), path.open("rb") as file:
        content = Unpickler(file).load()
        content.pop(NAME_TABLE, None)
        arrays = {str(name): value.array for name, value in content.items()}
        for name, array in arrays.items():
            if array.dtype.kind not in "if":
                raise ValueError(
                    f"{name} is {array.dtype}, expected float32 (uint16 is Paddle's bfloat16)"
                )
        return arrays
