"""The inputs of a task's network: vectors of tokens from ELMo, from a file, learnt with the task, and of their characters.

    tokens ─┬─▶ ELMo's layers ─▶ mixed or concatenated ─▶ dropout ─┐
            ├─▶ a file's vectors ─┐                                ├─▶ x (B, T, D)
            ├─▶ words learnt ─────┼─▶ dropout ─────────────────────┘
            └─▶ character CNN ────┘

Letters: B rows, T tokens, L layers, P projection of the biLM.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import elmo
from elmo_core.config import ELMoConfig
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import UserError, log
from elmo_core.network.bilm import make_bilm, weights_of
from elmo_core.network.char_cnn import CharCNN
from elmo_core.text.language import recognise
from elmo_core.text.tokenise import CHINESE
from elmo_core.text.tokens import pad_rows, token_batch
from elmo_core.text.vocabulary import UNK_ID, Vocabulary
from elmo_core.weights import model_files, published
from elmo_tasks.settings import ELMoSettings

nn = paddle.nn

CHAR_CNN = ELMoConfig(
    filters=((2, 32), (3, 64), (4, 64)), n_highway=0, projection_dim=160
)  # learnt with the task
UNIFORM = nn.initializer.Uniform(-0.1, 0.1)
BILM = "inputs.elmo."  # prefix of ELMo's weights in a network


@dataclass
class Rows:
    """B rows of tokens.

    sentences: of each row, those that ELMo reads; None: the row itself. positions: of each token (T,), that of what ELMo
    and the file's vectors look up for it, in the row's sentences one after another.
    """

    tokens: Sequence[Sequence[str]]
    sentences: Sequence[Sequence[Sequence[str]]] | None = None
    positions: Sequence[np.ndarray] = field(default_factory=list)

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.array(list(map(len, self.tokens)), np.int64)

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
        flat = [[word for sentence in row for word in sentence] for row in self.sentences]
        return [
            [words[k] for k in places] for words, places in zip(flat, self.positions, strict=True)
        ]

    def padded(self, values: Iterable[Sequence[int]]) -> np.ndarray:
        """A number of each token, padded with zeros: (B, T) int64."""
        return pad_rows(np.concatenate([np.zeros(0, np.int64), *values]), self.lengths, self.steps)

    def gathered(self, x: paddle.Tensor, index: np.ndarray) -> paddle.Tensor:
        """Rows (B, T, D) of x (N, D), by their numbers (B, T)."""
        return paddle.gather(x, to_tensor(index.ravel())).reshape([*index.shape, x.shape[-1]])


class TokenVectors(NamedTuple):
    """x: the input (B, T, D) or, pooled, (B, D). elmo: further ELMo vectors (B, T, .), of "output". mask: (B, T)."""

    x: paddle.Tensor
    elmo: paddle.Tensor | None
    mask: paddle.Tensor


class FileVectors:
    """The vectors of a file. A word without one gets that of its lower case, else zeros, or random numbers of its own.

    table: (n, D) float32, of the words. random: draw vectors for unknown words, with the seed.
    """

    def __init__(
        self, words: Sequence[str], table: np.ndarray, random: bool = False, seed: int = 0
    ):
        self.words, self.table, self.seed = words, table, seed
        self.index = {word: k for k, word in enumerate(words)}
        self.dim = table.shape[1]
        self.bound = (
            np.sqrt(3) * float(table.std(dtype=np.float64)) if random else 0.0
        )  # of draws of the same variance

    @classmethod
    def from_settings(cls, settings: Any, random: bool = False) -> "FileVectors | None":
        """Read the settings' file, if any, in word2vec's or GloVe's format. If only FILE.gz exists, that is read."""
        if not settings.word_vectors:
            return None
        file = load_word_vectors(settings.word_vectors, settings.word_vectors_limit)
        return cls(file.index_to_key, file.vectors, random, settings.seed)

    def row(self, word: str) -> int | None:
        """The number of a word's row, if it has one."""
        return self.index.get(word, self.index.get(word.lower()))

    def _draw(self, word: str) -> np.ndarray:
        number = int.from_bytes(hashlib.sha1(word.encode("utf-8")).digest()[:8], "big")
        return (
            np.random.default_rng([self.seed, number])
            .uniform(-self.bound, self.bound, self.dim)
            .astype(np.float32)
        )

    def lookup(self, rows: Rows) -> np.ndarray:
        """Vectors (B, T, D), float32."""
        out = np.zeros((*rows.mask.shape, self.dim), np.float32)
        for vectors, words in zip(out, rows.units, strict=True):
            for k, word in enumerate(words):
                if (row := self.row(word)) is not None:
                    vectors[k] = self.table[row]
                elif self.bound:
                    vectors[k] = self._draw(word)
        return out


class LearntWords(nn.Layer):
    """Embeddings of the words of the training data. In training, a word seen n times becomes <UNK> with 1 / (n + 1).

    Its random numbers are Paddle's. lr_factor: on the learning rate. is_offset: they begin with zeros, and are added to
    the vectors of a file; nothing becomes <UNK>.
    """

    def __init__(
        self, vocabulary: Vocabulary, dim: int, lr_factor: float = 1.0, is_offset: bool = False
    ):
        super().__init__()
        self.vocabulary, self.is_offset = vocabulary, is_offset
        initial = nn.initializer.Constant(0.0) if is_offset else UNIFORM
        rate = paddle.ParamAttr(initializer=initial, learning_rate=lr_factor)
        self.embedding = nn.Embedding(len(vocabulary), dim, weight_attr=rate)
        self._unknown = np.zeros(len(vocabulary))  # the probability of each word

    def count(self, words: Iterable[str]) -> None:
        """Count the words of the training data."""
        counts = Counter(words)
        self._unknown = np.array([1 / (1 + counts[word]) for word in self.vocabulary.tokens])

    def forward(self, rows: Rows) -> paddle.Tensor:
        ids = rows.padded(self.vocabulary.ids(list(row)) for row in rows.tokens)
        words = to_tensor(ids)
        if self.training and not self.is_offset:
            unknown = to_tensor(np.where(ids > UNK_ID, self._unknown[ids], 0).astype(np.float32))
            words = paddle.where(
                paddle.rand(ids.shape) < unknown, paddle.full_like(words, UNK_ID), words
            )
        x = self.embedding(words)
        return (
            x * to_tensor((ids > UNK_ID).astype(np.float32)).unsqueeze(-1) if self.is_offset else x
        )


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
    """The ELMo that a model is built from. name: of a bundled or published one. layer: a frozen one of the user's own."""

    bilm: elmo.BiLM
    vocabulary: Vocabulary | None
    words: Sequence[str]  # by decreasing frequency, if they are known
    name: str | None = None
    layer: elmo.ELMo | None = None

    @classmethod
    def load(cls, source: Any) -> "PretrainedELMo | None":
        """Load a checkpoint, or a model by name; or take an ELMo layer, which shares its cache. None is no ELMo."""
        if source is None:
            return None
        if isinstance(source, elmo.ELMo):
            if source.trainable:
                raise UserError(
                    "`elmo` is a trainable ELMo layer, expected a frozen one, a checkpoint or a name."
                )
            words = source.vocabulary.words if source.vocabulary else ()
            return cls(source.bilm, source.vocabulary, words, layer=source)
        prefix = model_files.resolve_name(source).resolve()
        return cls(
            *elmo.load_bilm(prefix), model_files.vocabulary_words(prefix), published.name_of(prefix)
        )

    def make_layer(self, settings: ELMoSettings, **options: Any) -> elmo.ELMo:
        """Build a layer without mixes or dropout. options: of `elmo.ELMo`."""
        is_copied = self.layer and settings.elmo_trainable  # the user's own layer stays as it is
        bilm = make_bilm(self.bilm.config, weights_of(self.bilm)) if is_copied else self.bilm
        layer = elmo.ELMo(
            (bilm, self.vocabulary), 0, dropout=0.0, layers=settings.layers, **options
        )
        if not self.layer or is_copied:
            return layer
        if self.layer.choice != layer.choice or self.layer.pool not in (None, layer.pool):
            expected = f"ELMo(..., layers={settings.layers!r}, pool={layer.pool!r})"
            raise UserError(
                f"`elmo` is a layer with other `layers` or `pool`, expected {expected}."
            )
        return self.layer


def default_elmo(lang: str, texts: Iterable[str]) -> str:
    """The bundled ELMo for texts: by the language that is set or, if that tells nothing, recognised."""
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

    settings: of ELMo and words. words: of the training data, which are learnt; None: none. elmo_at: where the network reads
    ELMo, each with a mix of its own if layers are mixed: "input" is part of x, "output" is returned separately.
    pool: None, or "mean": x is the mean over each row's tokens. standardised: by the statistics that `standardise` sets,
    which makes learning rates comparable across inputs, and mixes independent of scale. trainable: the biLM, and the changes
    of a file's vectors, if the settings say so; else only after `tune`.
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
    ):
        super().__init__()
        self.settings, self.vectors, self.dropout, self.pool = settings, vectors, dropout, pool
        is_tuned = settings.elmo_trainable and trainable
        self.elmo = pretrained and pretrained.make_layer(settings, trainable=is_tuned, pool=pool)
        self.elmo_at = list(elmo_at) if self.elmo else []
        self.dim, self.elmo_dim, self.mixes, sizes = 0, 0, [], []
        if self.elmo:
            choice, dim = self.elmo.choice, self.elmo.layer_dim
            is_mixed = choice.how == "mix"
            self.elmo_dim = dim if is_mixed else dim * choice.n_layers
            self.mixes = nn.LayerList(
                elmo.ScalarMix(choice.n_layers) for _ in self.elmo_at if is_mixed
            )
            self.dim += self.elmo_dim * ("input" in self.elmo_at)
            sizes.append((choice.n_layers, dim))
        is_offset = getattr(settings, "word_vectors_trainable", False) and vectors is not None
        self.words = None
        if vectors:
            self.dim += vectors.dim
            sizes.append((1, vectors.dim))
        if words and (settings.word_dim or is_offset):
            dim = vectors.dim if is_offset else settings.word_dim
            self.words = LearntWords(words, dim, settings.emb_lr_factor, is_offset)
            self.words.embedding.weight.stop_gradient = is_offset and not trainable
            self.dim += 0 if is_offset else dim
        self.characters = LearntCharacters() if settings.char_cnn else None
        self.dim += CHAR_CNN.projection_dim * settings.char_cnn
        self.statistics = nn.LayerList(_Statistics(*size) for size in sizes if standardised)
        if not self.dim:
            raise UserError(
                "the network has no input. Set `elmo`, `word_vectors`, `word_dim` or `char_cnn`."
            )

    def cache(self, rows: Iterable[Rows], progress: bool) -> None:
        """Compute what a frozen ELMo gives for rows that recur in every epoch."""
        if self.elmo and not self.elmo.trainable:
            sentences = (
                s for part in rows for row in (part.sentences or [part.tokens]) for s in row
            )
            self.elmo.cache(sentences, self.settings.cache_gb, progress)

    def tune(self, word_dropout: float = 0.0, layer_dropout: float = 0.0) -> None:
        """From now on, train all that the settings say, with these rates of dropout in the biLM, see `elmo.ELMo`."""
        if self.words:
            self.words.embedding.weight.stop_gradient = False
        if self.elmo and self.settings.elmo_trainable:
            self.elmo.fine_tune(word_dropout, layer_dropout)

    def forward(self, rows: Rows) -> TokenVectors:
        mask, outputs, elmo_output = to_tensor(rows.mask), [], None
        fixed = self._fixed(rows)
        if self.elmo:
            layers, keep = fixed.pop(0), 1.0 if self.pool else mask.unsqueeze(-1)
            for k, place in enumerate(self.elmo_at):
                mixed = self.mixes[k](layers) if self.mixes else paddle.concat(layers, axis=-1)
                x = nn.functional.dropout(
                    mixed * keep, self.settings.elmo_dropout, training=self.training
                )
                if place == "input":
                    outputs.append(x)
                else:
                    elmo_output = x
        others = [layers[0] for layers in fixed]
        if self.words:
            x = self._pooled(self.words(rows), mask)
            others[-1:] = [others[-1] + x] if self.words.is_offset else [*others[-1:], x]
        if self.characters:
            others.append(self._pooled(self.characters(rows), mask))
        if others:
            x = paddle.concat(others, axis=-1)
            outputs.append(nn.functional.dropout(x, self.dropout, training=self.training))
        x = paddle.concat(outputs, axis=-1) if outputs else paddle.zeros([*mask.shape, 0])
        if not self.pool:
            x = x * mask.unsqueeze(-1)
        return TokenVectors(x, elmo_output, mask)

    def _fixed(self, rows: Rows, standardised: bool = True) -> list[list[paddle.Tensor]]:
        """The layers of ELMo, and the file's vectors as a list of one, if there are these: (B, T, D) or, pooled, (B, D)."""
        sources = [self._elmo_layers(rows)] if self.elmo else []
        if self.vectors:
            sources.append(
                [self._pooled(to_tensor(self.vectors.lookup(rows)), to_tensor(rows.mask))]
            )
        if self.statistics and standardised:
            sources = [part(layers) for part, layers in zip(self.statistics, sources, strict=True)]
        return sources

    def _elmo_layers(self, rows: Rows) -> list[paddle.Tensor]:
        if not rows.lengths.any():
            shape = [len(rows.tokens), *([] if self.pool else [1]), self.elmo.layer_dim]
            return [paddle.zeros(shape)] * self.elmo.choice.n_layers
        if rows.sentences is None:
            layers, mask = self.elmo.layers(rows.tokens)
            return layers if self.elmo.pool else [self._pooled(x, mask) for x in layers]
        numbers: dict[tuple[str, ...], int] = {}
        places = [
            [numbers.setdefault(tuple(sentence), len(numbers)) for sentence in row]
            for row in rows.sentences
        ]
        layers, mask = self.elmo.layers(list(numbers))  # (S, W, 2P)
        width, index = mask.shape[1], []
        for row, sentences, positions in zip(places, rows.sentences, rows.positions, strict=True):
            flat = [k * width + np.arange(len(s)) for k, s in zip(row, sentences, strict=True)]
            index.append(np.concatenate([np.zeros(0, np.int64), *flat])[positions])
        padded = rows.padded(index)
        return [rows.gathered(x.reshape([-1, x.shape[-1]]), padded) for x in layers]

    def _pooled(self, x: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        """The mean over the tokens, if the network reads means."""
        if not self.pool:
            return x
        return (x * mask.unsqueeze(-1)).sum(axis=1) / mask.sum(axis=1, keepdim=True).clip(1)

    @paddle.no_grad()
    def standardise(self, batches: Iterable[Rows]) -> None:
        """Set the statistics of ELMo's layers and the file's vectors to those of tokens or, if pooled, of rows' means."""
        totals = [
            np.zeros((3, *part.mean.shape)) for part in self.statistics
        ]  # number, sum, sum of squares
        for rows in batches:
            for layers, total in zip(self._fixed(rows, standardised=False), totals, strict=True):
                x = np.stack([layer.numpy() for layer in layers]).astype(np.float64)
                if not self.pool:
                    x = x[:, rows.mask > 0]  # (L, n, D)
                total += np.stack(
                    [np.full_like(total[0], x.shape[1]), x.sum(axis=1), (x**2).sum(axis=1)]
                )
        for part, (number, sums, squares) in zip(self.statistics, totals, strict=True):
            mean = sums / np.maximum(number, 1)
            variance = np.maximum(squares / np.maximum(number, 1) - mean**2, 0)
            part.mean.set_value(mean.astype(np.float32))
            part.deviation.set_value((np.sqrt(variance) + 1e-6).astype(np.float32))

    def penalty(self) -> paddle.Tensor:
        """The penalty on the weights of mixed layers, which pulls these towards equal ones."""
        return self.settings.elmo_l2_coef * sum(
            ((mix.scalars**2).sum() for mix in self.mixes), paddle.zeros([])
        )


class _Statistics(nn.Layer):
    """Standardises layers (..., D) by their means and deviations in the training data."""

    def __init__(self, n_layers: int, dim: int):
        super().__init__()
        self.register_buffer("mean", paddle.zeros([n_layers, dim]))
        self.register_buffer("deviation", paddle.ones([n_layers, dim]))

    def forward(self, layers: Sequence[paddle.Tensor]) -> list[paddle.Tensor]:
        return [(x - self.mean[k]) / self.deviation[k] for k, x in enumerate(layers)]
