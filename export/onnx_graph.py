"""The operators as ONNX's, in a model that ONNX Runtime and others read."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from elmo_core.machine.messages import UserError

OPSET, IR_VERSION = 17, 8  # of 2022: ONNX Runtime 1.12 reads them
VERSIONS = f"onnx {onnx.__version__} (opset {OPSET}, IR version {IR_VERSION})"
LARGEST = 2**31 - 2**20  # bytes of weights, with room for the graph: a protobuf message ends at 2 GB
TYPES = {"float32": onnx.TensorProto.FLOAT, "int64": onnx.TensorProto.INT64, "bool": onnx.TensorProto.BOOL}


class Value:
    """An array of the graph."""

    def __init__(self, graph: "OnnxGraph", name: str, dtype: str):
        self.graph, self.name, self.dtype = graph, name, dtype

    def __add__(self, other: "Value | float") -> "Value":
        return self.graph.node("Add", [self, other])

    def __sub__(self, other: "Value | float") -> "Value":
        return self.graph.node("Sub", [self, other])

    def __rsub__(self, other: float) -> "Value":
        return self.graph.node("Sub", [self.graph.constant(other, self.dtype), self])

    def __mul__(self, other: "Value | float") -> "Value":
        return self.graph.node("Mul", [self, other])

    def __truediv__(self, other: "Value | float") -> "Value":
        return self.graph.node("Div", [self, other])

    def __lt__(self, other: "Value | float") -> "Value":
        return self.graph.node("Less", [self, other], "bool")

    def __ge__(self, other: "Value | float") -> "Value":
        return self.graph.node("GreaterOrEqual", [self, other], "bool")


@contextmanager
def onnx_graph(path: Path) -> Iterator["OnnxGraph"]:
    """A graph to fill, which is written to `path` when the block ends."""
    graph = OnnxGraph()
    yield graph
    size = sum(len(weight.raw_data) for weight in graph.weights)
    if size > LARGEST:
        raise UserError(f"--onnx: the weights take {size / 2**30:.1f} GB, but an ONNX file ends at 2 GB.")
    made = helper.make_graph(graph.nodes, "elmo", graph.inputs, graph.outputs, graph.weights)
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(made, producer_name="elmo-paddle", opset_imports=[opset], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)  # up to 1.23 ONNX Runtime must be told them
    path.write_bytes(model.SerializeToString())


class OnnxGraph:
    """`operators.Operators`, whose arrays are `Value`s."""

    def __init__(self):
        self.inputs, self.outputs, self.nodes, self.weights = [], [], [], []
        self._numbers = itertools.count()
        self._constants: dict[tuple, Value] = {}

    def node(self, operator: str, inputs: Sequence, dtype: str = "", outputs: int = 1, **attributes):
        """The output of a new node, of the type of its first input unless another is named; several: a list."""
        first = inputs[0]
        inputs = [x if isinstance(x, Value) else self.constant(x, first.dtype) for x in inputs]
        made = [Value(self, self._name(), dtype or first.dtype) for _ in range(outputs)]
        names = [x.name for x in inputs], [x.name for x in made]
        self.nodes.append(helper.make_node(operator, *names, **attributes))
        return made if outputs > 1 else made[0]

    def _name(self) -> str:
        return f"x{next(self._numbers)}"

    def constant(self, value: float | Sequence[int], dtype: str = "int64") -> Value:
        key = dtype, tuple(value) if isinstance(value, list | tuple) else value
        if key not in self._constants:
            self._constants[key] = self.weight(np.array(value, dtype))
        return self._constants[key]

    def weight(self, array: np.ndarray) -> Value:
        made = Value(self, self._name(), str(array.dtype))
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), made.name))
        return made

    def input(self, name: str, shape: Sequence[int | str], dtype: str) -> Value:
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[dtype], shape))
        return Value(self, name, dtype)

    def output(self, name: str, x: Value, shape: Sequence[int | str]) -> None:
        self.nodes.append(helper.make_node("Identity", [x.name], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TYPES[x.dtype], shape))

    def _dims(self, dims: Sequence) -> Value:
        if all(isinstance(n, int) for n in dims):
            return self.constant(tuple(dims))
        parts = [self.constant((n,)) if isinstance(n, int) else self.reshape(n, [1]) for n in dims]
        return self.concat(parts, axis=0)

    def size(self, x: Value, axis: int) -> Value:
        return self.node("Gather", [self.node("Shape", [x], "int64"), axis])

    def arange(self, n: Value) -> Value:
        return self.node("Range", [self.constant(0), n, self.constant(1)])

    def zeros(self, dims: Sequence, dtype: str) -> Value:
        zero = helper.make_tensor("", TYPES[dtype], [1], [0])
        return self.node("ConstantOfShape", [self._dims(dims)], dtype, value=zero)

    def cast(self, x: Value, dtype: str) -> Value:
        return self.node("Cast", [x], dtype, to=TYPES[dtype])

    def equal(self, x: Value, number: int) -> Value:
        return self.node("Equal", [x, number], "bool")

    def minimum(self, x: Value, other: Value | int) -> Value:
        return self.node("Min", [x, other])

    def maximum(self, x: Value, other: Value | int) -> Value:
        return self.node("Max", [x, other])

    def reshape(self, x: Value, dims: Sequence) -> Value:
        return self.node("Reshape", [x, self._dims(dims)])

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        return self.node("Transpose", [x], perm=axes)

    def concat(self, arrays: Sequence[Value], axis: int) -> Value:
        return self.node("Concat", arrays, axis=axis)

    def stack(self, arrays: Sequence[Value], axis: int) -> Value:
        return self.concat([self.node("Unsqueeze", [x, self.constant((axis,))]) for x in arrays], axis)

    def split(self, x: Value, n: int, axis: int) -> list[Value]:
        return self.node("Split", [x], outputs=n, axis=axis)

    def head(self, x: Value, n: Value, axis: int) -> Value:
        return self.node("Slice", [x, self.constant((0,)), self.reshape(n, [1]), self.constant((axis,))])

    def lookup(self, table: Value, rows: Value) -> Value:
        return self.node("Gather", [table, rows])

    def pick(self, x: Value, places: Value) -> Value:
        found = self.node("GatherElements", [x, self.reshape(places, [-1, 1])], axis=1)
        return self.reshape(found, [-1])

    def distinct_rows(self, x: Value) -> tuple[Value, Value]:
        _, first, kind = self.node("Unique", [x], "int64", outputs=3, axis=0)
        return first, kind

    def operand(self, array: np.ndarray) -> Value:
        return self.weight(array)

    def matmul(self, x: Value, operand: Value) -> Value:
        return self.node("MatMul", [x, operand])

    def windows(self, x: Value, filters: Value) -> Value:
        return self.node("Conv", [x, filters])

    def sigmoid(self, x: Value) -> Value:
        return self.node("Sigmoid", [x])

    def tanh(self, x: Value) -> Value:
        return self.node("Tanh", [x])

    def relu(self, x: Value) -> Value:
        return self.node("Relu", [x])

    def clip(self, x: Value, bound: float) -> Value:
        return self.node("Clip", [x, -bound, bound])

    def softmax(self, x: Value) -> Value:
        return self.node("Softmax", [x], axis=-1)

    def max(self, x: Value, axis: int) -> Value:
        return self.node("ReduceMax", [x], axes=[axis], keepdims=0)

    def sum(self, x: Value, axis: int) -> Value:
        return self.node("ReduceSum", [x, self.constant((axis,))], keepdims=0)

    def argmax(self, x: Value, axis: int) -> Value:
        return self.node("ArgMax", [x], "int64", axis=axis, keepdims=0)

    def scan(
        self,
        step: Callable,
        states: Sequence[Value],
        x: Value,
        axis: int,
        dtype: str = "float32",
        reverse: bool = False,
    ) -> tuple[Value, list[Value]]:
        inside = [Value(self, self._name(), one.dtype) for one in (*states, x)]
        outer, self.nodes = self.nodes, []
        output, ends = step(inside[-1], *inside[:-1])
        ends = [self.node("Identity", [one]) for one in (*ends, output)]
        infos = [[helper.make_tensor_value_info(v.name, TYPES[v.dtype], None) for v in vs] for vs in (inside, ends)]
        body, self.nodes = helper.make_graph(self.nodes, "step", *infos), outer
        sides = {f"scan_{side}_axes": [axis] for side in ("input", "output")}
        ways = {f"scan_{side}_directions": [int(reverse)] for side in ("input", "output")}
        made = self.node("Scan", [*states, x], outputs=len(ends), body=body, num_scan_inputs=1, **sides, **ways)
        for value, end in zip(made, ends, strict=True):
            value.dtype = end.dtype
        return made[-1], made[:-1]
