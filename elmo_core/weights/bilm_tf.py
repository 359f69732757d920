"""bilm-tf's files, which AllenNLP, simple_elmo and flair also read: options and weights in HDF5.

    char_embed                                  (261, C)  one row per character
    CNN/{W_cnn_i, b_cnn_i}                      (1, width, C, number) (number,)
    CNN_high_i/{W_carry, b_carry}               (F, F) (F,)
    CNN_high_i/{W_transform, b_transform}       (F, F) (F,)
    CNN_proj/{W_proj, b_proj}                   (F, P) (P,)  absent if F = P
    embedding                                   (V, P)  word models only, instead of all above
    RNN_d/RNN/MultiRNNCell/Cell{l}/LSTMCell/
        {W_0, B, W_P_0}                         (2P, 4H), the input's rows first, (4H,) (H, P)
    softmax/{W, b}                              (V, P) (V,)  which bilm-tf does not dump

Shapes: C character embedding, F all filters, P projection, H cell, V vocabulary; d direction, l
layer. Our layout is the same: gates i, j, f, o, matrices applied as x @ W. So each dataset is one
or more of our weights, one after the other. B excludes the forget bias of 1, which is added when
the model runs. Our character table has a padding row 0 more, never read.
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

OPTIONS = "options.json"
WEIGHTS = "weights.hdf5"
CHARACTERS = 256 + 5  # bytes and special characters, without the padding row 0 of our table
TABLE = "token_encoder.embedding.weight"  # of characters or words
SOFTMAX = ("softmax/W", "softmax/b")
PROJECTION = ("CNN_proj/W_proj", "CNN_proj/b_proj")
NETWORK = re.compile(r"char_embed|CNN|RNN_")  # beginnings of the names of a network's datasets
CLIPS = ("cell_clip", "proj_clip")  # null without clips, where ELMoConfig has 0
# options and the fields of ELMoConfig that they set
LSTM_OPTIONS = {
    "dim": "cell_dim",
    "projection_dim": "projection_dim",
    "n_layers": "n_layers",
    "cell_clip": "cell_clip",
    "proj_clip": "proj_clip",
    "use_skip_connections": "use_skip_connections",
}
CNN_OPTIONS = {
    "max_characters_per_token": "max_characters",
    "filters": "filters",
    "activation": "activation",
    "n_highway": "n_highway",
}
SINGLE_CELL = re.compile(r"(RNN_[01]/RNN/)(LSTMCell/.*)")


def layout(
    config: ELMoConfig,
    softmax: bool,
    projected: bool = True,
    rows: slice | np.ndarray = slice(None),
) -> Iterator[Item]:
    """List a model's datasets and the weights in them.

    rows: those of our vocabulary's words in their tables.
    """
    if config.input == "char":
        yield from _character_layout(config)
    else:
        yield Item(
            "embedding",
            (config.vocab_size, config.projection_dim),
            {TABLE: lambda array: array[rows]},
        )
    for number, direction in enumerate(("forward", "backward")):
        for k in range(config.n_layers):
            yield from _lstm_layout(
                config,
                theirs=f"RNN_{number}/RNN/MultiRNNCell/Cell{k}/LSTMCell",
                ours=f"{direction}_lstm.{k}",
                projected=projected,
            )
    if softmax:
        yield Item(
            SOFTMAX[0],
            (config.vocab_size, config.projection_dim),
            {"softmax.weight": lambda array: array[rows]},
        )
        yield Item(
            SOFTMAX[1],
            (config.vocab_size,),
            {"softmax.bias": lambda array: array[rows, None]},
        )


def _character_layout(config: ELMoConfig) -> Iterator[Item]:
    """List the datasets of the character CNN."""
    width = config.character_dim
    n_filters = config.n_filters
    size = config.projection_dim
    yield Item(
        "char_embed",
        (CHARACTERS, width),
        {TABLE: lambda array: np.pad(array, [(1, 0), (0, 0)])},
    )
    for k, (columns, number) in enumerate(config.filters):
        ours = f"token_encoder.convolutions.{k}"
        matrix = _reshaped(columns * width, number)
        yield Item(f"CNN/W_cnn_{k}", (1, columns, width, number), {f"{ours}.weight": matrix})
        yield Item(f"CNN/b_cnn_{k}", (number,), {f"{ours}.bias": same})
    for k in range(config.n_highway):
        for gate in ("carry", "transform"):
            ours = f"token_encoder.highways.{k}.{gate}"
            yield Item(f"CNN_high_{k}/W_{gate}", (n_filters, n_filters), {f"{ours}.weight": same})
            yield Item(f"CNN_high_{k}/b_{gate}", (n_filters,), {f"{ours}.bias": same})
    if n_filters != size:
        weight, bias = PROJECTION
        yield Item(weight, (n_filters, size), {"token_encoder.projection.weight": same})
        yield Item(bias, (size,), {"token_encoder.projection.bias": same})


def _lstm_layout(config: ELMoConfig, theirs: str, ours: str, projected: bool) -> Iterator[Item]:
    """List the datasets of a layer in one direction."""
    size = config.projection_dim
    cell = config.cell_dim
    halves = {
        f"{ours}.input_weight": lambda array: array[:size],
        f"{ours}.recurrent_weight": lambda array: array[size:],
    }
    yield Item(f"{theirs}/W_0", (2 * size, 4 * cell), halves)
    yield Item(f"{theirs}/B", (4 * cell,), {f"{ours}.bias": same})
    if projected:
        yield Item(f"{theirs}/W_P_0", (cell, size), {f"{ours}.projection_weight": same})


def _reshaped(*shape: int) -> Conversion:
    return lambda array: array.reshape(shape)


# Reading


def read_arrays(
    values: dict[str, Any], source: Path, weights: ArrayFile, words: Path | None
) -> tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary | None]:
    """Read a model under our names, with its softmax if it and its words are given.

    values: of `read_options`. source: where these are from, for error messages. words: the file
    of the vocabulary.
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
            f"The softmax in {weights.path} is ignored: "
            "`vocab` is missing, the words that it predicts."
        )
    projected = _is_projected(weights, values)
    if not projected:  # bilm-tf does not clip then
        values["proj_clip"] = 0.0
    try:
        config = ELMoConfig(**values)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error
    items = layout(
        config,
        softmax=has_softmax and vocabulary is not None,
        projected=projected,
        rows=vocabulary.rows if vocabulary else slice(None),
    )
    params: dict[str, np.ndarray] = {}
    for item in items:
        implied_by = words if item.name in ("embedding", *SOFTMAX) else source
        params.update(item.converted(_take(weights, item, implied_by)))
    if not projected:
        params.update(identity_projections(config))
    _check_unused(weights, config, source)
    return config, params, vocabulary


def _is_projected(weights: ArrayFile, values: Mapping[str, Any]) -> bool:
    """Tell whether the LSTMs have projections. If projection_dim equals dim, bilm-tf has none."""
    if values["projection_dim"] != values["cell_dim"]:
        return True
    return any(name.endswith("/W_P_0") for name in weights.arrays)


def _take(file: ArrayFile, item: Item, implied_by: str | Path) -> np.ndarray:
    """Read a dataset, the characters' without an additional row.

    That is a first one of zeros, for padding, or a last character.
    """
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
    unknown = [name for name in sorted(weights.unused) if NETWORK.match(name)]
    if unknown:
        raise UserError(
            f"{weights.path} contains {quoted(unknown)}, which {source} does not mention."
        )
    if weights.unused:
        ignored = format_count(len(weights.unused), "datasets")
        names = quoted(sorted(weights.unused))
        log.warning(f"{weights.path}: ignoring {ignored} outside the model: {names}.")


# options.json


def read_options(path: Path) -> dict[str, Any]:
    """Read options.json as keyword arguments of ELMoConfig, without the vocabulary size."""
    options = disk.read_json(path, "bilm-tf's options")
    lstm = _section(path, options, "lstm")
    if "use_skip_connections" not in lstm:
        log.warning(
            f"{path}: lstm has no use_skip_connections; assuming false, as bilm-tf's training does."
        )
    values: dict[str, Any] = {ours: lstm.get(theirs) for theirs, ours in LSTM_OPTIONS.items()}
    values["input"] = "word"
    values["n_layers"] = lstm.get("n_layers", 1)
    values["use_skip_connections"] = lstm.get("use_skip_connections", False)
    for clip in CLIPS:
        values[clip] = values[clip] or 0.0
    if "char_cnn" in options:
        cnn = _section(path, options, "char_cnn")
        for theirs, ours in CNN_OPTIONS.items():
            values[ours] = cnn.get(theirs)
        values["input"] = "char"
        values["n_highway"] = values["n_highway"] or 0
        values["character_dim"] = _section(path, cnn, "embedding").get("dim")
    return values


def _section(path: Path, values: dict[str, Any], name: str) -> dict[str, Any]:
    section = values.get(name)
    if not isinstance(section, dict):
        raise UserError(f"{path}: {name} is {section!r:.60}, expected a JSON object.")
    return section


# Writing


def write_bilm_tf(folder: Path, config: ELMoConfig, params: Mapping[str, np.ndarray]) -> None:
    """Write options.json and weights.hdf5 into the folder.

    HDF5 adds checksums, which it verifies when the datasets are read.
    """
    if config.input not in ("char", "word") or config.alphabet != "bytes":
        raise UserError(
            f"{config.input} input, alphabet {config.alphabet}: "
            "bilm-tf has only char (of bytes) and word."
        )
    disk.write_json(folder / OPTIONS, options(config), indent=2)
    with disk.atomic_write(folder / WEIGHTS, "wb") as target, h5py.File(target.name, "w") as file:
        for item in layout(config, "softmax.weight" in params):
            parts = [params[name].astype(np.float32).reshape(-1) for name in item.weights]
            array = np.concatenate(parts)
            if item.name.endswith("/B"):
                forget_gate = array[2 * config.cell_dim : 3 * config.cell_dim]
                forget_gate += np.float32(config.forget_bias - 1)
            array = array[-math.prod(item.shape) :]  # without row 0 of the characters
            file.create_dataset(item.name, data=array.reshape(item.shape), fletcher32=True)
        if config.input == "char" and config.n_filters == config.projection_dim:
            # AllenNLP always reads a projection: the identity
            weight, bias = PROJECTION
            file[weight] = np.eye(config.projection_dim, dtype=np.float32)
            file[bias] = np.zeros(config.projection_dim, np.float32)


def options(config: ELMoConfig) -> dict[str, Any]:
    """Make a model's options.json for inference."""
    lstm = {theirs: getattr(config, ours) for theirs, ours in LSTM_OPTIONS.items()}
    for clip in CLIPS:
        lstm[clip] = lstm[clip] or None
    values: dict[str, Any] = {"bidirectional": True, "lstm": lstm}
    if config.vocab_size:
        values["n_tokens_vocab"] = config.vocab_size
    if config.input == "char":
        cnn = {theirs: getattr(config, ours) for theirs, ours in CNN_OPTIONS.items()}
        cnn["embedding"] = {"dim": config.character_dim}
        cnn["n_characters"] = CHARACTERS + 1
        values["char_cnn"] = cnn
    return values
