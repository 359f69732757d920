"""ELMo in plain NumPy, float64, one sentence and one step at a time: what the network is tested
against.

Written from Peters et al. 2018 and the semantics of bilm-tf, sharing no code with the network. No
dropout.

Letters: B rows, T steps of a row, C characters of a token (50), P projection, H cell size, V
vocabulary, L LSTM layers, D outputs of the char CNN. A batch is a list of rows of different
lengths: nothing is padded. A row of the "backward" direction is given in the order in which it is
run, last token first. A state is `{direction: [(h, c) of each layer]}` with h (B, P), the projected
output, and c (B, H), the cell.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

DIRECTIONS = ("forward", "backward")
BOS, EOS, UNK = "<S>", "</S>", "<UNK>"


@dataclass
class Parameters:
    """All weights in bilm-tf's orientation (inputs along the first axis), in float64.

    A layer of `lstm` is a dict of W_x (P, 4H), W_h (P, 4H), B (4H,) and W_P (H, P); the 4H columns
    are the gates i, j, f, o. One of `highways` is a dict of W_transform, W_carry (D, D),
    b_transform, b_carry (D,).
    """

    lstm: dict  # {direction: [layer, ...]}
    skip: bool = True  # the layers after the first have their input added to their output
    cell_clip: float = 0.0  # bound of the cell; 0 is none
    proj_clip: float = 0.0  # bound of the projected output; 0 is none
    max_chars: int = 50  # C
    char_embed: np.ndarray | None = None  # (262, 16), row = character id plus one, row 0 unused
    cnn: list = field(
        default_factory=list
    )  # [(width, W (width, 16, n), b (n,)), ...], the n adding up to D
    activation: str = "relu"  # of the char CNN: relu or tanh
    highways: list = field(default_factory=list)
    proj: tuple | None = (
        None  # W (D, P), b (P,); None where D = P and, as in bilm-tf, nothing is projected
    )
    word_embed: np.ndarray | None = (
        None  # (V, P): the word table, in place of the char CNN; or beside it, (V, W)
    )
    vocabulary: list | None = None  # the V tokens of the word table
    softmax: tuple | None = None  # W (V, P), b (V,), shared by both directions


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0.0)


def char_ids(token: str, max_chars: int = 50) -> np.ndarray:
    """(C,) character ids of one token, each plus one: begin of word, UTF-8 bytes, end of word,
    padding.

    What has no UTF-8 (a lone surrogate) is left out; bytes after C - 2 are cut, even inside a
    letter.
    """
    bos_char, eos_char, bow_char, eow_char, pad_char = 256, 257, 258, 259, 260
    if token == BOS:
        characters = [bos_char]
    elif token == EOS:
        characters = [eos_char]
    else:
        characters = list(token.encode("utf-8", "ignore")[: max_chars - 2])
    ids = [bow_char, *characters, eow_char]
    return np.array(ids + [pad_char] * (max_chars - len(ids))) + 1


def char_cnn(parameters: Parameters, ids: np.ndarray) -> np.ndarray:
    """Character ids of one token (C,) -> (D,). Padding is convolved like any other character."""
    activation = {"relu": relu, "tanh": np.tanh}[parameters.activation]
    characters = parameters.char_embed[ids].astype(np.float64)  # (C, 16)
    pieces = []
    for width, W, b in parameters.cnn:
        responses = []
        for start in range(len(ids) - width + 1):
            window = characters[start : start + width]  # (width, 16)
            responses.append(np.tensordot(window, W, axes=2) + b)  # (n,)
        pieces.append(activation(np.max(responses, axis=0)))  # (n,)
    return np.concatenate(pieces)


def highway(x: np.ndarray, layer: dict) -> np.ndarray:
    """(D,) -> (D,).

    The gate called "carry" lets the transformed vector through, its complement the input.
    """
    g = sigmoid(x @ layer["W_carry"] + layer["b_carry"])
    return g * relu(x @ layer["W_transform"] + layer["b_transform"]) + (1.0 - g) * x


def token_vector(parameters: Parameters, token) -> np.ndarray:
    """(P,) of a token: a string, or its (C,) character ids plus one and its row of the word table,
    None if not read.
    """
    characters, row = (
        token if isinstance(token, tuple) else (char_ids(token, parameters.max_chars), None)
    )
    if parameters.word_embed is not None:
        if isinstance(token, str):
            row = parameters.vocabulary.index(token if token in parameters.vocabulary else UNK)
        word = parameters.word_embed[row].astype(np.float64)
        if not parameters.cnn:
            return word
    x = char_cnn(parameters, characters)
    for layer in parameters.highways:
        x = highway(x, layer)
    if parameters.word_embed is not None:
        x = np.concatenate([word, x])
    if parameters.proj is not None:
        W, b = parameters.proj
        x = x @ W + b
    return x


def token_vectors(parameters: Parameters, tokens) -> np.ndarray:
    """T tokens, each as `token_vector` takes it -> (T, P)."""
    vectors = [token_vector(parameters, token) for token in tokens]
    return np.array(vectors).reshape(len(vectors), parameters.lstm["forward"][0]["W_x"].shape[0])


def layer_of(W_x, W_h, B, W_P, order: str) -> dict:
    """A layer of `lstm` from weights with this order of gates, from a program that adds no forget
    bias.
    """

    def sorted_gates(array):
        parts = dict(zip(order, np.split(array.astype(np.float64), 4, axis=-1), strict=True))
        return np.concatenate([parts[gate] for gate in "ijfo"], axis=-1)

    B = sorted_gates(B)
    B[2 * len(W_P) : 3 * len(W_P)] -= 1.0  # which `lstmp_step` adds
    return {
        "W_x": sorted_gates(W_x),
        "W_h": sorted_gates(W_h),
        "B": B,
        "W_P": W_P.astype(np.float64),
    }


def clip(x, bound):
    return np.clip(x, -bound, bound) if bound else x


def clip_passes(x, bound):
    """The gradient of a clip: 0 where it changes x, 1 elsewhere."""
    return np.where(np.abs(x) > bound, 0.0, 1.0) if bound else np.ones_like(x)


def lstmp_step(x, h, c, layer: dict, cell_clip: float, proj_clip: float) -> dict:
    """One step of one row from x (P,), h (P,), c (H,): all it computes, the next state as "h" and
    "c".
    """
    assert x.dtype == h.dtype == c.dtype == np.float64
    zi, zj, zf, zo = np.split(x @ layer["W_x"] + h @ layer["W_h"] + layer["B"], 4)  # (H,) each
    i, j, f, o = sigmoid(zi), np.tanh(zj), sigmoid(zf + 1.0), sigmoid(zo)
    c_raw = f * c + i * j
    c = clip(c_raw, cell_clip)
    m = o * np.tanh(c)
    h_raw = m @ layer["W_P"]  # (P,)
    h = clip(h_raw, proj_clip)
    return {"i": i, "j": j, "f": f, "o": o, "c_raw": c_raw, "c": c, "m": m, "h_raw": h_raw, "h": h}


def lstmp(rows: list, h0, c0, layer: dict, cell_clip: float = 0.0, proj_clip: float = 0.0) -> tuple:
    """Rows [(T_b, P), ...], h0 (B, P), c0 (B, H) -> outputs [(T_b, P), ...], last h (B, P), last c
    (B, H).

    The state of a row ends with its own last token; states beyond the last row stay as they are.
    """
    outputs, h_last, c_last = [], h0.copy(), c0.copy()
    for b, row in enumerate(rows):
        h, c = h0[b], c0[b]
        output = np.zeros_like(row)
        for t, x in enumerate(row):
            step = lstmp_step(x, h, c, layer, cell_clip, proj_clip)
            h, c = step["h"], step["c"]
            output[t] = h
        outputs.append(output)
        h_last[b], c_last[b] = h, c
    return outputs, h_last, c_last


def lstmp_backward(
    rows, h0, c0, layer, cell_clip, proj_clip, d_outputs, d_h_last, d_c_last
) -> dict:
    """Gradients of a scalar, given those by the three results of `lstmp`: d_outputs, d_h_last,
    d_c_last.

    Returns "rows" [(T_b, P), ...], "h0" (B, P), "c0" (B, H), and "W_x", "W_h", "B", "W_P" as in the
    layer.
    """
    grads = {name: np.zeros_like(layer[name]) for name in ("W_x", "W_h", "B", "W_P")}
    grads |= {
        "rows": [np.zeros_like(row) for row in rows],
        "h0": d_h_last.copy(),
        "c0": d_c_last.copy(),
    }
    for b, row in enumerate(rows):
        h, c = h0[b], c0[b]
        steps = []
        for x in row:
            step = lstmp_step(x, h, c, layer, cell_clip, proj_clip)
            steps.append((x, h, c, step))
            h, c = step["h"], step["c"]
        dh, dc = grads["h0"][b], grads["c0"][b]  # what comes back from the later steps
        for t in reversed(range(len(row))):
            x, h, c, s = steps[t]  # h and c are the state before the step
            dh_raw = (dh + d_outputs[b][t]) * clip_passes(s["h_raw"], proj_clip)
            dm = layer["W_P"] @ dh_raw
            tanh_c = np.tanh(s["c"])
            dc_raw = (dc + dm * s["o"] * (1 - tanh_c**2)) * clip_passes(s["c_raw"], cell_clip)
            dzi = dc_raw * s["j"] * s["i"] * (1 - s["i"])
            dzj = dc_raw * s["i"] * (1 - s["j"] ** 2)
            dzf = dc_raw * c * s["f"] * (1 - s["f"])
            dzo = dm * tanh_c * s["o"] * (1 - s["o"])
            dz = np.concatenate([dzi, dzj, dzf, dzo])  # (4H,)
            grads["W_P"] += np.outer(s["m"], dh_raw)
            grads["W_x"] += np.outer(x, dz)
            grads["W_h"] += np.outer(h, dz)
            grads["B"] += dz
            grads["rows"][b][t] = layer["W_x"] @ dz
            dh, dc = layer["W_h"] @ dz, dc_raw * s["f"]
        grads["h0"][b], grads["c0"][b] = dh, dc
    return grads


def start_state(parameters: Parameters, n_rows: int, before: dict | None = None) -> dict:
    """The state `before`, padded with zeros for missing rows."""
    state = {}
    for direction in DIRECTIONS:
        state[direction] = []
        for number, layer in enumerate(parameters.lstm[direction]):
            H, P = layer["W_P"].shape
            h, c = before[direction][number] if before else (np.zeros((0, P)), np.zeros((0, H)))
            missing = max(n_rows - len(h), 0)
            state[direction].append(
                (np.vstack([h, np.zeros((missing, P))]), np.vstack([c, np.zeros((missing, H))]))
            )
    return state


def run_layers(parameters: Parameters, direction: str, rows: list, state: list) -> tuple:
    """Token vectors [(T_b, P), ...] -> [outputs of each layer, again rows] and [(h, c) of each
    layer].

    A skip connection adds to what a layer gives out, not to the h that it feeds back to itself.
    """
    outputs, last = [], []
    for number, (layer, (h, c)) in enumerate(zip(parameters.lstm[direction], state, strict=True)):
        output, h, c = lstmp(rows, h, c, layer, parameters.cell_clip, parameters.proj_clip)
        if parameters.skip and number > 0:
            output = [y + x for y, x in zip(output, rows, strict=True)]
        outputs.append(output)
        last.append((h, c))
        rows = output
    return outputs, last


def embed(parameters: Parameters, sentences: list, state: dict | None = None) -> tuple:
    """Sentences of tokens without markers -> [(L + 1, n, 2P), ...] and the state in which they end.

    Both directions run over <S> w1 .. wn </S>; what they give out at the markers is dropped. To
    carry the state, give the one returned for the batch before: row b starts where the latest row b
    ended.
    """
    state = start_state(parameters, len(sentences), state)
    rows = [token_vectors(parameters, [BOS, *sentence, EOS]) for sentence in sentences]
    forward, forward_state = run_layers(parameters, "forward", rows, state["forward"])
    backward, backward_state = run_layers(
        parameters, "backward", [row[::-1] for row in rows], state["backward"]
    )
    embeddings = []
    for b, row in enumerate(rows):
        layers = [np.hstack([row, row])]
        for fw, bw in zip(forward, backward, strict=True):
            layers.append(np.hstack([fw[b], bw[b][::-1]]))
        embeddings.append(np.array(layers)[:, 1:-1])
    return embeddings, {"forward": forward_state, "backward": backward_state}


def scalar_mix(embeddings: list, s: np.ndarray, gamma: float, layer_norm: bool = False) -> list:
    """[(L + 1, n, 2P), ...], s (L + 1,) -> [(n, 2P), ...]: gamma * sum_j softmax(s)_j h_j.

    The layer norm is bilm-tf's and AllenNLP's: a layer has one mean and one variance, over all
    tokens and dimensions of the batch. Tokens are those given: bilm-tf's are without the markers,
    AllenNLP's with them.
    """
    weights = np.exp(s) / np.sum(np.exp(s))
    mixed = [np.zeros(embedding.shape[1:]) for embedding in embeddings]
    for j, weight in enumerate(weights):
        mean, deviation = 0.0, 1.0
        if layer_norm:
            values = np.concatenate([embedding[j].ravel() for embedding in embeddings])
            mean = np.mean(values)
            deviation = np.sqrt(np.mean((values - mean) ** 2) + 1e-12)
        for b, embedding in enumerate(embeddings):
            mixed[b] += gamma * weight * (embedding[j] - mean) / deviation
    return mixed


def logsumexp(x):
    return np.max(x) + np.log(np.sum(np.exp(x - np.max(x))))


def full_softmax_loss(h: np.ndarray, softmax: tuple, target: int) -> float:
    """-log P(target) given h (P,)."""
    W, b = softmax
    logits = W @ h + b  # (V,)
    return logsumexp(logits) - logits[target]


def sampled_softmax_loss(
    h: np.ndarray, softmax: tuple, target: int, candidates, expected: np.ndarray
) -> float:
    """The loss among the target and the candidates (S,), class ids; expected (V,) holds the
    expected counts.

    As TensorFlow's: from each logit the log of its expected count is subtracted, and a candidate
    that is the target is left out.
    """
    W, b = softmax
    logits = [W[target] @ h + b[target] - np.log(expected[target])]
    for k in candidates:
        if k != target:
            logits.append(W[k] @ h + b[k] - np.log(expected[k]))
    return logsumexp(np.array(logits)) - logits[0]


def log_uniform(n_classes: int) -> np.ndarray:
    """(V,) P(k) = (log(k + 2) - log(k + 1)) / log(V + 1)."""
    k = np.arange(n_classes)
    return (np.log(k + 2) - np.log(k + 1)) / np.log(n_classes + 1)


def expected_count(p: np.ndarray, n_tries: int) -> np.ndarray:
    """Probability that a class of probability p is drawn at least once in n_tries: 1 - (1 -
    p)^n_tries.
    """
    return -np.expm1(n_tries * np.log1p(-p))


def direction_loss(
    parameters, direction, inputs, targets, state: list, sampled: tuple | None = None
) -> tuple:
    """Mean loss over all predictions of one direction, and the state [(h, c) of each layer] at the
    end.

    inputs are B rows of tokens, each as `token_vector` takes it, targets B rows of as many
    vocabulary ids, both in the order of running. sampled is `sampled_softmax_loss`'s (candidates,
    expected), or None for the full softmax.
    """
    rows = [token_vectors(parameters, row) for row in inputs]
    outputs, state = run_layers(parameters, direction, rows, state)
    losses = []
    for output, row_targets in zip(outputs[-1], targets, strict=True):
        for h, target in zip(output, row_targets, strict=True):
            if sampled is None:
                losses.append(full_softmax_loss(h, parameters.softmax, target))
            else:
                losses.append(sampled_softmax_loss(h, parameters.softmax, target, *sampled))
    return np.mean(losses), state


def lm_loss(
    parameters, inputs: dict, targets: dict, state: dict | None = None, sampled: dict | None = None
) -> tuple:
    """(forward + backward) / 2 and the state at the end; each dict has `direction_loss`'s, by
    direction.

    Not multiplied by the number of unrolled steps. Without a state the rows start from zero.
    """
    state = start_state(parameters, len(inputs["forward"]), state)
    losses, last = [], {}
    for d in DIRECTIONS:
        loss, last[d] = direction_loss(
            parameters, d, inputs[d], targets[d], state[d], sampled and sampled[d]
        )
        losses.append(loss)
    return sum(losses) / 2, last


def assert_close(found, expected, tolerance: float = 1e-5) -> None:
    """Check that two lists have arrays of equal shapes, and equal values within the tolerance."""
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def numerical_gradient(f, x: np.ndarray, eps: float = 1e-6, entries=None) -> np.ndarray:
    """Central differences of the scalar f(x) at the given entries (index tuples; default all); NaN
    elsewhere.

    x, float64, is changed in place around each call, so f may also reach it otherwise than by its
    argument.
    """
    assert x.dtype == np.float64, "finite differences need float64"
    gradient = np.full(x.shape, np.nan)
    for entry in np.ndindex(x.shape) if entries is None else entries:
        value = x[entry]
        x[entry] = value + eps
        above = f(x)
        x[entry] = value - eps
        below = f(x)
        x[entry] = value
        gradient[entry] = (above - below) / (2 * eps)
    return gradient


def read_bilm_hdf5(options_path, weights_path, vocabulary: list | None = None) -> Parameters:
    """The parameters in bilm-tf's or AllenNLP's options.json and weights.hdf5.

    Where the file has no char_embed, its `embedding` (V, P) is the word table, `vocabulary` naming
    its rows.
    """
    options = json.loads(Path(options_path).read_text(encoding="utf-8"))
    weights = {}

    def read(name, item):
        if isinstance(item, h5py.Dataset):
            weights[name] = np.array(item, dtype=np.float64)

    with h5py.File(weights_path, "r") as file:
        file.visititems(read)

    lstm = options["lstm"]
    layers = {direction: [] for direction in DIRECTIONS}
    for number, direction in enumerate(DIRECTIONS):
        for layer in range(lstm.get("n_layers", 1)):
            cell = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            W_x, W_h = np.split(weights[f"{cell}/W_0"], 2)  # the rows of the input, then those of h
            layers[direction].append(
                {"W_x": W_x, "W_h": W_h, "B": weights[f"{cell}/B"], "W_P": weights[f"{cell}/W_P_0"]}
            )
    parameters = Parameters(layers, lstm["use_skip_connections"])
    parameters.cell_clip, parameters.proj_clip = (
        lstm.get("cell_clip") or 0.0,
        lstm.get("proj_clip") or 0.0,
    )
    if "char_embed" not in weights:
        parameters.word_embed, parameters.vocabulary = weights["embedding"], vocabulary
        return parameters

    cnn = options["char_cnn"]
    assert weights["char_embed"].shape[0] == 261
    parameters.char_embed = np.pad(weights["char_embed"], [(1, 0), (0, 0)])  # our row 0
    parameters.activation, parameters.max_chars = cnn["activation"], cnn["max_characters_per_token"]
    for i, (width, _) in enumerate(cnn["filters"]):
        parameters.cnn.append((width, weights[f"CNN/W_cnn_{i}"][0], weights[f"CNN/b_cnn_{i}"]))
    for i in range(cnn.get("n_highway") or 0):
        names = ("W_transform", "b_transform", "W_carry", "b_carry")
        parameters.highways.append({name: weights[f"CNN_high_{i}/{name}"] for name in names})
    if "CNN_proj/W_proj" in weights:
        parameters.proj = (weights["CNN_proj/W_proj"], weights["CNN_proj/b_proj"])
    return parameters
