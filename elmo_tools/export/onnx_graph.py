"""The operators of paddle_graph.py for ONNX."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

# From 2022: ONNX Runtime 1.12 and later.
OPSET = 17
IR_VERSION = 8
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
    proto = helper.make_graph(
        nodes=graph.nodes,
        name="elmo",
        inputs=graph.inputs,
        outputs=graph.outputs,
        initializer=graph.weights,
    )
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(
        proto, producer_name="elmo-paddle", opset_imports=[opset], ir_version=IR_VERSION
    )
    onnx.checker.check_model(model)
    # ONNX Runtime up to 1.23 needs the shapes.
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    path.write_bytes(model.SerializeToString())


class Value:
    """An array of the graph. The other side of an operator is another value, or a number."""

    def __init__(self, graph: "OnnxGraph", name: str, dtype: str):
        self.graph = graph
        self.name = name
        self.dtype = dtype

    def __add__(self, other: "Value | float") -> "Value":
        return self.graph.node("Add", [self, other])

    def __sub__(self, other: "Value | float") -> "Value":
        return self.graph.node("Sub", [self, other])

    def __rsub__(self, other: float) -> "Value":
        return self.graph.constant(other, self.dtype) - self

    def __mul__(self, other: "Value | float") -> "Value":
        return self.graph.node("Mul", [self, other])

    def __truediv__(self, other: "Value | float") -> "Value":
        return self.graph.node("Div", [self, other])

    def __lt__(self, other: "Value | float") -> "Value":
        return self.graph.node("Less", [self, other], "bool")

    def __ge__(self, other: "Value | float") -> "Value":
        return self.graph.node("GreaterOrEqual", [self, other], "bool")


# As in paddle_graph.py.
Dims = Sequence[int | Value]
Step = Callable[..., tuple[Value, Sequence[Value]]]


class OnnxGraph:
    """The same as `PaddleGraph` for ONNX. Its arrays are `Value`s."""

    def __init__(self) -> None:
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._numbers = itertools.count()

    def node(
        self, operator: str, inputs: Sequence[Value | float], dtype: str = "", **attributes: Any
    ) -> Value:
        """Add a node and return its output. dtype: of the output (default: the first input's)."""
        return self.node_of_several(operator, inputs, 1, dtype, **attributes)[0]

    def node_of_several(
        self,
        operator: str,
        inputs: Sequence[Value | float],
        n_outputs: int,
        dtype: str = "",
        **attributes: Any,
    ) -> list[Value]:
        """Add a node and return its outputs, which have the same type.

        The first input is a value, and numbers among the others are constants of its type.
        """
        first = inputs[0]
        input_names = []
        for x in inputs:
            value = x if isinstance(x, Value) else self.constant(x, first.dtype)
            input_names.append(value.name)
        outputs = [self._value(dtype or first.dtype) for _ in range(n_outputs)]
        output_names = [value.name for value in outputs]
        self.nodes.append(helper.make_node(operator, input_names, output_names, **attributes))
        return outputs

    def _value(self, dtype: str) -> Value:
        """Return a value with a name of its own."""
        return Value(self, f"x{next(self._numbers)}", dtype)

    def constant(self, value: float | Sequence[int], dtype: str = "int64") -> Value:
        """Add a number or a list of numbers to the graph."""
        return self.weight(np.array(value, dtype))

    def weight(self, array: np.ndarray) -> Value:
        """Add an array to the graph."""
        value = self._value(str(array.dtype))
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), value.name))
        return value

    def operand(self, array: np.ndarray) -> Value:
        """Add a weight (..., n, m) for `matmul`."""
        return self.weight(array)

    def input(self, name: str, shape: Sequence[int | str], dtype: str) -> Value:
        """Add an input. shape: dimensions that are known only at run time have names."""
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[dtype], shape))
        return Value(self, name, dtype)

    def output(self, name: str, x: Value, shape: Sequence[int | str]) -> None:
        """Make x the next output."""
        self.nodes.append(helper.make_node("Identity", [x.name], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TYPES[x.dtype], shape))

    def matmul(self, x: Value, operand: Value) -> Value:
        """Multiply x (..., k, n) with an `operand`. (..., k, m)"""
        return self.node("MatMul", [x, operand])

    def product(self, x: Value, y: Value) -> Value:
        """Multiply two arrays (n, ., k) and (n, k, .)."""
        return self.node("MatMul", [x, y])

    def windows(self, x: Value, filters: Value) -> Value:
        """Apply filters (F, D, width) to each window of x (N, D, C). (N, F, C - width + 1)"""
        return self.node("Conv", [x, filters])

    def tanh(self, x: Value) -> Value:
        return self.node("Tanh", [x])

    def sigmoid(self, x: Value) -> Value:
        return self.node("Sigmoid", [x])

    def relu(self, x: Value) -> Value:
        return self.node("Relu", [x])

    def softmax(self, x: Value) -> Value:
        """Compute the softmax over the last axis."""
        return self.node("Softmax", [x])

    def clip(self, x: Value, low: float, high: float) -> Value:
        return self.node("Clip", [x, low, high])

    def max(self, x: Value, axis: int) -> Value:
        return self.node("ReduceMax", [x], axes=[axis], keepdims=0)

    def sum(self, x: Value, axis: int) -> Value:
        return self.node("ReduceSum", [x, self.constant((axis,))], keepdims=0)

    def cast(self, x: Value, dtype: str) -> Value:
        return self.node("Cast", [x], dtype, to=TYPES[dtype])

    def _dims(self, dims: Dims) -> Value:
        """Return dimensions as one array of the graph."""
        if all(isinstance(n, int) for n in dims):
            return self.constant(dims)
        parts = []
        for n in dims:
            part = self.constant((n,)) if isinstance(n, int) else self.reshape(n, [1])
            parts.append(part)
        return self.concat(parts, axis=0)

    def reshape(self, x: Value, dims: Dims) -> Value:
        return self.node("Reshape", [x, self._dims(dims)])

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        return self.node("Transpose", [x], perm=axes)

    def concat(self, arrays: Sequence[Value], axis: int) -> Value:
        return self.node("Concat", arrays, axis=axis)

    def stack(self, arrays: Sequence[Value], axis: int) -> Value:
        unsqueezed = [self.node("Unsqueeze", [x, self.constant((axis,))]) for x in arrays]
        return self.concat(unsqueezed, axis)

    def split(self, x: Value, n: int, axis: int) -> list[Value]:
        """Split x into n equal parts."""
        return self.node_of_several("Split", [x], n, axis=axis)

    def arange(self, n: Value) -> Value:
        """Count from 0 to n - 1, int64."""
        return self.node("Range", [self.constant(0), n, self.constant(1)])

    def zeros(self, dims: Dims, dtype: str) -> Value:
        zero = helper.make_tensor(name="", data_type=TYPES[dtype], dims=[1], vals=[0])
        return self.node("ConstantOfShape", [self._dims(dims)], dtype, value=zero)

    def size(self, x: Value, axis: int) -> Value:
        """Return the length of an axis, int64."""
        return self.node("Gather", [self.node("Shape", [x], "int64"), axis])

    def head(self, x: Value, n: Value, axis: int) -> Value:
        """Return the first n along an axis, or all if there are fewer."""
        start = self.constant((0,))
        end = self.reshape(n, [1])
        return self.node("Slice", [x, start, end, self.constant((axis,))])

    def lookup(self, table: Value, rows: Value) -> Value:
        """Return table[rows]."""
        return self.node("Gather", [table, rows])

    def distinct_rows(self, x: Value) -> tuple[Value, Value]:
        """Find the N distinct rows of x (n, k), as `np.unique` does.

        Returns the indices of their first occurrences (N,), and which of them each row is (n,).
        """
        _, first, inverse = self.node_of_several("Unique", [x], 3, "int64", axis=0)
        return first, inverse

    def scan(self, step: Step, states: Sequence[Value], x: Value, axis: int) -> Value:
        """Run `output, states = step(x_t, *states)` over an axis of x.

        Returns the outputs along this axis.
        """
        body_states = [self._value(state.dtype) for state in states]
        x_t = self._value(x.dtype)
        # The step adds its nodes to the body, a graph of its own.
        outer_nodes = self.nodes
        self.nodes = []
        output, new_states = step(x_t, *body_states)
        body_outputs = [self.node("Identity", [value]) for value in [*new_states, output]]
        body = helper.make_graph(
            nodes=self.nodes,
            name="step",
            inputs=_infos([*body_states, x_t]),
            outputs=_infos(body_outputs),
        )
        self.nodes = outer_nodes
        results = self.node_of_several(
            "Scan",
            [*states, x],
            n_outputs=len(body_outputs),
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[axis],
            scan_output_axes=[axis],
        )
        return results[-1]


def _infos(values: Sequence[Value]) -> list[onnx.ValueInfoProto]:
    """Describe values whose shapes ONNX finds itself."""
    return [helper.make_tensor_value_info(x.name, TYPES[x.dtype], None) for x in values]
