"""The tagger's network: the inputs' vectors, a bidirectional GRU, optionally ELMo again, emissions, and a CRF.

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
    """B sentences of at most T tokens. labels: their ids (B, T) int64, padding is 0."""

    rows: Rows
    labels: np.ndarray | None = None


class TaggerNetwork(nn.Layer):
    """Maps sentences to emission scores and these to labels."""

    def __init__(self, settings: TaggerSettings, inputs: TokenInputs, labels: Sequence[Label]):
        super().__init__()
        self.inputs, hidden = inputs, settings.hidden_dim
        self.recurrent = nn.GRU(
            inputs.dim, hidden, settings.n_layers, direction="bidirect", dropout=settings.dropout
        )
        at_output = inputs.elmo_dim if "output" in inputs.elmo_at else 0
        self.emission = nn.Linear(2 * hidden + at_output, len(labels))
        self.crf = LinearChainCRF(*forbidden_transitions(labels, settings.scheme))
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, rows: Rows) -> paddle.Tensor:
        """Emissions (B, T, K). A sentence's do not depend on the rest of the batch."""
        vectors = self.inputs(rows)
        x, _ = self.recurrent(vectors.x, sequence_length=to_tensor(rows.lengths.clip(1)))
        x = self.dropout(x)
        return self.emission(
            x if vectors.elmo is None else paddle.concat([x, vectors.elmo], axis=-1)
        )

    def loss(self, batch: Batch) -> paddle.Tensor:
        """Mean negative log-likelihood of the sentences' labels, plus ELMo's penalty."""
        loss = self.crf(self(batch.rows), batch.labels, batch.rows.lengths).mean()
        return loss + self.inputs.penalty().astype(loss.dtype)
