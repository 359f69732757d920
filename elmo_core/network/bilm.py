"""The bidirectional language model (Peters et al. 2018, section 3.1).

    tokens -> token encoder (character CNN | word table) -> L projected LSTMs in each direction -> layers 0 .. L
                                                                                         |
                                                                             softmax (pretraining)

Shapes: B rows, T steps, N distinct tokens in a batch, P projection size, L LSTM layers, M = sum of all row lengths.
"""

import itertools
import threading
from collections.abc import Mapping
from functools import partial

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.kernels import precision
from elmo_core.machine import runtime
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.network.lstmp import LSTMP, BiLMState, Packing, map_state, run_layer
from elmo_core.network.softmax import Candidates, Softmax
from elmo_core.network.token_encoders import TOKEN_ENCODERS
from elmo_core.text.tokens import LMBatch
from elmo_core.weights import checkpoint

nn = paddle.nn
BUILDING = threading.RLock()  # held while layers are built: Paddle's LazyGuard acts on all threads


class BiLM(nn.Layer):
    """The bidirectional language model. Its sublayers' names are the keys of every checkpoint.

    softmax: include the softmax, for pretraining and perplexity. The vocabulary tables then collect
    row gradients (elmo_core/kernels/row_gradients.py), which only the optimizers of elmo_core apply.
    `ELMo(..., trainable=True)` gives the word table ordinary gradients.
    """

    is_fine_tuned = False  # by an ELMo: another one over the same biLM must not freeze it

    def __init__(self, config: ELMoConfig, softmax: bool = True):
        super().__init__()
        self.config = config
        self.token_encoder = TOKEN_ENCODERS[config.input](config, sparse=softmax)
        self.forward_lstm = nn.LayerList(LSTMP(config) for _ in range(config.n_layers))
        self.backward_lstm = nn.LayerList(LSTMP(config) for _ in range(config.n_layers))
        if softmax and config.vocab_size:
            self.softmax = Softmax(config.vocab_size, config.projection_dim)

    def zero_state(self, rows: int) -> BiLMState:
        zeros = self.forward_lstm[0].zero_state(rows)
        return [[zeros, zeros] for _ in self.forward_lstm]

    def lstm_layers(
        self,
        vectors: paddle.Tensor,
        indices: tuple[np.ndarray, np.ndarray],
        packing: Packing,
        state: BiLMState | None = None,
        dropout: float = 0.0,
        max_layer: int | None = None,
    ) -> tuple[list[list[paddle.Tensor]], BiLMState]:
        """Run both directions through layers 1 .. max_layer (default: all).

        vectors: (N, P) token vectors; indices: per direction, (M,) packed indices into them; state: each row's initial
        state (default: zero).
        Returns the packed outputs of layers 0 .. max_layer, in both directions, and each row's final state.
        """
        indices = list(map(to_tensor, indices))
        x = [paddle.gather(vectors, index) for index in indices]  # each (M, P)
        state = state or self.zero_state(len(packing.sorted_indices))
        layers, final = [x], []
        pairs = zip(self.forward_lstm, self.backward_lstm, strict=True)
        for layer, (pair, initial) in enumerate(
            itertools.islice(zip(pairs, state, strict=True), max_layer)
        ):
            initial_states = list(map(packing.sort, initial))
            if (
                layer == 0 and not dropout
            ):  # the compiled loops multiply each distinct vector by W_x only once
                results = run_layer(
                    pair, [vectors, vectors], initial_states, packing.batch_sizes, indices
                )
            else:
                dropped = [nn.functional.dropout(side, dropout) for side in x] if dropout else x
                results = run_layer(pair, dropped, initial_states, packing.batch_sizes)
            final.append([packing.unsort((result.h, result.c)) for result in results])
            outputs = [result.outputs for result in results]
            if layer and self.config.use_skip_connections:
                outputs = [output + side for output, side in zip(outputs, x, strict=True)]
            layers.append(outputs)
            x = outputs
        return layers, final

    def forward(
        self, batch: LMBatch, state: BiLMState, candidates: Candidates, dropout: float = 0.0
    ) -> tuple[list[paddle.Tensor], BiLMState]:
        """Return the mean losses [forward, backward] and the detached state for the next batch."""
        dropout = dropout if self.training else 0.0
        top, targets, _, state = self._top_layer(batch, state, dropout)
        if dropout:
            top = [nn.functional.dropout(h, dropout) for h in top]
        return self.softmax.losses(top, targets, candidates), map_state(paddle.Tensor.detach, state)

    def log_probabilities(
        self, batch: LMBatch, state: BiLMState | None = None
    ) -> tuple[np.ndarray, np.ndarray, BiLMState]:
        """Full-softmax log-probabilities of all targets, forward and backward (B, T), 0 at padding; and the final state.

        Those of a batch that is not scored are 0.
        """
        with paddle.no_grad(), precision.only("float32"):
            top, targets, packing, state = self._top_layer(batch, state, 0.0)
            scores = np.zeros((2, *batch.forward_target.shape))
            if batch.scored:
                tasks = [
                    partial(self.softmax.predictions, h, words)
                    for h, words in zip(top, targets, strict=True)
                ]
                scores[:, packing.row, packing.step] = [
                    -surprisal for surprisal, *_ in runtime.run_in_parallel(tasks)
                ]
            return scores[0], scores[1], state

    def _top_layer(self, batch: LMBatch, state: BiLMState | None, dropout: float):
        """Return the top layer's packed outputs and targets, per direction, the packing, and the new state."""
        packing = Packing.from_lengths(batch.lengths)
        at = packing.row, packing.step
        vectors = self.token_encoder(batch.tokens)
        indices = batch.forward_input[at], batch.backward_input[at]
        layers, state = self.lstm_layers(vectors, indices, packing, state, dropout)
        return layers[-1], (batch.forward_target[at], batch.backward_target[at]), packing, state


def make_bilm(
    config: ELMoConfig, weights: dict[str, np.ndarray], source: str = "the copy of a model"
) -> BiLM:
    """Build a biLM with these weights; with a softmax if they have one. source: used in error messages."""
    softmax = config.vocab_size > 0 and any(name.startswith("softmax.") for name in weights)
    with (
        BUILDING,
        paddle.LazyGuard(),
    ):  # takes no memory until the weights, whose shapes are compared first, are set
        bilm = BiLM(config, softmax)
    set_weights(bilm.state_dict(), weights, source)
    return bilm


def weights_of(layer: nn.Layer) -> dict[str, np.ndarray]:
    """Return the weights of a layer, by name."""
    return {name: weight.numpy() for name, weight in layer.state_dict().items()}


def set_weights(
    parameters: Mapping[str, paddle.Tensor], weights: Mapping[str, np.ndarray], source: str
) -> None:
    """Set all parameters. Raises, and changes nothing, if one is missing, unexpected or has the wrong shape.

    Those that have their values already are left alone, and so is what was computed with them, such as cached layers.
    """
    checkpoint.check_shapes(
        {name: tuple(parameter.shape) for name, parameter in parameters.items()}, weights, source
    )
    for name, parameter in parameters.items():
        value = weights[name].astype(str(parameter.dtype).removeprefix("paddle."), copy=False)
        if not (parameter._is_initialized() and np.array_equal(parameter.numpy(), value)):
            parameter.set_value(value)
