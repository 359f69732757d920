"""The inputs of a task's network: tokens' vectors from ELMo, from a file, or learnt with the task.

    tokens ─┬─▶ ELMo's layers ─▶ mixed or concatenated ─▶ dropout ─┐
            ├─▶ a file's vectors ─┐                                ├─▶ x (B, T, D)
            ├─▶ words learnt ─────┼─▶ dropout ─────────────────────┘
            └─▶ character CNN ────┘

Letters: B rows, T tokens, L layers, P projection of the biLM.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

import elmo
from elmo_core.config import ELMoConfig
from elmo_core.encoding.pooling import pool_tensor, pooled_dim
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import UserError, log
from elmo_core.network.bilm import make_bilm, weights_of
from elmo_core.network.char_cnn import CharCNN
from elmo_core.text.language import recognise
from elmo_core.text.lexicon import pad_rows, token_batch
from elmo_core.text.tokenise import CHINESE
from elmo_core.text.vocabulary import UNK_ID, Vocabulary
from elmo_core.weights import model_files, published
from elmo_tasks.settings import ELMoSettings

nn = paddle.nn

# The character CNN that is learnt with the task.
CHAR_CNN = ELMoConfig(filters=((2, 32), (3, 64), (4, 64)), n_highway=0, projection_dim=160)
UNIFORM = nn.initializer.Uniform(-0.1, 0.1)
LEAST_DEVIATION = 0.1  # as a share of a layer's usual one
BILM = "inputs.elmo."  # prefix of ELMo's weights in a network


@dataclass
class Rows:
    """B rows of tokens.

    sentences: those that ELMo reads for each row; None: the row itself.
    positions: of each row (T,). ELMo and the file's vectors look up, for token t, the word at
        position positions[t] of the row's sentences, joined.
    """

    tokens: Sequence[Sequence[str]]
    sentences: Sequence[Sequence[Sequence[str]]] | None = None
    positions: Sequence[np.ndarray] = field(default_factory=list)

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.array([len(row) for row in self.tokens], np.int64)

    @cached_property
    def steps(self) -> int:
        """T of the batch, at least 1."""
        return max(1, self.lengths.max(initial=0))

    @cached_property
    def mask(self) -> np.ndarray:
        """The mask (B, T), float32, 0 at padding."""
        return (np.arange(self.steps) < self.lengths[:, None]).astype(np.float32)

    @cached_property
    def units(self) -> list[list[str]]:
        """The word that the file's vectors look up for each token."""
        if self.sentences is None:
            return [list(row) for row in self.tokens]
        units = []
        for sentences, positions in zip(self.sentences, self.positions, strict=True):
            words = list(chain.from_iterable(sentences))
            units.append([words[k] for k in positions])
        return units

    def padded(self, values: Iterable[Sequence[int]]) -> np.ndarray:
        """A number of each token, padded with zeros: (B, T) int64."""
        return pad_rows(_joined(values), self.lengths, self.steps)

    def gathered(self, x: paddle.Tensor, index: np.ndarray) -> paddle.Tensor:
        """Rows (B, T, D) of x (N, D), by their numbers (B, T)."""
        return paddle.gather(x, to_tensor(index.ravel())).reshape([*index.shape, x.shape[-1]])


def _joined(parts: Iterable[Sequence[int]]) -> np.ndarray:
    """The numbers of all parts in one array; without parts, an empty one."""
    return np.concatenate([np.zeros(0, np.int64), *parts])


class TokenVectors(NamedTuple):
    """What a network reads.

    x: the input (B, T, D) or, pooled, (B, D).
    elmo: ELMo's vectors (B, T, D of ELMo) for the place "output", if the network reads it there.
    mask: (B, T), 0 at padding.
    """

    x: paddle.Tensor
    elmo: paddle.Tensor | None
    mask: paddle.Tensor


class FileVectors:
    """The vectors of a file.

    A word that is not in it gets the vector of its lower case or, without that, zeros or random
    numbers of its own.

    table: (n, D) float32, of the words. random: draw vectors for unknown words, with the seed.
    """

    def __init__(
        self, words: Sequence[str], table: np.ndarray, random: bool = False, seed: int = 0
    ):
        self.words = words
        self.table = table
        self.seed = seed
        self.index = {word: k for k, word in enumerate(words)}
        self.dim = table.shape[1]
        self.bound = 0.0  # of random numbers; 0: zeros
        if random:  # uniform in [-b, b] has the variance b^2 / 3, which is to be that of the table
            self.bound = np.sqrt(3) * float(table.std(dtype=np.float64))

    @classmethod
    def from_settings(cls, settings: Any, random: bool = False) -> "FileVectors | None":
        """Read the settings' file, if any, in word2vec's or GloVe's format.

        If only FILE.gz exists, that is read.
        """
        if not settings.word_vectors:
            return None
        file = load_word_vectors(settings.word_vectors, settings.word_vectors_limit)
        return cls(file.index_to_key, file.vectors, random, settings.seed)

    def row(self, word: str) -> int | None:
        """The number of a word's row, if it has one."""
        return self.index.get(word, self.index.get(word.lower()))

    def _draw(self, word: str) -> np.ndarray:
        """Random numbers (D,), float32, which depend on the seed and the word only."""
        digest = hashlib.sha1(word.encode("utf-8")).digest()
        number = int.from_bytes(digest[:8], "big")
        random = np.random.default_rng([self.seed, number])
        return random.uniform(-self.bound, self.bound, self.dim).astype(np.float32)

    def lookup(self, rows: Rows) -> np.ndarray:
        """Vectors (B, T, D), float32."""
        out = np.zeros((*rows.mask.shape, self.dim), np.float32)
        for vectors, words in zip(out, rows.units, strict=True):
            for k, word in enumerate(words):
                row = self.row(word)
                if row is not None:
                    vectors[k] = self.table[row]
                elif self.bound:
                    vectors[k] = self._draw(word)
        return out


class LearntWords(nn.Layer):
    """Embeddings of the words of the training data.

    In training, a word that was seen n times becomes <UNK> with probability 1 / (n + 1), by
    Paddle's random numbers.

    lr_factor: multiplies the learning rate.
    is_offset: the embeddings begin with zeros, and are added to the vectors of a file; nothing
        becomes <UNK>.
    """

    def __init__(
        self, vocabulary: Vocabulary, dim: int, lr_factor: float = 1.0, is_offset: bool = False
    ):
        super().__init__()
        self.vocabulary = vocabulary
        self.is_offset = is_offset
        initial = nn.initializer.Constant(0.0) if is_offset else UNIFORM
        weight = paddle.ParamAttr(initializer=initial, learning_rate=lr_factor)
        self.embedding = nn.Embedding(len(vocabulary), dim, weight_attr=weight)
        self._unknown = np.zeros(len(vocabulary))  # the probability of each word

    def count(self, words: Iterable[str]) -> None:
        """Count the words of the training data."""
        counts = Counter(words)
        self._unknown = np.array([1 / (1 + counts[word]) for word in self.vocabulary.tokens])

    def forward(self, rows: Rows) -> paddle.Tensor:
        ids = rows.padded(self.vocabulary.ids(list(row)) for row in rows.tokens)
        words = to_tensor(ids)
        is_word = ids > UNK_ID  # neither padding nor <UNK>
        if self.training and not self.is_offset:
            probability = to_tensor(np.where(is_word, self._unknown[ids], 0).astype(np.float32))
            is_replaced = paddle.rand(ids.shape) < probability
            words = paddle.where(is_replaced, paddle.full_like(words, UNK_ID), words)
        x = self.embedding(words)
        if self.is_offset:  # what has no embedding of its own keeps the file's vector
            x = x * to_tensor(is_word.astype(np.float32)).unsqueeze(-1)
        return x


class LearntCharacters(nn.Layer):
    """A character CNN, computed once per distinct token."""

    def __init__(self):
        super().__init__()
        self.cnn = CharCNN(CHAR_CNN)

    def forward(self, rows: Rows) -> paddle.Tensor:
        batch = token_batch(rows.tokens)
        return rows.gathered(self.cnn(batch.tokens), batch.index[:, 1 : 1 + rows.steps])


@dataclass
class PretrainedELMo:
    """The ELMo that a model is built from.

    words: by decreasing frequency, if they are known. name: of a bundled or published one.
    layer: a frozen one of the user's own.
    """

    bilm: elmo.BiLM
    vocabulary: Vocabulary | None
    words: Sequence[str]
    name: str | None = None
    layer: elmo.ELMo | None = None

    @classmethod
    def load(cls, source: Any) -> "PretrainedELMo | None":
        """Load a checkpoint, or a model by name; or take an ELMo layer, which shares its cache.

        Without a source, there is no ELMo: returns None.
        """
        if source is None:
            return None
        if isinstance(source, elmo.ELMo):
            if source.trainable:
                raise UserError(
                    "`elmo` is a trainable ELMo layer, "
                    "expected a frozen one, a checkpoint or a name."
                )
            words = source.vocabulary.words if source.vocabulary else ()
            return cls(source.bilm, source.vocabulary, words, layer=source)
        prefix = model_files.resolve_name(source).resolve()
        bilm, vocabulary = elmo.load_bilm(prefix)
        words = model_files.vocabulary_words(prefix)
        return cls(bilm, vocabulary, words, name=published.name_of(prefix))

    def make_layer(self, settings: ELMoSettings, **options: Any) -> elmo.ELMo:
        """Build a layer without mixes or dropout. options: of `elmo.ELMo`.

        A layer of the user's own is returned if it fits, or copied, if its weights are trained.
        """
        bilm = self.bilm
        if self.layer and settings.elmo_trainable:  # the user's own layer stays as it is
            bilm = make_bilm(self.bilm.config, weights_of(self.bilm))
        layer = elmo.ELMo(
            (bilm, self.vocabulary),
            n_mixes=0,
            dropout=0.0,
            layers=settings.layers,
            **options,
        )
        if not self.layer or settings.elmo_trainable:
            return layer
        if self.layer.choice != layer.choice or self.layer.pool not in (None, layer.pool):
            expected = f"ELMo(..., layers={settings.layers!r}, pool={layer.pool!r})"
            raise UserError(
                f"`elmo` is a layer with other `layers` or `pool`, expected {expected}."
            )
        return self.layer


def default_elmo(lang: str, texts: Iterable[str]) -> str:
    """The name of the bundled ELMo for texts.

    lang: the language that is set. If that tells nothing, the texts' language is recognised.
    """
    language = lang
    if language not in ("en", *CHINESE):
        language = recognise(texts)
    name = "zh" if language in CHINESE else "en"
    log.info(f"ELMo          {name}, by the language of the text")
    if language == "any":
        log.warning(
            "ELMo: the text is neither English nor Chinese, and `en` has read English only. "
            "Set `elmo` (--init_from_ckpt) to a model of its language, or to None (none)."
        )
    return name


class TokenInputs(nn.Layer):
    """All inputs that the settings ask for.

    settings: of ELMo and words.
    words: of the training data, which are learnt; None: none.
    elmo_at: where the network reads ELMo, each with a mix of its own if layers are mixed: "input"
        is part of x, "output" is returned separately.
    pool: None, or as of `elmo.ELMo`: x is the mean over each row's tokens, or the maximum, or both.
    standardised: by the statistics that `standardise` sets, which makes learning rates comparable
        across inputs, and mixes independent of scale.
    trainable: train the biLM, and the changes of a file's vectors, if the settings say so; else
        only after `tune`.
    required: raise if the settings ask for none; else D of x may be 0.
    """

    def __init__(
        self,
        settings: Any,
        words: Vocabulary | None = None,
        vectors: FileVectors | None = None,
        pretrained: PretrainedELMo | None = None,
        dropout: float = 0.0,
        elmo_at: Sequence[str] = ("input",),
        pool: str | None = None,
        standardised: bool = False,
        trainable: bool = True,
        required: bool = True,
    ):
        super().__init__()
        self.settings = settings
        self.vectors = vectors
        self.dropout = dropout
        self.pool = pool

        self.elmo: elmo.ELMo | None = None
        self.elmo_at: list[str] = []
        self.elmo_dim = 0  # of ELMo's vectors at each place
        mixes = []
        if pretrained:
            is_tuned = settings.elmo_trainable and trainable
            self.elmo = pretrained.make_layer(settings, trainable=is_tuned, pool=pool)
            self.elmo_at = list(elmo_at)
            n_layers = self.elmo.choice.n_layers
            if self.elmo.choice.how == "trained_sum":
                self.elmo_dim = self._layer_dim
                mixes = [elmo.ScalarMix(n_layers) for _ in self.elmo_at]
            else:  # the layers are concatenated
                self.elmo_dim = self._layer_dim * n_layers
        self.mixes = nn.LayerList(mixes)

        self.words: LearntWords | None = None
        is_offset = vectors is not None and getattr(settings, "word_vectors_trainable", False)
        if words and is_offset:
            self.words = LearntWords(words, vectors.dim, settings.emb_lr_factor, is_offset=True)
            self.words.embedding.weight.stop_gradient = not trainable
        elif words and settings.word_dim:
            self.words = LearntWords(words, settings.word_dim, settings.emb_lr_factor)
        self.characters = LearntCharacters() if settings.char_cnn else None

        fixed = self._fixed_sizes() if standardised else []
        self.statistics = nn.LayerList(_Statistics(n_layers, dim) for n_layers, dim in fixed)

        self.dim = self._input_dim()
        if required and not self.dim:
            raise UserError(
                "the network has no input. Set `elmo`, `word_vectors`, `word_dim` or `char_cnn`."
            )

    def _fixed_sizes(self) -> list[tuple[int, int]]:
        """The number of layers, and the width of each, of what `_fixed_layers` returns."""
        sizes = []
        if self.elmo:
            sizes.append((self.elmo.choice.n_layers, self._layer_dim))
        if self.vectors:
            sizes.append((1, pooled_dim(self.vectors.dim, self.pool)))
        return sizes

    @property
    def _layer_dim(self) -> int:
        """D of a layer of ELMo, pooled if the network reads it so."""
        return pooled_dim(2 * self.elmo.config.projection_dim, self.pool)

    def _input_dim(self) -> int:
        """D of x."""
        dim = 0
        if "input" in self.elmo_at:
            dim += self.elmo_dim
        if self.vectors:
            dim += pooled_dim(self.vectors.dim, self.pool)
        if self.words and not self.words.is_offset:
            dim += pooled_dim(self.settings.word_dim, self.pool)
        if self.characters:
            dim += pooled_dim(CHAR_CNN.projection_dim, self.pool)
        return dim

    def cache(self, rows: Iterable[Rows], progress: bool) -> None:
        """Compute what a frozen ELMo gives for rows that recur in every epoch."""
        if self.elmo and not self.elmo.trainable:
            self.elmo.cache(_elmo_sentences(rows), self.settings.cache_gb, progress)

    def tune(self, word_dropout: float = 0.0, layer_dropout: float = 0.0) -> None:
        """Begin to train all that the settings say.

        The rates of dropout are those in the biLM, see `elmo.ELMo`.
        """
        if self.words:
            self.words.embedding.weight.stop_gradient = False
        if self.elmo and self.settings.elmo_trainable:
            self.elmo.fine_tune(word_dropout, layer_dropout)

    def forward(self, rows: Rows) -> TokenVectors:
        mask = to_tensor(rows.mask)
        fixed = self._fixed_layers(rows)
        outputs = []
        elmo_output = None
        for k, place in enumerate(self.elmo_at):
            layers = fixed["elmo"]
            x = self.mixes[k](layers) if self.mixes else paddle.concat(layers, axis=-1)
            if not self.pool:
                x = x * mask.unsqueeze(-1)
            x = nn.functional.dropout(x, self.settings.elmo_dropout, training=self.training)
            if place == "input":
                outputs.append(x)
            else:
                elmo_output = x
        others = self._others(rows, fixed, mask)
        if others:
            x = paddle.concat(others, axis=-1)
            outputs.append(nn.functional.dropout(x, self.dropout, training=self.training))
        x = paddle.concat(outputs, axis=-1) if outputs else paddle.zeros([*mask.shape, 0])
        if not self.pool:
            x = x * mask.unsqueeze(-1)
        return TokenVectors(x, elmo_output, mask)

    def _others(
        self, rows: Rows, fixed: dict[str, list[paddle.Tensor]], mask: paddle.Tensor
    ) -> list[paddle.Tensor]:
        """The inputs besides ELMo: each (B, T, D) or, pooled, (B, D)."""
        others = []
        if self.vectors:
            others.append(fixed["vectors"][0])
        if self.words:
            learnt = self._pooled(self.words(rows), mask)
            if self.words.is_offset:  # a change of the file's vectors
                others[-1] = others[-1] + learnt
            else:
                others.append(learnt)
        if self.characters:
            others.append(self._pooled(self.characters(rows), mask))
        return others

    def _fixed_layers(
        self, rows: Rows, standardised: bool = True
    ) -> dict[str, list[paddle.Tensor]]:
        """The layers of ELMo, and the file's vectors as a list of one, if there are these.

        Each is (B, T, D) or, pooled, (B, D).
        """
        fixed = {}
        if self.elmo:
            fixed["elmo"] = self._elmo_layers(rows)
        if self.vectors:
            vectors = to_tensor(self.vectors.lookup(rows))
            fixed["vectors"] = [self._pooled(vectors, to_tensor(rows.mask))]
        if standardised and self.statistics:
            for name, part in zip(fixed, self.statistics, strict=True):
                fixed[name] = part(fixed[name])
        return fixed

    def _elmo_layers(self, rows: Rows) -> list[paddle.Tensor]:
        if not rows.lengths.any():  # nothing that ELMo could read
            n_rows = len(rows.tokens)
            shape = [n_rows, self._layer_dim] if self.pool else [n_rows, 1, self._layer_dim]
            return [paddle.zeros(shape)] * self.elmo.choice.n_layers
        if rows.sentences is not None:
            return self._layers_of_sentences(rows)
        layers, mask = self.elmo.layers(rows.tokens)
        if self.elmo.pool:
            return layers
        return [self._pooled(x, mask) for x in layers]

    def _layers_of_sentences(self, rows: Rows) -> list[paddle.Tensor]:
        """The layers (B, T, 2P) of rows that consist of sentences; equal ones are read once."""
        numbers: dict[tuple[str, ...], int] = {}  # of the sentences
        for sentence in chain.from_iterable(rows.sentences):
            numbers.setdefault(tuple(sentence), len(numbers))
        layers, mask = self.elmo.layers(list(numbers))  # (S, W, 2P)
        width = mask.shape[1]
        index = []  # of each row's tokens in (S * W, 2P)
        for sentences, positions in zip(rows.sentences, rows.positions, strict=True):
            flat = [numbers[tuple(s)] * width + np.arange(len(s)) for s in sentences]
            index.append(_joined(flat)[positions])
        padded = rows.padded(index)
        return [rows.gathered(x.reshape([-1, x.shape[-1]]), padded) for x in layers]

    def _pooled(self, x: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        """Pool the tokens' vectors, if the network reads them so."""
        return pool_tensor(x * mask.unsqueeze(-1), mask, self.pool) if self.pool else x

    @paddle.no_grad()
    def standardise(self, batches: Iterable[Rows]) -> None:
        """Set the statistics of ELMo's layers and the file's vectors.

        They are those of tokens or, if pooled, of rows.
        """
        # of each part: number, sum and sum of squares, each (L, D)
        totals = [np.zeros((3, *part.mean.shape)) for part in self.statistics]
        for rows in batches:
            fixed = self._fixed_layers(rows, standardised=False)
            for layers, total in zip(fixed.values(), totals, strict=True):
                x = np.stack([layer.numpy() for layer in layers]).astype(np.float64)
                if not self.pool:
                    x = x[:, rows.mask > 0]  # (L, n, D)
                total[0] += x.shape[1]
                total[1] += x.sum(axis=1)
                total[2] += (x**2).sum(axis=1)
        for part, (number, sums, squares) in zip(self.statistics, totals, strict=True):
            mean = sums / np.maximum(number, 1)
            variance = np.maximum(squares / np.maximum(number, 1) - mean**2, 0)
            part.mean.set_value(mean.astype(np.float32))
            deviation = np.sqrt(variance)
            # What hardly differs in a few texts must not become huge in another one.
            usual = np.sqrt(variance.mean(axis=1, keepdims=True))
            deviation = np.maximum(deviation, LEAST_DEVIATION * usual) + 1e-6
            part.deviation.set_value(deviation.astype(np.float32))

    def penalty(self) -> paddle.Tensor:
        """The penalty on the weights of mixed layers, which pulls these towards equal ones."""
        total = paddle.zeros([])
        for mix in self.mixes:
            total = total + (mix.scalars**2).sum()
        return self.settings.elmo_l2_coef * total


def _elmo_sentences(batches: Iterable[Rows]) -> Iterator[Sequence[str]]:
    """All sentences that ELMo reads for batches of rows."""
    for rows in batches:
        if rows.sentences is None:
            yield from rows.tokens
        else:
            yield from chain.from_iterable(rows.sentences)


class _Statistics(nn.Layer):
    """Standardises layers (..., D) by their means and deviations in the training data."""

    def __init__(self, n_layers: int, dim: int):
        super().__init__()
        self.register_buffer("mean", paddle.zeros([n_layers, dim]))
        self.register_buffer("deviation", paddle.ones([n_layers, dim]))

    def forward(self, layers: Sequence[paddle.Tensor]) -> list[paddle.Tensor]:
        return [(x - self.mean[k]) / self.deviation[k] for k, x in enumerate(layers)]
