"""The tagger's network: word vectors and ELMo's, bidirectional GRU layers, emissions, and a CRF.

Letters: B sentences, T tokens, K labels.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo_core.runtime import UserError, paddle
from tasks.tagging.crf import LinearChainCRF
from tasks.tagging.data import Batch, Labels
from tasks.tagging.elmo_encoder import elmo_encoder, init_pretraining_params

nn = paddle.nn


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

    @classmethod
    def from_dict(cls, values: dict, source: str | Path) -> "Settings":
        """From what `dataclasses.asdict` has made. source: the file that holds them, for messages."""
        types = {field.name: type(field.default) for field in dataclasses.fields(cls)}
        values = values if isinstance(values, dict) else {}
        if wrong := sorted(types.keys() ^ values.keys()):
            raise UserError(f"{source}: tagger.{wrong[0]} is {'missing' if wrong[0] in types else 'not known'}.")
        for name, kind in types.items():
            value, least, limit = values[name], int(kind is int), 1 if name.endswith("dropout") else 2**31
            right_type = type(value) in ((int, float) if kind is float else (kind,))
            if not (right_type and least <= value < limit):
                raise UserError(
                    f"{source}: tagger.{name} is {value!r:.80}, expected something like {getattr(cls, name)}."
                )
        return cls(**values)


class BiGRUCRF(nn.Layer):
    """pretrained: the checkpoint of the biLM, if settings.use_elmo."""

    def __init__(self, settings: Settings, n_words: int, labels: Labels, pretrained: str | None = None):
        super().__init__()
        rate = paddle.ParamAttr(initializer=nn.initializer.Uniform(-0.1, 0.1), learning_rate=settings.emb_learning_rate)
        self.word_embedding = nn.Embedding(n_words, settings.word_emb_dim, weight_attr=rate)
        width, self.encoder = settings.word_emb_dim, None
        if settings.use_elmo:
            self.encoder = elmo_encoder(settings.elmo_l2_coef, settings.elmo_dropout, settings.elmo_trainable)
            init_pretraining_params(self.encoder, pretrained)
            width += self.encoder.dim
            for weight in self.encoder.elmo.bilm.parameters():
                weight.optimize_attr["learning_rate"] = settings.elmo_learning_rate
        hidden = settings.grnn_hidden_dim
        self.gru = nn.GRU(width, hidden, settings.bigru_num, direction="bidirect", dropout=settings.dropout)
        self.emission = nn.Linear(2 * hidden, len(labels))
        self.crf = LinearChainCRF(len(labels), labels.impossible(), settings.crf_learning_rate)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, batch: Batch) -> paddle.Tensor:
        """Emissions (B, T, K). Those of a sentence do not depend on its batch."""
        x = self.input(batch.tokens, batch.ids)
        x, _ = self.gru(x, sequence_length=paddle.to_tensor(batch.lengths))
        return self.emission(self.dropout(x))

    def input(self, words: Sequence[Sequence[str]], ids: np.ndarray) -> paddle.Tensor:
        """(B, T, D)"""
        word_embedding = self.dropout(self.word_embedding(paddle.to_tensor(ids)))
        if self.encoder is None:
            return word_embedding
        elmo_words = self.encoder.map_words(words)
        elmo_embedding = self.encoder(elmo_words)
        return paddle.concat([elmo_embedding, word_embedding], axis=-1)

    def loss(self, batch: Batch) -> paddle.Tensor:
        """The mean over the sentences, with ELMo's penalty."""
        loss = self.crf(self(batch), batch.labels, batch.lengths).mean()
        return loss if self.encoder is None else loss + self.encoder.l2_loss().astype(loss.dtype)

    def decode(self, batch: Batch) -> list[np.ndarray]:
        """The numbers of every sentence's labels."""
        with paddle.no_grad():
            return self.crf.decode(self(batch), batch.lengths)
