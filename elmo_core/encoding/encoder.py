"""Reading any number of sentences with a biLM: the base of `ELMo` and `ELMoEmbedder`."""

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.encoding.layers import Layers, Reading, layer_choice
from elmo_core.encoding.token_tables import OOVCounter, TokenTable
from elmo_core.kernels import precision
from elmo_core.machine import runtime
from elmo_core.network.lstmp import map_state
from elmo_core.text.tokens import Vocabulary, sentence_batches

TOKENS_PER_ROW = 64  # a batch holds at most batch_size * 64 tokens: longer sentences, fewer rows


class Encoder:
    """A biLM and the layers chosen of it."""

    batch_size = 128
    precision = "float32"
    vocabulary: Vocabulary | None
    config: ELMoConfig
    dim: int

    def _choose(self, model: tuple, layers: Layers, allowed: Sequence[str], pool: str | None) -> None:
        self.bilm, self.vocabulary = model
        self.config, self.pool = self.bilm.config, pool
        self.choice = layer_choice(layers, self.config.n_layers + 1, allowed)
        self.layer_dim = 2 * self.config.projection_dim
        self.dim = self.layer_dim * (self.choice.n_layers if self.choice.how == "concat" else 1)
        self._oov_counter = OOVCounter(self.config, self.vocabulary)

    @property
    def oov_share(self) -> float:
        """Return the fraction of the tokens so far that are outside the table of words; 0 for models without one."""
        return self._oov_counter.unknown / max(1, self._oov_counter.total)

    def read(
        self,
        sentences: Iterable[Sequence[str]],
        reading: Reading,
        table: TokenTable,
        device: str,
        window: float | None = None,
    ) -> Iterator[tuple[np.ndarray, list[Any]]]:
        """Yield, batch by batch, the positions of sentences and what is read of them. window: see `sentence_batches`."""
        table.refresh()
        state, n = None, reading.rows or self.batch_size
        if reading.carry_state:
            stream = iter(sentences)
            in_order = enumerate(iter(lambda: list(itertools.islice(stream, n)), []))
            batches = ((k * n + np.arange(len(group)), group) for k, group in in_order)
            with runtime.on_device(device):
                state = self.bilm.zero_state(n)
        else:
            batches = sentence_batches(sentences, n, n * TOKENS_PER_ROW, window)
        for positions, group in batches:
            self._oov_counter.update(list(itertools.chain.from_iterable(group)))
            with precision.inference(device, self.precision, reading.tf32):
                if state:  # the last batch may have fewer rows
                    state = map_state(operator.itemgetter(slice(len(group))), state)
                marker = reading.read_final_marker
                batch, final = self.bilm.sentences(*table(group), reading.choice, state, read_final_marker=marker)
                state = final if reading.carry_state else None
                results = list(reading.results(batch, group))
                del batch, final  # before the next batch is computed
            yield positions, results
