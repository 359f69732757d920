"""SyntaxGym's test suites: for which items of an experiment do its predictions hold?

{"meta": {"name": ..., "metric": "sum"},
 "predictions": [{"type": "formula", "formula": "(2;%gram%) > (2;%ungram%)"}],
 "items": [{"item_number": 1, "conditions": [
    {"condition_name": "gram", "regions": [{"region_number": 1, "content": ...}]}]}]}

The formulas are in `formulas.py`. Suites may have other fields, which are not read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_core.checks import check_field, check_option, check_text
from elmo_core.encoding.surprisal import Surprisals
from elmo_core.messages import UserError, format_count
from elmo_core.text.text_files import parse_json, read_lines, text_files
from elmo_core.text.tokenise import Tokeniser
from elmo_tools.experiments.formulas import Formula, RegionName, parse_formula
from elmo_tools.experiments.regions import tokenise_parts

METRICS = {  # of the surprisals of a region's words
    "sum": np.sum,
    "mean": np.mean,
    "median": np.median,
    "range": np.ptp,
    "max": np.max,
    "min": np.min,
}
COLUMNS = ("suite", "prediction", "item", "forward", "backward", "both", "in_vocabulary")
DIRECTIONS = COLUMNS[3:6]
NO_SHARES = np.full(len(DIRECTIONS), np.nan)
EXPECTED = "a test suite in SyntaxGym's JSON"


class Sentence(NamedTuple):
    """A condition of an item. regions: the texts by number, in the order of the sentence."""

    where: str
    item: int
    condition: str
    regions: dict[int, str]


class TokenisedSentence(NamedTuple):
    """Tokens, and their positions in each region."""

    tokens: list[str]
    regions: dict[int, list[int]]


@dataclass(frozen=True)
class Suite:
    """A test suite. items: of each the sentences, by condition."""

    path: Path
    name: str
    metric: str
    predictions: list[Formula]
    items: dict[int, dict[str, Sentence]]

    @property
    def sentences(self) -> list[Sentence]:
        """All conditions of the first item, then of the second, and so on."""
        return list(chain.from_iterable(item.values() for item in self.items.values()))

    @property
    def texts(self) -> list[str]:
        """The texts of the sentences."""
        return [" ".join(sentence.regions.values()) for sentence in self.sentences]


class Outcome(NamedTuple):
    """Whether a prediction holds. number: of the prediction, from 1.

    holds: (items, 3), in the order of DIRECTIONS. in_vocabulary: (items,), whether all words of an
    item's sentences are.
    """

    suite: Suite
    number: int
    holds: np.ndarray
    in_vocabulary: np.ndarray

    @property
    def name(self) -> str:
        """The suite's name, with the prediction's number if there are several."""
        is_single = len(self.suite.predictions) == 1
        return self.suite.name if is_single else f"{self.suite.name} ({self.number})"

    @property
    def n_known(self) -> int:
        """The number of items whose words are all known."""
        return int(self.in_vocabulary.sum())

    def shares(self, only_known: bool = False) -> np.ndarray:
        """The shares of the items for which the prediction holds (3,).

        only_known: of those whose words are all known.
        """
        holds = self.holds[self.in_vocabulary] if only_known else self.holds
        return holds.mean(axis=0)

    def rows(self) -> Iterator[list[str | int]]:
        """Yield a row of the table of each item."""
        for item, holds, is_known in zip(
            self.suite.items, self.holds, self.in_vocabulary, strict=True
        ):
            yield [self.suite.name, self.number, item, *holds.astype(int), int(is_known)]


def suite_files(sources: Sequence[str]) -> list[Path]:
    """The files of paths, folders and globs."""
    paths = list(chain.from_iterable(text_files(source) for source in sources))
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise UserError(f"--suite: {path} is given twice. Leave one out.")
        seen.add(path.resolve())
    return paths


def read_suites(paths: Sequence[Path]) -> list[Suite]:
    """Read test suites, whose names must differ."""
    suites: dict[str, Suite] = {}
    for path in paths:
        suite = read_suite(path)
        if suite.name in suites:
            raise UserError(
                f"{path} and {suites[suite.name].path} are both named {suite.name!r} in `meta`. "
                "Rename one."
            )
        suites[suite.name] = suite
    return list(suites.values())


def read_suite(path: Path) -> Suite:
    """Read a test suite."""
    text = "\n".join(read_lines(path))
    if not text.strip():
        raise UserError(f"{path} is empty, expected {EXPECTED}.")
    try:
        values = parse_json(text)
    except ValueError as error:
        raise UserError(f"{path}: invalid JSON ({error}), expected {EXPECTED}.") from error
    where = str(path)
    meta = _field(values, "meta", dict, where)
    name = check_text(_field(meta, "name", str, f"{path}, meta"), f"{path}, meta").strip()
    if not name or not name.isprintable():
        raise UserError(f"{path}, meta: found the name {name!r:.60}, expected a name in one line.")
    metric = _field(meta, "metric", str, f"{path}, meta")
    check_option(f"{path}, meta: metric", metric, list(METRICS))
    suite = Suite(
        path,
        name,
        metric=metric,
        predictions=_read_predictions(values, where),
        items=_read_items(values, where),
    )
    _check_regions(suite)
    return suite


def _read_predictions(values: Any, where: str) -> list[Formula]:
    predictions = []
    for at, value in _items(values, "predictions", "prediction", where):
        kind = _field(value, "type", str, at)
        if kind != "formula":
            raise UserError(f"{at}: found the type {kind!r:.60}, expected 'formula'.")
        predictions.append(parse_formula(_field(value, "formula", str, at), at))
    return predictions


def _read_items(values: Any, where: str) -> dict[int, dict[str, Sentence]]:
    items: dict[int, dict[str, Sentence]] = {}
    for at, value in _items(values, "items", "item", where):
        number = _field(value, "item_number", int, at)
        if number in items:
            raise UserError(f"{where}: the item_number {number} occurs twice. Number each item.")
        items[number] = _read_conditions(value, number, f"{where}, item_number {number}")
    return items


def _read_conditions(item: Any, number: int, where: str) -> dict[str, Sentence]:
    sentences: dict[str, Sentence] = {}
    for at, value in _items(item, "conditions", "condition", where):
        condition = check_text(_field(value, "condition_name", str, at), at).strip()
        if condition in sentences:
            raise UserError(f"{where}: the condition {condition!r:.60} occurs twice.")
        where_condition = f"{where}, condition {condition!r:.60}"
        regions: dict[int, str] = {}
        for region_at, region in _items(value, "regions", "region", where_condition):
            region_number = _field(region, "region_number", int, region_at)
            content = check_text(_field(region, "content", str, region_at), region_at)
            if region_number in regions:
                raise UserError(f"{where_condition}: the region {region_number} occurs twice.")
            regions[region_number] = " ".join(content.split())
        sentences[condition] = Sentence(where_condition, number, condition, regions)
    return sentences


def _items(values: Any, name: str, what: str, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list that is not empty, each with its position."""
    items = _field(values, name, list, where)
    if not items:
        raise UserError(f"{where}: {name!r} is empty, expected {EXPECTED}.")
    for k, item in enumerate(items, 1):
        yield f"{where}, {what} {k}", item


def _field(values: Any, name: str, kind: Any, where: str) -> Any:
    """The value of a key of an object, which is of this kind. where: the object's position."""
    return check_field(values, name, kind, where=where, expected=EXPECTED)


def _check_regions(suite: Suite) -> None:
    """Raise unless each item has the regions that the predictions name."""
    for k, formula in enumerate(suite.predictions, 1):
        for condition, region in formula.regions:
            for number, sentences in suite.items.items():
                where = f"{suite.path}, item_number {number}"
                if condition not in sentences:
                    raise UserError(
                        f"{where}: no condition {condition!r:.60}, which prediction {k} names. "
                        f"Its conditions are {', '.join(sentences)}."
                    )
                if region is not None and region not in sentences[condition].regions:
                    raise UserError(
                        f"{where}, condition {condition!r:.60}: no region {region}, "
                        f"which prediction {k} names."
                    )


def tokenise_suite(suite: Suite, tokenise: Tokeniser) -> list[TokenisedSentence]:
    """Tokenise the sentences of a suite."""
    return [_tokenise(sentence, tokenise) for sentence in suite.sentences]


def _tokenise(sentence: Sentence, tokenise: Tokeniser) -> TokenisedSentence:
    """Tokenise a sentence as a whole, and give each token to the region in which it begins."""
    tokens, positions = tokenise_parts(list(sentence.regions.values()), tokenise)
    if not tokens:
        raise UserError(f"{sentence.where}: the sentence has no words.")
    regions = dict(zip(sentence.regions, positions, strict=True))
    for number, content in sentence.regions.items():
        if content and not regions[number]:
            raise UserError(
                f"{sentence.where}: the region {number}, {content!r:.60}, has no words."
            )
    return TokenisedSentence(tokens, regions)


def outcomes(
    suite: Suite, sentences: Sequence[TokenisedSentence], surprisals: Sequence[Surprisals]
) -> list[Outcome]:
    """Evaluate the predictions of a suite. sentences: those of the suite, as tokens."""
    named = set(chain.from_iterable(formula.regions for formula in suite.predictions))
    values: dict[RegionName, list[np.ndarray]] = {name: [] for name in named}
    is_known = dict.fromkeys(suite.items, True)
    for sentence, tokenised, records in zip(suite.sentences, sentences, surprisals, strict=True):
        if not all(record.in_vocabulary for record in records):
            is_known[sentence.item] = False
        directions = np.array([[record.forward, record.backward] for record in records])
        words = np.column_stack([directions, directions.sum(axis=1)])  # (n + 1, 3)
        for name in named:
            if name.condition == sentence.condition:
                value = _region_value(name, words, regions=tokenised.regions, suite=suite)
                if value is None:
                    raise UserError(
                        f"{sentence.where}: the region {name.region} has no words, "
                        f"and so no {suite.metric}."
                    )
                values[name].append(value)
    arrays = {name: np.array(of_items) for name, of_items in values.items()}  # (items, 3)
    found = []
    for number, formula in enumerate(suite.predictions, 1):
        holds = np.zeros((len(suite.items), len(DIRECTIONS)), bool)
        holds[:] = formula.holds(arrays)
        found.append(Outcome(suite, number, holds, np.array(list(is_known.values()))))
    return found


def _region_value(
    name: RegionName, words: np.ndarray, regions: dict[int, list[int]], suite: Suite
) -> np.ndarray | None:
    """The metric of the surprisal of a region's words (3,); of all regions, the sum of theirs.

    None if there is none. words: surprisals (n, 3). regions: the positions of their words.
    """
    chosen = regions.values() if name.region is None else [regions[name.region]]
    metric = METRICS[suite.metric]
    values = [metric(words[positions], axis=0) for positions in chosen if positions]
    if values:
        return np.sum(values, axis=0)
    return np.zeros(len(DIRECTIONS)) if suite.metric == "sum" else None


def summary(found: Sequence[Outcome]) -> Iterator[list[str | int | float]]:
    """Yield a row for each prediction, and one for the mean over the suites.

    A row is a name, the number of items, and the shares of them for which the prediction holds, by
    DIRECTIONS; then number and shares of the items whose words are all known.

    As in SyntaxGym's published results, a suite's share is that of its first prediction: others are
    alternatives. Suites without an item whose words are all known are not in the mean of these.
    """
    for outcome in found:
        yield _row(outcome.name, [outcome])
    first = [outcome for outcome in found if outcome.number == 1]
    yield _row(f"mean of {format_count(len(first), 'suites')}", first)


def _row(name: str, found: Sequence[Outcome]) -> list[str | int | float]:
    """A row of `summary`, of the mean of outcomes."""
    n_items = sum(len(outcome.holds) for outcome in found)
    n_known = sum(outcome.n_known for outcome in found)
    shares = np.mean([outcome.shares() for outcome in found], axis=0)
    known = [outcome.shares(only_known=True) for outcome in found if outcome.n_known]
    known_shares = np.mean(known or [NO_SHARES], axis=0)
    return [name, n_items, *shares, n_known, *known_shares]
