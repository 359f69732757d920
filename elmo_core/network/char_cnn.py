"""Token vectors from characters.

Embedding, convolutions, max pooling over positions, highway layers, projection.

Shapes: N distinct tokens, C characters per token (50), D character embedding size, F filters in
total, W the largest filter width, P projection size.

A window that starts after a token's last character sees only padding, like all later ones; one of
them is enough. So n characters need n + 1 windows per width, with the same result as all columns.

On a CPU, the compiled loops compute the same faster (elmo_core/kernels/cpu_char_cnn.py).
"""

import itertools

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.kernels import cpu_char_cnn, fused
from elmo_core.kernels.matmul import amp_matmul
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.text.lexicon import Tokens

nn = paddle.nn


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
        """Return vectors (N, P) of distinct tokens, which are sorted by number of characters."""
        return self.projection(self.highway_features(tokens))

    def highway_features(self, tokens: Tokens) -> paddle.Tensor:
        """Return the features after the highway layers: (N, F)."""
        table = self.embedding.weight
        if fused.is_supported(table):
            weights = [convolution.weight for convolution in self.convolutions]
            biases = [convolution.bias for convolution in self.convolutions]
            x = cpu_char_cnn.features(tokens, self.config, table, weights, biases)
        else:
            x = self._features(tokens)
        for highway in self.highways:
            x = highway(x)
        return x

    def _features(self, tokens: Tokens) -> paddle.Tensor:
        """Return the max-pooled filter responses after the activation: (N, F)."""
        weight, bias = self._merged_filters()
        columns = tokens.characters.shape[1]
        pooled = [self._max_pooled(windows, columns, weight) for windows in self._windows(tokens)]
        x = paddle.concat(pooled) + bias
        return nn.functional.relu(x) if self.config.activation == "relu" else paddle.tanh(x)

    def _merged_filters(self) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Return all filters as one matrix (W * D, F), narrower ones zero-padded; and biases (F,).

        Most filters are wide, so a single product wastes little.
        """
        rows = max(convolution.weight.shape[0] for convolution in self.convolutions)
        weights = [
            nn.functional.pad(convolution.weight, [0, rows - convolution.weight.shape[0], 0, 0])
            for convolution in self.convolutions
        ]
        biases = [convolution.bias for convolution in self.convolutions]
        return paddle.concat(weights, axis=1), paddle.concat(biases)

    def _windows(self, tokens: Tokens) -> list[paddle.Tensor]:
        """List the ids in all windows (starts, n, W) of each run of n tokens of similar lengths.

        The ids of all runs are sent to the device at once, each id once: position by position, the
        tokens side by side. A run's windows are a view of them. The next position of a window is
        that of the next start, n ids further on.
        """
        widths = [width for width, _ in self.config.filters]
        widest = max(widths)
        last_start = tokens.characters.shape[1] - min(widths)
        dtype = np.int16 if self.config.n_characters < 2**15 else np.int32
        ids = np.pad(tokens.characters.astype(dtype), [(0, 0), (0, widest)], mode="edge")
        parts = []
        shapes = []
        for a, b in _length_runs(tokens.lengths):
            starts = min(int(tokens.lengths[b - 1]), last_start) + 1
            parts.append(ids[a:b, : starts + widest - 1].T.ravel())
            shapes.append([starts, b - a, widest])
        sent = to_tensor(np.concatenate(parts))
        windows = []
        offset = 0  # in bytes
        for part, shape in zip(parts, shapes, strict=True):
            n = shape[1]
            windows.append(paddle.as_strided(sent, shape, [n, 1, n], offset))
            offset += part.nbytes
        return windows

    def _max_pooled(
        self, windows: paddle.Tensor, columns: int, weight: paddle.Tensor
    ) -> paddle.Tensor:
        """Return the largest responses (n, F) of the filters (W * D, F) to windows (starts, n, W).

        columns: of ids that the tokens have.
        """
        starts, n, _ = windows.shape
        vectors = self.embedding(windows.astype("int32")).reshape([starts, n, -1])
        responses = amp_matmul(vectors, weight)  # (starts, n, F)
        widths = [width for width, _ in self.config.filters]
        numbers = [number for _, number in self.config.filters]
        last = columns - np.repeat(widths, numbers)  # (F,) the last start of each filter
        if starts > last.min() + 1:  # no window may reach beyond the last column
            beyond = np.arange(starts)[:, None, None] > last
            mask = np.where(beyond, np.float32(-np.inf), 0)
            responses = responses + to_tensor(mask).astype(responses.dtype)
        return Maximum.apply(responses, 0)


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
            return cpu_char_cnn.highway(x, self.transform, self.carry)
        return self.equation(x)

    def equation(self, x: paddle.Tensor) -> paddle.Tensor:
        """Compute the same by Paddle's operators."""
        g = nn.functional.sigmoid(self.carry(x))
        return x + g * (nn.functional.relu(self.transform(x)) - x)


class Maximum(paddle.autograd.PyLayer):
    """Maximum over an axis; the gradient goes to the first one. Paddle's own is much slower."""

    @staticmethod
    def forward(ctx, x, axis):
        largest = x.max(axis=axis, keepdim=True)
        ctx.axis = axis
        if not x.stop_gradient:  # argmax would be slow on GPUs: a block of threads per result
            ranks = paddle.arange(x.shape[axis], 0, -1, x.dtype)  # the first has the highest
            shape = [1] * x.ndim
            shape[axis] = -1
            ctx.ranks = ranks.reshape(shape)
            ctx.first = ((x == largest).astype(x.dtype) * ctx.ranks).max(axis, keepdim=True)
        return largest.squeeze(axis)

    @staticmethod
    def backward(ctx, gradient):
        return (ctx.ranks == ctx.first).astype(gradient.dtype) * gradient.unsqueeze(ctx.axis)


def _length_runs(lengths: np.ndarray) -> list[tuple[int, int]]:
    """Split sorted lengths into runs whose longest is at most twice as long as the shortest."""
    cuts = [0]
    while cuts[-1] < len(lengths):
        shortest = lengths[cuts[-1]]
        cuts.append(int(np.searchsorted(lengths, 2 * shortest, side="right")))
    return list(itertools.pairwise(cuts))
