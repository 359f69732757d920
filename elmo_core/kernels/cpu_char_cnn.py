"""The character CNN's features and highway gates on a CPU, by the compiled loops of fused.c.

The equations and letters are those of elmo_core/network/char_cnn.py. Each thread computes a range
of tokens.
"""

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.kernels import fused, precision
from elmo_core.kernels.matmul import amp_matmul, amp_operand, prepared
from elmo_core.machine.runtime import n_threads, paddle, run_in_parallel
from elmo_core.text.lexicon import Tokens

WINDOWS_PER_PRODUCT = 128  # of fused.c, at most
MOST_OPEN_UNITS = 0.9  # share of a relu's units, above which choosing them does not pay


def features(
    tokens: Tokens,
    config: ELMoConfig,
    table: paddle.Tensor,
    weights: Sequence[paddle.Tensor],
    biases: Sequence[paddle.Tensor],
) -> paddle.Tensor:
    """Return the max-pooled filter responses of tokens after the activation: (N, F).

    table: the characters' vectors (characters, D).
    weights, biases: per width, the filters (width * D, n) and (n,).
    """
    convolutions = _Convolutions(tokens, config, table, weights, biases)
    training = paddle.is_grad_enabled()
    return _ConvolutionsFunction.apply(convolutions, training, *convolutions.parameters())


def highway(
    x: paddle.Tensor, transform: paddle.nn.Linear, carry: paddle.nn.Linear
) -> paddle.Tensor:
    """Return x + g * (r - x) (N, F), with r = relu(x W_t + b_t) and g = sigmoid(x W_c + b_c)."""
    weights = transform.weight, transform.bias, carry.weight, carry.bias
    is_trained = not all(tensor.stop_gradient for tensor in (x, *weights))
    training = is_trained and paddle.is_grad_enabled()
    return _HighwayFunction.apply(training, x, *weights)


class _Convolutions:
    """The convolutions over a batch of tokens, and what their backward pass needs."""

    def __init__(
        self,
        tokens: Tokens,
        config: ELMoConfig,
        table: paddle.Tensor,
        weights: Sequence[paddle.Tensor],
        biases: Sequence[paddle.Tensor],
    ):
        self.ids = np.ascontiguousarray(tokens.characters, dtype=np.int32)
        self.lengths = np.ascontiguousarray(tokens.lengths, dtype=np.int32)
        self.ranges = _thread_ranges(tokens.lengths)
        self.widths = [width for width, _ in config.filters]
        self.filter_counts = [number for _, number in config.filters]
        self.is_tanh = config.activation == "tanh"
        self.table = table
        self.weights = list(weights)
        self.biases = list(biases)
        self.features: paddle.Tensor | None = None  # (N, F), set by `forward`
        self.argmax: paddle.Tensor | None = None  # (N, F), the window that each feature comes from

    def parameters(self) -> list[paddle.Tensor]:
        return [self.table, *self.weights, *self.biases]

    def forward(self, training: bool) -> paddle.Tensor:
        """Compute the features (N, F). training: keep what `backward` needs."""
        n_windows = int(self.lengths.sum()) + len(self.lengths) or 1
        n_products = 1 + n_windows // WINDOWS_PER_PRODUCT
        filters = [prepared([weight], False, n_products, rows=n_windows) for weight in self.weights]
        shape = [len(self.lengths), sum(self.filter_counts)]
        result = paddle.empty(shape, self.table.dtype)
        self.argmax = paddle.empty(shape, dtype="uint8") if training else None
        compute = partial(
            fused.kernel().cnn_forward,
            columns=self.ids.shape[1],
            dim=self.table.shape[1],
            ids=self.ids,
            lengths=self.lengths,
            table=amp_operand(self.table),
            n_widths=len(self.widths),
            widths=self.widths,
            filter_counts=self.filter_counts,
            filters=filters,
            biases=self.biases,
            is_tanh=self.is_tanh,
            features=result,
            argmax=self.argmax,
        )
        run_in_parallel([partial(compute, begin=begin, end=end) for begin, end in self.ranges])
        # detached: the result itself would make a reference cycle that is never freed
        self.features = result.detach()
        return result

    def backward(self, d_features: paddle.Tensor) -> list[paddle.Tensor]:
        """Return the gradients of `parameters()`."""
        d_features = d_features.contiguous()
        gradients_of_ranges = run_in_parallel(
            [
                partial(self._range_backward, d_features, begin=begin, end=end)
                for begin, end in self.ranges
            ]
        )
        return [
            sum(gradients[1:], gradients[0]) for gradients in zip(*gradients_of_ranges, strict=True)
        ]

    def _range_backward(
        self, d_features: paddle.Tensor, begin: int, end: int
    ) -> list[paddle.Tensor]:
        """Return the gradients of `parameters()` from the tokens begin .. end."""
        d_table = paddle.zeros_like(self.table)
        d_weights = [paddle.zeros_like(weight) for weight in self.weights]
        d_biases = [paddle.zeros_like(bias) for bias in self.biases]
        fused.kernel().cnn_backward(
            columns=self.ids.shape[1],
            dim=self.table.shape[1],
            ids=self.ids,
            lengths=self.lengths,
            table=self.table,
            n_widths=len(self.widths),
            widths=self.widths,
            filter_counts=self.filter_counts,
            begin=begin,
            end=end,
            weights=self.weights,
            is_tanh=self.is_tanh,
            features=self.features,
            argmax=self.argmax,
            d_features=d_features,
            d_table=d_table,
            d_weights=d_weights,
            d_biases=d_biases,
        )
        return [d_table, *d_weights, *d_biases]


class _ConvolutionsFunction(paddle.autograd.PyLayer):
    """`_Convolutions` as an autograd operation."""

    @staticmethod
    def forward(ctx, convolutions, training, *parameters):
        ctx.convolutions = convolutions
        return convolutions.forward(training)

    @staticmethod
    def backward(ctx, d_features):
        gradients = ctx.convolutions.backward(d_features)
        parameters = ctx.convolutions.parameters()
        return tuple(
            None if parameter.stop_gradient else gradient
            for parameter, gradient in zip(parameters, gradients, strict=True)
        )


class _HighwayFunction(paddle.autograd.PyLayer):
    """A highway layer: its products by MKL or oneDNN, its gate by the compiled loops.

    Most units of a trained layer's relu are closed for all tokens of a batch. Their gradients are
    zero, and the backward pass leaves their columns out of its products.
    """

    @staticmethod
    def forward(ctx, training, x, transform, transform_bias, carry, carry_bias):
        ctx.needs_d_x = not x.stop_gradient  # False if the convolutions are frozen
        x = x.contiguous()
        operand = amp_operand(x)
        # without training in one product, whose last digits do not depend on the threads
        multiply = _multiply_by_rows if training else amp_matmul
        t = multiply(operand, transform)  # overwritten by r
        c = multiply(operand, carry)  # overwritten by g
        y = paddle.empty_like(x)
        ranges = _thread_ranges(np.ones(len(x)))
        compute = partial(
            fused.kernel().gate_forward,
            F=x.shape[1],
            x=x,
            t_bias=transform_bias,
            c_bias=carry_bias,
            t=t,
            c=c,
            y=y,
        )
        run_in_parallel([partial(compute, begin=begin, end=end) for begin, end in ranges])
        ctx.x = x.detach()
        ctx.operand = operand.detach()
        ctx.r = t
        ctx.g = c
        ctx.ranges = ranges
        ctx.weights = transform, transform_bias, carry, carry_bias
        ctx.precision = precision.current()
        return y

    @staticmethod
    def backward(ctx, d_y):
        transform, transform_bias, carry, carry_bias = ctx.weights
        width = ctx.x.shape[1]
        d_x = paddle.empty_like(ctx.x)
        compute = partial(
            fused.kernel().gate_backward,
            F=width,
            x=ctx.x,
            d_y=d_y.contiguous(),
            r=ctx.r,  # overwritten by the gradient before the relu
            g=ctx.g,  # overwritten by the gradient before the sigmoid
            d_x=d_x,
        )
        tasks = []
        bias_gradients = []  # per range, those of both biases (2, F)
        opened = np.zeros([len(ctx.ranges), width], np.float32)
        for (begin, end), opened_in_range in zip(ctx.ranges, opened, strict=True):
            sums = paddle.zeros([2, width], ctx.x.dtype)
            d_t_bias, d_c_bias = sums
            task = partial(
                compute,
                begin=begin,
                end=end,
                d_t_bias=d_t_bias,
                d_c_bias=d_c_bias,
                opened=opened_in_range,
            )
            tasks.append(task)
            bias_gradients.append(sums)
        run_in_parallel(tasks)
        d_transform_bias, d_carry_bias = sum(bias_gradients[1:], bias_gradients[0])
        open_units = np.flatnonzero(opened.any(axis=0))
        add_to = d_x if ctx.needs_d_x else None
        with precision.temporarily(ctx.precision):
            d_transform = _transform_backward(ctx.operand, transform, ctx.r, open_units, add_to)
            d_carry = _linear_backward(ctx.operand, carry, ctx.g, add_to)
        return (
            add_to,
            d_transform,
            None if transform_bias.stop_gradient else d_transform_bias,
            d_carry,
            None if carry_bias.stop_gradient else d_carry_bias,
        )


def _transform_backward(
    x: paddle.Tensor,
    weight: paddle.Tensor,
    d_output: paddle.Tensor,
    open_units: np.ndarray,
    d_x: paddle.Tensor | None,
) -> paddle.Tensor | None:
    """Compute `_linear_backward` from the gradients of the open units only; the others are zero."""
    if len(open_units) > MOST_OPEN_UNITS * len(weight):
        return _linear_backward(x, weight, d_output, d_x)
    if not len(open_units):
        return None if weight.stop_gradient else paddle.zeros_like(weight)
    open_weight = _gather_columns(weight, open_units)
    open_weight.stop_gradient = weight.stop_gradient
    d_open_output = _gather_columns(d_output, open_units)
    d_open_weight = _linear_backward(x, open_weight, d_open_output, d_x)
    if d_open_weight is None:
        return None
    d_weight = paddle.empty_like(weight)
    height, width = weight.shape
    fused.kernel().scatter_columns(
        rows=height,
        width=width,
        n=len(open_units),
        columns=open_units,
        chosen=d_open_weight,
        matrix=d_weight,
    )
    return d_weight


def _gather_columns(matrix: paddle.Tensor, columns: np.ndarray) -> paddle.Tensor:
    """Copy these columns of a matrix. Paddle's own operators are much slower."""
    height, width = matrix.shape
    chosen = paddle.empty([height, len(columns)], matrix.dtype)
    fused.kernel().gather_columns(
        rows=height,
        width=width,
        n=len(columns),
        columns=columns,
        matrix=matrix,
        chosen=chosen,
    )
    return chosen


def _linear_backward(
    x: paddle.Tensor, weight: paddle.Tensor, d_output: paddle.Tensor, d_x: paddle.Tensor | None
) -> paddle.Tensor | None:
    """Add the gradient of x (N, F) to d_x, and return that of the weight, None if it is frozen."""
    d_output = amp_operand(d_output)
    if d_x is not None:
        _multiply_by_rows(d_output, weight, transpose_y=True, add_to=d_x)
    return None if weight.stop_gradient else amp_matmul(x, d_output, transpose_x=True)


def _multiply_by_rows(
    x: paddle.Tensor,
    weight: paddle.Tensor,
    transpose_y: bool = False,
    add_to: paddle.Tensor | None = None,
) -> paddle.Tensor:
    """Compute `amp_matmul`, each thread some rows.

    BLAS's own threads wait for each other without sleeping: if another program has the processor,
    they would waste what is left of it.
    """
    operand = amp_operand(weight)
    result = add_to
    if result is None:
        width = weight.shape[0] if transpose_y else weight.shape[1]
        result = paddle.zeros([len(x), width], "float32")
    multiply = partial(amp_matmul, transpose_y=transpose_y)
    tasks = [
        partial(multiply, x[begin:end], operand, add_to=result[begin:end])
        for begin, end in _thread_ranges(np.ones(len(x)))
    ]
    run_in_parallel(tasks)
    return result


def _thread_ranges(weights: np.ndarray) -> list[tuple[int, int]]:
    """Split items into one (begin, end) range per thread with about equal sums of weights (n,)."""
    total = np.concatenate([[0], np.cumsum(weights, dtype=np.int64)])
    cuts = np.searchsorted(total, total[-1] * np.arange(n_threads()) / n_threads())
    return list(itertools.pairwise([*cuts.tolist(), len(weights)]))
