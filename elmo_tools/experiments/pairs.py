"""Minimal pairs: does a language model prefer the better one of two sentences?"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from elmo_core.encoding.surprisal import Comparison
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.text_files import parse_json, read_lines

FIELDS = "sentence_good", "sentence_bad"
ROUNDING = 1e-3  # bits between equal sentences in different batches


def read_pairs(path: Path, groups: Sequence[str] = ()) -> list[dict]:
    """Read *.jsonl or *.json, an object with FIELDS and groups on each line; or columns, by default the FIELDS."""
    is_json = not {".json", ".jsonl"}.isdisjoint(suffix.lower() for suffix in path.suffixes)
    names = FIELDS
    pairs = []
    n_blank = 0
    wanted = f"{'an object with' if is_json else 'a TSV, quoted as in CSV, of'} {', '.join([*FIELDS, *groups])}"
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            n_blank += 1
            continue
        try:
            cells = [] if is_json else next(csv.reader([line], delimiter="\t", strict=True), [])
            header = [
                cell.lower() if cell.lower() in FIELDS else cell for cell in map(str.strip, cells)
            ]
            if {*FIELDS} <= {*header}:
                names = header
                continue
            pair = parse_json(line) if is_json else dict(zip(names, cells, strict=True))
        except (ValueError, csv.Error):
            pair = None
        sentences = [pair.get(field) for field in FIELDS] if isinstance(pair, dict) else []
        distinct = {sentence.strip() for sentence in sentences if isinstance(sentence, str)} - {""}
        if len(distinct) < 2 or not {*groups} <= {*pair}:
            raise UserError(f"{path}:{number}: found {line!r:.60}, expected {wanted}.")
        pairs.append(pair)
    if not pairs:
        raise UserError(f"{path} is empty. Expected {wanted} on each line.")
    if n_blank:
        log.warning(f"{path}: {format_count(n_blank, 'blank lines')}: skipped.")
    return pairs


def preferences(
    pairs: Sequence[dict], comparisons: Sequence[Comparison], groups: Sequence[str]
) -> Iterator[list]:
    """Yield a row for all pairs, and one for each value of the fields `groups`.

    A row is a name, the number of pairs, and the shares of them in which the better sentence has the lower surprisal,
    forward, backward and both together; then number and shares of the pairs whose words are all known.
    """
    is_preferred = np.array([comparison[:3] for comparison in comparisons]) > ROUNDING  # (pairs, 3)
    is_known = np.array([comparison.in_vocabulary for comparison in comparisons])
    members = {"all": list(range(len(pairs)))}
    for group in dict.fromkeys(groups):
        for index, pair in enumerate(pairs):
            members.setdefault(f"{group}={pair[group]}", []).append(index)
    for name, indices in members.items():
        known = [index for index in indices if is_known[index]]
        known_shares = is_preferred[known].mean(axis=0) if known else [np.nan] * 3
        yield [name, len(indices), *is_preferred[indices].mean(axis=0), len(known), *known_shares]
