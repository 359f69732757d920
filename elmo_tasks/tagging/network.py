"""The tagger's network: word vectors, with ELMo's and others beside them, bidirectional GRU or LSTM layers, perhaps ELMo
again, emissions, and a CRF.

Letters: B sentences, T tokens, K labels.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from elmo_core.network.char_cnn import CharCNN
from elmo_core.text.characters import CharTable
from elmo_core.text.tokens import Tokens, padded
from elmo_tasks.elmo_input import elmo_encoder, init_pretraining_params
from elmo_tasks.saved import checked_settings
from elmo_tasks.tagging.crf import LinearChainCRF
from elmo_tasks.tagging.data import Batch, Labels
from elmo_tasks.word_vectors import WordVectors

nn = paddle.nn

CHAR_CNN = ELMoConfig(filters=((2, 32), (3, 64), (4, 64)), n_highway=0, projection_dim=160)  # of the tagger's own
FEATURE_DIM = 16  # of the vector of a feature
MAX_PLACE = 4  # characters further back in their word count as at this place


@dataclass(frozen=True)
class Settings:
    """Settings of the network. The learning rates are factors of the optimizer's."""

    use_elmo: bool = True
    word_emb_dim: int = 128
    grnn_hidden_dim: int = 256
    bigru_num: int = 2
    dropout: float = 0.5
    emb_learning_rate: float = 2.5
    crf_learning_rate: float = 0.2
    elmo_l2_coef: float = 0.001
    elmo_dropout: float = 0.5
    elmo_trainable: bool = False
    elmo_learning_rate: float = 0.1
    cell: str = "gru"  # or lstm
    char_cnn: bool = False
    place_dim: int = 0  # size of the vector of a character's place in its word; 0: none
    elmo_at: str = "input"  # output, or input,output
    layers: str = "all"  # of ELMo
    word_vectors_trainable: bool = False
    random_weights: str = ""  # all, or lstm: those of ELMo's weights that were not pretrained
    words: str = "tokens"  # what ELMo and the word vectors read; jieba: the words that it finds in characters

    def to_dict(self) -> dict:
        """Without later fields at their defaults, so that versions before them can read it."""
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if name not in LATER or value != getattr(Settings, name)}

    @classmethod
    def from_dict(cls, values: dict, source: Path) -> "Settings":
        """From what `to_dict` has made. source: the file that holds them, for messages."""
        if isinstance(values, dict):
            values = {**{name: getattr(cls, name) for name in LATER}, **values}
        settings = checked_settings(cls, values, "tagger", source)
        for name, choices in CHOICES.items():
            if (value := getattr(settings, name)) not in choices:
                raise UserError(f"{source}: tagger.{name} is {value!r:.80}, expected one of {choices}.")
        return settings


LATER = (
    "cell",
    "char_cnn",
    "place_dim",
    "elmo_at",
    "layers",
    "word_vectors_trainable",
    "random_weights",
    "words",
)  # which the first taggers did not have
CHOICES = {
    "cell": ("gru", "lstm"),
    "elmo_at": ("input", "output", "input,output"),
    "random_weights": ("", "all", "lstm"),
    "words": ("tokens", "jieba"),
}


class BiGRUCRF(nn.Layer):
    """pretrained: the checkpoint of the biLM, where there is one. vectors: word vectors of a file, fixed or, where
    settings.word_vectors_trainable, with a change for each word of the training data that is learnt. features: the
    values of the tokens' features, if they have any.
    """

    def __init__(
        self,
        settings: Settings,
        n_words: int,
        labels: Labels,
        pretrained: str | None = None,
        vectors: WordVectors | None = None,
        features: Sequence[str] = (),
    ):
        super().__init__()
        self.settings, self.vectors, self.encoder = settings, vectors, None
        self.elmo_at = settings.elmo_at.split(",") if settings.use_elmo else []
        rate = paddle.ParamAttr(initializer=nn.initializer.Uniform(-0.1, 0.1), learning_rate=settings.emb_learning_rate)
        self.word_embedding = nn.Embedding(n_words, settings.word_emb_dim, weight_attr=rate)
        width = settings.word_emb_dim + (vectors.dim if vectors else 0) + settings.place_dim
        if settings.char_cnn:
            self.char_cnn = CharCNN(CHAR_CNN)
            width += CHAR_CNN.projection_dim
        if settings.word_vectors_trainable:
            zero = paddle.ParamAttr(initializer=nn.initializer.Constant(0.0))
            self.vector_change = nn.Embedding(n_words, vectors.dim, weight_attr=zero)
        self.features = {value: number for number, value in enumerate(features, 1)}  # 0: any other
        if features:
            self.feature_embedding = nn.Embedding(len(features) + 1, FEATURE_DIM)
            width += FEATURE_DIM
        if settings.place_dim:
            self.place_embedding = nn.Embedding(MAX_PLACE + 2, settings.place_dim)
        if settings.use_elmo:
            self.encoder = elmo_encoder(
                settings.elmo_l2_coef,
                settings.elmo_dropout,
                settings.elmo_trainable,
                len(self.elmo_at),
                settings.layers,
                settings.words,
            )
            init_pretraining_params(self.encoder, pretrained)
            width += self.encoder.dim * ("input" in self.elmo_at)
            for weight in self.encoder.elmo.bilm.parameters():
                weight.optimize_attr["learning_rate"] = settings.elmo_learning_rate
        hidden = settings.grnn_hidden_dim
        cell = nn.LSTM if settings.cell == "lstm" else nn.GRU
        layers = cell(width, hidden, settings.bigru_num, direction="bidirect", dropout=settings.dropout)
        setattr(self, settings.cell, layers)
        width = 2 * hidden + (self.encoder.dim if "output" in self.elmo_at else 0)
        self.emission = nn.Linear(width, len(labels))
        self.crf = LinearChainCRF(len(labels), *labels.impossible(), settings.crf_learning_rate)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, batch: Batch) -> paddle.Tensor:
        """Emissions (B, T, K). Those of a sentence do not depend on its batch."""
        elmo = self.encoder.mixes(self.encoder.map_words(batch.tokens)) if self.encoder else []
        elmo = dict(zip(self.elmo_at, elmo, strict=True))
        x = self.inputs(batch)
        if "input" in elmo:
            x = paddle.concat([elmo["input"], x], axis=-1)
        layers = getattr(self, self.settings.cell)
        x, _ = layers(x, sequence_length=paddle.to_tensor(batch.lengths))
        x = self.dropout(x)
        if "output" in elmo:
            x = paddle.concat([x, elmo["output"]], axis=-1)
        return self.emission(x)

    def inputs(self, batch: Batch) -> paddle.Tensor:
        """All but ELMo, (B, T, D)."""
        found = [self.word_embedding(paddle.to_tensor(batch.ids))]
        if self.vectors:
            vectors = paddle.to_tensor(self.vectors.batch(batch.tokens, self.settings.words))
            if self.settings.word_vectors_trainable:
                vectors = vectors + self.vector_change(paddle.to_tensor(batch.ids))
            found.append(vectors)
        if self.settings.char_cnn:
            found.append(self._char_features(batch))
        if self.features:
            numbers = [self.features.get(getattr(t, "feature", ""), 0) for sentence in batch.tokens for t in sentence]
            numbers = padded(np.array(numbers, dtype=np.int64), batch.lengths, batch.ids.shape[1])
            found.append(self.feature_embedding(paddle.to_tensor(numbers)))
        if self.settings.place_dim:
            found.append(self.place_embedding(paddle.to_tensor(np.minimum(batch.places, MAX_PLACE + 1))))
        return self.dropout(paddle.concat(found, axis=-1))

    def _char_features(self, batch: Batch) -> paddle.Tensor:
        """What the character CNN says of the tokens, each of which it reads once. (B, T, D)"""
        place: dict[str, int] = {}
        numbers = [place.setdefault(token, len(place)) for sentence in batch.tokens for token in sentence]
        table = CharTable(place)
        order = np.argsort(table.lengths, kind="stable")
        features = self.char_cnn(Tokens(table.rows(order), table.lengths[order].astype(np.int32)))  # (N, D)
        rows = padded(np.argsort(order)[numbers], batch.lengths, batch.ids.shape[1])
        found = paddle.gather(features, paddle.to_tensor(rows.ravel()))
        return found.reshape([*rows.shape, features.shape[1]])

    def loss(self, batch: Batch) -> paddle.Tensor:
        """The mean over the sentences, with ELMo's penalty."""
        loss = self.crf(self(batch), batch.labels, batch.lengths).mean()
        return loss if self.encoder is None else loss + self.encoder.l2_loss().astype(loss.dtype)

    def decode(self, batch: Batch) -> list[np.ndarray]:
        """The numbers of every sentence's labels."""
        with paddle.no_grad():
            return self.crf.decode(self(batch), batch.lengths)
