"""Token vectors from characters: embedding, convolutions, max pooling over positions, highway layers, projection.

Shapes: N distinct tokens, C characters per token (50), D character embedding size, F filters in total, P projection size.

A window that starts after a token's last character sees only padding, like all later ones; one of them is enough. So n
characters need n + 1 windows per width, with the same result as all 50 columns.
"""

import itertools
from functools import partial

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.kernels import fused, precision
from elmo_core.kernels.matmul import amp_matmul, amp_operand, packed
from elmo_core.machine.runtime import n_threads, paddle, run_in_parallel, to_tensor
from elmo_core.text.tokens import Tokens

nn = paddle.nn
WINDOWS_PER_PRODUCT = 128  # of fused.c, at most


class CharCNN(nn.Layer):
    """The token encoder of a character model."""

    word_tables: tuple[str, ...] = ()  # names of the weights with one row per vocabulary word

    def __init__(self, config: ELMoConfig, sparse: bool = False):
        super().__init__()
        self.config = config
        n_filters = config.n_filters
        uniform = nn.initializer.Uniform
        self.embedding = nn.Embedding(
            config.n_characters, config.character_dim, weight_attr=uniform(-1.0, 1.0)
        )
        self.convolutions = nn.LayerList(
            nn.Linear(width * config.character_dim, number, weight_attr=uniform(-0.05, 0.05))
            for width, number in config.filters
        )
        self.highways = nn.LayerList(Highway(n_filters) for _ in range(config.n_highway))
        if n_filters != config.projection_dim:  # if they are equal, bilm-tf has no projection
            normal = nn.initializer.Normal(std=n_filters**-0.5)
            self.projection = nn.Linear(n_filters, config.projection_dim, weight_attr=normal)
        else:
            self.projection = nn.Identity()

    def forward(self, tokens: Tokens) -> paddle.Tensor:
        """Return vectors (N, P) of the distinct tokens, which are sorted by number of characters."""
        return self.projection(self.highway_features(tokens))

    def highway_features(self, tokens: Tokens) -> paddle.Tensor:
        """Features after the highway layers: (N, F)."""
        table = self.embedding.weight
        if fused.is_supported(table):
            weights = [convolution.weight for convolution in self.convolutions]
            biases = [convolution.bias for convolution in self.convolutions]
            x = _FusedFeatures.apply(
                tokens, self.config, paddle.is_grad_enabled(), table, *weights, *biases
            )
        else:
            weight, bias = self._merged_filters()
            columns = tokens.characters.shape[1]
            x = (
                paddle.concat(
                    [self._max_pooled(part, columns, weight) for part in self._windows(tokens)]
                )
                + bias
            )
            x = nn.functional.relu(x) if self.config.activation == "relu" else paddle.tanh(x)
        for highway in self.highways:
            x = highway(x)
        return x

    def _merged_filters(self) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Return all filters as one matrix (W * D, F), W the largest width, narrower ones zero-padded; and biases (F,).

        Most filters are wide, so a single product wastes little.
        """
        rows = max(convolution.weight.shape[0] for convolution in self.convolutions)
        weights = [
            nn.functional.pad(conv.weight, [0, rows - conv.weight.shape[0], 0, 0])
            for conv in self.convolutions
        ]
        return paddle.concat(weights, axis=1), paddle.concat(
            [conv.bias for conv in self.convolutions]
        )

    def _windows(self, tokens: Tokens) -> list[paddle.Tensor]:
        """List the ids in all windows (starts, n, W) of each run of tokens with similar lengths. Each id is sent once."""
        widths = [width for width, _ in self.config.filters]
        widest, last = max(widths), tokens.characters.shape[1] - min(widths)
        dtype = np.int16 if self.config.n_characters < 2**15 else np.int32
        ids = np.pad(tokens.characters.astype(dtype), [(0, 0), (0, widest)], mode="edge")
        runs = [
            (a, b, min(int(tokens.lengths[b - 1]), last) + 1)
            for a, b in _length_runs(tokens.lengths)
        ]
        parts = [ids[a:b, : starts + widest - 1].T.ravel() for a, b, starts in runs]
        sent, offsets = (
            to_tensor(np.concatenate(parts)),
            np.cumsum([0, *(part.nbytes for part in parts)]).tolist(),
        )
        shapes = [
            ([starts, b - a, widest], [b - a, 1, b - a]) for a, b, starts in runs
        ]  # and strides
        return [
            paddle.as_strided(sent, *shape, offset)
            for shape, offset in zip(shapes, offsets, strict=False)
        ]

    def _max_pooled(
        self, windows: paddle.Tensor, columns: int, weight: paddle.Tensor
    ) -> paddle.Tensor:
        """Max-pooled filter responses (n, F) of the windows (starts, n, W) of tokens with so many columns of ids."""
        starts, n, _ = windows.shape
        vectors = self.embedding(windows.astype("int32")).reshape([starts, n, -1])
        sums = amp_matmul(vectors, weight)  # (starts, n, F)
        last = np.repeat(
            *np.transpose([(columns - width, number) for width, number in self.config.filters])
        )
        if starts > last.min() + 1:  # no window may reach beyond the last column
            beyond = np.arange(starts)[:, None, None] > last
            sums = sums + to_tensor(np.where(beyond, np.float32(-np.inf), 0)).astype(sums.dtype)
        return Maximum.apply(sums, 0)


class Highway(nn.Layer):
    """g * relu(W_t x + b_t) + (1 - g) * x with g = sigmoid(W_c x + b_c)."""

    def __init__(self, dim: int):
        super().__init__()
        normal = nn.initializer.Normal(std=dim**-0.5)
        closed = paddle.ParamAttr(initializer=nn.initializer.Constant(-2.0))
        self.transform = nn.Linear(dim, dim, weight_attr=normal)
        self.carry = nn.Linear(dim, dim, weight_attr=normal, bias_attr=closed)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        if fused.is_supported(x):
            weights = (
                self.transform.weight,
                self.transform.bias,
                self.carry.weight,
                self.carry.bias,
            )
            return _FusedHighway.apply(x, *weights)
        g = nn.functional.sigmoid(self.carry(x))
        return x + g * (nn.functional.relu(self.transform(x)) - x)


class _FusedFeatures(paddle.autograd.PyLayer):
    """Max-pooled convolution features after the activation, by the compiled loops: each thread runs a range of tokens."""

    @staticmethod
    def forward(ctx, tokens, config, training, table, *rest):
        weights, biases = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        widths, numbers = zip(*config.filters, strict=True)
        features = paddle.empty([len(tokens.lengths), sum(numbers)], table.dtype)
        argmax = paddle.empty(features.shape, dtype="uint8") if training else None
        ids, lengths = (
            np.ascontiguousarray(array, dtype=np.int32)
            for array in (tokens.characters, tokens.lengths)
        )
        cnn = {"columns": ids.shape[1], "dim": table.shape[1], "ids": ids, "lengths": lengths}
        cnn |= {"n_widths": len(widths), "widths": widths, "filter_counts": numbers}
        cnn |= {"is_tanh": config.activation == "tanh", "features": features, "argmax": argmax}
        ranges = _thread_ranges(tokens.lengths)
        windows = int(lengths.sum()) + len(lengths) or 1
        filters = [
            packed([weight], False, 1 + windows // WINDOWS_PER_PRODUCT, windows)
            for weight in weights
        ]
        inputs = {"table": amp_operand(table), "filters": filters, "biases": biases}

        def compute(a: int, b: int) -> None:
            fused.kernel().cnn_forward(**cnn, **inputs, begin=a, end=b)

        run_in_parallel([partial(compute, a, b) for a, b in ranges])
        ctx.saved = {**cnn, "features": features.detach()}, ranges, table, weights, biases
        return features

    @staticmethod
    def backward(ctx, d_features):
        cnn, ranges, table, weights, biases = ctx.saved
        parameters, d_features = (table, *weights, *biases), d_features.contiguous()

        def gradients(a: int, b: int) -> list[paddle.Tensor]:
            d_table, *rest = [paddle.zeros_like(weight) for weight in parameters]
            results = {
                "d_table": d_table,
                "d_weights": rest[: len(weights)],
                "d_biases": rest[len(weights) :],
            }
            inputs = {"table": table, "weights": weights, "d_features": d_features}
            fused.kernel().cnn_backward(**cnn, **inputs, **results, begin=a, end=b)
            return [d_table, *rest]

        results = run_in_parallel([lambda a=a, b=b: gradients(a, b) for a, b in ranges])
        sums = [sum(group[1:], group[0]) for group in zip(*results, strict=True)]
        return tuple(
            None if weight.stop_gradient else d for weight, d in zip(parameters, sums, strict=True)
        )


class _FusedHighway(paddle.autograd.PyLayer):
    """x + g * (r - x), r = relu(x W_t + b_t), g = sigmoid(x W_c + b_c), the gate by the compiled loops."""

    @staticmethod
    def forward(ctx, x, transform, transform_bias, carry, carry_bias):
        ctx.needs_d_x = not x.stop_gradient  # False if the convolutions are frozen
        x, y, ranges = x.contiguous(), paddle.empty_like(x), _thread_ranges(np.ones(len(x)))
        operand = amp_operand(x)
        t, c = amp_matmul(operand, transform), amp_matmul(operand, carry)  # overwritten by r and g
        arguments = x.shape[1], x, transform_bias, carry_bias, t, c, y
        run_in_parallel(
            [lambda a=a, b=b: fused.kernel().gate_forward(a, b, *arguments) for a, b in ranges]
        )
        ctx.saved = (
            x.detach(),
            operand.detach(),
            t,
            c,
            ranges,
            (transform, transform_bias, carry, carry_bias),
        )
        ctx.precision = precision.current()
        return y

    @staticmethod
    def backward(ctx, d_y):
        x, operand, r, g, ranges, (transform, transform_bias, carry, carry_bias) = ctx.saved
        d_x, d_y = paddle.empty_like(x), d_y.contiguous()
        biases = [paddle.zeros([2, x.shape[1]], x.dtype) for _ in ranges]
        width = x.shape[1]
        jobs = [
            (a, b, width, x, d_y, r, g, d_x, *sums)
            for (a, b), sums in zip(ranges, biases, strict=True)
        ]
        run_in_parallel([lambda job=job: fused.kernel().gate_backward(*job) for job in jobs])
        d_t_bias, d_c_bias = sum(biases[1:], biases[0])
        gradients = [d_x if ctx.needs_d_x else None]
        for weight, bias, d, d_bias in (
            (transform, transform_bias, r, d_t_bias),
            (carry, carry_bias, g, d_c_bias),
        ):
            with precision.temporarily(ctx.precision):
                d = amp_operand(d)
                if ctx.needs_d_x:
                    amp_matmul(d, weight, transpose_y=True, add_to=d_x)
                gradients.append(
                    None if weight.stop_gradient else amp_matmul(operand, d, transpose_x=True)
                )
            gradients.append(None if bias.stop_gradient else d_bias)
        return tuple(gradients)


class Maximum(paddle.autograd.PyLayer):
    """Maximum over an axis; the gradient goes to the first maximum. Paddle's own is many times slower."""

    @staticmethod
    def forward(ctx, x, axis):
        largest, ctx.axis = x.max(axis=axis, keepdim=True), axis
        if not x.stop_gradient:  # argmax would be slow on GPUs: a block of threads per result
            ranks = paddle.arange(x.shape[axis], 0, -1, x.dtype)  # the first has the highest
            ctx.ranks = ranks.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
            ctx.first = ((x == largest).astype(x.dtype) * ctx.ranks).max(axis, keepdim=True)
        return largest.squeeze(axis)

    @staticmethod
    def backward(ctx, gradient):
        return (ctx.ranks == ctx.first).astype(gradient.dtype) * gradient.unsqueeze(ctx.axis)


def _length_runs(lengths: np.ndarray) -> list[tuple[int, int]]:
    """Split sorted lengths into runs whose longest is at most twice as long as the shortest."""
    cuts = [0]
    while cuts[-1] < len(lengths):
        cuts.append(int(np.searchsorted(lengths, 2 * lengths[cuts[-1]], side="right")))
    return list(itertools.pairwise(cuts))


def _thread_ranges(weights: np.ndarray) -> list[tuple[int, int]]:
    """Split items into one (start, end) range per thread with about equal sums of weights (n,)."""
    total = np.concatenate([[0], np.cumsum(weights, dtype=np.int64)])
    cuts = np.searchsorted(total, total[-1] * np.arange(n_threads()) / n_threads())
    return list(itertools.pairwise([*cuts.tolist(), len(weights)]))
