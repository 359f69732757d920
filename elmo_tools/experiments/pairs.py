"""Minimal pairs: does a language model prefer the better one of two sentences?"""

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_core.encoding.surprisal import Comparison
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.offsets import token_offsets
from elmo_core.text.text_files import parse_json, read_lines
from elmo_core.text.tokenise import Tokeniser

FIELDS = ("sentence_good", "sentence_bad")
SHARED_PREFIX = "prefix"
PREFIXES = ("prefix_good", "prefix_bad")
TEXTS = (*FIELDS, SHARED_PREFIX, *PREFIXES)
ROUNDING = 1e-3  # bits between equal sentences in different batches


class Sentence(NamedTuple):
    """A sentence of a pair. Of the records of its tokens and its end, begin to stop are scored."""

    tokens: list[str]
    begin: int
    stop: int

    @property
    def length(self) -> int:
        """The number of surprisals that are scored."""
        return self.stop - self.begin


class Pair(NamedTuple):
    """The fields of a line, and its two sentences."""

    fields: dict[str, Any]
    good: Sentence
    bad: Sentence


def read_pairs(
    path: Path,
    make_tokeniser: Callable[[list[str]], Tokeniser],
    groups: Sequence[str] = (),
) -> list[Pair]:
    """Read pairs, with the FIELDS, the groups, and maybe the prefixes.

    *.jsonl and *.json have an object on each line; other files have columns, by default the FIELDS.
    Pairs of two equal sentences are skipped. make_tokeniser: of the sentences.
    """
    lines = _read_fields(path, groups)
    tokenise = make_tokeniser([fields["sentence_good"] for _, fields in lines])
    pairs = []
    equal = []
    for number, fields in lines:
        try:
            good, bad = _sentences(fields, tokenise)
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}. Leave the pair out.") from error
        if good == bad:
            equal.append(number)
        else:
            pairs.append(Pair(fields, good, bad))
    if not pairs:
        raise UserError(
            f"{path}: all pairs ({len(equal):,}) have two equal sentences, and nothing to compare."
        )
    if equal:
        verb = "has" if len(equal) == 1 else "have"
        log.warning(
            f"{path}: {format_count(len(equal), 'pairs')} {verb} two equal sentences "
            f"(the same tokens), the first in line {equal[0]}: skipped."
        )
    return pairs


def _read_fields(path: Path, groups: Sequence[str]) -> list[tuple[int, dict[str, Any]]]:
    """Read the numbers and fields of the lines that are not blank."""
    is_json = any(suffix.lower() in (".json", ".jsonl") for suffix in path.suffixes)
    columns = ", ".join(chain(FIELDS, groups))
    wanted = f"an object with {columns}" if is_json else f"a TSV, quoted as in CSV, of {columns}"
    names: Sequence[str] = FIELDS
    found = []
    n_blank = 0
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            n_blank += 1
            continue
        try:
            if is_json:
                fields = _parse_object(line)
            else:
                cells = _split_cells(line)
                header = _header(cells)
                if header:
                    names = header
                    continue
                fields = _named(names, cells)
            _check_fields(fields, groups)
        except ValueError as error:
            raise UserError(
                f"{path}:{number}: {error}. Found {line!r:.60}, expected {wanted}."
            ) from error
        found.append((number, fields))
    if not found:
        raise UserError(f"{path} is empty. Expected {wanted} on each line.")
    if n_blank:
        log.warning(f"{path}: {format_count(n_blank, 'blank lines')}: skipped.")
    return found


def _parse_object(line: str) -> dict[str, Any]:
    try:
        fields = parse_json(line)
    except ValueError as error:
        cause = str(error).replace("line 1 ", "")
        raise ValueError(f"the line is not JSON, or cut off ({cause})") from error
    if not isinstance(fields, dict):
        raise ValueError("the line is not a JSON object")
    return fields


def _split_cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter="\t", strict=True), [])
    except csv.Error as error:
        raise ValueError(f"the line is not quoted as in CSV ({error})") from error


def _header(cells: Sequence[str]) -> list[str]:
    """Return the names of columns if these cells are a header, else nothing."""
    names = []
    for cell in cells:
        name = cell.strip()
        names.append(name.lower() if name.lower() in TEXTS else name)
    return names if set(FIELDS) <= set(names) else []


def _named(names: Sequence[str], cells: Sequence[str]) -> dict[str, Any]:
    if len(cells) != len(names):
        raise ValueError(f"the line has {format_count(len(cells), 'columns')}, not {len(names)}")
    return dict(zip(names, cells, strict=True))


def _check_fields(fields: dict[str, Any], groups: Sequence[str]) -> None:
    """Raise a ValueError unless a line has two sentences, the groups, and both prefixes or none."""
    for name in chain(FIELDS, groups):
        if name not in fields:
            raise ValueError(f"the line has no {name}")
    for name in TEXTS:
        is_missing = name not in FIELDS and fields.get(name) is None
        if not is_missing and not isinstance(fields[name], str):
            raise ValueError(f"{name} is not text")
    for name in FIELDS:
        if not fields[name].strip():
            raise ValueError(f"{name} is empty")
    given = [name for name in PREFIXES if fields.get(name) is not None]
    if len(given) == 1:
        (missing,) = set(PREFIXES) - set(given)
        raise ValueError(f"the line has {given[0]}, but no {missing}")
    if _text(fields, SHARED_PREFIX) and any(_text(fields, name) for name in PREFIXES):
        raise ValueError(f"the line has {SHARED_PREFIX}, and {' and '.join(PREFIXES)}")


def _text(fields: dict[str, Any], name: str) -> str:
    """The text of a field; empty if there is none."""
    return (fields.get(name) or "").strip()


def _sentences(fields: dict[str, Any], tokenise: Tokeniser) -> list[Sentence]:
    """Return the better and the worse sentence."""
    texts = [_text(fields, name) for name in FIELDS]
    prefixes = [_text(fields, name) or _text(fields, SHARED_PREFIX) for name in PREFIXES]
    if any(prefixes):
        parts = zip(prefixes, texts, strict=True)
        sentences = [_continuation(prefix, text, tokenise) for prefix, text in parts]
    else:
        sentences = [_whole(text, tokenise) for text in texts]
    for name, sentence in zip(FIELDS, sentences, strict=True):
        if not sentence.tokens[sentence.begin :]:
            raise ValueError(f"{name} has no words")
    return sentences


def _whole(text: str, tokenise: Tokeniser) -> Sentence:
    """A sentence of which all words and the end are scored."""
    tokens = tokenise(text)
    return Sentence(tokens, begin=0, stop=len(tokens) + 1)


def _continuation(prefix: str, text: str, tokenise: Tokeniser) -> Sentence:
    """A sentence of which the words after a prefix are scored, without the end."""
    whole = f"{prefix} {text}"
    tokens = tokenise(whole)
    begins = token_offsets(tokens, whole)[:, 0]
    n_prefix = int((begins <= len(prefix)).sum())
    return Sentence(tokens, begin=n_prefix, stop=len(tokens))


def score_name(length_power: float) -> str:
    """The name of a score: a sum of surprisals, divided by a power of their number."""
    if length_power == 0:
        return "sum"
    if length_power == 1:
        return "mean per word"
    return f"sum / words^{length_power:g}"


def score_columns(length_power: float) -> list[str]:
    """The names of the columns of a score: forward, backward, and both together."""
    directions = Comparison._fields[:3]
    if length_power == 0:
        return list(directions)
    return [f"{direction}_power_{length_power:g}" for direction in directions]


def preferences(
    pairs: Sequence[Pair],
    comparisons: Sequence[Comparison],
    groups: Sequence[str],
    length_power: float = 0,
) -> Iterator[list[str | int | float]]:
    """Yield a row for all pairs, and one for each value of the fields `groups`.

    A row is a name, the number of pairs, and the shares of them in which the better sentence has
    the lower surprisal, forward, backward and both together; then number and shares of the pairs
    whose words are all known. length_power: of the comparisons.
    """
    differences = np.array([comparison[:3] for comparison in comparisons])  # (pairs, 3)
    lengths = np.array([[pair.good.length] for pair in pairs])  # (pairs, 1)
    is_preferred = differences * lengths**length_power > ROUNDING
    is_known = np.array([comparison.in_vocabulary for comparison in comparisons])
    members = {"all": list(range(len(pairs)))}
    for group in dict.fromkeys(groups):
        for index, pair in enumerate(pairs):
            members.setdefault(f"{group}={pair.fields[group]}", []).append(index)
    for name, indices in members.items():
        known = [index for index in indices if is_known[index]]
        shares = is_preferred[indices].mean(axis=0)
        known_shares = is_preferred[known].mean(axis=0) if known else [np.nan] * 3
        yield [name, len(indices), *shares, len(known), *known_shares]
