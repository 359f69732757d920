"""Minimal pairs: does a language model prefer the better one of two sentences?"""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.encoding.surprisal import Comparison
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.text_files import parse_json, read_lines

FIELDS = ("sentence_good", "sentence_bad")
ROUNDING = 1e-3  # bits between equal sentences in different batches


def read_pairs(path: Path, groups: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Read pairs, with the FIELDS and the groups.

    *.jsonl and *.json have an object on each line; other files have columns, by default the FIELDS.
    """
    is_json = any(suffix.lower() in (".json", ".jsonl") for suffix in path.suffixes)
    columns = ", ".join(chain(FIELDS, groups))
    wanted = f"an object with {columns}" if is_json else f"a TSV, quoted as in CSV, of {columns}"
    names: Sequence[str] = FIELDS
    pairs = []
    n_blank = 0
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            n_blank += 1
            continue
        try:
            if is_json:
                pair = parse_json(line)
            else:
                cells = next(csv.reader([line], delimiter="\t", strict=True), [])
                header = _header(cells)
                if header:
                    names = header
                    continue
                pair = dict(zip(names, cells, strict=True))
        except (ValueError, csv.Error):
            pair = None
        if not _is_pair(pair, groups):
            raise UserError(f"{path}:{number}: found {line!r:.60}, expected {wanted}.")
        pairs.append(pair)
    if not pairs:
        raise UserError(f"{path} is empty. Expected {wanted} on each line.")
    if n_blank:
        log.warning(f"{path}: {format_count(n_blank, 'blank lines')}: skipped.")
    return pairs


def _header(cells: Sequence[str]) -> list[str]:
    """Return the names of columns if these cells are a header, else nothing."""
    names = []
    for cell in cells:
        name = cell.strip()
        names.append(name.lower() if name.lower() in FIELDS else name)
    return names if set(FIELDS) <= set(names) else []


def _is_pair(pair: Any, groups: Sequence[str]) -> bool:
    """Tell whether this is an object with two different sentences and the groups."""
    if not isinstance(pair, dict):
        return False
    distinct = set()
    for field in FIELDS:
        sentence = pair.get(field)
        if not isinstance(sentence, str) or not sentence.strip():
            return False
        distinct.add(sentence.strip())
    return len(distinct) == len(FIELDS) and set(groups) <= set(pair)


def preferences(
    pairs: Sequence[dict[str, Any]], comparisons: Sequence[Comparison], groups: Sequence[str]
) -> Iterator[list[str | int | float]]:
    """Yield a row for all pairs, and one for each value of the fields `groups`.

    A row is a name, the number of pairs, and the shares of them in which the better sentence has
    the lower surprisal, forward, backward and both together; then number and shares of the pairs
    whose words are all known.
    """
    differences = np.array([comparison[:3] for comparison in comparisons])  # (pairs, 3)
    is_preferred = differences > ROUNDING
    is_known = np.array([comparison.in_vocabulary for comparison in comparisons])
    members = {"all": list(range(len(pairs)))}
    for group in dict.fromkeys(groups):
        for index, pair in enumerate(pairs):
            members.setdefault(f"{group}={pair[group]}", []).append(index)
    for name, indices in members.items():
        known = [index for index in indices if is_known[index]]
        shares = is_preferred[indices].mean(axis=0)
        known_shares = is_preferred[known].mean(axis=0) if known else [np.nan] * 3
        yield [name, len(indices), *shares, len(known), *known_shares]
