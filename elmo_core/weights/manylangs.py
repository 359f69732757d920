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
SPECIAL = ("<bos>", "<eos>", "<oov>")  # in the order of SPECIAL_TOKENS
PAD = "<pad>"


def read_manylangs(folder: Path) -> tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary]:
    """Read the model in a folder under our names, with its words and characters."""
    encoder, tokens = _network(folder)
    word_ids = _dictionary(folder / "word.dic", SPECIAL) if tokens["word_dim"] else {}
    character_ids = _dictionary(folder / "char.dic", CodePoints.NAMES) if tokens["char_dim"] else {}
    words, rows = _words(word_ids, folder) if word_ids else (list(SPECIAL_TOKENS), [])
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
            alphabet="code points",
            **({"n_characters": max(character_ids.values()) + 1} if character_ids else {}),
        )
    except (UserError, TypeError, ValueError) as error:
        raise UserError(f"{folder / 'config.json'}: {error}") from error
    source = ArrayFile(folder / "token_embedder.pkl", read_torch(folder / "token_embedder.pkl"))
    weights = read_items(
        source, encoder_layout(config, max(word_ids.values(), default=0) + 1, rows)
    )
    if config.input == "word":  # whose table includes the projection here
        names = ("words.weight", "projection.weight", "projection.bias")
        table, weight, bias = (weights.pop(f"token_encoder.{name}") for name in names)
        weights["token_encoder.embedding.weight"] = table @ weight + bias
    weights |= read_items(
        ArrayFile(folder / "encoder.pkl", read_torch(folder / "encoder.pkl")), lstm_layout(config)
    )
    return config, weights, Vocabulary(words, folder / "word.dic", CodePoints(character_ids))


def encoder_layout(config: ELMoConfig, n_words: int, rows: list[int]) -> Iterator[Item]:
    """List the arrays of token_embedder.pkl and the weights in them. rows: of our words, among n_words, in their table."""
    n_filters, encoder = config.n_filters, "token_encoder"
    if config.reads_words:
        words = {f"{encoder}.words.weight": lambda array: array[rows]}
        yield Item("word_emb_layer.embedding.weight", (n_words, config.word_dim), words)
    if config.reads_characters:
        table = (config.n_characters, config.character_dim)
        yield Item("char_emb_layer.embedding.weight", table, {f"{encoder}.embedding.weight": same})
        yield from convolutions(config, "convolutions.")
        for k in range(config.n_highway):
            theirs, ours = f"highways._layers.{k}", f"{encoder}.highways.{k}"
            for part, shape in (("weight", (2 * n_filters, n_filters)), ("bias", (2 * n_filters,))):
                halves = {
                    f"{ours}.transform.{part}": lambda array: array[:n_filters].T,
                    f"{ours}.carry.{part}": lambda array: (
                        -array[n_filters:].T
                    ),  # sigmoid(-x) is 1 - sigmoid(x)
                }
                yield Item(f"{theirs}.{part}", shape, halves)
    width = config.word_dim * config.reads_words + n_filters * config.reads_characters
    yield Item(
        "projection.weight",
        (config.projection_dim, width),
        {f"{encoder}.projection.weight": transposed},
    )
    yield Item("projection.bias", (config.projection_dim,), {f"{encoder}.projection.bias": same})


def lstm_layout(config: ELMoConfig) -> Iterator[Item]:
    """List the arrays of encoder.pkl and the weights in them."""
    size, cell, reordered = config.projection_dim, config.cell_dim, gates("ifgo")
    for direction in ("forward", "backward"):
        for k in range(config.n_layers):
            theirs, ours = f"{direction}_layer_{k}", f"{direction}_lstm.{k}"
            for name, weight in (
                ("input_linearity", "input_weight"),
                ("state_linearity", "recurrent_weight"),
            ):
                matrix = {f"{ours}.{weight}": lambda array: reordered(array.T)}
                yield Item(f"{theirs}.{name}.weight", (4 * cell, size), matrix)
            yield Item(f"{theirs}.state_linearity.bias", (4 * cell,), {f"{ours}.bias": reordered})
            yield Item(
                f"{theirs}.state_projection.weight",
                (size, cell),
                {f"{ours}.projection_weight": transposed},
            )


def _network(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the settings of the LSTMs and of the tokens from the file that config.json names, or of a known one."""
    values = read_json(folder / "config.json", "the configuration of an ELMoForManyLangs model")
    path = folder / str(values.get("config_path", "")).replace("\\", "/").rpartition("/")[2]
    if (known := KNOWN.fullmatch(path.name)) and not path.exists():
        char_dim, word_dim, projection_dim, dim = map(int, known.groups())
        values = {
            "encoder": {"projection_dim": projection_dim, "dim": dim},
            "token_embedder": {"char_dim": char_dim, "word_dim": word_dim},
        }
    else:
        values = read_json(path, "the file that config_path in config.json names: copy it there")
    with damage_named(path, "Expected the configuration of a model of ELMoForManyLangs."):
        encoder = {
            "projection_dim": None,
            "dim": None,
            "n_layers": 2,
            "cell_clip": 3,
            "proj_clip": 3,
            **values["encoder"],
        }
        tokens = {
            "activation": "relu",
            "filters": FILTERS,
            "n_highway": 2,
            "char_dim": 0,
            "word_dim": 0,
        }
        tokens |= values["token_embedder"]
        if tokens["char_dim"] and tokens.get("max_characters_per_token", MAX_CHARS) != MAX_CHARS:
            raise ValueError(f"expected {MAX_CHARS} characters per token")
    return encoder, tokens


def _dictionary(path: Path, required: Sequence[str]) -> dict[str, int]:
    """Read {item: id}. A line with only an id is that of U+3000, which was stripped as white space."""
    check_input(path, "the dictionary that this model's configuration needs")
    ids: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        *item, identity = line.strip().split("\t")
        if (
            len(item) > 1
            or not identity.isdecimal()
            or len(identity) > 10
            or int(identity) >= 2**31
        ):
            raise UserError(
                f"{path}:{number}: found {line!r:.60}, expected an item, a tab and an id."
            )
        ids[item[0] if item else "\u3000"] = int(identity)
    if missing := [name for name in required if name not in ids]:
        raise UserError(f"{path}: there is no {missing[0]}.")
    return ids


def _words(ids: dict[str, int], folder: Path) -> tuple[list[str], list[int]]:
    """Return the vocabulary, our special tokens first, and the row of each word in the model's table."""
    reserved = {*SPECIAL, *SPECIAL_TOKENS, PAD}
    words = sorted(
        (word for word in ids if word not in reserved and word.split() == [word]),
        key=ids.__getitem__,
    )
    if left_out := len(ids) - len(words) - len(SPECIAL) - (PAD in ids):
        ignored = format_count(left_out, "words")
        log.info(
            f"{folder / 'word.dic'}: ignoring {ignored} with white space or equal to our special tokens."
        )
    return [*SPECIAL_TOKENS, *words], [ids[word] for word in (*SPECIAL, *words)]
