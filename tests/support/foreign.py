"""Tiny random models in the formats of bilm-tf and Paddle Fluid."""

import copy
import json
from pathlib import Path

import h5py
import numpy as np
import reference
import tiny

from elmo_core.machine.runtime import paddle

WORDS = tiny.WORDS
P = 7
H = 11
C = 5
LSTM = {
    "projection_dim": P,
    "dim": H,
    "n_layers": 2,
    "use_skip_connections": True,
    "cell_clip": 0.4,
    "proj_clip": 0.3,
}
CNN = {
    "activation": "relu",
    "filters": [[1, 2], [3, 4], [4, 3]],
    "n_highway": 2,
    "embedding": {"dim": C},
    "n_characters": 262,
    "max_characters_per_token": 50,
}
PACKED = {"compression": "gzip", "shuffle": True, "fletcher32": True}
OMIT = object()  # marks an omitted field


def options_of(lstm: dict, cnn: dict | None) -> dict:
    """options.json as bilm-tf's training writes it, with changes."""
    options = {"bidirectional": True, "dropout": 0.1, "n_epochs": 10, "lstm": {**LSTM, **lstm}}
    if cnn is not None:
        options["char_cnn"] = {**copy.deepcopy(CNN), **cnn}
    for section in ("lstm", "char_cnn"):
        if section in options:
            options[section] = {
                name: value for name, value in options[section].items() if value is not OMIT
            }
    return options


def shapes_of(options: dict, softmax: bool = False) -> dict[str, tuple]:
    """Shapes of the datasets that bilm-tf dumps for a biLM with these options."""
    lstm = options["lstm"]
    p = lstm["projection_dim"]
    h = lstm["dim"]
    shapes = {"embedding": (len(WORDS), p)}
    if "char_cnn" in options:
        cnn = options["char_cnn"]
        features = sum(number for _, number in cnn["filters"])
        shapes = {"char_embed": (261, C)}
        for i, (width, number) in enumerate(cnn["filters"]):
            shapes[f"CNN/W_cnn_{i}"] = (1, width, C, number)
            shapes[f"CNN/b_cnn_{i}"] = (number,)
        for i in range(cnn.get("n_highway") or 0):
            for gate in ("carry", "transform"):
                shapes[f"CNN_high_{i}/W_{gate}"] = (features, features)
                shapes[f"CNN_high_{i}/b_{gate}"] = (features,)
        if features != p:
            shapes["CNN_proj/W_proj"] = (features, p)
            shapes["CNN_proj/b_proj"] = (p,)
    for d in (0, 1):
        for k in range(lstm.get("n_layers", 1)):
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell"
            shapes[f"{cell}/W_0"] = (2 * p, 4 * h)
            shapes[f"{cell}/B"] = (4 * h,)
            shapes[f"{cell}/W_P_0"] = (h, p)
    if softmax:
        shapes["softmax/W"] = (len(WORDS), p)
        shapes["softmax/b"] = (len(WORDS),)
    return shapes


def write_bilm(
    folder: Path, options: dict, softmax: bool = False, packed: bool = False, **changes
) -> dict[str, np.ndarray]:
    """Write options.json, random weights.hdf5 and vocab.txt. Returns the arrays.

    changes: arrays, or None to omit one.
    """
    random_numbers = np.random.RandomState(3)
    arrays = {}
    for name, shape in shapes_of(options, softmax).items():
        arrays[name] = random_numbers.normal(0, 0.7, shape).astype(np.float32)
    arrays.update(changes)
    arrays = {name: array for name, array in arrays.items() if array is not None}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, **PACKED if packed else {})
    return arrays


def write_softmax(path: Path) -> None:
    """Write a softmax apart from its model, as AllenNLP released it."""
    random_numbers = np.random.RandomState(5)
    with h5py.File(path, "w") as file:
        file["softmax/W"] = random_numbers.normal(0, 0.7, (len(WORDS), P)).astype(np.float32)
        file["softmax/b"] = random_numbers.normal(0, 0.7, len(WORDS)).astype(np.float32)


def write_fluid(folder: Path, n_layers: int = 2, softmax: bool = True) -> dict[str, np.ndarray]:
    """Write a folder like Paddle Fluid's ELMo, with Paddle, and vocab.txt next to it."""
    random_numbers = np.random.RandomState(4)
    words = len(WORDS)
    shapes = {"embedding_para": (words, P)}
    for d, direction in enumerate(("fw", "bw")):
        for k in range(n_layers):
            lstmp = f"lstmp_{d * n_layers + k}"
            shapes[f"{direction}_layer{k + 1}_gate_w"] = (P, 4 * H)
            shapes[f"{lstmp}.w_0"] = (P, 4 * H)
            shapes[f"{lstmp}.w_1"] = (H, P)
            shapes[f"{lstmp}.b_0"] = (1, 4 * H)
    if softmax:
        shapes["softmax_weight"] = (words, P)
        shapes["softmax_bias"] = (words,)
    folder.mkdir(parents=True)
    (folder.parent / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    spread = {".b_0": 2.5, ".w_1": 1.2}  # large enough for both clips
    variables = {
        name: random_numbers.normal(0, spread.get(name[-4:], 0.3), shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    for name, array in variables.items():
        write_variable(folder / name, array)
    return variables


def write_variable(path: Path, array: np.ndarray) -> None:
    paddle.save(paddle.to_tensor(array), str(path), use_binary_format=True)


def fluid_parameters(variables: dict[str, np.ndarray]) -> reference.Parameters:
    """The reference's parameters of the variables.

    Fluid's gates: candidate, input, forget, output; both clips are 3.
    """
    n_layers = sum(name.startswith("fw_") for name in variables)
    lstm = {}
    for d, (direction, letters) in enumerate(zip(reference.DIRECTIONS, ("fw", "bw"), strict=True)):
        lstm[direction] = []
        for k in range(n_layers):
            lstmp = f"lstmp_{d * n_layers + k}"
            layer = reference.layer_of(
                variables[f"{letters}_layer{k + 1}_gate_w"],
                variables[f"{lstmp}.w_0"],
                variables[f"{lstmp}.b_0"][0],
                variables[f"{lstmp}.w_1"],
                "jifo",
            )
            lstm[direction].append(layer)
    parameters = reference.Parameters(lstm, cell_clip=3.0, proj_clip=3.0, vocabulary=WORDS)
    parameters.word_embed = variables["embedding_para"]
    if "softmax_weight" in variables:
        parameters.softmax = tuple(
            variables[f"softmax_{name}"].astype(np.float64) for name in ("weight", "bias")
        )
    return parameters
