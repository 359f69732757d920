"""Heads: from a text's token vectors to one vector, which padding does not change.

Letters: B texts, T tokens, D dimensions of a token's vector, H dimensions of the result.
"""

from elmo_core.encoding.pooling import maximum
from elmo_core.machine.runtime import paddle

nn = paddle.nn


class Head(nn.Layer):
    """Subclasses compute (B, H) from x (B, T, D) and its mask (B, T).

    size: of what is trained in them.
    """

    def __init__(self, dim: int, size: int):
        super().__init__()
        self.dim = dim  # H


class Pooled(Head):
    """What the inputs have pooled: x and the result are (B, D)."""

    def forward(self, x: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        return x


class Attention(Head):
    """The mean, weighted by the softmax of a linear score of each token."""

    def __init__(self, dim: int, size: int):
        super().__init__(dim, size)
        self.score = nn.Linear(dim, 1, bias_attr=False)

    def forward(self, x: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        scores = self.score(x).squeeze(-1) - 1e9 * (1 - mask)  # (B, T)
        weights = nn.functional.softmax(scores, axis=1) * mask  # a text without tokens has none
        return (weights.unsqueeze(-1) * x).sum(axis=1)


class LSTM(Head):
    """The maximum over the states of a bidirectional LSTM of `size` in each direction."""

    def __init__(self, dim: int, size: int):
        super().__init__(2 * size, size)
        self.lstm = nn.LSTM(dim, size, direction="bidirect")

    def forward(self, x: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        lengths = mask.sum(axis=1).clip(min=1).astype("int64")
        states, _ = self.lstm(x, sequence_length=lengths)  # (B, T, H)
        return maximum(states * mask.unsqueeze(-1), mask)


HEADS = {"linear": Pooled, "mean": Pooled, "attention": Attention, "lstm": LSTM}
