"""The models of ELMoForManyLangs (Che et al. 2018): 44 languages and simplified Chinese.

    config.json          config_path: the network's configuration, a path on the authors' machine
    char.dic, word.dic   item<TAB>id; absent if its dimension is 0
    token_embedder.pkl   PyTorch's state dictionaries
    encoder.pkl

The network differs from ours in the tokens: a word embedding and a character CNN over code points are concatenated, then
projected. A highway's gate passes its input, whereas ours passes the new value. LSTM gates are in the order i, f, g, o,
with no forget bias beyond the stored one. Sentences have <bos> and <eos>, and start from a zero state.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.config import FILTERS, MAX_CHARS, ELMoConfig
from elmo_core.files.disk import check_input, read_json
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.characters import CodePoints
from elmo_core.text.text_files import read_entries
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights import torch_files
from elmo_core.weights.arrays import ForeignWeights, reorder_gates

# known configurations whose files were not published: char_dim, word_dim, P, H
KNOWN = re.compile(r"cnn_(\d{1,9})_(\d{1,9})_(\d{1,9})_(\d{1,9})_sample\.json")
SPECIAL = ("<bos>", "<eos>", "<oov>")  # in the order of SPECIAL_TOKENS
PAD = "<pad>"


def read(folder: Path) -> tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary]:
    """Read the model in a folder under our names, with its words and characters."""
    network = _network(folder)
    encoder, tokens = network["encoder"], network["token_embedder"]
    word_ids = _dictionary(folder / "word.dic") if tokens["word_dim"] else None
    character_ids = _dictionary(folder / "char.dic") if tokens["char_dim"] else None
    words, rows = _words(word_ids, folder) if word_ids else (list(SPECIAL_TOKENS), [])
    alphabet = {"alphabet": "code points"}
    if character_ids:
        if missing := [name for name in CodePoints.NAMES if name not in character_ids]:
            raise UserError(f"{folder / 'char.dic'}: there is no {missing[0]}.")
        alphabet["n_characters"] = max(character_ids.values()) + 1
    try:
        config = ELMoConfig(
            input="char+word" if word_ids and character_ids else "word" if word_ids else "char",
            vocab_size=len(words),
            word_dim=tokens["word_dim"] or 100,
            character_dim=tokens["char_dim"] or 16,
            filters=tuple(map(tuple, tokens["filters"])) if character_ids else FILTERS,
            activation=tokens["activation"],
            n_highway=tokens["n_highway"],
            projection_dim=encoder["projection_dim"],
            cell_dim=encoder["dim"],
            n_layers=encoder["n_layers"],
            cell_clip=float(encoder["cell_clip"] or 0),
            proj_clip=float(encoder["proj_clip"] or 0),
            forget_bias=0.0,
            **alphabet,
        )
    except (UserError, TypeError, ValueError) as error:
        raise UserError(f"{folder / 'config.json'}: {error}") from error
    if config.input == "char" and config.n_filters == config.projection_dim:
        raise UserError(f"{folder}: a character model with as many filters as P is not supported.")
    token_source, lstm_source = (
        ForeignWeights(torch_files.read(folder / name), folder / name) for name in ("token_embedder.pkl", "encoder.pkl")
    )
    weights = _token_weights(token_source, config, np.array(rows, np.int64), word_ids)
    weights |= _lstm_weights(lstm_source, config)
    return config, weights, Vocabulary(words, folder / "word.dic", CodePoints(character_ids or {}))


def _network(folder: Path) -> dict[str, Any]:
    """The network's configuration: in config.json, in the file next to it that config_path names, or a known one."""
    path = folder / "config.json"
    values = read_json(path, "the configuration of an ELMoForManyLangs model")
    name = str(values.get("config_path", "")).replace("\\", "/").rpartition("/")[2]
    if "encoder" not in values:
        if (known := KNOWN.fullmatch(name)) and not (folder / name).exists():
            char_dim, word_dim, projection_dim, dim = map(int, known.groups())
            values = {
                "encoder": {"projection_dim": projection_dim, "dim": dim},
                "token_embedder": {"char_dim": char_dim, "word_dim": word_dim},
            }
        else:
            path = folder / name
            values = read_json(path, "the file that config_path in config.json names: copy it there")
    encoder = {"n_layers": 2, "cell_clip": 3, "proj_clip": 3}
    tokens = {"activation": "relu", "filters": FILTERS, "n_highway": 2, "max_characters_per_token": MAX_CHARS}
    try:
        encoder |= values["encoder"]
        tokens |= values["token_embedder"]
        if not {"projection_dim", "dim"} <= set(encoder) or not (tokens["char_dim"] or tokens["word_dim"]):
            raise ValueError("its dimensions are missing")
        if tokens["char_dim"] and tokens["max_characters_per_token"] != MAX_CHARS:
            raise ValueError(f"expected {MAX_CHARS} characters per token")
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not the configuration of an ELMo of ELMoForManyLangs ({error}).") from error
    return {"encoder": encoder, "token_embedder": tokens}


def _dictionary(path: Path) -> dict[str, int]:
    """Read {item: id}. A line with only an id is that of U+3000, which was stripped as white space."""
    check_input(path, "the dictionary that this model's configuration needs")
    ids: dict[str, int] = {}
    for number, line in enumerate(read_entries(path), 1):
        *item, identity = line.strip().split("\t")
        if len(item) > 1 or not identity.isdecimal() or len(identity) > 10 or int(identity) >= 2**31:
            raise UserError(f"{path}:{number}: found {line!r:.60}, expected an item, a tab and an id.")
        ids[item[0] if item else "\u3000"] = int(identity)
    return ids


def _words(ids: dict[str, int], folder: Path) -> tuple[list[str], list[int]]:
    """The vocabulary, our special tokens first, and the row of each word in the model's table."""
    if missing := [name for name in SPECIAL if name not in ids]:
        raise UserError(f"{folder / 'word.dic'}: there is no {missing[0]}.")
    reserved = {*SPECIAL, *SPECIAL_TOKENS, PAD}
    words = sorted((word for word in ids if word not in reserved and word.split() == [word]), key=ids.__getitem__)
    if left_out := len(ids) - len(words) - len(SPECIAL) - (PAD in ids):
        ignored = format_count(left_out, "words")
        log.info(f"{folder / 'word.dic'}: ignoring {ignored} with white space or equal to our special tokens.")
    return [*SPECIAL_TOKENS, *words], [ids[word] for word in (*SPECIAL, *words)]


def _token_weights(source: ForeignWeights, config: ELMoConfig, rows: np.ndarray, word_ids) -> dict[str, np.ndarray]:
    """Weights of the token encoder. The table of a word model includes its projection."""
    size, word_dim = config.projection_dim, config.word_dim if word_ids else 0
    n_filters = config.n_filters if config.reads_characters else 0
    weight = source.take("projection.weight", size, word_dim + n_filters).T
    bias = source.take("projection.bias", size)
    weights = {}
    if word_ids:
        name = "word_emb_layer.embedding.weight"
        table = source.take(name, len(word_ids), word_dim)
        if rows.max() >= len(table):
            raise UserError(f"{source.path}: {name} has {len(table):,} rows, but word.dic has the id {rows.max():,}.")
        if not config.reads_characters:
            return {"token_encoder.embedding.weight": table[rows] @ weight + bias}
        weights["words.weight"] = table[rows]
    name = "char_emb_layer.embedding.weight"
    weights["embedding.weight"] = source.take(name, config.n_characters, config.character_dim)
    weights |= source.convolutions("convolutions.", config)
    for k in range(config.n_highway):
        name = f"highways._layers.{k}"
        transform, gate = np.split(source.take(f"{name}.weight", 2 * n_filters, n_filters), 2)
        transform_bias, gate_bias = np.split(source.take(f"{name}.bias", 2 * n_filters), 2)
        ours = {"transform.weight": transform.T, "transform.bias": transform_bias}
        ours |= {"carry.weight": -gate.T, "carry.bias": -gate_bias}  # sigmoid(-x) is 1 - sigmoid(x)
        weights |= {f"highways.{k}.{part}": array for part, array in ours.items()}
    weights |= {"projection.weight": weight, "projection.bias": bias}
    return {f"token_encoder.{name}": np.ascontiguousarray(array) for name, array in weights.items()}


def _lstm_weights(source: ForeignWeights, config: ELMoConfig) -> dict[str, np.ndarray]:
    size, cell = config.projection_dim, config.cell_dim
    weights = {}
    for direction in ("forward", "backward"):
        for k in range(config.n_layers):
            theirs, ours = f"{direction}_layer_{k}", f"{direction}_lstm.{k}"
            gates = {
                "input_weight": source.take(f"{theirs}.input_linearity.weight", 4 * cell, size).T,
                "recurrent_weight": source.take(f"{theirs}.state_linearity.weight", 4 * cell, size).T,
                "bias": source.take(f"{theirs}.state_linearity.bias", 4 * cell),
            }
            weights |= {f"{ours}.{name}": reorder_gates(array, "ifgo") for name, array in gates.items()}
            projection = source.take(f"{theirs}.state_projection.weight", size, cell)
            weights[f"{ours}.projection_weight"] = np.ascontiguousarray(projection.T)
    return weights
