"""The models of ELMoForManyLangs (Che et al. 2018): 44 languages and simplified Chinese.

    config.json          config_path: the network's configuration, a path on the authors' machine
    char.dic, word.dic   item<TAB>id; absent if its dimension is 0
    token_embedder.pkl   PyTorch's state dictionaries
    encoder.pkl

The network differs from ours in the tokens: a word embedding and a character CNN over code points
are concatenated, then projected. A highway's gate passes its input, whereas ours passes the new
value. LSTM gates are in the order i, f, g, o, with no forget bias beyond the stored one. Sentences
have <bos> and <eos>, and start from a zero state.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.config import FILTERS, MAX_CHARS, ELMoConfig
from elmo_core.files.array_file import ArrayFile
from elmo_core.files.disk import check_input, read_json
from elmo_core.files.foreign_files import damage_named
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.characters import CodePoints
from elmo_core.text.text_files import read_lines
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights.layout import Item, convolutions, gates, read_items, same, transposed
from elmo_core.weights.pickles import read_torch

# known configurations whose files were not published: char_dim, word_dim, P, H
KNOWN = re.compile(r"cnn_(\d{1,9})_(\d{1,9})_(\d{1,9})_(\d{1,9})_sample\.json")
SPECIAL = ["<bos>", "<eos>", "<oov>"]  # in the order of SPECIAL_TOKENS
PAD = "<pad>"
ENCODER_DEFAULTS = {
    "projection_dim": None,
    "dim": None,
    "n_layers": 2,
    "cell_clip": 3,
    "proj_clip": 3,
}
TOKEN_DEFAULTS = {
    "activation": "relu",
    "filters": FILTERS,
    "n_highway": 2,
    "char_dim": 0,
    "word_dim": 0,
    "max_characters_per_token": MAX_CHARS,
}


def read_manylangs(folder: Path) -> tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary]:
    """Read the model in a folder under our names, with its words and characters."""
    encoder, tokens = _network(folder)
    word_ids = {}
    words = list(SPECIAL_TOKENS)
    rows: list[int] = []
    if tokens["word_dim"]:
        word_ids = _dictionary(folder / "word.dic", SPECIAL)
        words, rows = _words(word_ids, folder)
    character_ids = {}
    if tokens["char_dim"]:
        character_ids = _dictionary(folder / "char.dic", CodePoints.NAMES)
    try:
        config = _config(encoder, tokens, len(words), character_ids)
    except (UserError, TypeError, ValueError) as error:
        raise UserError(f"{folder / 'config.json'}: {error}") from error
    n_words = max(word_ids.values(), default=0) + 1
    tokens_path = folder / "token_embedder.pkl"
    source = ArrayFile(tokens_path, read_torch(tokens_path))
    weights = read_items(source, encoder_layout(config, n_words, rows))
    if config.input == "word":  # whose table includes the projection here
        table = weights.pop("token_encoder.words.weight")
        weight = weights.pop("token_encoder.projection.weight")
        bias = weights.pop("token_encoder.projection.bias")
        weights["token_encoder.embedding.weight"] = table @ weight + bias
    encoder_path = folder / "encoder.pkl"
    source = ArrayFile(encoder_path, read_torch(encoder_path))
    weights.update(read_items(source, lstm_layout(config)))
    return config, weights, Vocabulary(words, folder / "word.dic", CodePoints(character_ids))


def _config(
    encoder: dict[str, Any],
    tokens: dict[str, Any],
    n_words: int,
    character_ids: dict[str, int],
) -> ELMoConfig:
    """Make the configuration of a model with these settings. What it does not have is as usual."""
    if tokens["word_dim"] and tokens["char_dim"]:
        kind = "char+word"
    elif tokens["word_dim"]:
        kind = "word"
    else:
        kind = "char"
    filters = FILTERS
    n_characters = ELMoConfig.n_characters
    if tokens["char_dim"]:
        filters = tuple(tuple(pair) for pair in tokens["filters"])
        n_characters = max(character_ids.values()) + 1
    return ELMoConfig(
        input=kind,
        vocab_size=n_words,
        word_dim=tokens["word_dim"] or 100,
        character_dim=tokens["char_dim"] or 16,
        n_characters=n_characters,
        filters=filters,
        activation=tokens["activation"],
        n_highway=tokens["n_highway"],
        projection_dim=encoder["projection_dim"],
        cell_dim=encoder["dim"],
        n_layers=encoder["n_layers"],
        cell_clip=float(encoder["cell_clip"] or 0),
        proj_clip=float(encoder["proj_clip"] or 0),
        forget_bias=0.0,
        alphabet="code points",
    )


def encoder_layout(config: ELMoConfig, n_words: int, rows: list[int]) -> Iterator[Item]:
    """List the arrays of token_embedder.pkl and the weights in them.

    rows: of our words, among n_words, in their table.
    """
    width = 0  # of what is projected
    if config.reads_words:
        width += config.word_dim
        words = {"token_encoder.words.weight": lambda array: array[rows]}
        yield Item("word_emb_layer.embedding.weight", (n_words, config.word_dim), words)
    if config.reads_characters:
        width += config.n_filters
        table = (config.n_characters, config.character_dim)
        characters = {"token_encoder.embedding.weight": same}
        yield Item("char_emb_layer.embedding.weight", table, characters)
        yield from convolutions(config, "convolutions.")
        for k in range(config.n_highway):
            yield from _highway_layout(config, k)
    size = config.projection_dim
    yield Item("projection.weight", (size, width), {"token_encoder.projection.weight": transposed})
    yield Item("projection.bias", (size,), {"token_encoder.projection.bias": same})


def _highway_layout(config: ELMoConfig, k: int) -> Iterator[Item]:
    """List the arrays of a highway layer: the new value's part, then the gate's."""
    n_filters = config.n_filters
    shapes = {"weight": (2 * n_filters, n_filters), "bias": (2 * n_filters,)}
    for part, shape in shapes.items():
        halves = {
            f"token_encoder.highways.{k}.transform.{part}": lambda array: array[:n_filters].T,
            # sigmoid(-x) is 1 - sigmoid(x)
            f"token_encoder.highways.{k}.carry.{part}": lambda array: -array[n_filters:].T,
        }
        yield Item(f"highways._layers.{k}.{part}", shape, halves)


def lstm_layout(config: ELMoConfig) -> Iterator[Item]:
    """List the arrays of encoder.pkl and the weights in them."""
    size = config.projection_dim
    cell = config.cell_dim
    reordered = gates("ifgo")
    matrices = {"input_linearity": "input_weight", "state_linearity": "recurrent_weight"}
    for direction in ("forward", "backward"):
        for k in range(config.n_layers):
            theirs = f"{direction}_layer_{k}"
            ours = f"{direction}_lstm.{k}"
            for name, weight in matrices.items():
                matrix = {f"{ours}.{weight}": lambda array: reordered(array.T)}
                yield Item(f"{theirs}.{name}.weight", (4 * cell, size), matrix)
            yield Item(f"{theirs}.state_linearity.bias", (4 * cell,), {f"{ours}.bias": reordered})
            projection = {f"{ours}.projection_weight": transposed}
            yield Item(f"{theirs}.state_projection.weight", (size, cell), projection)


def _network(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the settings of the LSTMs and of the tokens.

    They are in the file that config.json names, or its name tells them.
    """
    values = read_json(folder / "config.json", "the configuration of an ELMoForManyLangs model")
    config_path = str(values.get("config_path", "")).replace("\\", "/")
    path = folder / config_path.rpartition("/")[2]
    known = KNOWN.fullmatch(path.name)
    if known and not path.exists():
        char_dim, word_dim, projection_dim, dim = [int(number) for number in known.groups()]
        values = {
            "encoder": {"projection_dim": projection_dim, "dim": dim},
            "token_embedder": {"char_dim": char_dim, "word_dim": word_dim},
        }
    else:
        values = read_json(path, "the file that config_path in config.json names: copy it there")
    with damage_named(path, "Expected the configuration of a model of ELMoForManyLangs."):
        encoder = {**ENCODER_DEFAULTS, **values["encoder"]}
        tokens = {**TOKEN_DEFAULTS, **values["token_embedder"]}
        if tokens["char_dim"] and tokens["max_characters_per_token"] != MAX_CHARS:
            raise ValueError(f"expected {MAX_CHARS} characters per token")
    return encoder, tokens


def _dictionary(path: Path, required: Sequence[str]) -> dict[str, int]:
    """Read {item: id}. A line with only an id is that of U+3000, which was stripped as space."""
    check_input(path, "the dictionary that this model's configuration needs")
    ids: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        fields = line.strip().split("\t")
        if len(fields) == 1:
            fields.insert(0, "\u3000")
        if len(fields) != 2 or not _is_id(fields[1]):
            raise UserError(
                f"{path}:{number}: found {line!r:.60}, expected an item, a tab and an id."
            )
        item, identity = fields
        ids[item] = int(identity)
    for name in required:
        if name not in ids:
            raise UserError(f"{path}: there is no {name}.")
    return ids


def _is_id(text: str) -> bool:
    return text.isdecimal() and len(text) <= 10 and int(text) < 2**31


def _words(ids: dict[str, int], folder: Path) -> tuple[list[str], list[int]]:
    """Return the vocabulary, and the row of each word in the model's table.

    Our special tokens come first, and have the rows of the model's own.
    """
    own = {*SPECIAL, PAD}
    all_words = [word for word in ids if word not in own]
    words = [word for word in all_words if word not in SPECIAL_TOKENS and word.split() == [word]]
    words.sort(key=lambda word: ids[word])
    n_ignored = len(all_words) - len(words)
    if n_ignored:
        ignored = format_count(n_ignored, "words")
        log.info(
            f"{folder / 'word.dic'}: ignoring {ignored} with white space "
            "or equal to our special tokens."
        )
    rows = [ids[word] for word in SPECIAL + words]
    return SPECIAL_TOKENS + words, rows
