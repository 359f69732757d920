"""bilm-tf's files, which AllenNLP, simple_elmo and flair also read: options.json, and the weights in HDF5.

    char_embed                                              (261, C)  one row per character
    CNN/{W_cnn_i, b_cnn_i}                                  (1, width, C, number) (number,)
    CNN_high_i/{W_carry, b_carry, W_transform, b_transform} (F, F) (F,)
    CNN_proj/{W_proj, b_proj}                               (F, P) (P,)  absent if F = P
    embedding                                               (V, P)  word models only, instead of all above
    RNN_d/RNN/MultiRNNCell/Cell{l}/LSTMCell/{W_0, B, W_P_0} (2P, 4H), the input's rows first, (4H,) (H, P)
    softmax/{W, b}                                          (V, P) (V,)  which bilm-tf does not dump

Shapes: C character embedding, F all filters, P projection, H cell, V vocabulary; d direction, l layer. Our layout is the
same: gates i, j, f, o, matrices applied as x @ W. So each dataset is one or more of our weights concatenated. B excludes
the forget bias of 1, which is added when the model runs. Our character table has an additional padding row 0.

Files written here have attributes that other readers ignore: a checksum of each dataset, a fingerprint of the words that a
table is for, and the padding row of char_embed.
"""

import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files import disk
from elmo_core.files.disk import read_json
from elmo_core.files.hdf5_file import ArrayFile, HDF5File, quoted
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights import checkpoint

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
CHARACTERS = 256 + 5  # bytes and special characters, without the padding row 0 of our table
SOFTMAX = ("softmax/W", "softmax/b")
RELEASED_SOFTMAX = "softmax_weights.hdf5"  # ending of the names of files with only a softmax
PROJECTION = ("CNN_proj/W_proj", "CNN_proj/b_proj")
CHECKSUM, WORDS, MASK_ROW = "crc32", "vocabulary", "mask_row"  # attributes
NETWORK = re.compile(r"char_embed|CNN|RNN_")  # beginnings of the names of a network's datasets
# options and the fields of ELMoConfig that they set
LSTM_OPTIONS = {"dim": "cell_dim"}
LSTM_OPTIONS |= {n: n for n in ("projection_dim", "n_layers", "cell_clip", "proj_clip", "use_skip_connections")}
CNN_OPTIONS = {"max_characters_per_token": "max_characters"} | {n: n for n in ("filters", "activation", "n_highway")}
SINGLE_CELL = re.compile(r"(RNN_[01]/RNN/)(LSTMCell/.*)")
Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Item:
    """A dataset, and our weights that it consists of."""

    name: str
    shape: tuple[int, ...]
    weights: tuple[str, ...]
    our_shape: tuple[int, ...]  # of each weight
    table: bool = False  # one row per character or word; some files have an additional row

    @property
    def has_words(self) -> bool:
        return self.name in ("embedding", *SOFTMAX)

    def converted(self, array: np.ndarray) -> Weights:
        """Our weights. array: with our row 0 of a character table."""
        return dict(zip(self.weights, array.reshape(len(self.weights), *self.our_shape), strict=True))


def layout(config: ELMoConfig, softmax: bool, projected: bool = True) -> Iterator[Item]:
    """Yield a model's datasets."""
    encoder, features, size, cell = "token_encoder", config.n_filters, config.projection_dim, config.cell_dim

    def item(name: str, shape: tuple[int, ...], *weights: str, ours: tuple[int, ...] = (), table: bool = False) -> Item:
        return Item(name, shape, weights, ours or shape, table)

    if config.input == "char":
        width = config.character_dim
        table, ours = f"{encoder}.embedding.weight", (CHARACTERS + 1, width)
        yield item("char_embed", (CHARACTERS, width), table, ours=ours, table=True)
        for k, (columns, number) in enumerate(config.filters):
            name, ours = f"{encoder}.convolutions.{k}", (columns * width, number)
            yield item(f"CNN/W_cnn_{k}", (1, columns, width, number), f"{name}.weight", ours=ours)
            yield item(f"CNN/b_cnn_{k}", (number,), f"{name}.bias")
        for k in range(config.n_highway):
            for gate in ("carry", "transform"):
                name = f"{encoder}.highways.{k}.{gate}"
                yield item(f"CNN_high_{k}/W_{gate}", (features, features), f"{name}.weight")
                yield item(f"CNN_high_{k}/b_{gate}", (features,), f"{name}.bias")
        if features != size:
            yield item(PROJECTION[0], (features, size), f"{encoder}.projection.weight")
            yield item(PROJECTION[1], (size,), f"{encoder}.projection.bias")
    else:
        yield item("embedding", (config.vocab_size, size), f"{encoder}.embedding.weight", table=True)
    for d, direction in enumerate(("forward_lstm", "backward_lstm")):
        for k in range(config.n_layers):
            root, name = f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell", f"{direction}.{k}"
            matrices = f"{name}.input_weight", f"{name}.recurrent_weight"
            yield item(f"{root}/W_0", (2 * size, 4 * cell), *matrices, ours=(size, 4 * cell))
            yield item(f"{root}/B", (4 * cell,), f"{name}.bias")
            if projected:
                yield item(f"{root}/W_P_0", (cell, size), f"{name}.projection_weight")
    if softmax:
        yield item(SOFTMAX[0], (config.vocab_size, size), "softmax.weight")
        yield item(SOFTMAX[1], (config.vocab_size,), "softmax.bias", ours=(config.vocab_size, 1))


# Reading


def read(
    values: dict[str, Any], source: Path, weights: ArrayFile, vocabulary: Vocabulary | None, softmax_path: Path | None
) -> tuple[ELMoConfig, Weights]:
    """Read weights with bilm-tf's names under ours, with the softmax if there are one and its vocabulary.

    values: as `read_options` returns them. source: where they come from.
    """
    with HDF5File(softmax_path, "a softmax") if softmax_path else nullcontext(weights) as softmax:
        has_softmax = _has_softmax(softmax, vocabulary, required=softmax_path is not None)
        if values["input"] == "word" and vocabulary is None:
            raise UserError(f"{source} has no char_cnn, so this is a word model. Give its vocabulary, `vocab`.")
        if values["input"] == "word" or has_softmax:
            values["vocab_size"] = len(vocabulary)
        elif vocabulary:
            log.warning(f"`vocab` is ignored: {weights.path} has no softmax, and a character model needs no words.")
        for name in filter(SINGLE_CELL.fullmatch, list(weights.datasets)):  # of one layer: dumped without MultiRNNCell
            weights.datasets[SINGLE_CELL.sub(r"\1MultiRNNCell/Cell0/\2", name)] = weights.datasets.pop(name)
        projected = _is_projected(weights, values)
        try:
            config = ELMoConfig(**values)
        except UserError as error:
            raise UserError(f"{source}: {error}") from error
        files = {}
        for item in layout(config, has_softmax, projected):
            files[item] = softmax if item.name in SOFTMAX else weights
            implied_by = vocabulary.source if item.has_words else source
            files[item].check(item.name, item.shape, implied_by, one_more_row=item.table)
        _check_unused(weights, {item.name for item in files}, config, source)
        params: Weights = {}
        for item, file in files.items():
            params |= item.converted(_read_item(file, item, vocabulary))
    if not projected:
        cells = [name.removesuffix("bias") for name in params if "_lstm." in name and name.endswith(".bias")]
        params |= {f"{cell}projection_weight": np.eye(config.cell_dim, dtype=np.float32) for cell in cells}
    return config, params


def _has_softmax(softmax: ArrayFile, vocabulary: Vocabulary | None, required: bool) -> bool:
    """Whether there are a softmax and the vocabulary that it predicts."""
    found = all(name in softmax.datasets for name in SOFTMAX)
    if required and not found:
        raise UserError(f"{softmax.path} has no {' and '.join(SOFTMAX)}. {softmax.contents()}")
    if required and vocabulary is None:
        raise UserError("`softmax` requires `vocab`: the words that it predicts.")
    if found and vocabulary is None:
        log.warning(f"The softmax in {softmax.path} is ignored: `vocab` is missing, the words that it predicts.")
    return found and vocabulary is not None


def _is_projected(weights: ArrayFile, values: dict) -> bool:
    """Whether the LSTMs have projections. If projection_dim equals dim, bilm-tf has none and does not clip them."""
    equal = values["projection_dim"] == values["cell_dim"]
    if not equal or any(name.endswith("/W_P_0") for name in weights.datasets):
        return True
    values["proj_clip"] = 0.0
    return False


def _check_unused(weights: ArrayFile, used: set[str], config: ELMoConfig, options_path: Path) -> None:
    """Raise if datasets of a network are not in the options; warn about other unused datasets."""
    unused = set(weights.datasets) - used
    if config.input == "char" and unused.issuperset(PROJECTION):
        # if F = P, bilm-tf does not read CNN_proj, but AllenNLP does: accept an identity
        for name, axes in zip(PROJECTION, (2, 1), strict=True):
            weights.check(name, (config.projection_dim,) * axes, options_path)
        for name, identity in _identity_projection(config.projection_dim).items():
            if not np.array_equal(weights.array(name), identity):
                raise UserError(f"{weights.path}: filters add up to projection_dim; expected an identity in {name}.")
        unused -= set(PROJECTION)
    if unknown := [name for name in sorted(unused) if NETWORK.match(name)]:
        raise UserError(f"{weights.path} contains {quoted(unknown)}, which {options_path} does not mention.")
    if unused:
        ignored = format_count(len(unused), "datasets")
        log.warning(f"{weights.path}: ignoring {ignored} outside the model: {quoted(sorted(unused))}.")


def _identity_projection(size: int) -> Weights:
    return dict(zip(PROJECTION, (np.eye(size, dtype=np.float32), np.zeros(size, np.float32)), strict=True))


def _read_item(file: ArrayFile, item: Item, vocabulary: Vocabulary | None) -> np.ndarray:
    """Read a dataset, char_embed with our row 0, and verify its checksum and words if it has them."""
    array, row = file.array(item.name), file.attribute(item.name, MASK_ROW)
    if item.table and len(array) > item.shape[0]:
        row, array = (array[0], array[1:]) if file.has_padding else (None, _drop_additional_row(file, item, array))
    with file.errors_named(item.name):
        if item.name == "char_embed":
            row = np.zeros_like(array[0]) if row is None else np.asarray(row, np.float32)
            array = np.concatenate([row[None], array])
            if not checkpoint.is_finite(row):
                raise UserError(f"{file.path}: attribute {MASK_ROW} of {item.name} is not finite.")
        checksum, words = file.attribute(item.name, CHECKSUM), file.attribute(item.name, WORDS)
        if checksum is not None and int(checksum) != _checksum(item.name, array):
            raise UserError(f"{item.name} of {file.path} is damaged: wrong checksum.")
        if item.has_words:
            if words is not None and (str(words) != vocabulary.fingerprint or vocabulary.rows is not Vocabulary.rows):
                raise UserError(f"`vocab` is not the vocabulary for which {item.name} of {file.path} was written.")
            array = array[vocabulary.rows]
    return array


def _drop_additional_row(file: ArrayFile, item: Item, array: np.ndarray) -> np.ndarray:
    """Drop a table's additional row: a first row for padding, or a last character."""
    problem = f"{file.path}: {item.name} has {len(array):,} rows instead of {item.shape[0]:,}"
    if not array[0].any():
        log.warning(f"{problem}. Ignoring the first, which is all zero: padding.")
        return array[1:]
    if item.name == "char_embed":
        log.warning(f"{problem}: it was trained with n_characters {len(array)}. Ignoring the last, never read.")
        return array[:-1]
    raise UserError(f"{problem} as in the vocabulary, and the first is not padding.")


# options.json


def read_options(path: Path) -> dict[str, Any]:
    """Read options.json as keyword arguments of ELMoConfig, without the vocabulary size."""
    options = read_json(path, "bilm-tf's options")
    lstm = _section(path, options, "lstm", LSTM_OPTIONS)
    if "use_skip_connections" not in lstm:
        log.warning(f"{path}: lstm has no use_skip_connections; assuming false, as bilm-tf's training does.")
    lstm = {"n_layers": 1, "use_skip_connections": False, **lstm}
    values = {ours: lstm.get(theirs) for theirs, ours in LSTM_OPTIONS.items()}
    values |= {clip: values[clip] or 0.0 for clip in ("cell_clip", "proj_clip")}
    if "char_cnn" not in options:
        return {"input": "word", **values}
    cnn = _section(path, options, "char_cnn", (*CNN_OPTIONS, "embedding", "n_characters"))
    if (n_characters := cnn.get("n_characters", CHARACTERS)) not in (CHARACTERS, CHARACTERS + 1):
        raise UserError(
            f"{path}: n_characters is {n_characters!r:.60}, expected {CHARACTERS} (training: 256 bytes and 5 special "
            f"characters) or {CHARACTERS + 1} (inference: with a padding row 0, which no file contains)."
        )
    values |= {ours: cnn.get(theirs) for theirs, ours in CNN_OPTIONS.items()}
    embedding = _section(path, cnn, "embedding", ("dim",))
    return {"input": "char", **values, "n_highway": cnn.get("n_highway") or 0, "character_dim": embedding.get("dim")}


def _section(path: Path, values: dict[str, Any], name: str, known: Collection[str]) -> dict[str, Any]:
    section = values.get(name)
    if not isinstance(section, dict):
        raise UserError(f"{path}: {name} is {section!r:.60}, expected a JSON object.")
    if unknown := [option for option in section if option not in known]:
        log.warning(f"{path}, {name}: ignoring unknown options {quoted(unknown)}.")
    return section


# Writing


def write(folder: Path, config: ELMoConfig, params: Mapping[str, np.ndarray], vocabulary: Vocabulary | None) -> None:
    """Write options.json and weights.hdf5 into the folder."""
    if config.input not in ("char", "word") or config.alphabet != "bytes":
        raise UserError(f"input {config.input}, alphabet {config.alphabet}: bilm-tf has only char of bytes, and word.")
    items = list(layout(config, "softmax.weight" in params))
    checkpoint.match({name: item.our_shape for item in items for name in item.weights}, params, "the checkpoint")
    disk.write_json(folder / OPTIONS, options(config), indent=2)
    with disk.atomic_write(folder / WEIGHTS, "wb") as target, h5py.File(target.name, "w") as file:
        for item in items:
            with np.errstate(over="ignore"):
                array = np.concatenate([params[name].astype(np.float32).reshape(-1) for name in item.weights])
            if not checkpoint.is_finite(array):
                raise UserError(f"{', '.join(item.weights)}: too large for float32.")
            if item.name.endswith("/B"):
                array[2 * config.cell_dim : 3 * config.cell_dim] += np.float32(config.forget_bias - 1)
            _write_item(file, item, array, vocabulary)
        if config.input == "char" and config.n_filters == config.projection_dim:  # AllenNLP always reads it
            for name, identity in _identity_projection(config.projection_dim).items():
                file[name] = identity


def _write_item(file: h5py.File, item: Item, array: np.ndarray, vocabulary: Vocabulary | None) -> None:
    """Write a dataset. array: our values, which for characters include row 0."""
    rows = array.reshape(CHARACTERS + 1, -1) if item.name == "char_embed" else array.reshape(item.shape)
    dataset = file.create_dataset(item.name, data=rows[-item.shape[0] :])
    dataset.attrs[CHECKSUM] = _checksum(item.name, rows)
    if item.name == "char_embed":
        dataset.attrs[MASK_ROW] = rows[0]
    if item.has_words:
        dataset.attrs[WORDS] = vocabulary.fingerprint


def _checksum(name: str, array: np.ndarray) -> int:
    """CRC-32 of a dataset's name, shape and values; for characters including row 0."""
    return zlib.crc32(array, zlib.crc32(f"{name} {array.shape}".encode()))


def options(config: ELMoConfig) -> dict[str, Any]:
    """A model's options.json for inference."""
    lstm = {theirs: getattr(config, ours) for theirs, ours in LSTM_OPTIONS.items()}
    lstm |= {clip: lstm[clip] or None for clip in ("cell_clip", "proj_clip")}
    values: dict[str, Any] = {"bidirectional": True, "lstm": lstm}
    if config.vocab_size:
        values["n_tokens_vocab"] = config.vocab_size
    if config.input == "char":
        cnn = {theirs: getattr(config, ours) for theirs, ours in CNN_OPTIONS.items()}
        values["char_cnn"] = {**cnn, "embedding": {"dim": config.character_dim}, "n_characters": CHARACTERS + 1}
    return values


def compatibility_notes(config: ELMoConfig) -> list[str]:
    """Limitations of the programs that read the written files."""
    features, size, cell = config.n_filters, config.projection_dim, config.cell_dim
    word = config.input == "word"
    notes = (
        (
            word,
            "This is a word model. bilm-tf reads it with use_character_inputs=False, "
            f"embedding_weight_file={WEIGHTS} and a TokenBatcher of {checkpoint.VOCABULARY}. AllenNLP, simple_elmo and "
            "flair read only character models: give them vectors (run_embed.py).",
        ),
        (not word, f"simple_elmo expects the weights in model.hdf5: rename {WEIGHTS}."),
        (not word and features < size, f"bilm-tf and simple_elmo reject fewer than {size} filters (P)."),
        (bool(config.mix), "The mix of the layers is left out. Only config.json has it."),
        (not config.use_skip_connections, "AllenNLP and flair reject models without skip connections."),
        (size >= cell, f"bilm-tf and simple_elmo do not read W_P_0 unless P ({size}) is less than H ({cell})."),
        (
            config.forget_bias != 1,
            f"Readers add a forget bias of 1, but this model has {config.forget_bias:g}: the difference is added to B, "
            "rounded to float32.",
        ),
    )
    return [note for applies, note in notes if applies]
