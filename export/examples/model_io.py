"""Sentences of tokens as the arrays that the model reads, and what it gives as text: NumPy alone.

inputs.json says which arrays these are.
"""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SPECS = json.loads((HERE / "inputs.json").read_text(encoding="utf-8"))


def arrays(sentences: list[list[str]], features: list[list[str]] | None = None) -> dict[str, np.ndarray]:
    """Each input by its name: int64, as long as the longest sentence; the model reads the first `lengths` tokens of each.

    features: of every token, for a tagger that reads a column of features; without them they are unknown.
    """
    lengths = np.array([len(sentence) for sentence in sentences], np.int64)
    made = {"lengths": lengths}
    for name, spec in SPECS.items():
        columns = [spec["columns"]] if "columns" in spec else []
        made[name] = np.full([len(sentences), max(lengths, default=0), *columns], spec["padding"], np.int64)
        tokens = (features or [[""] * n for n in lengths]) if name == "features" else sentences
        for row, sentence in zip(made[name], tokens, strict=True):
            for k, token in enumerate(sentence):
                token, place = placed(token) if "places" in SPECS and name != "features" else (token, 0)
                if name == "places":
                    row[k] = min(place + 1, spec["most"])
                elif columns:
                    ids = characters(token, spec)
                    row[k, : len(ids)] = ids
                else:
                    row[k] = word(token, spec)
    return made


def characters(token: str, spec: dict) -> list[int]:
    """A token's UTF-8 bytes, each plus one, between 259 and 260, at most `columns` in all; or code points, by a table."""
    room = spec["columns"] - 2
    if "table" in spec:
        ids = table(spec["table"])
        marker = {"<S>": ["<bos>"], "</S>": ["<eos>"]}.get(token)
        own = [ids.get(character, ids["<oov>"]) for character in marker or token[:room]]
        return [ids["<eow>"], *own, ids["<bow>"]]  # swapped, as in ELMoForManyLangs
    marker = {"<S>": [257], "</S>": [258]}.get(token)
    return [259, *(marker or [byte + 1 for byte in token.encode("utf-8", "ignore")[:room]]), 260]


def word(token: str, spec: dict) -> int:
    """A word's line in a table, counted from 0."""
    ids, token = table(spec["table"]), token[: spec.get("longest")]
    return ids.get(token, ids.get(token.lower(), spec["unknown"]) if spec.get("lower") else spec["unknown"])


def placed(token: str) -> tuple[str, int]:
    """科0: a character and its place in its word."""
    match = re.fullmatch(r"(.|\D+)(\d+)", token)
    if not match:
        raise ValueError(f"found {token!r}, expected a character and its place in its word, as in 科0")
    return match[1], int(match[2])


@cache
def table(name: str) -> dict[str, int]:
    text = (HERE / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else {line: k for k, line in enumerate(text[:-1].split("\n"))}


def lines(sentences: list[list[str]], output: np.ndarray) -> list[str]:
    """For each sentence its labels; or its class and the probability of that. Of vectors only their shape."""
    if not (HERE / "labels.txt").exists():
        return [f"vectors {output.shape}"]
    names = list(table("labels.txt"))
    if output.dtype == np.int64:  # (B, T)
        pairs = [zip(sentence, row, strict=False) for sentence, row in zip(sentences, output, strict=True)]
        return [" ".join(f"{token}/{names[k]}" for token, k in row) for row in pairs]
    return [f"{names[row.argmax()]} {row.max():.4f}" for row in output]  # (B, K)
