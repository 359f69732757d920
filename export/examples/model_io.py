"""Converts sentences of tokens to the model's input arrays (see inputs.json), and its output to text. Needs only NumPy."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SPECS = json.loads((HERE / "inputs.json").read_text(encoding="utf-8"))


def arrays(sentences: list[list[str]], features: list[list[str]] | None = None) -> dict[str, np.ndarray]:
    """All inputs by name: int64, padded to the longest sentence.

    features: one per token, for taggers that read a feature column; unknown if not given.
    """
    lengths = np.array([len(sentence) for sentence in sentences], np.int64)
    inputs = {"lengths": lengths}
    for name, spec in SPECS.items():
        columns = [spec["columns"]] if "columns" in spec else []
        inputs[name] = np.full([len(sentences), max(lengths, default=0), *columns], spec["padding"], np.int64)
        tokens = (features or [[""] * n for n in lengths]) if name == "features" else sentences
        for row, sentence in zip(inputs[name], tokens, strict=True):
            for k, token in enumerate(sentence):
                token, position = split_position(token) if "places" in SPECS and name != "features" else (token, 0)
                if name == "places":
                    row[k] = min(position + 1, spec["most"])
                elif columns:
                    ids = characters(token, spec)
                    row[k, : len(ids)] = ids
                else:
                    row[k] = word(token, spec)
    return inputs


def characters(token: str, spec: dict) -> list[int]:
    """The ids of a token's UTF-8 bytes (each plus one) or, with a table, code points, between begin and end ids."""
    longest = spec["columns"] - 2
    if "table" in spec:
        ids = table(spec["table"])
        special = {"<S>": ["<bos>"], "</S>": ["<eos>"]}.get(token)
        code_points = [ids.get(character, ids["<oov>"]) for character in special or token[:longest]]
        return [ids["<eow>"], *code_points, ids["<bow>"]]  # begin and end swapped, as in ELMoForManyLangs
    special = {"<S>": [257], "</S>": [258]}.get(token)
    return [259, *(special or [byte + 1 for byte in token.encode("utf-8", "ignore")[:longest]]), 260]


def word(token: str, spec: dict) -> int:
    """A word's line number in its table, from 0."""
    ids, token = table(spec["table"]), token[: spec.get("longest")]
    return ids.get(token, ids.get(token.lower(), spec["unknown"]) if spec.get("lower") else spec["unknown"])


def split_position(token: str) -> tuple[str, int]:
    """Split a character from its position in its word: 科0."""
    match = re.fullmatch(r"(.|\D+)(\d+)", token)
    if not match:
        raise ValueError(f"found {token!r}, expected a character and its position in its word, as in 科0")
    return match[1], int(match[2])


@cache
def table(name: str) -> dict[str, int]:
    text = (HERE / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else {line: k for k, line in enumerate(text[:-1].split("\n"))}


def lines(sentences: list[list[str]], output: np.ndarray) -> list[str]:
    """Per sentence its labels, or its class with the probability. For vectors only their shape."""
    if not (HERE / "labels.txt").exists():
        return [f"vectors {output.shape}"]
    names = list(table("labels.txt"))
    if output.dtype == np.int64:  # (B, T)
        pairs = [zip(sentence, row, strict=False) for sentence, row in zip(sentences, output, strict=True)]
        return [" ".join(f"{token}/{names[k]}" for token, k in row) for row in pairs]
    return [f"{names[row.argmax()]} {row.max():.4f}" for row in output]  # (B, K)
