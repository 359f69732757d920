"""From tokens to the model's input arrays (see inputs.json), and from lines to printed answers. Needs only NumPy."""

import argparse
import json
import signal
import sys
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np

from elmo_core.messages import UserError
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.tokenise import Tokeniser

HERE = Path(__file__).resolve().parent
MODEL = json.loads((HERE / "inputs.json").read_text(encoding="utf-8"))
SETTINGS = MODEL["settings"]  # of the trained model
LINES_PER_BATCH = 64
DICTIONARY = HERE / "user_dict.txt"
SEGMENT = Segmenter(
    DICTIONARY.read_text(encoding="utf-8").split("\n") if DICTIONARY.exists() else ()
)  # jieba

Run = Callable[
    [dict[str, np.ndarray]], list[np.ndarray]
]  # the model's outputs for its inputs by name
tokenise = Tokeniser(SETTINGS["lang"], SEGMENT)  # splits raw text as in training


def main(load: Callable[[], Run], predict: Callable) -> None:
    """Answer the lines of standard input."""
    parser = argparse.ArgumentParser(
        description="Reads lines from standard input; README.md says what they hold."
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object per line")
    args = parser.parse_args()
    sys.stdin.reconfigure(encoding="utf-8-sig", newline="\n")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends the program
    run, lines = load(), (line.rstrip("\r\n") for line in sys.stdin)
    try:
        while batch := list(islice(lines, LINES_PER_BATCH)):
            texts = [line for line in batch if line.strip()]
            answers = iter(predict(run, texts) if texts else [])
            for line in batch:
                values, text = (
                    next(answers) if line.strip() else ({}, "")
                )  # a blank line stays blank
                print(json.dumps(values, ensure_ascii=False) if values and args.json else text)
    except UnicodeDecodeError as error:
        sys.exit(f"error: standard input is not UTF-8 ({error}). Convert it with iconv.")
    except UserError as error:
        sys.exit(f"error: {error}")


def arrays(sentences: list[list[str]]) -> dict[str, np.ndarray]:
    """The inputs of sentences by name: int64, padded to the longest sentence.

    A tagger of jieba's words also gets these words and the index of each token's.
    """
    rows, lengths = {"T": sentences}, {"T": lengths_of(sentences)}
    if SETTINGS.get("unit") == "jieba":  # those of characters
        rows["W"], word_index = SEGMENT.words_of(sentences)
        lengths["W"] = lengths_of(rows["W"])
    names = {"T": "lengths", "W": "word_lengths"}
    inputs = {names[axis]: values for axis, values in lengths.items()}
    longest = {axis: max(1, values.max(initial=0)) for axis, values in lengths.items()}
    for name, spec in MODEL["inputs"].items():
        axis, *columns = spec["shape"][1:]
        inputs[name] = np.full([len(sentences), longest[axis], *columns], spec["padding"], np.int64)
        for b, (array, row) in enumerate(zip(inputs[name], rows[axis], strict=True)):
            if name == "word_index":
                array[: len(row)] = word_index[b] + b * longest["W"]
                continue
            for k, token in enumerate(row):
                if columns:
                    ids = characters(token, spec)
                    array[k, : len(ids)] = ids
                else:
                    array[k] = word(token, spec)
    return inputs


def lengths_of(rows: list[list[str]]) -> np.ndarray:
    return np.array([len(row) for row in rows], np.int64)


def characters(token: str, spec: dict) -> list[int]:
    """The ids of a token's UTF-8 bytes (each plus one) or, with a table, code points, between begin and end ids."""
    longest = spec["shape"][2] - 2
    if "table" in spec:
        ids = table(spec["table"])
        special = {"<S>": ["<bos>"], "</S>": ["<eos>"]}.get(token)
        code_points = [ids.get(character, ids["<oov>"]) for character in special or token[:longest]]
        return [
            ids["<eow>"],
            *code_points,
            ids["<bow>"],
        ]  # begin and end swapped, as in ELMoForManyLangs
    special = {"<S>": [257], "</S>": [258]}.get(token)
    return [
        259,
        *(special or [byte + 1 for byte in token.encode("utf-8", "ignore")[:longest]]),
        260,
    ]


def word(token: str, spec: dict) -> int:
    """A word's line number in its table, from 0."""
    ids, token = table(spec["table"]), token[: spec.get("longest")]
    return ids.get(
        token, ids.get(token.lower(), spec["unknown"]) if spec.get("lower") else spec["unknown"]
    )


@cache
def table(name: str) -> dict[str, int]:
    text = (HERE / name).read_text(encoding="utf-8")
    return (
        json.loads(text)
        if name.endswith(".json")
        else {line: k for k, line in enumerate(text[:-1].split("\n"))}
    )
