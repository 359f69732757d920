"""The parser's network: BiLSTMs and biaffine scores of arcs and labels (Dozat and Manning 2017).

Letters: B sentences, T words, H of a BiLSTM in both directions, A and K dimensions of arcs and
labels, R labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.machine.runtime import paddle, to_tensor
from elmo_tasks.inputs import Rows, TokenInputs
from elmo_tasks.parsing.settings import ParserSettings

nn = paddle.nn

MASKED = -1e9


@dataclass
class Batch:
    """B sentences. heads, labels, tags: in training, (B, T) int64, padding is 0."""

    rows: Rows
    heads: np.ndarray | None = None
    labels: np.ndarray | None = None
    tags: np.ndarray | None = None


class Biaffine(nn.Layer):
    """Products [x; 1]' U: (B, T, n, D + 1) of x (B, T, D), to be multiplied with [y; 1]."""

    def __init__(self, dim: int, n: int):
        super().__init__()
        self.map = nn.Linear(dim, n * (dim + 1))  # its bias is the row of U for the 1
        self.shape = [n, dim + 1]

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.map(x).reshape(x.shape[:-1] + self.shape)


def with_one(x: paddle.Tensor) -> paddle.Tensor:
    """[x; 1]: (..., D + 1) of x (..., D)."""
    return paddle.concat([x, paddle.ones([*x.shape[:-1], 1], x.dtype)], axis=-1)


class ParserNetwork(nn.Layer):
    """Maps sentences to scores of arcs, labels and tags.

    Head 0 is the root, a vector that is trained.
    """

    def __init__(
        self,
        settings: ParserSettings,
        inputs: TokenInputs,
        labels: Sequence[str],
        tags: Sequence[str],
    ):
        super().__init__()
        arc = settings.arc_dim
        label = settings.label_dim
        dim = 2 * settings.hidden_dim
        self.inputs = inputs
        self.recurrent = nn.LSTM(
            inputs.dim,
            settings.hidden_dim,
            num_layers=settings.n_layers,
            direction="bidirect",
            dropout=settings.dropout,
        )
        self.root = self.create_parameter([1, 1, dim])
        # Of a word as dependent and as head of an arc, and as either for the arc's label.
        self.views = nn.LayerList(nn.Linear(dim, size) for size in (arc, arc, label, label))
        self.arcs = Biaffine(arc, 1)
        self.labels = Biaffine(label, len(labels))
        self.tags = nn.Linear(dim, len(tags)) if settings.with_tags else None
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, rows: Rows) -> tuple[paddle.Tensor, ...]:
        """What the scores are computed from.

        Returns the words (B, T, H), scores (B, T, T + 1) of the heads 0 .. T, and for labels the
        words as dependents (B, T, K) and as heads 0 .. T (B, T + 1, K).
        """
        x, _ = self.recurrent(self.inputs(rows).x, sequence_length=to_tensor(rows.lengths))
        x = self.dropout(x)
        root = self.root.expand([x.shape[0], 1, x.shape[2]])
        heads = paddle.concat([root, x], axis=1)  # (B, T + 1, H)
        arc = self._view(0, x)
        arc_head = self._view(1, heads)
        label = self._view(2, x)
        label_head = self._view(3, heads)
        scores = paddle.matmul(self.arcs(arc).squeeze(2), with_one(arc_head), transpose_y=True)
        padding = np.pad(1 - rows.mask, ((0, 0), (1, 0))) * MASKED  # (B, T + 1)
        scores = scores + to_tensor(padding.astype(np.float32)).unsqueeze(1)
        return x, scores, label, label_head

    def _view(self, k: int, x: paddle.Tensor) -> paddle.Tensor:
        return self.dropout(nn.functional.leaky_relu(self.views[k](x), 0.1))

    def label_scores(
        self, label: paddle.Tensor, label_head: paddle.Tensor, heads: np.ndarray
    ) -> paddle.Tensor:
        """Scores (B, T, R) of the labels of the arcs from heads (B, T)."""
        rows, steps, dim = label_head.shape
        index = (np.arange(rows)[:, None] * steps + heads).ravel()
        chosen = paddle.gather(label_head.reshape([-1, dim]), to_tensor(index)).reshape(label.shape)
        return paddle.matmul(self.labels(label), with_one(chosen).unsqueeze(-1)).squeeze(-1)

    def loss(self, batch: Batch) -> paddle.Tensor:
        """Mean cross-entropy per word of heads, labels and tags, plus ELMo's penalty."""
        x, arcs, label, label_head = self(batch.rows)
        labels = self.label_scores(label, label_head, batch.heads)
        weight = to_tensor(batch.rows.mask / batch.rows.mask.sum()).unsqueeze(-1)  # (B, T, 1)
        loss = _mean_loss(arcs, batch.heads, weight) + _mean_loss(labels, batch.labels, weight)
        if self.tags:
            loss = loss + _mean_loss(self.tags(x), batch.tags, weight)
        return loss + self.inputs.penalty()


def _mean_loss(scores: paddle.Tensor, gold: np.ndarray, weight: paddle.Tensor) -> paddle.Tensor:
    """The mean cross-entropy of scores (B, T, n) by gold (B, T). weight: (B, T, 1), of words."""
    losses = nn.functional.cross_entropy(scores, to_tensor(gold), reduction="none")
    return (losses.reshape(weight.shape) * weight).sum()
