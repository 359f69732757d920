"""The classifier's network: the inputs' vectors, a head, a layer of tanh, and classes.

A pair of texts a and b becomes [a; b; |a - b|; a * b] after the head. The head `mean` reads the
means of the inputs, which are computed once if they are fixed.

The head `linear` reads their means and maxima, and has no layer of tanh. It adds a weight for each
n-gram of a text, times the n-gram's tf-idf. A pair's n-grams become four vectors, too, and their
similarity, the sum of a * b: how much two texts have in common tells more than what it is, above
all of few pairs.

Letters: B texts, T tokens, D dimensions of the inputs, H of the head, V n-grams. Pairs are stacked,
all first texts before all second ones: 2B rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from elmo_core.machine.runtime import paddle, to_tensor
from elmo_tasks.classification.heads import HEADS
from elmo_tasks.classification.settings import LINEAR, ClassifierSettings
from elmo_tasks.inputs import Rows, TokenInputs

nn = paddle.nn

# Features of the head `linear`.
VECTORS = "vectors"
NGRAMS = "n-grams"


@dataclass
class Batch:
    """B texts or, as 2B rows, pairs.

    labels: the numbers of their classes (B,); of lists of labels, whether each applies
    (B, classes). ngrams: tf-idf (B, V) or, of pairs, (2B, V), if the network reads it.
    """

    rows: Rows
    labels: np.ndarray | None = None
    ngrams: sparse.csr_matrix | None = None


def combined_ngrams(ngrams: sparse.csr_matrix) -> sparse.csr_matrix:
    """The n-grams of pairs (B, 4V + 1) of those of their texts (2B, V).

    They are [a; b; |a - b|; a * b; sum of a * b]. The last one is the cosine: the vectors of
    texts have length 1.
    """
    n_pairs = ngrams.shape[0] // 2
    a = ngrams[:n_pairs]
    b = ngrams[n_pairs:]
    product = a.multiply(b)
    cosine = sparse.csr_matrix(product.sum(axis=1), dtype=np.float32)
    return sparse.hstack([a, b, abs(a - b), product, cosine], format="csr")


class ClassifierNetwork(nn.Layer):
    """Maps tokenised texts, or pairs, to logits.

    n_ngrams: V; 0: none.
    """

    def __init__(
        self,
        settings: ClassifierSettings,
        inputs: TokenInputs,
        n_classes: int,
        pairs: bool,
        multi_label: bool,
        n_ngrams: int = 0,
    ):
        super().__init__()
        self.inputs = inputs
        self.pairs = pairs
        self.multi_label = multi_label
        # (classes,), set by a training whose settings ask for it.
        self.class_weights: paddle.Tensor | None = None
        self.head = HEADS[settings.head](inputs.dim, settings.head_dim)
        dim = 4 * self.head.dim if pairs else self.head.dim
        hidden_dim = 0 if settings.head == LINEAR else settings.hidden_dim  # 0: no hidden layer
        self.hidden = nn.Linear(dim, hidden_dim) if hidden_dim else None
        self.dropout = nn.Dropout(settings.dropout)
        self.output = nn.Linear(hidden_dim or dim, n_classes) if dim else None
        self.n_ngrams = n_ngrams
        if n_ngrams:
            n_weights = 4 * n_ngrams + 1 if pairs else n_ngrams
            self.register_buffer("ngram_weights", paddle.zeros([n_weights, n_classes]))
            self.register_buffer("ngram_bias", paddle.zeros([n_classes]))

    def forward(self, batch: Batch) -> paddle.Tensor:
        """Logits (B, classes)."""
        logits = []
        if self.output is not None:
            x = self.features(batch.rows)
            if self.hidden is not None:
                x = paddle.tanh(self.hidden(x))
            logits.append(self.output(self.dropout(x)))
        if self.n_ngrams:
            of_ngrams = self.ngram_features(batch) @ self.ngram_weights.numpy()
            logits.append(to_tensor(of_ngrams) + self.ngram_bias)
        return sum(logits)

    def features(self, rows: Rows) -> paddle.Tensor:
        """The vectors of texts (B, H) or, of pairs, (B, 4H)."""
        vectors = self.inputs(rows)
        x = self.head(vectors.x, vectors.mask)  # (B, H) or, of pairs, (2B, H)
        if not self.pairs:
            return x
        a, b = x.chunk(2)
        return paddle.concat([a, b, (a - b).abs(), a * b], axis=1)

    def ngram_features(self, batch: Batch) -> sparse.csr_matrix:
        """The n-grams of texts (B, V) or, of pairs, (B, 4V + 1)."""
        return combined_ngrams(batch.ngrams) if self.pairs else batch.ngrams

    def linear_features(self, batch: Batch) -> dict[str, np.ndarray | sparse.csr_matrix]:
        """What the head `linear` gives weights to.

        The vectors (B, H) or (B, 4H), divided by the root of their size, which makes penalties of
        their weights comparable; and the n-grams.
        """
        features = {}
        if self.output is not None:
            vectors = self.features(batch.rows).numpy()
            features[VECTORS] = vectors / np.float32(np.sqrt(vectors.shape[1]))
        if self.n_ngrams:
            features[NGRAMS] = self.ngram_features(batch)
        return features

    def set_linear(self, weights: Mapping[str, np.ndarray], bias: np.ndarray) -> None:
        """Set the weights of `linear_features`, by their names, and the bias (classes,)."""
        if self.output is not None:
            root = np.float32(np.sqrt(len(weights[VECTORS])))
            self.output.weight.set_value(weights[VECTORS] / root)
            self.output.bias.set_value(bias)
        else:
            self.ngram_bias.set_value(bias)
        if self.n_ngrams:
            self.ngram_weights.set_value(weights[NGRAMS])

    def probabilities(self, batch: Batch) -> paddle.Tensor:
        """Probabilities (B, classes): of each label, if there are lists of them, on its own."""
        logits = self(batch)
        if self.multi_label:
            return nn.functional.sigmoid(logits)
        return nn.functional.softmax(logits)

    def loss(self, batch: Batch) -> paddle.Tensor:
        """Mean cross-entropy, weighted by class if that has weights, plus ELMo's penalty.

        Of lists of labels, it is the sum of the binary cross-entropies.
        """
        logits = self(batch)
        labels = to_tensor(batch.labels)
        if self.multi_label:
            total = nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
            loss = total / len(logits)
        else:
            loss = nn.functional.cross_entropy(logits, labels, weight=self.class_weights)
        return loss + self.inputs.penalty()
