"""bilm-tf's files, which AllenNLP, simple_elmo and flair also read: options.json, and the weights in HDF5.

    char_embed                                              (261, C)  one row per character
    CNN/{W_cnn_i, b_cnn_i}                                  (1, width, C, number) (number,)
    CNN_high_i/{W_carry, b_carry, W_transform, b_transform} (F, F) (F,)
    CNN_proj/{W_proj, b_proj}                               (F, P) (P,)  absent if F = P
    embedding                                               (V, P)  word models only, instead of all above
    RNN_d/RNN/MultiRNNCell/Cell{l}/LSTMCell/{W_0, B, W_P_0} (2P, 4H), the input's rows first, (4H,) (H, P)
    softmax/{W, b}                                          (V, P) (V,)  which bilm-tf does not dump

Shapes: C character embedding, F all filters, P projection, H cell, V vocabulary; d direction, l layer. Our layout is the
same: gates i, j, f, o, matrices applied as x @ W. So each dataset is one or more of our weights, one after the other. B
excludes the forget bias of 1, which is added when the model runs. Our character table has a padding row 0 more, never read.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files import disk
from elmo_core.files.array_file import ArrayFile, quoted
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights.layout import Conversion, Item, identity_projections, same

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
CHARACTERS = 256 + 5  # bytes and special characters, without the padding row 0 of our table
SOFTMAX = ("softmax/W", "softmax/b")
PROJECTION = ("CNN_proj/W_proj", "CNN_proj/b_proj")
NETWORK = re.compile(r"char_embed|CNN|RNN_")  # beginnings of the names of a network's datasets
# options and the fields of ELMoConfig that they set
LSTM_OPTIONS = {"dim": "cell_dim"}
LSTM_OPTIONS |= {
    n: n for n in ("projection_dim", "n_layers", "cell_clip", "proj_clip", "use_skip_connections")
}
CNN_OPTIONS = {"max_characters_per_token": "max_characters"} | {
    n: n for n in ("filters", "activation", "n_highway")
}
SINGLE_CELL = re.compile(r"(RNN_[01]/RNN/)(LSTMCell/.*)")


def layout(
    config: ELMoConfig,
    softmax: bool,
    projected: bool = True,
    rows: slice | np.ndarray = slice(None),
) -> Iterator[Item]:
    """List a model's datasets and the weights in them. rows: those of our vocabulary's words in their tables."""
    encoder, features, size, cell = (
        "token_encoder",
        config.n_filters,
        config.projection_dim,
        config.cell_dim,
    )
    table = f"{encoder}.embedding.weight"
    if config.input == "char":
        width = config.character_dim
        yield Item(
            "char_embed",
            (CHARACTERS, width),
            {table: lambda array: np.pad(array, [(1, 0), (0, 0)])},
        )
        for k, (columns, number) in enumerate(config.filters):
            name, matrix = f"{encoder}.convolutions.{k}", _reshaped(columns * width, number)
            yield Item(f"CNN/W_cnn_{k}", (1, columns, width, number), {f"{name}.weight": matrix})
            yield Item(f"CNN/b_cnn_{k}", (number,), {f"{name}.bias": same})
        for k in range(config.n_highway):
            for gate in ("carry", "transform"):
                name = f"{encoder}.highways.{k}.{gate}"
                yield Item(f"CNN_high_{k}/W_{gate}", (features, features), {f"{name}.weight": same})
                yield Item(f"CNN_high_{k}/b_{gate}", (features,), {f"{name}.bias": same})
        if features != size:
            yield Item(PROJECTION[0], (features, size), {f"{encoder}.projection.weight": same})
            yield Item(PROJECTION[1], (size,), {f"{encoder}.projection.bias": same})
    else:
        yield Item("embedding", (config.vocab_size, size), {table: lambda array: array[rows]})
    for d, direction in enumerate(("forward_lstm", "backward_lstm")):
        for k in range(config.n_layers):
            root, name = f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell", f"{direction}.{k}"
            halves = {
                f"{name}.input_weight": lambda array: array[:size],
                f"{name}.recurrent_weight": lambda array: array[size:],
            }
            yield Item(f"{root}/W_0", (2 * size, 4 * cell), halves)
            yield Item(f"{root}/B", (4 * cell,), {f"{name}.bias": same})
            if projected:
                yield Item(f"{root}/W_P_0", (cell, size), {f"{name}.projection_weight": same})
    if softmax:
        yield Item(
            SOFTMAX[0], (config.vocab_size, size), {"softmax.weight": lambda array: array[rows]}
        )
        yield Item(
            SOFTMAX[1], (config.vocab_size,), {"softmax.bias": lambda array: array[rows, None]}
        )


def _reshaped(*shape: int) -> Conversion:
    return lambda array: array.reshape(shape)


# Reading


def read_arrays(
    values: dict[str, Any], source: Path, weights: ArrayFile, words: Path | None
) -> tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary | None]:
    """Read a model under our names, with its softmax if it and its words are given.

    values: of `read_options`. source: where these are from, for error messages. words: the file of the vocabulary.
    """
    # models of one layer are dumped without MultiRNNCell
    arrays = {
        SINGLE_CELL.sub(r"\1MultiRNNCell/Cell0/\2", name): array
        for name, array in weights.arrays.items()
    }
    weights = ArrayFile(weights.path, arrays)
    has_softmax = arrays.keys() >= set(SOFTMAX)
    vocabulary = None
    if words and (has_softmax or values["input"] == "word"):
        vocabulary = Vocabulary.from_bilm_file(words)
        values["vocab_size"] = len(vocabulary)
    elif words:
        log.info(
            f"vocabulary    {words} is not used: a character model without a softmax needs no words"
        )
    elif values["input"] == "word":
        raise UserError(f"{source}: a word model requires `vocab`: its words.")
    elif has_softmax:
        log.warning(
            f"The softmax in {weights.path} is ignored: `vocab` is missing, the words that it predicts."
        )
    projected = _is_projected(weights, values)
    try:
        config = ELMoConfig(**values)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error
    params: dict[str, np.ndarray] = {}
    rows = vocabulary.rows if vocabulary else slice(None)
    for item in layout(config, has_softmax and vocabulary is not None, projected, rows):
        params |= item.converted(
            _take(weights, item, words if item.name in ("embedding", *SOFTMAX) else source)
        )
    _check_unused(weights, config, source)
    return config, params | ({} if projected else identity_projections(config)), vocabulary


def _is_projected(weights: ArrayFile, values: dict) -> bool:
    """Tell whether the LSTMs have projections. If projection_dim equals dim, bilm-tf has none and does not clip them."""
    equal = values["projection_dim"] == values["cell_dim"]
    if not equal or any(name.endswith("/W_P_0") for name in weights.arrays):
        return True
    values["proj_clip"] = 0.0
    return False


def _take(file: ArrayFile, item: Item, implied_by: str | Path) -> np.ndarray:
    """Read a dataset, the characters' without an additional row: a first one of zeros, for padding, or a last character."""
    if item.name != "char_embed" or file.shape(item.name, 2)[0] != CHARACTERS + 1:
        return file.take(item.name, item.shape, implied_by)
    array = file.take(item.name, (CHARACTERS + 1, item.shape[1]), implied_by)
    log.warning(
        f"{file.path}: {item.name} has {CHARACTERS + 1} rows. Ignoring one that is never read."
    )
    return array[:-1] if array[0].any() else array[1:]


def _check_unused(weights: ArrayFile, config: ELMoConfig, source: Path) -> None:
    """Raise if datasets of a network are not in the options; warn about other unused datasets."""
    if config.n_filters == config.projection_dim:
        weights.unused.difference_update(PROJECTION)  # the identity, which only AllenNLP reads
    if unknown := [name for name in sorted(weights.unused) if NETWORK.match(name)]:
        raise UserError(
            f"{weights.path} contains {quoted(unknown)}, which {source} does not mention."
        )
    if weights.unused:
        ignored = format_count(len(weights.unused), "datasets")
        log.warning(
            f"{weights.path}: ignoring {ignored} outside the model: {quoted(sorted(weights.unused))}."
        )


# options.json


def read_options(path: Path) -> dict[str, Any]:
    """Read options.json as keyword arguments of ELMoConfig, without the vocabulary size."""
    options = disk.read_json(path, "bilm-tf's options")
    lstm = _section(path, options, "lstm")
    if "use_skip_connections" not in lstm:
        log.warning(
            f"{path}: lstm has no use_skip_connections; assuming false, as bilm-tf's training does."
        )
    lstm = {"n_layers": 1, "use_skip_connections": False, **lstm}
    values = {ours: lstm.get(theirs) for theirs, ours in LSTM_OPTIONS.items()}
    values |= {clip: values[clip] or 0.0 for clip in ("cell_clip", "proj_clip")}
    if "char_cnn" not in options:
        return {"input": "word", **values}
    cnn = _section(path, options, "char_cnn")
    values |= {ours: cnn.get(theirs) for theirs, ours in CNN_OPTIONS.items()}
    embedding = _section(path, cnn, "embedding")
    return {
        "input": "char",
        **values,
        "n_highway": cnn.get("n_highway") or 0,
        "character_dim": embedding.get("dim"),
    }


def _section(path: Path, values: dict[str, Any], name: str) -> dict[str, Any]:
    section = values.get(name)
    if not isinstance(section, dict):
        raise UserError(f"{path}: {name} is {section!r:.60}, expected a JSON object.")
    return section


# Writing


def write_bilm_tf(folder: Path, config: ELMoConfig, params: Mapping[str, np.ndarray]) -> None:
    """Write options.json and weights.hdf5 into the folder; HDF5 verifies its checksums when they are read."""
    if config.input not in ("char", "word") or config.alphabet != "bytes":
        raise UserError(
            f"{config.input} input, alphabet {config.alphabet}: bilm-tf has only char (of bytes) and word."
        )
    disk.write_json(folder / OPTIONS, options(config), indent=2)
    with disk.atomic_write(folder / WEIGHTS, "wb") as target, h5py.File(target.name, "w") as file:
        for item in layout(config, "softmax.weight" in params):
            array = np.concatenate(
                [params[name].astype(np.float32).reshape(-1) for name in item.weights]
            )
            if item.name.endswith("/B"):
                array[2 * config.cell_dim : 3 * config.cell_dim] += np.float32(
                    config.forget_bias - 1
                )
            array = array[-math.prod(item.shape) :]  # without row 0 of the characters
            file.create_dataset(item.name, data=array.reshape(item.shape), fletcher32=True)
        if (
            config.input == "char" and config.n_filters == config.projection_dim
        ):  # AllenNLP always reads it
            file[PROJECTION[0]] = np.eye(config.projection_dim, dtype=np.float32)
            file[PROJECTION[1]] = np.zeros(config.projection_dim, np.float32)


def options(config: ELMoConfig) -> dict[str, Any]:
    """Make a model's options.json for inference."""
    lstm = {theirs: getattr(config, ours) for theirs, ours in LSTM_OPTIONS.items()}
    lstm |= {clip: lstm[clip] or None for clip in ("cell_clip", "proj_clip")}
    values: dict[str, Any] = {"bidirectional": True, "lstm": lstm}
    if config.vocab_size:
        values["n_tokens_vocab"] = config.vocab_size
    if config.input == "char":
        cnn = {theirs: getattr(config, ours) for theirs, ours in CNN_OPTIONS.items()}
        values["char_cnn"] = {
            **cnn,
            "embedding": {"dim": config.character_dim},
            "n_characters": CHARACTERS + 1,
        }
    return values
