"""Encoding any number of sentences with a biLM: the base of `ELMo` and `ELMoEmbedder`."""

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.encoding.layers import (
    EncodedBatch,
    EncodingRequest,
    LayerChoice,
    Layers,
    layer_choice,
)
from elmo_core.encoding.token_tables import OOVCounter, TokenTable
from elmo_core.kernels import precision
from elmo_core.machine import runtime
from elmo_core.machine.runtime import paddle
from elmo_core.network.bilm import BiLM
from elmo_core.network.lstmp import BiLMState, Packing, map_state
from elmo_core.text.batches import sentence_batches
from elmo_core.text.vocabulary import Vocabulary

TOKENS_PER_ROW = 64  # a batch holds at most batch_size * 64 tokens: longer sentences, fewer rows


def run_sentences(
    bilm: BiLM,
    vectors: paddle.Tensor,
    index: np.ndarray,
    lengths: np.ndarray,
    choice: LayerChoice,
    state: BiLMState | None = None,
    dropout: float = 0.0,
    read_final_marker: bool = False,
) -> tuple[EncodedBatch, BiLMState]:
    """Compute the chosen layers of sentences `<S> w1 .. wn </S>`, and the final state of each.

    vectors: (N, P) token vectors; index: (B, T) indices into them; lengths: (B,), markers included.
    Output step k of either direction is its k-th word (1 .. n), counted from where it starts.
    read_final_marker: by each direction, which in pretraining only predicts it.
    """
    packing = Packing.from_lengths(lengths if read_final_marker else lengths - 1)
    forward = index[packing.row, packing.step]
    backward = index[packing.row, lengths[packing.row] - 1 - packing.step]
    layers, state = bilm.lstm_layers(
        vectors,
        indices=(forward, backward),
        packing=packing,
        state=state,
        dropout=dropout,
        max_layer=choice.max_layer,
    )
    return EncodedBatch(choice.select(layers), packing, lengths - 2), state


class Encoder:
    """Reads sentences with a biLM, and returns the layers that were chosen."""

    bilm: BiLM
    vocabulary: Vocabulary | None
    config: ELMoConfig
    choice: LayerChoice
    pool: str | None
    layer_dim: int  # 2P
    dim: int  # of what is returned for each token
    _oov_counter: OOVCounter
    batch_size = 128
    precision = "float32"

    def _set_bilm(
        self,
        bilm: BiLM,
        vocabulary: Vocabulary | None,
        layers: Layers,
        allowed: Sequence[str],
        pool: str | None,
    ) -> None:
        """Set the biLM and the layers that are read. allowed: see `layer_choice`."""
        self.bilm = bilm
        self.vocabulary = vocabulary
        self.config = bilm.config
        self.choice = layer_choice(layers, bilm.config.n_layers + 1, allowed)
        self.pool = pool
        self.layer_dim = 2 * bilm.config.projection_dim
        self.dim = self.layer_dim
        if self.choice.how == "concat":
            self.dim = self.layer_dim * self.choice.n_layers
        self._oov_counter = OOVCounter(bilm.config, vocabulary)

    @property
    def oov_share(self) -> float:
        """Return the fraction of the tokens so far that are outside the table of words.

        It is 0 for models without such a table.
        """
        return self._oov_counter.unknown / max(1, self._oov_counter.total)

    def encode_batches(
        self,
        sentences: Iterable[Sequence[str]],
        request: EncodingRequest,
        table: TokenTable,
        device: str,
        window: float | None = None,
    ) -> Iterator[tuple[np.ndarray, list[Any]]]:
        """Encode sentences, and yield per batch their positions and the results that are asked for.

        window: see `sentence_batches`.
        """
        table.refresh()
        state = None
        n = request.rows or self.batch_size
        if request.carry_state:
            batches = _in_order(sentences, n)
            with runtime.on_device(device):
                state = self.bilm.zero_state(n)
        else:
            batches = sentence_batches(sentences, n, n * TOKENS_PER_ROW, window)
        for positions, group in batches:
            self._oov_counter.update(list(itertools.chain.from_iterable(group)))
            with precision.inference(device, self.precision, request.tf32):
                if state:  # the last batch may have fewer rows
                    rows = slice(len(group))
                    state = map_state(operator.itemgetter(rows), state)
                vectors, index, lengths = table(group)
                batch, final = run_sentences(
                    self.bilm,
                    vectors,
                    index=index,
                    lengths=lengths,
                    choice=request.choice,
                    state=state,
                    read_final_marker=request.read_final_marker,
                )
                state = final if request.carry_state else None
                results = list(request.results(batch, group))
                del batch, final  # before the next batch is computed
            yield positions, results


def _in_order(
    sentences: Iterable[Sequence[str]], n: int
) -> Iterator[tuple[np.ndarray, list[Sequence[str]]]]:
    """Yield n sentences at a time, and their positions."""
    stream = iter(sentences)
    begin = 0
    while True:
        group = list(itertools.islice(stream, n))
        if not group:
            return
        yield begin + np.arange(len(group)), group
        begin += len(group)
