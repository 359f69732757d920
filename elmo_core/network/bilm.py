"""The bidirectional language model (Peters et al. 2018, section 3.1).

    tokens -> token encoder           -> L projected LSTMs  -> layers 0 .. L
              character CNN | word table   in each direction       |
                                                           softmax (pretraining)

Shapes: B rows, T steps, N distinct tokens in a batch, P projection size, L LSTM layers, M = sum of
all row lengths.
"""

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
from elmo_core.network.start_state import NAMES, StartState
from elmo_core.network.token_encoders import TOKEN_ENCODERS
from elmo_core.text.lexicon import LMBatch
from elmo_core.weights import checkpoint

nn = paddle.nn
# held while layers are built, because Paddle's LazyGuard acts on all threads
BUILDING = threading.RLock()


class BiLM(nn.Layer):
    """The bidirectional language model. Its sublayers' names are the keys of every checkpoint.

    softmax: include the softmax, for pretraining and perplexity. The vocabulary tables then collect
    row gradients (elmo_core/kernels/row_gradients.py), which only elmo_core's optimizers apply.
    `ELMo(..., trainable=True)` gives the word table ordinary gradients.
    """

    def __init__(self, config: ELMoConfig, softmax: bool = True):
        super().__init__()
        self.config = config
        self.is_fine_tuned = False  # by an ELMo: another one over the same biLM must not freeze it
        self.start_state: StartState | None = None  # None: it is not known
        self.source = "a model in memory"  # for messages
        self.notice = ""  # what goes with its weights, see elmo_core/weights/cards.py
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

        vectors: (N, P) token vectors; indices: per direction, (M,) packed indices into them; state:
        each row's initial state (default: zero); dropout: rate on the input of each layer.
        Returns the packed outputs of layers 0 .. max_layer, in both directions, and each row's
        final state.
        """
        rows = len(packing.sorted_indices)
        initial_states = state or self.zero_state(rows)
        directions = list(zip(self.forward_lstm, self.backward_lstm, strict=True))
        indices = [to_tensor(index) for index in indices]
        x = [paddle.gather(vectors, index) for index in indices]  # each (M, P)
        layers = [x]
        final_states = []
        for layer, lstms in enumerate(directions[:max_layer]):
            initial = [packing.sort(direction) for direction in initial_states[layer]]
            if layer == 0 and not dropout:
                # the compiled loops multiply each distinct vector by W_x only once
                inputs = [vectors, vectors]
                results = run_layer(lstms, inputs, initial, packing.batch_sizes, indices)
            else:
                inputs = [nn.functional.dropout(side, dropout) for side in x] if dropout else x
                results = run_layer(lstms, inputs, initial, packing.batch_sizes)
            final_states.append([packing.unsort((result.h, result.c)) for result in results])
            outputs = [result.outputs for result in results]
            if layer and self.config.use_skip_connections:
                outputs = [output + side for output, side in zip(outputs, x, strict=True)]
            layers.append(outputs)
            x = outputs
        return layers, final_states

    def forward(
        self, batch: LMBatch, state: BiLMState, candidates: Candidates, dropout: float = 0.0
    ) -> tuple[list[paddle.Tensor], BiLMState]:
        """Return the mean losses [forward, backward] and the detached state for the next batch."""
        dropout = dropout if self.training else 0.0
        top, targets, _, state = self._top_layer(batch, state, dropout)
        if dropout:
            top = [nn.functional.dropout(h, dropout) for h in top]
        losses = self.softmax.losses(top, targets, candidates)
        return losses, map_state(paddle.Tensor.detach, state)

    def log_probabilities(
        self, batch: LMBatch, state: BiLMState | None = None
    ) -> tuple[np.ndarray, np.ndarray, BiLMState]:
        """Return log-probabilities of all targets, forward and backward (B, T), and the last state.

        They are those of the full softmax; 0 at padding, and for a batch that is not scored.
        """
        with paddle.no_grad(), precision.only("float32"):
            top, targets, packing, state = self._top_layer(batch, state, 0.0)
            scores = np.zeros((2, *batch.forward_target.shape))
            if batch.scored:
                tasks = [
                    partial(self.softmax.predictions, h, words)
                    for h, words in zip(top, targets, strict=True)
                ]
                predictions = runtime.run_in_parallel(tasks)
                surprisals = np.stack([surprisal for surprisal, _, _ in predictions])  # (2, M)
                scores[:, packing.row, packing.step] = -surprisals
            return scores[0], scores[1], state

    def _top_layer(
        self, batch: LMBatch, state: BiLMState | None, dropout: float
    ) -> tuple[list[paddle.Tensor], tuple[np.ndarray, np.ndarray], Packing, BiLMState]:
        """Run all layers.

        Returns the top one's packed outputs (M, P) and the targets (M,), per direction, the
        packing, and the final state.
        """
        packing = Packing.from_lengths(batch.lengths)
        entries = (packing.row, packing.step)
        layers, state = self.lstm_layers(
            self.token_encoder(batch.tokens),
            indices=(batch.forward_input[entries], batch.backward_input[entries]),
            packing=packing,
            state=state,
            dropout=dropout,
        )
        targets = batch.forward_target[entries], batch.backward_target[entries]
        return layers[-1], targets, packing, state


def make_bilm(
    config: ELMoConfig, weights: dict[str, np.ndarray], source: str = "the copy of a model"
) -> BiLM:
    """Build a biLM with these weights; with a softmax and a start state if they have them.

    source: used in messages.
    """
    softmax = config.vocab_size > 0 and any(name.startswith("softmax.") for name in weights)
    # it takes no memory until the weights, whose shapes are compared first, are set
    with BUILDING, paddle.LazyGuard():
        bilm = BiLM(config, softmax)
    bilm.source = source
    start = {name: weights[name] for name in NAMES if name in weights}
    others = {name: array for name, array in weights.items() if name not in start}
    set_weights(bilm.state_dict(), others, source)
    if start:
        checkpoint.check_shapes(StartState.shapes(config), start, source)
        bilm.start_state = StartState(*[start[name] for name in NAMES])
    return bilm


def weights_of(layer: nn.Layer) -> dict[str, np.ndarray]:
    """Return the weights of a layer, by name."""
    return {name: weight.numpy() for name, weight in layer.state_dict().items()}


def set_weights(
    parameters: Mapping[str, paddle.Tensor], weights: Mapping[str, np.ndarray], source: str
) -> None:
    """Set all parameters.

    Raises, and changes nothing, if one is missing, unexpected or has the wrong shape. Those that
    have their values already are left alone, and so is what was computed with them, such as cached
    layers.
    """
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    checkpoint.check_shapes(shapes, weights, source)
    for name, parameter in parameters.items():
        dtype = str(parameter.dtype).removeprefix("paddle.")
        value = weights[name].astype(dtype, copy=False)
        if not (parameter._is_initialized() and np.array_equal(parameter.numpy(), value)):
            parameter.set_value(value)
