"""Heads: from a text's token vectors to one vector, which does not depend on the padding of its batch.

Letters: B texts, T tokens, D dimensions of a token's vector, H dimensions of the result. An empty text gets zeros.
"""

from elmo_core.machine.runtime import paddle
from elmo_core.network.char_cnn import Maximum

nn = paddle.nn

CNN_WIDTHS = (3, 4, 5)  # Kim (2014)


def max_over_tokens(x: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
    """The maximum over the tokens, (B, T, H) to (B, H)."""
    mask = mask.unsqueeze(-1)
    return Maximum.apply(x * mask - 1e9 * (1 - mask), 1) * mask.max(axis=1)


class Head(nn.Layer):
    """Subclasses compute (B, H) from x (B, T, D) and its mask (B, T). size: of what is trained in them."""

    def __init__(self, dim: int, size: int):
        super().__init__()
        self.dim = dim  # H


class Mean(Head):
    """The mean, which the inputs compute: x and the result are (B, D)."""

    def forward(self, x: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        return x


class Max(Head):
    """The maximum of each dimension."""

    def forward(self, x: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        return max_over_tokens(x, mask)


class Attention(Head):
    """The mean, weighted by the softmax of a linear score of each token."""

    def __init__(self, dim: int, size: int):
        super().__init__(dim, size)
        self.score = nn.Linear(dim, 1, bias_attr=False)

    def forward(self, x: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        weights = nn.functional.softmax(self.score(x).squeeze(-1) - 1e9 * (1 - mask), axis=1) * mask  # (B, T)
        return (weights.unsqueeze(-1) * x).sum(axis=1)


class LSTM(Head):
    """The maximum over the states of a bidirectional LSTM of `size` in each direction."""

    def __init__(self, dim: int, size: int):
        super().__init__(2 * size, size)
        self.lstm = nn.LSTM(dim, size, direction="bidirect")

    def forward(self, x: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        lengths = mask.sum(axis=1).clip(min=1).astype("int64")
        return max_over_tokens(self.lstm(x, sequence_length=lengths)[0], mask)


class CNN(Head):
    """The maximum over `size` rectified filters of each of CNN_WIDTHS. Beyond a text there are zeros."""

    def __init__(self, dim: int, size: int):
        super().__init__(size * len(CNN_WIDTHS), size)
        self.filters = nn.LayerList(nn.Linear(width * dim, size) for width in CNN_WIDTHS)

    def forward(self, x: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        x, results = x.transpose([0, 2, 1]), []  # (B, D, T)
        for width, filters in zip(CNN_WIDTHS, self.filters, strict=True):
            weight = filters.weight.reshape([width, x.shape[1], -1]).transpose([2, 1, 0])
            padded = nn.functional.pad(x, [width // 2, width - 1 - width // 2], data_format="NCL")
            filtered = nn.functional.relu(nn.functional.conv1d(padded, weight, filters.bias))  # (B, H, T)
            results.append(max_over_tokens(filtered.transpose([0, 2, 1]), mask))
        return paddle.concat(results, axis=1)


HEADS = {"mean": Mean, "max": Max, "attention": Attention, "lstm": LSTM, "cnn": CNN}
