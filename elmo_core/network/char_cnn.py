"""Token vectors from characters: embedding, convolutions, maximum over positions, highways, projection.

Letters: N distinct tokens, C characters of a token (50), D of a character's vector, F filters altogether, P projection.

A window that begins beyond a token's characters sees padding only, like every one after it: of those one is enough. So a
token of n characters needs n + 1 windows of each width, which say all that 50 columns of characters would.
"""

import itertools

import numpy as np

from elmo_core.config import MOST_CHARS
from elmo_core.machine.products import amp_matmul
from elmo_core.machine.runtime import n_threads, paddle, run_in_parallel, to_tensor
from elmo_core.network import fused
from elmo_core.text.tokens import Tokens

nn = paddle.nn


class CharCNN(nn.Layer):
    """The token encoder of a character model, as its `ELMoConfig` says."""

    word_tables: tuple[str, ...] = ()  # weights with a row for each word of the vocabulary

    def __init__(self, config):
        super().__init__()
        self.config = config
        n_filters = config.n_filters
        uniform = nn.initializer.Uniform
        self.embedding = nn.Embedding(config.n_characters, config.character_dim, weight_attr=uniform(-1.0, 1.0))
        self.convolutions = nn.LayerList(
            nn.Linear(width * config.character_dim, number, weight_attr=uniform(-0.05, 0.05))
            for width, number in config.filters
        )
        self.highways = nn.LayerList(Highway(n_filters) for _ in range(config.n_highway))
        if n_filters != config.projection_dim:  # as bilm-tf, which else has none
            normal = nn.initializer.Normal(std=n_filters**-0.5)
            self.projection = nn.Linear(n_filters, config.projection_dim, weight_attr=normal)
        else:
            self.projection = nn.Identity()

    def forward(self, tokens: Tokens) -> paddle.Tensor:
        """Vectors (N, P) of the distinct tokens, whose characters (N, C) are sorted by their number."""
        return self.projection(self.highway_features(tokens))

    def highway_features(self, tokens: Tokens) -> paddle.Tensor:
        """What the convolutions find, after the highways. (N, F)"""
        table = self.embedding.weight
        if fused.is_supported(table):
            weights = [convolution.weight for convolution in self.convolutions]
            biases = [convolution.bias for convolution in self.convolutions]
            x = _Features.apply(tokens, self.config, paddle.is_grad_enabled(), table, *weights, *biases)
        else:
            weight, bias = self._whole_filters()
            spans = _spans(tokens.lengths)
            sums = [self._highest_of(tokens.characters[a:b], int(tokens.lengths[b - 1]), weight) for a, b in spans]
            x = paddle.concat(sums) + bias
            x = nn.functional.relu(x) if self.config.activation == "relu" else paddle.tanh(x)
        for highway in self.highways:
            x = highway(x)
        return x

    def _whole_filters(self) -> tuple[paddle.Tensor, paddle.Tensor]:
        """All filters as one: weights (W * D, F), W the widest, in which narrower filters end with zeros; biases (F,).

        Most filters are wide, so that one product in place of one for each width costs little.
        """
        rows = max(convolution.weight.shape[0] for convolution in self.convolutions)
        weights = [nn.functional.pad(one.weight, [0, rows - one.weight.shape[0], 0, 0]) for one in self.convolutions]
        return paddle.concat(weights, axis=1), paddle.concat([one.bias for one in self.convolutions])

    def _highest_of(self, ids: np.ndarray, longest: int, weight: paddle.Tensor) -> paddle.Tensor:
        """The highest of the filters' products with tokens (n, C) of at most `longest` characters. (n, F)"""
        widths = [width for width, _ in self.config.filters]
        starts = min(longest, ids.shape[1] - min(widths)) + 1
        padded = np.concatenate([ids, np.repeat(ids[:, -1:], max(widths), axis=1)], axis=1)
        windows = np.lib.stride_tricks.sliding_window_view(padded[:, : starts + max(widths) - 1], max(widths), axis=1)
        windows = to_tensor(np.ascontiguousarray(windows.transpose(1, 0, 2)))  # (starts, n, W)
        sums = amp_matmul(self.embedding(windows).reshape([starts, len(ids), -1]), weight)  # (starts, n, F)
        last = np.repeat([ids.shape[1] - width for width in widths], [number for _, number in self.config.filters])
        if starts > last.min() + 1:  # a wide filter has no windows that reach beyond the last column
            beyond = np.arange(starts)[:, None, None] > last
            sums = sums + to_tensor(np.where(beyond, -np.inf, 0)).astype(sums.dtype)
        return _MaxOverPositions.apply(sums)


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
            weights = (self.transform.weight, self.transform.bias, self.carry.weight, self.carry.bias)
            return _Highway.apply(x, *weights)
        g = nn.functional.sigmoid(self.carry(x))
        return x + g * (nn.functional.relu(self.transform(x)) - x)


class _Features(paddle.autograd.PyLayer):
    """The convolutions' features by the compiled loop, each thread some of the tokens."""

    @staticmethod
    def forward(ctx, tokens, config, training, table, *rest):
        weights, biases = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        widths, numbers = zip(*config.filters, strict=True)
        features = paddle.empty([len(tokens.lengths), sum(numbers)], table.dtype)
        places = paddle.empty(features.shape, dtype="uint8") if training else None
        ids, lengths = (np.ascontiguousarray(array, dtype=np.int32) for array in (tokens.characters, tokens.lengths))
        fits = lengths.shape == ids.shape[:1] and max(widths) <= ids.shape[1] <= MOST_CHARS
        whole = ids.min(initial=0) >= 0 and ids.max(initial=0) < len(table)
        if not (fits and whole and lengths.min(initial=0) >= 0 and lengths.max(initial=0) <= ids.shape[1]):
            raise ValueError(f"character ids {ids.shape} or their lengths are not those of tokens")
        cnn = ids.shape[1], table.shape[1], ids, lengths, table, len(widths), widths, numbers
        is_tanh = config.activation == "tanh"
        parts = _shares(tokens.lengths)
        given = weights, biases, is_tanh, features, places
        run_in_parallel([lambda a=a, b=b: fused.kernel().cnn_forward(*cnn, a, b, *given) for a, b in parts])
        ctx.saved = cnn, parts, table, weights, biases, is_tanh, features.detach(), places
        return features

    @staticmethod
    def backward(ctx, d_features):
        cnn, parts, table, weights, biases, is_tanh, features, places = ctx.saved
        d_features = d_features.contiguous()

        def gradients(a: int, b: int) -> list[paddle.Tensor]:
            d_table, *rest = [paddle.zeros_like(weight) for weight in (table, *weights, *biases)]
            groups = rest[: len(weights)], rest[len(weights) :]
            fused.kernel().cnn_backward(*cnn, a, b, weights, is_tanh, features, places, d_features, d_table, *groups)
            return [d_table, *rest]

        results = run_in_parallel([lambda a=a, b=b: gradients(a, b) for a, b in parts])
        sums = [sum(group[1:], group[0]) for group in zip(*results, strict=True)]
        wanted = [not weight.stop_gradient for weight in (table, *weights, *biases)]
        return tuple(gradient if want else None for gradient, want in zip(sums, wanted, strict=True))


class _Highway(paddle.autograd.PyLayer):
    """x + g * (r - x), r = relu(x W_t + b_t), g = sigmoid(x W_c + b_c), the gate by the compiled loop."""

    @staticmethod
    def forward(ctx, x, transform, transform_bias, carry, carry_bias):
        ctx.leads_on = not x.stop_gradient  # False where the convolutions are frozen
        x, y, shares = x.contiguous(), paddle.empty_like(x), _shares(np.ones(len(x)))
        t, c = amp_matmul(x, transform), amp_matmul(x, carry)  # which receive r and g
        given = x.shape[1], x, transform_bias, carry_bias, t, c, y
        run_in_parallel([lambda a=a, b=b: fused.kernel().gate_forward(a, b, *given) for a, b in shares])
        ctx.saved = x.detach(), t, c, shares, (transform, transform_bias, carry, carry_bias)
        return y

    @staticmethod
    def backward(ctx, d_y):
        x, r, g, shares, (transform, transform_bias, carry, carry_bias) = ctx.saved
        d_x, d_y = paddle.empty_like(x), d_y.contiguous()
        biases = [paddle.zeros([2, x.shape[1]], x.dtype) for _ in shares]
        width = x.shape[1]
        jobs = [(a, b, width, x, d_y, r, g, d_x, *sums) for (a, b), sums in zip(shares, biases, strict=True)]
        run_in_parallel([lambda job=job: fused.kernel().gate_backward(*job) for job in jobs])
        d_t_bias, d_c_bias = sum(biases[1:], biases[0])
        gradients = [d_x if ctx.leads_on else None]
        for weight, bias, d, d_bias in ((transform, transform_bias, r, d_t_bias), (carry, carry_bias, g, d_c_bias)):
            if ctx.leads_on:
                fused.kernel().add_product(*d_x.shape, d.shape[1], d, weight, d_x)
            gradients.append(None if weight.stop_gradient else amp_matmul(x, d, transpose_x=True))
            gradients.append(None if bias.stop_gradient else d_bias)
        return tuple(gradients)


class _MaxOverPositions(paddle.autograd.PyLayer):
    """Maximum over the first axis; the gradient goes to the first of equals. Paddle's own is many times slower."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape, ctx.dtype = x.shape, x.dtype
        ctx.place = None if x.stop_gradient else x.argmax(axis=0, keepdim=True)
        return x.max(axis=0)

    @staticmethod
    def backward(ctx, gradient):
        zeros = paddle.zeros(ctx.shape, ctx.dtype)
        return paddle.put_along_axis(zeros, ctx.place, gradient.unsqueeze(0), 0)


def _spans(lengths: np.ndarray) -> list[tuple[int, int]]:
    """Cut sorted lengths into runs in which the longest is at most twice as long as the shortest."""
    cuts = [0]
    while cuts[-1] < len(lengths):
        cuts.append(int(np.searchsorted(lengths, 2 * lengths[cuts[-1]], side="right")))
    return list(itertools.pairwise(cuts))


def _shares(weights: np.ndarray) -> list[tuple[int, int]]:
    """A share for each thread, from and to before, with about the same sum of weights (n,)."""
    total = np.concatenate([[0], np.cumsum(weights, dtype=np.int64)])
    cuts = np.searchsorted(total, total[-1] * np.arange(n_threads()) / n_threads())
    return list(itertools.pairwise([*cuts.tolist(), len(weights)]))
