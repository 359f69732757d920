"""A bag-of-words text classifier: a head over the mean of each text's token vectors.

    text ─▶ encoder: token vectors ─▶ their mean ─▶ standardised ─▶ mixed if L > 1 ─▶ head ─▶ classes
            (word table | biLM)        (L, D)        (L, D)           (D)

A pair of texts a and b becomes [a; b; |a - b|; a * b] before the head.

A frozen encoder computes each layer's mean only once, so a head trains in seconds. This is exact: mixing layers and
averaging over tokens commute.

Shapes: n texts, batch size B, L layers (1 if concatenated), D dimensions. Pairs are stacked, all first texts before all
second ones: 2B rows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import elmo
from elmo_core.machine.ranks import Ranks
from elmo_core.machine.runtime import paddle
from elmo_tasks.classification.encoders import Encoder

nn = paddle.nn


class StandardisedMix(nn.Layer):
    """Standardise an encoder's layers (B, L, D) with training statistics and mix them: (B, D).

    This makes learning rates comparable across encoders and mix weights independent of scale.
    """

    def __init__(self, n_layers: int, dim: int):
        super().__init__()
        self.register_buffer("mean", paddle.zeros([n_layers, dim]))
        self.register_buffer("deviation", paddle.ones([n_layers, dim]))
        self.mix = elmo.ScalarMix(n_layers) if n_layers > 1 else None

    def fit(self, means: np.ndarray) -> None:
        """Compute mean and standard deviation of the training part (n, L, D)."""
        self.mean.set_value(means.mean(axis=0))
        self.deviation.set_value(means.std(axis=0) + 1e-6)

    def forward(self, means: paddle.Tensor) -> paddle.Tensor:
        layers = ((means - self.mean) / self.deviation).unbind(axis=1)
        return self.mix(layers) if self.mix else layers[0]


class Head(nn.Layer):
    """Concatenated encoder vectors, a tanh layer of size `hidden` (0: none), dropout, class logits.

    shapes: (L, D) of each encoder. pairs: whether it classifies pairs of texts.
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], hidden: int, n_classes: int = 2, pairs: bool = False):
        super().__init__()
        dim = sum(dim for _, dim in shapes) * (4 if pairs else 1)
        self.pairs = pairs
        self.inputs = nn.LayerList(StandardisedMix(*shape) for shape in shapes)
        self.hidden = nn.Linear(dim, hidden) if hidden else None
        self.output = nn.Linear(hidden or dim, n_classes)
        self.dropout = 0.0

    def forward(self, means: Sequence[paddle.Tensor | np.ndarray]) -> paddle.Tensor:
        """Logits (B, classes) from each encoder's (B, L, D), of pairs (2B, L, D)."""
        means = [paddle.to_tensor(layers) if isinstance(layers, np.ndarray) else layers for layers in means]
        x = paddle.concat([mix(layers) for mix, layers in zip(self.inputs, means, strict=True)], axis=1)
        if self.pairs:
            a, b = x.chunk(2)
            x = paddle.concat([a, b, (a - b).abs(), a * b], axis=1)
        x = paddle.tanh(self.hidden(x)) if self.hidden else x
        return self.output(nn.functional.dropout(x, self.dropout, training=self.training))

    def probabilities(self, means: Sequence[np.ndarray]) -> np.ndarray:
        """Probabilities (n, classes) from each encoder's (n, L, D)."""
        self.eval()
        if not len(means[0]):
            return np.zeros((0, self.output.weight.shape[1]), np.float32)
        with paddle.no_grad():
            return nn.functional.softmax(self(means)).numpy()

    def mixes(self) -> list[list[float]]:
        """The weights softmax(s) of the layers and gamma, for each encoder with several layers."""
        mixes = [layer.mix for layer in self.inputs if layer.mix]
        return [[*nn.functional.softmax(mix.scalars, axis=0).tolist(), mix.gamma.item()] for mix in mixes]


class ClassifierModel(nn.Layer):
    """Encoders, the mean vectors of all texts, and a head, which `start_head` creates. Texts are referred to by index.

    fine_tuning: trainable encoders recompute their means; otherwise the first ones are used.
    """

    def __init__(
        self,
        encoders: Sequence[Encoder],
        sentences: Sequence[Sequence[str]],
        ranks: Ranks,
        hidden: int,
        n_classes: int = 2,
        pairs: bool = False,
    ):
        """Each rank encodes a share of the sentences."""
        super().__init__()
        self.encoders, self.hidden, self.n_classes, self.pairs = nn.LayerList(encoders), hidden, n_classes, pairs
        self.trainable = [encoder for encoder in encoders if encoder.tuning]
        self.fine_tuning = False
        self.texts = [encoder.prepare(sentences) for encoder in encoders]
        inputs, indices = list(zip(encoders, self.texts, strict=True)), range(ranks.rank, len(sentences), ranks.size)
        shares = ranks.run_on_all(lambda: [encoder.means([texts[k] for k in indices]) for encoder, texts in inputs])
        self.means = [np.empty((len(sentences), *encoder.shape), np.float32) for encoder in encoders]
        for rank, share in enumerate(shares):
            for means, rank_means in zip(self.means, share, strict=True):
                means[rank :: ranks.size] = rank_means
        self.initial_weights = self._weights("encoders.")

    def start_head(self, train: np.ndarray, seed: int) -> None:
        """Create a new head on the first means, standardised on the training part."""
        paddle.seed(seed)
        shapes = [encoder.shape for encoder in self.encoders]
        self.head, self.fine_tuning = Head(shapes, self.hidden, self.n_classes, self.pairs), False
        for mix, means in zip(self.head.inputs, self.means, strict=True):
            mix.fit(means[self.row_numbers(train)])

    def forward(self, indices: np.ndarray) -> paddle.Tensor:
        """Logits (B, classes) of texts."""
        return self.head(self._mean_layers(indices, lambda encoder, texts: encoder(texts)))

    def probabilities(self, indices: np.ndarray) -> np.ndarray:
        """(n, classes) of texts, without dropout."""
        return self.head.probabilities(self._mean_layers(indices, lambda encoder, texts: encoder.means(texts)))

    def _mean_layers(self, indices: np.ndarray, encode: Callable[[Encoder, list], Any]) -> list:
        """Each encoder's means (B, L, D) of texts, recomputed if it is being fine-tuned."""
        rows = self.row_numbers(indices)
        return [
            encode(encoder, [texts[k] for k in rows]) if self.fine_tuning and encoder.tuning else means[rows]
            for encoder, texts, means in zip(self.encoders, self.texts, self.means, strict=True)
        ]

    def row_numbers(self, indices: np.ndarray) -> np.ndarray:
        """Row numbers of the texts; for pairs, those of the second texts follow."""
        return np.concatenate([indices, indices + len(self.means[0]) // 2]) if self.pairs else indices

    def trained_weights(self) -> dict[str, np.ndarray]:
        """A copy of the head's weights and, in fine-tuning, of the trainable encoders' weights."""
        return self._weights("head.") | (self._weights("encoders.") if self.fine_tuning else {})

    def _weights(self, prefix: str) -> dict[str, np.ndarray]:
        frozen = tuple(f"encoders.{k}." for k, encoder in enumerate(self.encoders) if not encoder.tuning)
        weights = self.state_dict().items()
        return {name: w.numpy() for name, w in weights if name.startswith(prefix) and not name.startswith(frozen)}

    def load_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        state = self.state_dict()
        for name, array in weights.items():
            state[name].set_value(array)
