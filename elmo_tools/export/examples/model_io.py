"""From tokens to the model's input arrays (see inputs.json), and from lines to printed answers.

Needs only NumPy. Letters: B sentences, T tokens of the longest, W of jieba's words of the longest.
"""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterable
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


def load_segmenter() -> Segmenter:
    """Load jieba's segmenter, with the model's dictionary if it has one."""
    path = HERE / "user_dict.txt"
    entries = path.read_text(encoding="utf-8").split("\n") if path.exists() else ()
    return Segmenter(entries)


SEGMENT = load_segmenter()
# Splits raw text as in training.
tokenise = Tokeniser(SETTINGS["lang"], SEGMENT)

# Maps the model's inputs by name to its outputs.
Run = Callable[[dict[str, np.ndarray]], list[np.ndarray]]
# Yields an answer for each line that is not blank: its values and a text.
Predict = Callable[[Run, list[str]], Iterable[tuple[dict, str]]]


def main(load: Callable[[], Run], predict: Predict) -> None:
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
    run = load()
    lines = (line.rstrip("\r\n") for line in sys.stdin)
    try:
        while batch := list(islice(lines, LINES_PER_BATCH)):
            print_answers(run, predict, batch, args.json)
    except UnicodeDecodeError as error:
        sys.exit(f"error: standard input is not UTF-8 ({error}). Convert it with iconv.")
    except UserError as error:
        sys.exit(f"error: {error}")


def print_answers(run: Run, predict: Predict, lines: list[str], as_json: bool) -> None:
    """Print the answer of each line; a blank line stays blank."""
    texts = [line for line in lines if line.strip()]
    answers = iter(predict(run, texts) if texts else [])
    for line in lines:
        values = {}
        text = ""
        if line.strip():
            values, text = next(answers)
        print(json.dumps(values, ensure_ascii=False) if values and as_json else text)


def arrays(sentences: list[list[str]]) -> dict[str, np.ndarray]:
    """Return the inputs of sentences by name: int64, padded to the longest sentence.

    A tagger of jieba's words also gets these words and the index of each token's.
    """
    rows = {"T": sentences}  # by the axis of an input
    inputs = {"lengths": lengths_of(sentences)}
    longest = {"T": max(1, inputs["lengths"].max(initial=0))}
    if SETTINGS.get("unit") == "jieba":  # its tokens are characters
        words, word_index = SEGMENT.words_of(sentences)
        rows["W"] = words
        inputs["word_lengths"] = lengths_of(words)
        longest["W"] = max(1, inputs["word_lengths"].max(initial=0))
    for name, spec in MODEL["inputs"].items():
        axes = spec["shape"][1:]
        if not axes or axes[0] not in rows:  # a length, or n-grams
            continue
        axis, *columns = axes
        shape = [len(sentences), longest[axis], *columns]
        array = np.full(shape, spec["padding"], np.int64)
        for b, row in enumerate(rows[axis]):
            if name == "word_index":
                array[b, : len(row)] = word_index[b] + b * longest["W"]
                continue
            for k, token in enumerate(row):
                if columns:
                    ids = characters(token, spec)
                    array[b, k, : len(ids)] = ids
                else:
                    array[b, k] = word(token, spec)
        inputs[name] = array
    return inputs


def lengths_of(rows: list[list[str]]) -> np.ndarray:
    return np.array([len(row) for row in rows], np.int64)


def characters(token: str, spec: dict) -> list[int]:
    """Return the ids of a token's characters, between begin and end.

    These are its UTF-8 bytes, each plus one, or, with a table, its code points.
    """
    longest = spec["shape"][2] - 2
    if "table" in spec:
        ids = table(spec["table"])
        special = {"<S>": "<bos>", "</S>": "<eos>"}
        code_points = [special[token]] if token in special else token[:longest]
        # Begin and end are swapped, as in ELMoForManyLangs.
        return [
            ids["<eow>"],
            *[ids.get(code_point, ids["<oov>"]) for code_point in code_points],
            ids["<bow>"],
        ]
    special = {"<S>": 257, "</S>": 258}
    if token in special:
        return [259, special[token], 260]
    return [259, *[byte + 1 for byte in token.encode("utf-8", "ignore")[:longest]], 260]


def word(token: str, spec: dict) -> int:
    """Return a word's line number in its table, from 0."""
    ids = table(spec["table"])
    token = token[: spec.get("longest")]
    if token in ids:
        return ids[token]
    if spec.get("lower"):
        return ids.get(token.lower(), spec["unknown"])
    return spec["unknown"]


@cache
def table(name: str) -> dict[str, int]:
    """Return the ids of a table: a JSON object, or the line numbers of a text, from 0."""
    text = (HERE / name).read_text(encoding="utf-8")
    if name.endswith(".json"):
        return json.loads(text)
    lines = text[:-1].split("\n")
    return {line: k for k, line in enumerate(lines)}
