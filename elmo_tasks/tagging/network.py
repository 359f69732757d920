"""The tagger's network: word vectors concatenated with ELMo and other features, a bidirectional GRU or LSTM, optionally
ELMo again, emissions, and a CRF.

Letters: B sentences, T tokens, K labels, D dimensions of a feature.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from elmo import ELMo
from elmo_core.config import MAX_SIZE, ELMoConfig
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.network.char_cnn import CharCNN
from elmo_core.settings import setting
from elmo_core.text.characters import CharTable
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.tokenise import LANGUAGES
from elmo_core.text.tokens import Tokens, pad_rows
from elmo_tasks.pretrained import ELMoSettings
from elmo_tasks.tagging.crf import LinearChainCRF
from elmo_tasks.tagging.data import Batch, Labels
from elmo_tasks.tagging.scheme import SCHEMES, forbidden_transitions
from elmo_tasks.word_vectors import WordVectors

nn = paddle.nn

CHAR_CNN = ELMoConfig(filters=((2, 32), (3, 64), (4, 64)), n_highway=0, projection_dim=160)  # trained with the tagger
FEATURE_DIM = 16  # dimensions of a column's embedding
POSITION_DIM = 16  # dimensions of the embedding of positions in a word
MAX_POSITION = 4  # positions in a word are clipped to this


@dataclass(frozen=True)
class TaggerSettings(ELMoSettings):
    """Settings of tokens and labels, and of the network."""

    scheme: str = setting("bio", "scheme of the labels", choices=SCHEMES)
    segmentation: str = setting(
        "none",
        "for tokens like 科0 技1 (character + index in its word): drop the index, or use it as a feature",
        choices=("none", "strip", "feature"),
    )
    lang: str = setting("en", "how raw text is tokenised", choices=LANGUAGES)
    words: str = setting(
        "tokens",
        "unit looked up by ELMo and the word vectors: the token itself, or the jieba word that contains it",
        choices=("tokens", "jieba"),
        needs="elmo or word_vectors",
    )
    elmo_at: str = setting(
        "input", "where the network reads ELMo", choices=("input", "output", "input,output"), needs="elmo"
    )
    word_dim: int = setting(128, "size of the word embeddings that are trained with the task", below=MAX_SIZE)
    word_vectors_trainable: bool = setting(False, "fine-tune the word vectors", needs="word_vectors")
    char_cnn: bool = setting(False, "add a character CNN, trained with the tagger")
    cell: str = setting("gru", "type of the recurrent layers", choices=("gru", "lstm"))
    hidden_dim: int = setting(256, "size of a GRU or LSTM", below=MAX_SIZE)
    n_layers: int = setting(2, "bidirectional layers", below=101)
    dropout: float = setting(0.5, "dropout of the network", below=1)
    emb_lr_factor: float = setting(2.5, "learning rate of the word embeddings, relative to the learning rate", above=0)
    crf_lr_factor: float = setting(0.2, "learning rate of the CRF, relative to the learning rate", above=0)


class BiGRUCRF(nn.Layer):
    """Maps sentences to emission scores and these to labels.

    elmo: with one mix for each of settings.elmo_at. vectors: word vectors of a file, fixed or, if
    settings.word_vectors_trainable, plus a trained offset for each training word. features: the values of the tokens'
    feature column, if any. segment: finds the words if settings.words is jieba.
    """

    def __init__(
        self,
        settings: TaggerSettings,
        n_words: int,
        labels: Labels,
        elmo: ELMo | None = None,
        vectors: WordVectors | None = None,
        features: Sequence[str] = (),
        segment: Segmenter | None = None,
    ):
        super().__init__()
        self.settings, self.vectors, self.segment = settings, vectors, segment
        self.elmo_at = settings.elmo_at.split(",") if elmo else []
        self.feature_numbers = {value: number for number, value in enumerate(features, 1)}  # 0: unknown
        rate = paddle.ParamAttr(initializer=nn.initializer.Uniform(-0.1, 0.1), learning_rate=settings.emb_lr_factor)
        self.word_embedding = nn.Embedding(n_words, settings.word_dim, weight_attr=rate)
        dims = {self._word_embeddings: settings.word_dim}
        if vectors:
            dims[self._word_vectors] = vectors.dim
        if settings.char_cnn:
            self.char_cnn = CharCNN(CHAR_CNN)
            dims[self._char_features] = CHAR_CNN.projection_dim
        if settings.word_vectors_trainable:
            zero = paddle.ParamAttr(initializer=nn.initializer.Constant(0.0))
            self.vector_change = nn.Embedding(n_words, vectors.dim, weight_attr=zero)
        if features:
            self.feature_embedding = nn.Embedding(len(features) + 1, FEATURE_DIM)
            dims[self._features] = FEATURE_DIM
        if settings.segmentation == "feature":
            self.position_embedding = nn.Embedding(MAX_POSITION + 2, POSITION_DIM)
            dims[self._positions] = POSITION_DIM
        self.inputs = list(dims)  # methods, each from a batch to its features (B, T, D)
        self.elmo = elmo
        hidden, cell = settings.hidden_dim, {"gru": nn.GRU, "lstm": nn.LSTM}[settings.cell]
        width = sum(dims.values()) + (elmo.dim if "input" in self.elmo_at else 0)
        layers = cell(width, hidden, settings.n_layers, direction="bidirect", dropout=settings.dropout)
        setattr(self, settings.cell, layers)
        self.emission = nn.Linear(2 * hidden + (elmo.dim if "output" in self.elmo_at else 0), len(labels))
        self.crf = LinearChainCRF(*forbidden_transitions(labels, settings.scheme), settings.crf_lr_factor)
        self.dropout = nn.Dropout(settings.dropout)

    @property
    def recurrent(self) -> nn.GRU | nn.LSTM:
        return getattr(self, self.settings.cell)

    def forward(self, batch: Batch) -> paddle.Tensor:
        """Emissions (B, T, K). A sentence's do not depend on the rest of the batch."""
        elmo = dict(zip(self.elmo_at, self._elmo(batch.tokens) if self.elmo else [], strict=True))
        x = self.token_features(batch)
        if "input" in elmo:
            x = paddle.concat([elmo["input"], x], axis=-1)
        x, _ = self.recurrent(x, sequence_length=to_tensor(batch.lengths))
        x = self.dropout(x)
        if "output" in elmo:
            x = paddle.concat([x, elmo["output"]], axis=-1)
        return self.emission(x)

    def _elmo(self, sentences: Sequence[Sequence[str]]) -> list[paddle.Tensor]:
        """ELMo's output (B, T, D) for each of elmo_at."""
        if not self.segment:
            return self.elmo(sentences)[0]
        words, word_index = self.segment.words_of(sentences)
        layers, word_mask = self.elmo.layers(words)  # (B, W, 2P), (B, W)
        lengths = np.array(list(map(len, word_index)))
        starts = word_mask.shape[1] * np.repeat(np.arange(len(word_index)), lengths)
        rows = pad_rows(starts + np.concatenate(word_index), lengths, lengths.max())  # (B, T) into (B * W, 2P)
        index, shape = to_tensor(rows.ravel()), [*rows.shape, self.elmo.layer_dim]
        layers = [paddle.gather(x.reshape([-1, shape[-1]]), index).reshape(shape) for x in layers]
        return self.elmo.mixed(layers, to_tensor((np.arange(rows.shape[1]) < lengths[:, None]).astype(np.float32)))

    def token_features(self, batch: Batch) -> paddle.Tensor:
        """All inputs except ELMo, concatenated, with dropout. (B, T, D)"""
        return self.dropout(paddle.concat([compute(batch) for compute in self.inputs], axis=-1))

    def _word_embeddings(self, batch: Batch) -> paddle.Tensor:
        return self.word_embedding(to_tensor(batch.ids))

    def _word_vectors(self, batch: Batch) -> paddle.Tensor:
        vectors = to_tensor(self.vectors.lookup(batch.tokens, self.segment))
        if self.settings.word_vectors_trainable:
            vectors = vectors + self.vector_change(to_tensor(batch.ids))
        return vectors

    def _features(self, batch: Batch) -> paddle.Tensor:
        numbers = _padded(batch, lambda token: self.feature_numbers.get(getattr(token, "feature", ""), 0))
        return self.feature_embedding(numbers)

    def _positions(self, batch: Batch) -> paddle.Tensor:
        positions = _padded(batch, lambda token: min(getattr(token, "position_in_word", -1), MAX_POSITION) + 1)
        return self.position_embedding(positions)  # 0: unknown

    def _char_features(self, batch: Batch) -> paddle.Tensor:
        """Character-CNN features (B, T, D), computed once per distinct token."""
        row_of: dict[str, int] = {}
        numbers = [row_of.setdefault(token, len(row_of)) for sentence in batch.tokens for token in sentence]
        table = CharTable(row_of)
        order = np.argsort(table.lengths, kind="stable")
        features = self.char_cnn(Tokens(table.rows(order), table.lengths[order].astype(np.int32)))  # (N, D)
        rows = pad_rows(np.argsort(order)[numbers], batch.lengths, batch.ids.shape[1])
        return paddle.gather(features, to_tensor(rows.ravel())).reshape([*rows.shape, features.shape[1]])

    def loss(self, batch: Batch) -> paddle.Tensor:
        """Mean loss of the sentences, plus ELMo's penalty."""
        loss = self.crf(self(batch), batch.labels, batch.lengths).mean()
        return loss if self.elmo is None else loss + self.elmo.l2_loss().astype(loss.dtype)

    def decode(self, batch: Batch) -> tuple[list[np.ndarray], np.ndarray]:
        """The label ids of each sentence, and the emissions (B, T, K)."""
        emissions = self(batch)
        return self.crf.decode(emissions, batch.lengths), emissions.numpy()


def _padded(batch: Batch, number: Callable[[str], int]) -> paddle.Tensor:
    """A number (B, T) of each token, int64."""
    numbers = np.array([number(token) for sentence in batch.tokens for token in sentence], np.int64)
    return to_tensor(pad_rows(numbers, batch.lengths, batch.ids.shape[1]))
