"""Data sets of passages, questions and answers, as read and as tokens.

SQuAD 1.1 and 2, CMRC 2018, DuReader-robust and -checklist:
    {"data": [{"paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": ...}], "is_impossible": false}]}]}]}
CMRC 2018 as it was first published:
    [{"context_text": ..., "qas": [{"query_id": ..., "query_text": ..., "answers": ["..."]}]}]
As Hugging Face's datasets writes them, an object per line or an array of objects:
    {"id": ..., "context": ..., "question": ..., "answers": {"text": ["..."], "answer_start": [...]}}
DuReader 2.0, an object per line; the passage is all titles and paragraphs, one per line:
    {"question_id": ..., "question": ..., "documents": [{"title": ..., "paragraphs": ["..."]}], "answers": ["..."]}
The passage does not answer a question with `is_impossible` or without answers.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_core.files import disk
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.text_files import line_groups
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks.reading.text import Text, TokenSpan
from elmo_tasks.records import Lines, Record, number_records, read_records

EXPECTED = "passages and questions in the JSON of SQuAD, CMRC 2018 or DuReader"


@dataclass
class Question:
    """A question and its answers; none: the passage has none, or they are unknown.

    answer_starts: each answer's offset in the passage, None if it does not occur there.
    """

    id: str
    text: str
    answers: list[str]
    answer_starts: list[int | None]


@dataclass
class Passage:
    text: str
    questions: list[Question]


def read_passages(
    data: Path | str | Sequence[Mapping[str, Any]], name: str = "", require_answers: bool = True
) -> list[Passage]:
    """Read a file, or take dictionaries. Logs how many questions and answers have which fault.

    name: of the argument, used in error messages. require_answers: a question whose answers are unknown is an error.
    """
    if isinstance(data, Path | str):
        disk.check_input(Path(data), EXPECTED)
        name, records = str(data), read_records(Lines(line_groups(Path(data))), data)
    else:
        records = number_records(data, name)
    passages, seen, faults = [], set(), Counter()
    for text, questions, where in _passages((where, record) for where, record in records if record != ""):
        if not text.split():
            raise UserError(f"{where}: the passage is empty.")
        passages.append(Passage(text, []))
        for where, value in questions:
            question = _question(value, text, where, faults, require_answers)
            if question.id in seen:
                raise UserError(f"{where}: the id {question.id!r:.60} occurs twice.")
            seen.add(question.id)
            passages[-1].questions.append(question)
    if not seen:
        raise UserError(f"{name}: no question, expected {EXPECTED}.")
    counts = format_count(len(passages), "passages"), format_count(len(seen), "questions")
    found = "; ".join([", ".join(counts), *(f"{fault}: {n:,}" for fault, n in sorted(faults.items()) if n)])
    log.info(f"{name}: {found}")
    return passages


def _passages(records: Iterable[Record]) -> Iterator[tuple[str, list[tuple[str, dict]], str]]:
    """Yield each passage's text, its questions with their positions, and its own position; error messages name these."""
    grouped: dict[str, list[tuple[str, dict]]] = {}
    for where, value in records:
        if "documents" in value:
            value = {**value, "context": "\n".join(_lines(value, where))}
        if "question" in value:
            grouped.setdefault(_field(value, ("context",), str, where), []).append((where, value))
            continue
        passages = [(where, value)]
        if "context" not in value and "context_text" not in value:
            articles = _items(value, "data", "data", where)
            passages = (pair for at, article in articles for pair in _items(article, "paragraphs", "paragraph", at))
        for place, passage in passages:
            text = _field(passage, ("context", "context_text"), str, place)
            yield text, list(_items(passage, "qas", "question", place)), place
    yield from ((text, questions, questions[0][0]) for text, questions in grouped.items())


def _lines(value: dict, where: str) -> Iterator[str]:
    """Yield the titles and paragraphs of documents."""
    for at, document in _items(value, "documents", "document", where):
        if "title" in document:
            yield _field(document, ("title",), str, at)
        for paragraph, text in _items(document, "paragraphs", "paragraph", at):
            yield _field({"text": text}, ("text",), str, paragraph)


def _question(values: Any, passage: str, where: str, faults: Counter, require_answers: bool) -> Question:
    id = str(_field(values, ("id", "query_id", "question_id"), str | int, where)).strip()
    question = Question(id, _field(values, ("question", "query_text"), str, where), [], [])
    faults["questions without words"] += not question.text.strip()
    is_known = "answers" in values or require_answers
    answers = _field(values, ("answers",), list | dict, where) if is_known and not values.get("is_impossible") else []
    faults["questions without an answer"] += require_answers and not answers
    if isinstance(answers, dict):
        texts, starts = (_field(answers, (name,), list, where) for name in ("text", "answer_start"))
        answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=False)]
    for value in answers:
        answer = value if isinstance(value, dict) else {"text": value}
        text, start = answer.get("text"), answer.get("answer_start", 0)
        if not isinstance(text, str) or not isinstance(start, int):
            raise UserError(f"{where}: found the answer {value!r:.80}, expected its text and answer_start.")
        located = _locate_answer(text, start, passage)
        faults["answers that are not in their passage"] += located is None
        faults["answers moved to where their text occurs"] += answer is value and located not in (start, None)
        question.answers.append(text)
        question.answer_starts.append(located)
    return question


def _items(values: Any, name: str, kind: str, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list, each with its position."""
    return ((f"{where}, {kind} {k}", item) for k, item in enumerate(_field(values, (name,), list, where), 1))


def _field(values: Any, names: Sequence[str], kind: type, where: str) -> Any:
    """The first of the named fields that exists."""
    name = next((name for name in names if isinstance(values, dict) and name in values), None)
    if name is None or not isinstance(values[name], kind):
        found = f"{names[0]!r} is missing" if name is None else f"{name!r} is {values[name]!r:.60}"
        raise UserError(f"{where}: {found}, expected {EXPECTED}.")
    return values[name]


def _locate_answer(answer: str, start: int, text: str) -> int | None:
    """The offset nearest to `start` at which the answer occurs in the text."""
    if not answer.strip():
        return None
    start = max(start, 0)
    offsets = [text.rfind(answer, 0, start + len(answer)), text.find(answer, start)]
    return min((offset for offset in offsets if offset >= 0), key=lambda offset: abs(offset - start), default=None)


class TokenisedPassage:
    """A passage and its questions as tokens."""

    def __init__(self, passage: Passage, tokeniser: Tokeniser):
        self.passage = passage
        self.text = Text.from_string(passage.text, tokeniser)
        self.questions = [(question, Text.from_question(question.text, tokeniser)) for question in passage.questions]

    def texts(self) -> list[Text]:
        return [self.text, *(text for _, text in self.questions)]

    def spans(self) -> Iterator[tuple[str, Text, TokenSpan | None]]:
        """Each question's id and text, and the tokens of its first answer that occurs in the passage."""
        for question, text in self.questions:
            located = zip(question.answer_starts, question.answers, strict=True)
            spans = (self.text.token_span(k, k + len(answer)) for k, answer in located if k is not None)
            yield question.id, text, next(filter(None, spans), None)


def tokenise_passages(passages: Iterable[Passage], tokeniser: Tokeniser) -> list[TokenisedPassage]:
    tokenised = [TokenisedPassage(passage, tokeniser) for passage in passages]
    if blank := [passage for passage in tokenised if not passage.text.tokens]:
        raise UserError(f"The passage {blank[0].passage.text!r:.60} has no words.")
    return tokenised
