"""The operators of paddle_graph.py for ONNX."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET, IR_VERSION = 17, 8  # from 2022: ONNX Runtime 1.12 and later
VERSIONS = f"onnx {onnx.__version__} (opset {OPSET}, IR version {IR_VERSION})"
TYPES = {
    "float32": onnx.TensorProto.FLOAT,
    "int64": onnx.TensorProto.INT64,
    "bool": onnx.TensorProto.BOOL,
}


@contextmanager
def onnx_graph(path: Path) -> Iterator["OnnxGraph"]:
    """Yield a graph to fill. At the end of the block it is written to `path`."""
    graph = OnnxGraph()
    yield graph
    proto = helper.make_graph(graph.nodes, "elmo", graph.inputs, graph.outputs, graph.weights)
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(
        proto, producer_name="elmo-paddle", opset_imports=[opset], ir_version=IR_VERSION
    )
    onnx.checker.check_model(model)
    model = onnx.shape_inference.infer_shapes(
        model, data_prop=True
    )  # needed by ONNX Runtime up to 1.23
    path.write_bytes(model.SerializeToString())


def _operator(name: str) -> Callable:
    """Return a method of OnnxGraph that adds this operator."""
    return lambda graph, *inputs: graph.node(name, inputs)


def _binary(name: str, dtype: str = "") -> Callable:
    """Return a method of Value that adds this operator; its second input is another value, or a number."""
    return lambda value, other: value.graph.node(name, [value, other], dtype)


class Value:
    """An array of the graph."""

    __add__, __sub__, __mul__, __truediv__ = map(_binary, ("Add", "Sub", "Mul", "Div"))
    __lt__, __ge__ = _binary("Less", "bool"), _binary("GreaterOrEqual", "bool")

    def __init__(self, graph: "OnnxGraph", name: str, dtype: str):
        self.graph, self.name, self.dtype = graph, name, dtype

    def __rsub__(self, other: float) -> "Value":
        return self.graph.constant(other, self.dtype) - self


class OnnxGraph:
    """The same as `PaddleGraph` for ONNX. Its arrays are `Value`s."""

    tanh, sigmoid, relu, softmax = map(
        _operator, ("Tanh", "Sigmoid", "Relu", "Softmax")
    )  # softmax: over the last axis
    clip, matmul, windows, lookup = map(_operator, ("Clip", "MatMul", "Conv", "Gather"))
    product = matmul

    def __init__(self):
        self.inputs, self.outputs, self.nodes, self.weights = [], [], [], []
        self._numbers = itertools.count()

    def node(
        self, operator: str, inputs: Sequence, dtype: str = "", outputs: int = 1, **attributes
    ):
        """Add a node and return its output, or a list of several. dtype: of the output (default: the first input's)."""
        first = inputs[0]
        inputs = [x if isinstance(x, Value) else self.constant(x, first.dtype) for x in inputs]
        values = [self._value(dtype or first.dtype) for _ in range(outputs)]
        names = [x.name for x in inputs], [x.name for x in values]
        self.nodes.append(helper.make_node(operator, *names, **attributes))
        return values if outputs > 1 else values[0]

    def _value(self, dtype: str) -> Value:
        return Value(self, f"x{next(self._numbers)}", dtype)

    def constant(self, value: float | Sequence[int], dtype: str = "int64") -> Value:
        return self.weight(np.array(value, dtype))

    def weight(self, array: np.ndarray) -> Value:
        """Add an array to the graph."""
        value = self._value(str(array.dtype))
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), value.name))
        return value

    operand = weight  # (..., n, m) for `matmul`

    def input(self, name: str, shape: Sequence[int | str], dtype: str) -> Value:
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[dtype], shape))
        return Value(self, name, dtype)

    def output(self, name: str, x: Value, shape: Sequence[int | str]) -> None:
        self.nodes.append(helper.make_node("Identity", [x.name], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TYPES[x.dtype], shape))

    def _dims(self, dims: Sequence) -> Value:
        if all(isinstance(n, int) for n in dims):
            return self.constant(dims)
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

    def reshape(self, x: Value, dims: Sequence) -> Value:
        return self.node("Reshape", [x, self._dims(dims)])

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        return self.node("Transpose", [x], perm=axes)

    def concat(self, arrays: Sequence[Value], axis: int) -> Value:
        return self.node("Concat", arrays, axis=axis)

    def stack(self, arrays: Sequence[Value], axis: int) -> Value:
        return self.concat(
            [self.node("Unsqueeze", [x, self.constant((axis,))]) for x in arrays], axis
        )

    def split(self, x: Value, n: int, axis: int) -> list[Value]:
        return self.node("Split", [x], outputs=n, axis=axis)

    def head(self, x: Value, n: Value, axis: int) -> Value:
        return self.node(
            "Slice", [x, self.constant((0,)), self.reshape(n, [1]), self.constant((axis,))]
        )

    def distinct_rows(self, x: Value) -> tuple[Value, Value]:
        _, first, inverse = self.node("Unique", [x], "int64", outputs=3, axis=0)
        return first, inverse

    def max(self, x: Value, axis: int) -> Value:
        return self.node("ReduceMax", [x], axes=[axis], keepdims=0)

    def sum(self, x: Value, axis: int) -> Value:
        return self.node("ReduceSum", [x, self.constant((axis,))], keepdims=0)

    def scan(self, step: Callable, states: Sequence[Value], x: Value, axis: int) -> Value:
        inputs = [self._value(value.dtype) for value in (*states, x)]  # of the body
        outer, self.nodes = self.nodes, []
        output, new_states = step(inputs[-1], *inputs[:-1])
        outputs = [self.node("Identity", [value]) for value in (*new_states, output)]
        infos = [
            [helper.make_tensor_value_info(v.name, TYPES[v.dtype], None) for v in vs]
            for vs in (inputs, outputs)
        ]
        body, self.nodes = helper.make_graph(self.nodes, "step", *infos), outer
        axes = {"scan_input_axes": [axis], "scan_output_axes": [axis]}
        return self.node(
            "Scan", [*states, x], outputs=len(outputs), body=body, num_scan_inputs=1, **axes
        )[-1]
