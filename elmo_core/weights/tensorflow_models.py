"""ELMos in TensorFlow's checkpoints: bilm-tf's training folders, and TensorFlow Hub's modules such as google/elmo.

Variables have the names of bilm-tf's HDF5 files (bilm_tf.py) behind lm/ or bilm/, except those of the cells:

    lm/RNN_d/rnn/multi_rnn_cell/cell_l/lstm_cell/{kernel, bias, projection/kernel}    training, several layers
    lm/RNN_d/rnn/lstm_cell/...                                                        training, one layer
    lm/rnn/...                                                                        training, one direction
    bilm/RNN_d/RNN/MultiRNNCell/Celll/rnn/lstm_cell/...                               module

Training: NAME/Adagrad has the accumulators of a variable. There is no softmax/W if the embedding is used for both.
Modules: tables have a row 0 for padding; the output `elmo` is the sum of the layers, weighted by softmax(weights) * scaling
of aggregation/. Without an options.json, sizes are those of the variables, and the rest is as in google/elmo.
"""

import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files.disk import read_json
from elmo_core.files.hdf5_file import quoted
from elmo_core.messages import UserError, log
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights import bilm_tf
from elmo_core.weights.tensorflow import TensorFlowCheckpoint

CELL = re.compile(r"(RNN_[01])/(?:rnn(?:/multi_rnn_cell/cell_(\d+))?|RNN/MultiRNNCell/Cell(\d+)/rnn)/lstm_cell/(.+)")
CELL_PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}
MIX, STEP = ("aggregation/weights", "aggregation/scaling"), "global_step"
# settings of a pretraining run, and bilm-tf's options
SETTINGS = {name: name for name in ("dropout", "batch_size", "unroll_steps")} | {"lr": "learning_rate"}
SETTINGS |= {"max_grad_norm": "all_clip_norm_val", "n_negative_samples": "n_negative_samples_batch"}


class BiLMCheckpoint(TensorFlowCheckpoint):
    """A biLM's variables, under bilm-tf's names. others: those outside the biLM; accumulators: a file of Adagrad's."""

    def __init__(self, path: Path):
        super().__init__(path)
        variables, self.others, self.accumulators = self.datasets, {}, copy.copy(self)
        self.datasets, self.accumulators.datasets = {}, {}
        for name, variable in variables.items():
            scope, _, own_name = name.partition("/")
            owner, _, slot = own_name.rpartition("/")
            if scope not in ("lm", "bilm"):
                self.others[name] = variable
            elif f"{scope}/{owner}" not in variables:
                self.datasets[_bilm_name(own_name)] = variable
            elif slot == "Adagrad":
                self.accumulators.datasets[_bilm_name(owner)] = variable
        self.has_padding = self.is_module = any(name.startswith("bilm/") for name in variables)
        if "lm/rnn/lstm_cell/kernel" in variables or any(name.startswith("lm/rnn/multi") for name in variables):
            raise UserError(f"{path} is a language model of one direction. An ELMo has two, RNN_0 and RNN_1.")
        if not self.datasets:
            raise UserError(f"{path} is not an ELMo: it has no variables in lm/ or bilm/, but {quoted(variables)}.")
        for file in (self, self.accumulators):
            if bilm_tf.SOFTMAX[1] in file.datasets and "embedding" in file.datasets:
                file.datasets.setdefault(bilm_tf.SOFTMAX[0], file.datasets["embedding"])


def _bilm_name(name: str) -> str:
    if not (cell := CELL.fullmatch(name)):
        return name
    return f"{cell[1]}/RNN/MultiRNNCell/Cell{cell[2] or cell[3] or 0}/LSTMCell/{CELL_PARTS.get(cell[4], cell[4])}"


def read(
    file: BiLMCheckpoint, options_path: Path | None, vocabulary: Vocabulary | None, softmax_path: Path | None
) -> tuple[ELMoConfig, bilm_tf.Weights, Vocabulary | None, bilm_tf.Weights | None, dict[str, Any] | None]:
    """Read the model under our names, its vocabulary if it uses one, and the optimizer and progress of its training."""
    if not options_path and not file.is_module:
        raise UserError(f"{file.path}: bilm-tf's {bilm_tf.OPTIONS} is missing, which it writes into the same folder.")
    values = bilm_tf.read_options(options_path) if options_path else _module_values(file)
    config, weights = bilm_tf.read(values, options_path or file.path, file, vocabulary, softmax_path)
    vocabulary = vocabulary if config.vocab_size else None
    if file.is_module:
        return replace(config, mix=_mix(file, config)), weights, vocabulary, None, None
    optimizer = progress = None
    if file.accumulators.datasets and "softmax.weight" in weights and not softmax_path:
        optimizer = _accumulators(file, config, vocabulary)
        progress = _progress(file, read_json(options_path, "bilm-tf's options"))
    return config, weights, vocabulary, optimizer, progress


def _module_values(file: BiLMCheckpoint) -> dict[str, Any]:
    """The configuration of a module without options.json."""
    with file.errors_named():
        shapes = {name: variable.shape for name, variable in file.datasets.items()}
        rows, columns = shapes["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"]
        values = {"input": "word", "projection_dim": rows // 2, "cell_dim": columns // 4}
        values["n_layers"] = sum(name.startswith("RNN_0/") and name.endswith("/W_0") for name in shapes)
        if "char_embed" in shapes:
            kernels = [shapes[f"CNN/W_cnn_{k}"] for k in range(sum(name.startswith("CNN/W_cnn_") for name in shapes))]
            values |= {"input": "char", "filters": [(width, number) for _, width, _, number in kernels]}
            values["n_highway"] = sum(name.endswith("/W_carry") for name in shapes)
            values["character_dim"] = shapes["char_embed"][1]
    log.info("assumed       relu, 50 characters, skip connections, clips of 3, as in google/elmo: no options.json")
    return values


def _mix(file: BiLMCheckpoint, config: ELMoConfig) -> tuple[float, ...]:
    """The layers' weights in a module's output `elmo`; none if it has no such output."""
    file.datasets = file.others
    if MIX[0] not in file.datasets:
        return ()
    for name, size in zip(MIX, (config.n_layers + 1, 1), strict=True):
        is_number = size == 1 and name in file.datasets and not file.datasets[name].shape
        file.check(name, () if is_number else (size,), "the number of layers")
    scalars, scaling = (file.array(name).astype(np.float64) for name in MIX)
    weights = np.exp(scalars - scalars.max())
    return tuple((scaling * weights / weights.sum()).tolist())


def _accumulators(file: BiLMCheckpoint, config: ELMoConfig, vocabulary: Vocabulary) -> bilm_tf.Weights:
    """The state of our Adagrad. Weights that bilm-tf lacks, padding and identities, keep its initial state."""
    state: bilm_tf.Weights = {}
    projected = any(name.endswith("/W_P_0") for name in file.datasets)
    for item in bilm_tf.layout(config, softmax=True, projected=projected):
        file.accumulators.check(item.name, item.shape, "its variable")
        array = file.accumulators.array(item.name)[vocabulary.rows if item.has_words else ...]
        if item.name == "char_embed":
            array = np.concatenate([np.ones_like(array[:1]), array])
        state |= {f"{name}_moment_0": part for name, part in item.converted(array).items()}
    return state


def _progress(file: BiLMCheckpoint, options: dict[str, Any]) -> dict[str, Any]:
    """The step and the settings of bilm-tf's training; not its position in the text, nor its LSTM states."""
    options = {"learning_rate": 0.2, **options}
    if options.get("sample_softmax") is False:
        options["n_negative_samples_batch"] = 0
    settings = {ours: options[name] for ours, name in SETTINGS.items() if isinstance(options.get(name), int | float)}
    file.datasets = file.others
    step = int(file.array(STEP)) if STEP in file.datasets and not file.datasets[STEP].shape else 0
    return {"step": step, "settings": {"optimizer": "adagrad", **settings}}
