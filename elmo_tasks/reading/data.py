"""Data sets of passages, questions and answers.

SQuAD 1.1, CMRC 2018, DuReader-robust:
    {"data": [{"paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": ...}]}]}]}]}
CMRC 2018 as it was first published:
    [{"context_text": ..., "qas": [{"query_id": ..., "query_text": ..., "answers": ["..."]}]}]
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError
from elmo_core.text.text_files import blocks, parse_json

EXPECTED = "passages and questions in SQuAD's or CMRC 2018's JSON"


@dataclass
class Question:
    """A question and its answers. begins: where each answer stands in the passage, None if it is not there."""

    id: str
    text: str
    answers: list[str]
    begins: list[int | None]

    def found(self) -> list[tuple[str, int]]:
        """The answers that stand in the passage, and where."""
        return [pair for pair in zip(self.answers, self.begins, strict=True) if pair[1] is not None]


@dataclass
class Passage:
    text: str
    questions: list[Question]


@dataclass
class Dataset:
    """passages: all that a file has. counts: what of the answers is not as it should be."""

    passages: list[Passage]
    counts: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for question in self.questions:
            self.counts["questions without words"] += not question.text.strip()
            self.counts["answers that are not in their passage"] += sum(begin is None for begin in question.begins)

    @property
    def questions(self) -> list[Question]:
        return [question for passage in self.passages for question in passage.questions]

    def describe(self) -> str:
        faults = "".join(f"; {count:,} {what}" for what, count in sorted(self.counts.items()) if count)
        return f"{len(self.passages):,} passages, {len(self.questions):,} questions{faults}"


def read_dataset(path: Path, answered: bool = True) -> Dataset:
    """The passages of a file. answered: every question must have an answer; otherwise answers are read if there are any."""
    disk.check_input(path, EXPECTED)
    try:
        values = parse_json("".join(blocks(path)))
    except (ValueError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: no valid JSON ({error}), expected {EXPECTED}.") from error
    counts, seen = Counter(), set()
    passages = [_passage(*found, answered, counts, seen) for found in _passages(values, str(path))]
    if not any(passage.questions for passage in passages):
        raise UserError(f"{path}: no question, expected {EXPECTED}.")
    return Dataset(passages, counts)


def _passages(values: Any, path: str) -> Iterator[tuple[dict, str]]:
    """Each object that has a passage, and its place in the file."""
    if isinstance(values, list):
        yield from ((one, f"{path}: passage {k}") for k, one in enumerate(values, 1))
        return
    for k, article in enumerate(_get(values, ("data",), list, path), 1):
        found = _get(article, ("paragraphs",), list, f"{path}: data {k}")
        yield from ((one, f"{path}: data {k}, paragraph {j}") for j, one in enumerate(found, 1))


def _passage(values: dict, where: str, answered: bool, counts: Counter, seen: set[str]) -> Passage:
    text = _get(values, ("context", "context_text"), str, where)
    if not text.split():
        raise UserError(f"{where}: the passage is empty.")
    questions = []
    for number, one in enumerate(_get(values, ("qas",), list, where), 1):
        here = f"{where}, question {number}"
        id = _get(one, ("id", "query_id"), str, here).strip()
        if id in seen:
            raise UserError(f"{here}: the id {id!r:.60} occurs twice.")
        seen.add(id)
        question = Question(id, _get(one, ("question", "query_text"), str, here), [], [])
        for answer in _get(one, ("answers",), list, here, [] if not answered else None):
            given = _get(answer, ("text",), str, f"{here}, answer") if isinstance(answer, dict) else answer
            begin = answer.get("answer_start", 0) if isinstance(answer, dict) else 0
            if not isinstance(given, str) or not isinstance(begin, int):
                raise UserError(f"{here}: found the answer {answer!r:.80}, expected its text and where it begins.")
            found = _nearest(given, begin, text)
            counts["answers moved to where their text stands"] += isinstance(answer, dict) and found not in (
                begin,
                None,
            )
            question.answers.append(given)
            question.begins.append(found)
        if answered and not question.answers:
            raise UserError(f"{here}: no answer.")
        questions.append(question)
    return Passage(text, questions)


def _get(values: Any, names: Sequence[str], kind: type, where: str, default: Any = None) -> Any:
    """The first of the fields that is there."""
    name = next((name for name in names if isinstance(values, dict) and name in values), None)
    if name is None and default is not None:
        return default
    if name is None or not isinstance(values[name], kind):
        found = f"{names[0]!r} is missing" if name is None else f"{name!r} is {values[name]!r:.60}"
        raise UserError(f"{where}: {found}, expected {EXPECTED}.")
    return values[name]


def _nearest(answer: str, begin: int, text: str) -> int | None:
    """Where the answer stands in the text, as near to `begin` as possible; None if nowhere."""
    if not answer.strip():
        return None
    begin = max(begin, 0)
    found = [text.rfind(answer, 0, begin + len(answer)), text.find(answer, begin)]
    return min((place for place in found if place >= 0), key=lambda place: abs(place - begin), default=None)
