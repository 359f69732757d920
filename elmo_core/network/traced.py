"""The biLM as a network of Paddle's operators, which `paddle.jit` traces.

The rest of this folder packs a batch's tokens with NumPy and runs compiled loops. A traced network
cannot: the sizes of its inputs are known only when it runs. So it pads, and its loop over the steps
is an operator.

Shapes: B rows, T tokens of the longest, S = T + 2 steps with the markers, C characters per token,
K ids that describe a token, N distinct tokens, P projection size, H cell size.
"""

from collections.abc import Mapping

from elmo_core.machine.runtime import paddle
from elmo_core.network.bilm import BiLM
from elmo_core.network.char_cnn import CharCNN
from elmo_core.network.lstmp import LSTMP, lstm_step
from elmo_core.text.token_inputs import CHARACTERS, LENGTHS, WORDS, TokenInputs

nn = paddle.nn
functional = nn.functional
static = paddle.static
tensor_array = paddle.tensor.array


class TracedBiLM:
    """A biLM over padded ids, as a graph of operators."""

    def __init__(self, bilm: BiLM, inputs: TokenInputs):
        self.bilm = bilm
        self.config = bilm.config
        self.inputs = inputs

    def layers(
        self, arrays: Mapping[str, paddle.Tensor], max_layer: int
    ) -> tuple[list[list[paddle.Tensor]], paddle.Tensor]:
        """Return layers 0 .. max_layer, each forward and backward (B, T, P), and the mask (B, T).

        arrays: see `TokenInputs`. At padding, the layers hold anything.
        """
        lengths = arrays[LENGTHS].astype("int64").reshape([-1, 1])
        ids = self._with_markers(self._token_ids(arrays), lengths)
        steps = _size(ids, 1)
        step = paddle.arange(steps).reshape([1, -1])
        is_inside = (step < lengths + 2).astype("int64")
        # what the backward direction reads at each step; padding stays where it is
        backward = step + (lengths + 1 - 2 * step) * is_inside
        first = paddle.arange(_size(ids, 0)).reshape([-1, 1]) * steps
        backward = (backward + first).reshape([-1])  # into all B * S
        x = self._vectors(ids)
        x = [x, _reordered(x, backward)]  # as each direction reads it
        layers = [x]
        weights = zip(self.bilm.forward_lstm, self.bilm.backward_lstm, strict=True)
        for layer, lstms in enumerate(list(weights)[:max_layer]):
            outputs = [_run(lstm, side) for lstm, side in zip(lstms, x, strict=True)]
            if layer and self.config.use_skip_connections:
                outputs = [output + side for output, side in zip(outputs, x, strict=True)]
            layers.append(outputs)
            x = outputs
        without_markers = []
        for left, right in layers:
            right = _reordered(right, backward)
            without_markers.append([left[:, 1:-1], right[:, 1:-1]])
        mask = (step[:, :-2] < lengths).astype("float32")
        return without_markers, mask

    def _token_ids(self, arrays: Mapping[str, paddle.Tensor]) -> paddle.Tensor:
        """Return what describes each token. (B, T, K)"""
        columns = []
        if CHARACTERS in arrays:
            columns.append(arrays[CHARACTERS].astype("int64"))
        if WORDS in arrays:
            columns.append(arrays[WORDS].astype("int64").unsqueeze(-1))
        return paddle.concat(columns, axis=2)

    def _with_markers(self, ids: paddle.Tensor, lengths: paddle.Tensor) -> paddle.Tensor:
        """Put ids (B, T, K) between the markers, and padding after them. (B, S, K)"""
        bos = paddle.to_tensor(self.inputs.bos)
        eos = paddle.to_tensor(self.inputs.eos)
        padding = paddle.to_tensor(self.inputs.padding)
        one_per_row = (lengths * 0).unsqueeze(-1)  # (B, 1, 1)
        ids = paddle.concat([one_per_row + bos, ids, one_per_row + padding], axis=1)
        step = paddle.arange(_size(ids, 1)).reshape([1, -1])
        is_end = (step == lengths + 1).astype("int64").unsqueeze(-1)
        is_token = (step <= lengths).astype("int64").unsqueeze(-1)
        return ids * is_token + eos * is_end + padding * (1 - is_token - is_end)

    def _vectors(self, ids: paddle.Tensor) -> paddle.Tensor:
        """Return the vectors (B, S, P) of tokens (B, S, K): each distinct one is encoded once."""
        encoder = self.bilm.token_encoder
        flat = ids.reshape([-1, len(self.inputs.padding)])
        _, first, index = paddle.unique(flat, return_index=True, return_inverse=True, axis=0)
        distinct = paddle.gather(flat, first)  # (N, K); Paddle 3.3 mistakes the type of the first
        if not self.config.reads_characters:
            vectors = encoder.embedding(distinct.squeeze(-1))
        else:
            columns = self.inputs.columns
            features = self._features(encoder, distinct[:, :columns])
            if self.config.reads_words:
                features = paddle.concat([encoder.words(distinct[:, columns]), features], axis=1)
            vectors = encoder.projection(features)
        vectors = paddle.gather(vectors, index)
        return vectors.reshape([_size(ids, 0), _size(ids, 1), self.config.projection_dim])

    def _features(self, encoder: CharCNN, ids: paddle.Tensor) -> paddle.Tensor:
        """Return the features (N, F) of tokens (N, C) after the highway layers."""
        config = self.config
        # further columns of nothing but padding would not change a maximum
        longest = (ids != self.inputs.padding[0].item()).astype("int64").sum(axis=1).max()
        widest = max(width for width, _ in config.filters)
        ids = paddle.slice(ids, axes=[1], starts=[0], ends=[longest + widest])
        vectors = encoder.embedding(ids).transpose([0, 2, 1])  # (N, D, C)
        maxima = []
        for (width, number), convolution in zip(config.filters, encoder.convolutions, strict=True):
            weight = convolution.weight.reshape([width, config.character_dim, number])
            responses = functional.conv1d(vectors, weight.transpose([2, 1, 0]))
            maxima.append(paddle.amax(responses, axis=2))
        biases = paddle.concat([convolution.bias for convolution in encoder.convolutions])
        x = paddle.concat(maxima, axis=1) + biases
        x = functional.relu(x) if config.activation == "relu" else paddle.tanh(x)
        for highway in encoder.highways:
            x = highway.equation(x)
        return x


def _size(x: paddle.Tensor, axis: int) -> paddle.Tensor:
    """Return the length of an axis, int64."""
    return paddle.shape(x)[axis].astype("int64")


def _reordered(x: paddle.Tensor, index: paddle.Tensor) -> paddle.Tensor:
    """Return the entries of x (B, S, P) with these indices (B * S,) among all. (B, S, P)"""
    flat = x.reshape([-1, x.shape[2]])
    return paddle.gather(flat, index).reshape([_size(x, 0), _size(x, 1), x.shape[2]])


def _run(lstm: LSTMP, x: paddle.Tensor) -> paddle.Tensor:
    """Run one direction of a layer over x (B, S, P). (B, S, P)"""
    cell_dim, projection_dim = lstm.projection_weight.shape
    rows = _size(x, 0)
    steps = _size(x, 1).reshape([1])
    gate_inputs = paddle.matmul(x, lstm.input_weight) + lstm.bias  # (B, S, 4H)
    h = paddle.zeros([rows, projection_dim], "float32")
    c = paddle.zeros([rows, cell_dim], "float32")

    def is_running(t, outputs, h, c):
        return t < steps

    def body(t, outputs, h, c):
        gate_input = paddle.index_select(gate_inputs, t, axis=1).squeeze(1)
        h, c = lstm_step(
            config=lstm.config,
            gate_input=gate_input,
            state=(h, c),
            recurrent_weight=lstm.recurrent_weight,
            projection_weight=lstm.projection_weight,
        )
        tensor_array.array_write(h, t, outputs)
        return [t + 1, outputs, h, c]

    first = paddle.zeros([1], "int64")
    empty = tensor_array.create_array("float32")
    _, outputs, _, _ = static.nn.while_loop(is_running, body, [first, empty, h, c])
    stacked, _ = paddle.tensor.manipulation.tensor_array_to_tensor(outputs, axis=1, use_stack=True)
    return stacked.reshape([rows, -1, projection_dim])
