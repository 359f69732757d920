"""ELMos in TensorFlow's checkpoints: bilm-tf's training folders, and TensorFlow Hub's modules.

Variables have the names of bilm-tf's HDF5 files (bilm_tf.py) behind lm/ or bilm/, except those of
the cells, lstm_cell/{kernel, bias, projection/kernel}, which are in

    lm/RNN_d/rnn/multi_rnn_cell/cell_l/        training, several layers
    lm/RNN_d/rnn/                              training, one layer
    bilm/RNN_d/RNN/MultiRNNCell/Celll/rnn/     module

Training: NAME/Adagrad has the accumulators of a variable. There is no softmax/W if the embedding
is used for both. Modules, such as google/elmo: tables have a row 0 for padding; the output `elmo`
is the sum of the layers, weighted by softmax(weights) * scaling of aggregation/. Without an
options.json, sizes are those of the variables, and the rest is as in google/elmo.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files.array_file import ArrayFile, quoted
from elmo_core.files.foreign_files import damage_named
from elmo_core.messages import UserError, log
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import bilm_tf
from elmo_core.weights.tensorflow import read_tensorflow

CELL = re.compile(
    r"(RNN_[01])/"
    r"(?:rnn(?:/multi_rnn_cell/cell_(\d+))?|RNN/MultiRNNCell/Cell(\d+)/rnn)"
    r"/lstm_cell/(.+)"
)
CELL_PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}
MIX = ("aggregation/weights", "aggregation/scaling")


def read_bilm_checkpoint(
    path: Path, options: Path | None, words: Path | None
) -> tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary | None]:
    """Read a model under our names, with its vocabulary and the mix of a module.

    path: PREFIX.index.
    """
    variables = read_tensorflow(path)
    is_module = any(name.startswith("bilm/") for name in variables)
    scope = "bilm/" if is_module else "lm/"
    arrays = {}
    for name, array in variables.items():
        is_of_optimizer = name.rpartition("/")[0] in variables
        if name.startswith(scope) and not is_of_optimizer:
            arrays[_bilm_name(name.removeprefix(scope))] = array
    if not arrays:
        raise UserError(
            f"{path} is not an ELMo: it has no variables in lm/ or bilm/, but {quoted(variables)}."
        )
    if not options and not is_module:
        raise UserError(
            f"{path}: bilm-tf's {bilm_tf.OPTIONS} is missing, which it writes into the same folder."
        )
    if bilm_tf.SOFTMAX[1] in arrays and "embedding" in arrays:
        arrays.setdefault(bilm_tf.SOFTMAX[0], arrays["embedding"])
    if is_module:
        for name in ("char_embed", "embedding"):
            if name in arrays:
                arrays[name] = arrays[name][1:]
    weights = ArrayFile(path, arrays)
    values = bilm_tf.read_options(options) if options else _module_values(weights)
    config, params, vocabulary = bilm_tf.read_arrays(values, options or path, weights, words)
    if MIX[0] in variables:
        config = replace(config, mix=_mix(ArrayFile(path, variables), config.n_layers + 1))
    return config, params, vocabulary


def _bilm_name(name: str) -> str:
    """Return the name in bilm-tf's HDF5 files of a variable without its scope."""
    cell = CELL.fullmatch(name)
    if not cell:
        return name
    direction, trained_layer, module_layer, variable = cell.groups()
    layer = trained_layer or module_layer or 0
    part = CELL_PARTS.get(variable, variable)
    return f"{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{part}"


def _module_values(file: ArrayFile) -> dict[str, Any]:
    """Infer the configuration of a module without options.json."""
    with damage_named(file.path):
        shapes = {name: array.shape for name, array in file.arrays.items()}
        rows, columns = shapes["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"]
        cells = [name for name in shapes if name.startswith("RNN_0/") and name.endswith("/W_0")]
        values = {
            "input": "word",
            "projection_dim": rows // 2,
            "cell_dim": columns // 4,
            "n_layers": len(cells),
        }
        if "char_embed" in shapes:
            n_kernels = sum(name.startswith("CNN/W_cnn_") for name in shapes)
            kernels = [shapes[f"CNN/W_cnn_{k}"] for k in range(n_kernels)]
            values["input"] = "char"
            values["filters"] = [(width, number) for _, width, _, number in kernels]
            values["n_highway"] = sum(name.endswith("/W_carry") for name in shapes)
            values["character_dim"] = shapes["char_embed"][1]
    log.info(
        "assumed       relu, 50 characters, skip connections, clips of 3, as in google/elmo: "
        "no options.json"
    )
    return values


def _mix(file: ArrayFile, n_layers: int) -> tuple[float, ...]:
    """Compute the layers' weights in a module's output `elmo`."""
    scalars = file.take(MIX[0], (n_layers,), "the number of layers").astype(np.float64)
    scaling = file.take(MIX[1], ()).astype(np.float64)
    weights = np.exp(scalars - scalars.max())
    return tuple((scaling * weights / weights.sum()).tolist())
