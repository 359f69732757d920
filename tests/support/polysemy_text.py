"""A small corpus with senses for run_polysemy.py, and what its output shows."""

import re
from pathlib import Path

from elmo_tools.senses import report

SENSES = ["file", "line", "token", "word", "sense"]
LINES = [
    "we sat on the bank of the river .",
    "the bank of the town was closed",
    "Bank holidays and riverbanks",
    "",
    "a bank robber took the money .",
    "we sat on the bank of the river .",
    "他 在 银行 的 门口 等 我 们 。",
    "a 苹果 is on the bank of a deep , wide and very long river that nobody has ever seen",
    "很 红 的 苹果 很 甜",
    "only here",
]
LABELS = [
    ("0", "4", "bank", "river"),
    ("1", "1", "bank", "money"),
    ("4", "1", "bank", "money"),
    ("7", "5", "bank", "river"),
]


def write(path: Path, lines) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_senses(path: Path, labels, header=SENSES, file="text.txt") -> Path:
    return write(path, ["\t".join(header), *("\t".join((file, *label)) for label in labels)])


def table(lines) -> dict[str, list[float]]:
    """Parse the table: per row, chance and the layers' shares in percent."""
    rows = (re.fullmatch(r"(.+?) {2,}[\d,]+ +\d+ +(\d.*%)", line) for line in lines)
    return {row[1]: [float(share.rstrip("%")) for share in row[2].split()] for row in rows if row}


def sentence_of(line: str) -> str:
    """The sentence in an occurrence's line."""
    return line[report.HEAD :].replace("[", "").replace("]", "").strip()
