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
    return _HighwayFunction.apply(x, transform.weight, transform.bias, carry.weight, carry.bias)


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
    """A highway layer: its products by MKL or oneDNN, its gate by the compiled loops."""

    @staticmethod
    def forward(ctx, x, transform, transform_bias, carry, carry_bias):
        ctx.needs_d_x = not x.stop_gradient  # False if the convolutions are frozen
        x = x.contiguous()
        operand = amp_operand(x)
        t = amp_matmul(operand, transform)  # overwritten by r
        c = amp_matmul(operand, carry)  # overwritten by g
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
        for begin, end in ctx.ranges:
            sums = paddle.zeros([2, width], ctx.x.dtype)
            d_t_bias, d_c_bias = sums
            tasks.append(
                partial(compute, begin=begin, end=end, d_t_bias=d_t_bias, d_c_bias=d_c_bias)
            )
            bias_gradients.append(sums)
        run_in_parallel(tasks)
        d_transform_bias, d_carry_bias = sum(bias_gradients[1:], bias_gradients[0])
        add_to = d_x if ctx.needs_d_x else None
        with precision.temporarily(ctx.precision):
            d_transform = _linear_backward(ctx.operand, transform, ctx.r, add_to)
            d_carry = _linear_backward(ctx.operand, carry, ctx.g, add_to)
        return (
            add_to,
            d_transform,
            None if transform_bias.stop_gradient else d_transform_bias,
            d_carry,
            None if carry_bias.stop_gradient else d_carry_bias,
        )


def _linear_backward(
    x: paddle.Tensor, weight: paddle.Tensor, d_output: paddle.Tensor, d_x: paddle.Tensor | None
) -> paddle.Tensor | None:
    """Add the gradient of x (N, F) to d_x, and return that of the weight, None if it is frozen."""
    d_output = amp_operand(d_output)
    if d_x is not None:
        amp_matmul(d_output, weight, transpose_y=True, add_to=d_x)
    return None if weight.stop_gradient else amp_matmul(x, d_output, transpose_x=True)


def _thread_ranges(weights: np.ndarray) -> list[tuple[int, int]]:
    """Split items into one (begin, end) range per thread with about equal sums of weights (n,)."""
    total = np.concatenate([[0], np.cumsum(weights, dtype=np.int64)])
    cuts = np.searchsorted(total, total[-1] * np.arange(n_threads()) / n_threads())
    return list(itertools.pairwise([*cuts.tolist(), len(weights)]))
