"""Encoding any number of sentences with a biLM: the base of `ELMo` and `ELMoEmbedder`."""

import itertools
import math
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
from elmo_core.encoding.pooling import pooled_dim
from elmo_core.encoding.token_tables import OOVCounter, TokenTable
from elmo_core.kernels import precision
from elmo_core.machine import runtime
from elmo_core.machine.runtime import paddle
from elmo_core.network.bilm import BiLM
from elmo_core.network.lstmp import BiLMState, Packing, map_state
from elmo_core.network.start_state import StartState
from elmo_core.text.batches import sentence_batches
from elmo_core.text.lexicon import token_batch
from elmo_core.text.vocabulary import Vocabulary

TOKENS_PER_ROW = 64  # a batch holds at most batch_size * 64 tokens: longer sentences, fewer rows
# of the text over which `mean_start_state` takes the mean
START_SENTENCES = 256
START_STEPS = 8  # sentences that a row reads, one after another
START_TOKENS = 100  # of a sentence, counted from its end


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


def mean_start_state(
    bilm: BiLM, vocabulary: Vocabulary, sentences: Iterable[Sequence[str]]
) -> StartState | None:
    """Return the mean of the states behind the first sentences of a text; None if it has none.

    Each row reads one sentence after another, from the state behind the one before.
    """
    ends = (sentence[-START_TOKENS:] for sentence in sentences if len(sentence))
    read = list(itertools.islice(ends, START_SENTENCES))
    if not read:
        return None
    n_rows = math.ceil(len(read) / START_STEPS)
    choice = LayerChoice("each", [bilm.config.n_layers])
    states = []
    state = bilm.zero_state(n_rows)
    with paddle.no_grad(), precision.only("float32"):
        for _, group in _in_order(read, n_rows):
            batch = token_batch(group, bilm.config.input, vocabulary)
            _, state = run_sentences(
                bilm,
                bilm.token_encoder(batch.tokens),
                index=batch.index,
                lengths=batch.lengths,
                choice=choice,
                state=_first_rows(state, len(group)),
            )
            states.append(state)
    # behind their first sentence, the rows still come from the zero state
    return StartState.mean(states[1:] or states)


class Encoder:
    """Reads sentences with a biLM, and returns the layers that were chosen."""

    bilm: BiLM
    vocabulary: Vocabulary | None
    config: ELMoConfig
    choice: LayerChoice
    pool: str | None
    layer_dim: int  # 2P, or of a pooled layer
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
        self.layer_dim = pooled_dim(2 * bilm.config.projection_dim, pool)
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
                vectors, index, lengths = table(group)
                if state:  # the last batch may have fewer rows
                    state = _first_rows(state, len(group))
                elif request.start:
                    state = request.start.rows(len(group), vectors.dtype)
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


def _first_rows(state: BiLMState, n: int) -> BiLMState:
    return map_state(operator.itemgetter(slice(n)), state)


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
