"""The classifier's network: token vectors of ELMo, of a file, or learnt with the task; a head; classes.

    text ─▶ inputs: layers of token vectors ─▶ standardised ─▶ concatenated or mixed ─▶ head ─▶ tanh layer ─▶ classes
            (ELMo, words)                      (B, T, D)        (B, T, D)                (B, H)

A pair of texts a and b becomes [a; b; |a - b|; a * b] after the head. The head `mean` reads the means of the layers, which
are computed once if they are fixed: mixing layers and averaging over tokens commute.

Letters: B texts, T tokens, L layers, D dimensions. Pairs are stacked, all first texts before all second ones: 2B rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

import elmo
from elmo_core.config import MAX_SIZE
from elmo_core.machine.runtime import paddle
from elmo_core.network.row_gradients import embedding_lookup
from elmo_core.settings import setting
from elmo_core.text.tokenise import LANGUAGES
from elmo_core.text.tokens import Tokens
from elmo_tasks.classification.heads import HEADS
from elmo_tasks.classification.words import Words
from elmo_tasks.pretrained import ELMoSettings

nn = paddle.nn


@dataclass(frozen=True)
class ClassifierSettings(ELMoSettings):
    """Settings of tokens, and of the network.

    pairs: it classifies pairs of texts. reads_elmo, reads_words: its inputs.
    """

    elmo_dropout: float = setting(0.0, "dropout on ELMo's vectors", below=1, needs="elmo")
    elmo_l2_coef: float = setting(0.0, "penalty on the weights of mixed layers", needs="layers=mix")
    lstm_dropout: float = setting(
        0.2, "dropout between the biLM's LSTMs in fine-tuning", below=1, needs="elmo_trainable"
    )
    word_vectors_trainable: bool = setting(False, "train the word vectors; without a file, from random ones")
    word_dropout: float = setting(0.1, "share of a batch's words that are dropped in fine-tuning", below=1)
    head: str = setting("lstm", "how a text's token vectors become one", choices=tuple(HEADS))
    head_dim: int = setting(
        128, "size of the head `lstm` in each direction; of `cnn`, filters of each width", below=MAX_SIZE
    )
    hidden_dim: int = setting(64, "size of the layer before the classes; 0: none", below=MAX_SIZE, minimum=0)
    dropout: float = setting(0.5, "dropout before the classes", below=1)
    columns: str = setting("")  # of text, label and second text in the training file, joined by tabs; "": usual ones
    lang: str = setting("en", choices=LANGUAGES)
    max_seq_len: int = setting(256, "truncate texts to N tokens")
    pairs: bool = setting(False)
    reads_elmo: bool = setting(False)
    reads_words: bool = setting(False)
    seed: int = setting(2020, minimum=0, below=2**32)

    @property
    def pool(self) -> str | None:
        return "mean" if self.head == "mean" else None


class FineTunedELMo(elmo.ELMo):
    """ELMo with a sparse gradient of the embedding table, which is faster."""

    def token_vectors(self, tokens: Tokens) -> paddle.Tensor:
        if self.config.reads_characters:
            return super().token_vectors(tokens)
        return embedding_lookup(self.bilm.token_encoder.embedding.weight, tokens.words)


class StandardisedInput(nn.Layer):
    """Standardise an input's layers with statistics of the training texts, and mix or concatenate them.

    This makes learning rates comparable across inputs and mix weights independent of scale.
    """

    def __init__(self, n_layers: int, dim: int, is_mixed: bool):
        super().__init__()
        self.dim = dim if is_mixed else n_layers * dim
        self.register_buffer("mean", paddle.zeros([n_layers, dim]))
        self.register_buffer("deviation", paddle.ones([n_layers, dim]))
        self.mix = elmo.ScalarMix(n_layers) if is_mixed and n_layers > 1 else None

    def forward(self, layers: Sequence[paddle.Tensor]) -> paddle.Tensor:
        """From layers, each (..., D), to (..., dim)."""
        layers = [(x - self.mean[k]) / self.deviation[k] for k, x in enumerate(layers)]
        return self.mix(layers) if self.mix else paddle.concat(layers, axis=-1)


class ClassifierNetwork(nn.Layer):
    """Maps tokenised texts, or pairs, to logits. At least one of ELMo and words is given."""

    elmo_at = ()  # it reads ELMo's layers, not its mixes

    def __init__(self, settings: ClassifierSettings, n_classes: int, elmo: elmo.ELMo | None, words: Words | None):
        super().__init__()
        self.settings, self.elmo, self.words = settings, elmo, words
        sizes = [(elmo.choice.n_layers, elmo.layer_dim, elmo.choice.how == "mix")] if elmo else []
        sizes += [(1, words.dim, False)] if words else []
        self.inputs = nn.LayerList(StandardisedInput(*size) for size in sizes)
        self.head = HEADS[settings.head](sum(part.dim for part in self.inputs), settings.head_dim)
        dim, hidden = self.head.dim * (4 if settings.pairs else 1), settings.hidden_dim
        self.hidden = nn.Linear(dim, hidden) if hidden else None
        self.output = nn.Linear(hidden or dim, n_classes)

    def forward(self, sentences: Sequence[Sequence[str]]) -> paddle.Tensor:
        """Logits (B, classes) of texts or, from 2B, of pairs."""
        return self.classify(self.head(*self.token_vectors(sentences)))

    def token_vectors(self, sentences: Sequence[Sequence[str]]) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Compute the head's input: (B, T, D), zero at padding, or their means (B, D); and the mask (B, T)."""
        outputs, sources = [], self._sources()
        for source, part in zip(sources, self.inputs, strict=True):
            layers, mask = source.layers(sentences)
            if not mask.shape[1]:  # all texts are empty
                mask = paddle.zeros([len(sentences), 1])
                layers = layers if source.pool else [paddle.zeros([*mask.shape, x.shape[-1]]) for x in layers]
            x = part(layers)
            if source is self.elmo:
                x = nn.functional.dropout(x, self.settings.elmo_dropout, training=self.training)
            outputs.append(x if source.pool else x * mask.unsqueeze(-1))
        return paddle.concat(outputs, axis=-1), mask

    @paddle.no_grad()
    def explain(self, sentences: Sequence[Sequence[str]]) -> list[list[float]]:
        """Weights of the tokens of a text, or of the two of a pair, see `Classifier.explain`."""
        pools = [(source, source.pool) for source in self._sources()]
        try:
            for source, _ in pools:
                source.pool = None  # the mean of standardised tokens is their standardised mean
            x, mask = self.token_vectors(sentences)
        finally:
            for source, pool in pools:
                source.pool = pool
        lengths = list(map(len, sentences))
        if self.settings.head == "attention":
            return [row[:n] for row, n in zip(self.head.weights(x, mask).tolist(), lengths, strict=True)]
        results, weights = self.head.of_tokens(x, mask), []  # (1 or 2, H)
        probabilities = nn.functional.softmax(self.classify(results))
        best = probabilities.argmax().item()
        for side, n in enumerate(lengths):
            row = []
            for token in range(n):
                kept = (paddle.arange(x.shape[1]) != token).astype(x.dtype).unsqueeze(-1)
                changed = self.head.of_tokens(x[side : side + 1] * kept, mask[side : side + 1])
                texts = paddle.concat([results[:side], changed, results[side + 1 :]]) if len(lengths) > 1 else changed
                row.append((probabilities[0, best] - nn.functional.softmax(self.classify(texts))[0, best]).item())
            weights.append(row)
        return weights

    def classify(self, x: paddle.Tensor) -> paddle.Tensor:
        """Logits (B, classes) from the head's results, (B, H) or, of pairs, (2B, H)."""
        if self.settings.pairs:
            a, b = x.chunk(2)
            x = paddle.concat([a, b, (a - b).abs(), a * b], axis=1)
        x = paddle.tanh(self.hidden(x)) if self.hidden else x
        return self.output(nn.functional.dropout(x, self.settings.dropout, training=self.training))

    def loss(
        self, sentences: Sequence[Sequence[str]], labels: np.ndarray, class_weights: paddle.Tensor | None
    ) -> paddle.Tensor:
        """Mean cross-entropy, weighted by class, plus the penalty on mixed layers."""
        loss = nn.functional.cross_entropy(self(sentences), paddle.to_tensor(labels), weight=class_weights)
        if self.settings.elmo_l2_coef:
            loss = loss + self.settings.elmo_l2_coef * sum((mix.scalars**2).sum() for mix in self._mixes())
        return loss

    @paddle.no_grad()
    def standardise(self, batches: Iterable[Sequence[Sequence[str]]]) -> None:
        """Set the statistics of the inputs to those of texts: of their tokens' vectors or, for the heads `mean` and `max`,
        of the texts' means and maxima, so that the hidden layer is not saturated.
        """
        self.eval()
        totals = [np.zeros((3, *part.mean.shape)) for part in self.inputs]  # number, sum, sum of squares
        for sentences in batches:
            for source, total in zip(self._sources(), totals, strict=True):
                layers, mask = source.layers(sentences)
                keep = np.ones(len(sentences), bool) if self.settings.pool else mask.numpy().astype(bool)
                x = np.stack([layer.numpy() for layer in layers]).astype(np.float64)
                if self.settings.head == "max":
                    x, keep = np.where(keep[..., None], x, -np.inf).max(axis=2, initial=-np.inf), keep.any(axis=1)
                x = x[:, keep]  # (L, n, D)
                total += np.stack([np.full_like(total[0], x.shape[1]), x.sum(axis=1), (x**2).sum(axis=1)])
        for part, (number, sums, squares) in zip(self.inputs, totals, strict=True):
            mean = sums / np.maximum(number, 1)
            part.mean.set_value(mean.astype(np.float32))
            variance = squares / np.maximum(number, 1) - mean**2
            part.deviation.set_value((np.sqrt(np.maximum(variance, 0)) + 1e-6).astype(np.float32))

    def tuned_groups(self) -> list[list[paddle.Tensor]]:
        """The weights of trained inputs, from the bottom to the top. Each group's gradient is clipped separately."""
        groups = self.elmo.parameter_groups() if self.elmo and self.elmo.trainable else []
        return [*groups, *([[self.words.table]] if self.words and self.words.vocabulary else [])]

    def mixes(self) -> list[list[float]]:
        """The weights softmax(s) of the layers and gamma, if they are mixed."""
        return [[*nn.functional.softmax(mix.scalars, axis=0).tolist(), mix.gamma.item()] for mix in self._mixes()]

    def _mixes(self) -> list[elmo.ScalarMix]:
        return [part.mix for part in self.inputs if part.mix]

    def _sources(self) -> list[elmo.ELMo | Words]:
        return [source for source in (self.elmo, self.words) if source is not None]
