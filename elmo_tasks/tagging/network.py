"""The tagger's network: the inputs, a bidirectional GRU, optionally ELMo again, emissions, a CRF.

Letters: B sentences, T tokens, K labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.machine.runtime import paddle, to_tensor
from elmo_tasks.inputs import Rows, TokenInputs
from elmo_tasks.records import Label
from elmo_tasks.tagging.crf import LinearChainCRF
from elmo_tasks.tagging.scheme import forbidden_transitions
from elmo_tasks.tagging.settings import TaggerSettings

nn = paddle.nn


@dataclass
class Batch:
    """B sentences of at most T tokens.

    labels: their ids (B, T) int64, padding is 0. penalties: (B, T, K), added to the emissions.
    """

    rows: Rows
    labels: np.ndarray | None = None
    penalties: np.ndarray | float = 0.0


class TaggerNetwork(nn.Layer):
    """Maps sentences to emission scores and these to labels."""

    def __init__(self, settings: TaggerSettings, inputs: TokenInputs, labels: Sequence[Label]):
        super().__init__()
        self.inputs = inputs
        self.recurrent = nn.GRU(
            inputs.dim,
            settings.hidden_dim,
            num_layers=settings.n_layers,
            direction="bidirect",
            dropout=settings.dropout,
        )
        dim = 2 * settings.hidden_dim
        if "output" in inputs.elmo_at:
            dim += inputs.elmo_dim
        self.emission = nn.Linear(dim, len(labels))
        forbidden, forbidden_last = forbidden_transitions(labels, settings.scheme)
        self.crf = LinearChainCRF(forbidden, forbidden_last)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, rows: Rows) -> paddle.Tensor:
        """Emissions (B, T, K). A sentence's do not depend on the rest of the batch."""
        vectors = self.inputs(rows)
        x, _ = self.recurrent(vectors.x, sequence_length=to_tensor(rows.lengths.clip(1)))
        x = self.dropout(x)
        if vectors.elmo is not None:
            x = paddle.concat([x, vectors.elmo], axis=-1)
        return self.emission(x)

    def loss(self, batch: Batch) -> paddle.Tensor:
        """Mean negative log-likelihood of the sentences' labels, plus ELMo's penalty."""
        loss = self.crf(self(batch.rows), batch.labels, batch.rows.lengths).mean()
        return loss + self.inputs.penalty().astype(loss.dtype)
