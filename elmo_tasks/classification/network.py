"""The classifier's network: the inputs' vectors, a head, a layer of tanh, and classes.

A pair of texts a and b becomes [a; b; |a - b|; a * b] after the head. The head `mean` reads the
means of the inputs, which are computed once if they are fixed.

Letters: B texts, T tokens, D dimensions of the inputs, H of the head. Pairs are stacked, all first
texts before all second ones: 2B rows.
"""

from dataclasses import dataclass

import numpy as np

from elmo_core.machine.runtime import paddle, to_tensor
from elmo_tasks.classification.heads import HEADS
from elmo_tasks.classification.settings import ClassifierSettings
from elmo_tasks.inputs import Rows, TokenInputs

nn = paddle.nn


@dataclass
class Batch:
    """B texts or, as 2B rows, pairs.

    labels: the numbers of their classes (B,); of lists of labels, whether each applies
    (B, classes).
    """

    rows: Rows
    labels: np.ndarray | None = None


class ClassifierNetwork(nn.Layer):
    """Maps tokenised texts, or pairs, to logits."""

    def __init__(
        self,
        settings: ClassifierSettings,
        inputs: TokenInputs,
        n_classes: int,
        pairs: bool,
        multi_label: bool,
    ):
        super().__init__()
        self.inputs = inputs
        self.pairs = pairs
        self.multi_label = multi_label
        # (classes,), set by a training whose settings ask for it.
        self.class_weights: paddle.Tensor | None = None
        self.head = HEADS[settings.head](inputs.dim, settings.head_dim)
        dim = 4 * self.head.dim if pairs else self.head.dim
        hidden_dim = settings.hidden_dim  # 0: no hidden layer
        self.hidden = nn.Linear(dim, hidden_dim) if hidden_dim else None
        self.dropout = nn.Dropout(settings.dropout)
        self.output = nn.Linear(hidden_dim or dim, n_classes)

    def forward(self, rows: Rows) -> paddle.Tensor:
        """Logits (B, classes)."""
        vectors = self.inputs(rows)
        x = self.head(vectors.x, vectors.mask)  # (B, H) or, of pairs, (2B, H)
        if self.pairs:
            a, b = x.chunk(2)
            x = paddle.concat([a, b, (a - b).abs(), a * b], axis=1)
        if self.hidden is not None:
            x = paddle.tanh(self.hidden(x))
        return self.output(self.dropout(x))

    def probabilities(self, rows: Rows) -> paddle.Tensor:
        """Probabilities (B, classes): of each label, if there are lists of them, on its own."""
        logits = self(rows)
        if self.multi_label:
            return nn.functional.sigmoid(logits)
        return nn.functional.softmax(logits)

    def loss(self, batch: Batch) -> paddle.Tensor:
        """Mean cross-entropy, weighted by class if that has weights, plus ELMo's penalty.

        Of lists of labels, it is the sum of the binary cross-entropies.
        """
        logits = self(batch.rows)
        labels = to_tensor(batch.labels)
        if self.multi_label:
            total = nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
            loss = total / len(logits)
        else:
            loss = nn.functional.cross_entropy(logits, labels, weight=self.class_weights)
        return loss + self.inputs.penalty()
