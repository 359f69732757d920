"""The tagger's network: the inputs' vectors, a bidirectional GRU, optionally ELMo again, emissions, and a CRF.

Letters: B sentences, T tokens, K labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from elmo_core.config import MAX_SIZE
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.settings import setting
from elmo_tasks.inputs import Rows, TokenInputs
from elmo_tasks.records import Label
from elmo_tasks.settings import FILE, LIST_OR_FILE, ELMoSettings, TextSettings, TrainingSettings, WordSettings, default
from elmo_tasks.tagging.crf import LinearChainCRF
from elmo_tasks.tagging.scheme import SCHEMES, forbidden_transitions

nn = paddle.nn

FORMATS = ("columns", "conllu", "json", "jsonl", "tagged", "segmented")


@dataclass(frozen=True, kw_only=True)
class TaggerSettings(TrainingSettings, WordSettings, ELMoSettings, TextSettings):
    """Settings of a tagger: its data, its network, and their training."""

    data_format: Literal["", "columns", "conllu", "json", "jsonl", "tagged", "segmented"] = setting(
        "", "of the files (default: by their ending, else columns)", choices=("", *FORMATS), group="data"
    )
    columns: str | Sequence[str | int] | None = setting(
        None,
        "columns of the tokens and the labels: numbers, from 0 or, negative, from the end; or keys of JSON (default: 0,-1; "
        "of CoNLL-U 1,3; of JSON tokens and labels, ner_tags, ...)",
        of=LIST_OR_FILE,
        group="data",
        metavar="TOKEN,LABEL",
    )
    pieces: str | Path | None = setting(
        None, "vocabulary whose entries the words of `word/TAG` are split into", of=FILE, group="data", metavar="FILE"
    )
    scheme: Literal["auto", "bio", "iob1", "bioes", "plain", "lac"] = setting(
        "auto", "scheme of the labels; auto: detected", choices=("auto", *SCHEMES), group="data"
    )
    unit: Literal["token", "jieba"] = setting(
        "token",
        "what ELMo and the word vectors look up: the token itself, or the jieba word that contains it",
        choices=("token", "jieba"),
        needs="elmo or word_vectors",
        group="data",
    )
    elmo_at: Literal["input", "output", "both"] = setting(
        "input", "where the network reads ELMo", choices=("input", "output", "both"), needs="elmo", group="ELMo"
    )
    emb_lr_factor: float = default(WordSettings, "emb_lr_factor", 2.5)
    hidden_dim: int = setting(256, "size of a GRU", below=MAX_SIZE, minimum=1)
    n_layers: int = setting(2, "bidirectional layers", below=101, minimum=1)
    dropout: float = setting(0.5, "dropout of the network", below=1)


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
        self.recurrent = nn.GRU(inputs.dim, hidden, settings.n_layers, direction="bidirect", dropout=settings.dropout)
        at_output = inputs.elmo_dim if "output" in inputs.elmo_at else 0
        self.emission = nn.Linear(2 * hidden + at_output, len(labels))
        self.crf = LinearChainCRF(*forbidden_transitions(labels, settings.scheme))
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, rows: Rows) -> paddle.Tensor:
        """Emissions (B, T, K). A sentence's do not depend on the rest of the batch."""
        vectors = self.inputs(rows)
        x, _ = self.recurrent(vectors.x, sequence_length=to_tensor(rows.lengths.clip(1)))
        x = self.dropout(x)
        return self.emission(x if vectors.elmo is None else paddle.concat([x, vectors.elmo], axis=-1))

    def loss(self, batch: Batch) -> paddle.Tensor:
        """Mean negative log-likelihood of the sentences' labels, plus ELMo's penalty."""
        loss = self.crf(self(batch.rows), batch.labels, batch.rows.lengths).mean()
        return loss + self.inputs.penalty().astype(loss.dtype)
