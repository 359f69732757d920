"""The tagger's network: word vectors, with ELMo's beside them, two bidirectional GRU layers, emissions, and a CRF.

Letters: B sentences, T pieces, K labels.
"""

from collections.abc import Sequence

import numpy as np
import root  # noqa: F401
from bilm import elmo_encoder, init_pretraining_params
from crf import LinearChainCRF
from reader import Batch, Labels
from settings import Settings

from elmo_core.runtime import paddle

nn = paddle.nn


class LexNet(nn.Layer):
    """pretrained: the checkpoint of the biLM, where there is one."""

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
        x = self.input(batch.pieces, batch.ids)
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
