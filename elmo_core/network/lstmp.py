"""A projected LSTM (LSTMP) with cell and projection clipping, over rows of different lengths.

    i, j, f, o = split(x W_x + h W_h + b)
    c = clip(sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(j), +-cell_clip)
    h = clip((sigmoid(o) * tanh(c)) W_p, +-proj_clip)

Shapes: B rows, T steps, P projection size, H cell size, D directions, N input vectors, M = sum of
all row lengths.

Rows are packed like PyTorch's PackedSequence: longest first, then step by step, each step with only
the n_t rows that are still active:

    row 0:  a b c d        steps:  a e h | b f i | c g | d       batch sizes: 3 3 2 1
    row 1:  e f g          packed: (M, .) with no padding anywhere
    row 2:  h i

So padding costs nothing, and a row's final state is that of its own last step. The input may also
be N vectors and M indices into them.

`equations` is the reference, and autograd differentiates it. `run_layer` computes the same faster
where it can: by the compiled loops on a CPU (elmo_core/kernels/cpu_lstm.py), by kernels on a GPU
(elmo_core/kernels/gpu_lstm.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.kernels import cpu_lstm, fused, gpu_lstm
from elmo_core.kernels.cpu_lstm import LayerInput, LayerOutput
from elmo_core.kernels.matmul import amp_matmul
from elmo_core.machine.runtime import paddle, to_tensor

sigmoid = paddle.nn.functional.sigmoid
tanh = paddle.tanh

State = tuple[paddle.Tensor, paddle.Tensor]  # h (B, P) and c (B, H)
BiLMState = list[list[State]]  # [layer][direction]


def map_state(function: Callable, *states: BiLMState) -> BiLMState:
    """Apply a function to each tensor of a state, or to the corresponding tensors of several."""
    result = []
    for layers in zip(*states, strict=True):
        directions = []
        for sides in zip(*layers, strict=True):
            h = function(*[side[0] for side in sides])
            c = function(*[side[1] for side in sides])
            directions.append((h, c))
        result.append(directions)
    return result


class LSTMP(paddle.nn.Layer):
    """The weights of one direction of one layer, gates in the order i, j, f, o."""

    def __init__(self, config: ELMoConfig):
        super().__init__()
        self.config = config
        P = config.projection_dim
        H = config.cell_dim
        uniform = paddle.nn.initializer.XavierUniform()
        self.input_weight = self.create_parameter([P, 4 * H], default_initializer=uniform)
        self.recurrent_weight = self.create_parameter([P, 4 * H], default_initializer=uniform)
        self.bias = self.create_parameter([4 * H], is_bias=True)
        self.projection_weight = self.create_parameter([H, P], default_initializer=uniform)

    def weights(self) -> tuple[paddle.Tensor, ...]:
        return self.input_weight, self.recurrent_weight, self.bias, self.projection_weight

    def layer_input(self, x: paddle.Tensor, state: State) -> LayerInput:
        """Join an input (M, P) or (N, P), an initial state and these weights."""
        h, c = state
        return LayerInput(
            x=x,
            h=h,
            c=c,
            input_weight=self.input_weight,
            recurrent_weight=self.recurrent_weight,
            bias=self.bias,
            projection_weight=self.projection_weight,
        )

    def zero_state(self, rows: int) -> State:
        H, P = self.projection_weight.shape
        h = paddle.zeros([rows, P], self.bias.dtype)
        c = paddle.zeros([rows, H], self.bias.dtype)
        return h, c


@dataclass
class Packing:
    """How rows of given lengths are packed.

    All in NumPy, so the loop over the steps never waits for the device.
    """

    sorted_indices: np.ndarray  # (B,) row indices, longest first
    batch_sizes: list[int]  # (T,) active rows per step
    offsets: np.ndarray  # (T + 1,) first packed index of each step
    row: np.ndarray  # (M,) original row of each packed entry
    step: np.ndarray  # (M,) its step

    @classmethod
    def from_lengths(cls, lengths: np.ndarray) -> "Packing":
        lengths = np.asarray(lengths)
        sorted_indices = np.argsort(-lengths, kind="stable")
        steps = np.arange(int(lengths.max(initial=0)))
        ended = np.searchsorted(np.sort(lengths), steps, side="right")  # rows no longer than t
        batch_sizes = len(lengths) - ended
        offsets = np.concatenate([[0], np.cumsum(batch_sizes)])
        step = np.repeat(steps, batch_sizes)
        place_in_step = np.arange(len(step)) - offsets[step]
        return cls(
            sorted_indices=sorted_indices,
            batch_sizes=batch_sizes.tolist(),
            offsets=offsets,
            row=sorted_indices[place_in_step],
            step=step,
        )

    def token_indices(self, n: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find the packed outputs of each row's n (B,) tokens.

        Step 0 of a row is its begin or end marker, step k the k-th word from the direction's start.
        Returns the indices in the forward and in the backward outputs, 0 at padding, and the mask,
        all (B, T). T is the largest n.
        """
        place_in_step = np.argsort(self.sorted_indices)[:, None]  # (B, 1)
        step = np.arange(n.max(initial=0))
        n = n[:, None]
        mask = step < n
        forward = self.offsets[np.where(mask, 1 + step, 0)] + place_in_step
        backward = self.offsets[np.where(mask, n - step, 0)] + place_in_step
        return forward * mask, backward * mask, mask

    def sort(self, state: State) -> State:
        """Reorder a state's rows to packed order."""
        return _reordered(state, self.sorted_indices)

    def unsort(self, state: State) -> State:
        """Restore the original order of a state's rows."""
        return _reordered(state, np.argsort(self.sorted_indices))


def _reordered(state: State, order: np.ndarray) -> State:
    if (np.diff(order) > 0).all():
        return state
    h, c = state
    indices = to_tensor(order)
    return paddle.gather(h, indices), paddle.gather(c, indices)


def run_layer(
    directions: Sequence[LSTMP],
    inputs: Sequence[paddle.Tensor],
    states: Sequence[State],
    batch_sizes: list[int],
    indices: Sequence[paddle.Tensor] | None = None,
) -> list[LayerOutput]:
    """Run the directions of one layer.

    inputs: per direction, packed (M, P), or (N, P) with (M,) `indices` into it.
    states: per direction, h (B, P) and c (B, H), in packed order. There is at least one step.
    """
    config = directions[0].config
    if indices is None:
        indices = [None] * len(directions)
    layer_inputs = [
        direction.layer_input(x, state)
        for direction, x, state in zip(directions, inputs, states, strict=True)
    ]
    if fused.is_supported(inputs[0]):
        return cpu_lstm.run_directions(config, batch_sizes, layer_inputs, indices)

    layer_inputs = [
        layer_input if index is None else layer_input.gathered(index)
        for layer_input, index in zip(layer_inputs, indices, strict=True)
    ]
    if inputs[0].dtype == paddle.float32:
        launch = gpu_lstm.kernels(paddle.get_device(), equations)
        if launch is not None:
            results = gpu_lstm.run_directions(launch, config, batch_sizes, layer_inputs)
            return [LayerOutput(*tensors) for tensors in results]
    return [equations(config, batch_sizes, *layer_input) for layer_input in layer_inputs]


def equations(
    config: ELMoConfig,
    batch_sizes: list[int],
    x: paddle.Tensor,
    h: paddle.Tensor,
    c: paddle.Tensor,
    input_weight: paddle.Tensor,
    recurrent_weight: paddle.Tensor,
    bias: paddle.Tensor,
    projection_weight: paddle.Tensor,
) -> LayerOutput:
    """Compute one direction of a layer as the paper writes it. The shapes are those of LayerInput.

    Autograd keeps the gate inputs of all steps anyway, and one product of them all is faster.
    Without it, they are computed step by step if they would fill the memory.
    """
    if paddle.is_grad_enabled() or len(x) * len(bias) <= cpu_lstm.MAX_GATE_ELEMENTS:
        gate_inputs = (amp_matmul(x, input_weight) + bias).split(batch_sizes)
    else:
        gate_inputs = (amp_matmul(step, input_weight) + bias for step in x.split(batch_sizes))
    outputs = []
    ended: list[State] = []  # the final states of the rows that have ended, the longest row first
    for n, gate_input in zip(batch_sizes, gate_inputs, strict=True):
        if n < len(h):  # the shortest rows end here
            ended.insert(0, (h[n:], c[n:]))
            h = h[:n]
            c = c[:n]
        h, c = lstm_step(config, gate_input, (h, c), recurrent_weight, projection_weight)
        outputs.append(h)
    final_states = [(h, c), *ended]
    return LayerOutput(
        outputs=paddle.concat(outputs),
        h=paddle.concat([final_h for final_h, _ in final_states]),
        c=paddle.concat([final_c for _, final_c in final_states]),
    )


def lstm_step(
    config: ELMoConfig,
    gate_input: paddle.Tensor,
    state: State,
    recurrent_weight: paddle.Tensor,
    projection_weight: paddle.Tensor,
) -> State:
    """Return the next state of rows with these products of the input and the biases (n, 4H)."""
    h, c = state
    i, j, f, o = (gate_input + amp_matmul(h, recurrent_weight)).split(4, axis=1)  # (n, H)
    c = _clip(sigmoid(f + config.forget_bias) * c + sigmoid(i) * tanh(j), config.cell_clip)
    h = _clip(amp_matmul(sigmoid(o) * tanh(c), projection_weight), config.proj_clip)
    return h, c


def _clip(x: paddle.Tensor, limit: float) -> paddle.Tensor:
    """Clip to +-limit, 0: not at all. An active clip stops the gradient."""
    return x.clip(-limit, limit) if limit else x
