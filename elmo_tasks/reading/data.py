"""Data sets of passages, questions and answers, as read and as tokens.

SQuAD, CMRC 2018, DuReader-checklist:
    {"data": [{"paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": ...}], "is_impossible": false}]}]}]}
As Hugging Face's datasets writes them, an object per line or an array of objects:
    {"id": ..., "context": ..., "question": ..., "answers": {"text": ["..."], "answer_start": [...]}}
The passage does not answer a question with `is_impossible` or without answers.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from elmo_core.checks import as_list, describe
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks.reading.text import Text, Window, windows
from elmo_tasks.records import Record, check_text, is_table, read_records, table_records

MAX_QUESTIONS = 6  # per group
NO_ANSWER = -1, -1  # the span of a question that its window does not answer
EXPECTED = "passages and questions in the JSON of SQuAD, or as Hugging Face's datasets has them"


@dataclass
class Question:
    """A question and its answers; none: the passage has none, or they are unknown.

    answer_starts: each answer's offset in the passage, None if it does not occur there. content: its tokens.
    """

    id: str
    text: str
    answers: list[str]
    answer_starts: list[int | None]
    content: Text | None = field(default=None, repr=False, compare=False)


@dataclass
class Passage:
    """A passage and its questions. content: its tokens, of which there may be none; then it has no answers."""

    text: str
    questions: list[Question]
    content: Text | None = field(default=None, repr=False, compare=False)

    @property
    def texts(self) -> list[Text]:
        return [self.content, *(question.content for question in self.questions)]

    def span(self, question: Question) -> tuple[int, int] | None:
        """The first and last token of a question's first answer that occurs in the passage."""
        located = zip(question.answer_starts, question.answers, strict=True)
        spans = (
            self.content.token_span(k, k + len(answer)) for k, answer in located if k is not None
        )
        return next(filter(None, spans), None)


def read_passages(data: Any, name: str = "examples", require_answers: bool = True) -> list[Passage]:
    """Read a file, a table or a list of dictionaries. Logs how many questions and answers have which fault.

    name: of the argument, used in error messages. require_answers: False: those of the data are not read.
    """
    if isinstance(data, str | Path):
        name, records = (
            str(data),
            read_records(Path(data), ("id", "context", "question", "answers")),
        )
    elif is_table(data):
        records = table_records(data, name)
    else:
        raise TypeError(
            f"`{name}`: found {describe(data)}, expected a file, a table, or a list of dictionaries."
        )
    passages, seen, faults = [], set(), Counter()
    for where, text, questions in _passages(records):
        if not text.split():
            raise UserError(f"{where}: the passage is empty.")
        passage = Passage(
            text, [_question(value, text, at, faults, require_answers) for at, value in questions]
        )
        passages.append(passage)
        for question, (at, _) in zip(passage.questions, questions, strict=True):
            if question.id in seen:
                raise UserError(f"{at}: the id {question.id!r:.60} occurs twice.")
            seen.add(question.id)
    if not seen:
        raise UserError(f"{name}: no question, expected {EXPECTED}.")
    counts = format_count(len(passages), "passages"), format_count(len(seen), "questions")
    log.info(
        f"{name}: {'; '.join([', '.join(counts), *(f'{what}: {n:,}' for what, n in faults.items() if n)])}"
    )
    return passages


def _passages(records: Iterable[Record]) -> Iterator[tuple[str, str, list[Record]]]:
    """Yield each passage's position, text, and questions with their positions."""
    grouped: dict[str, list[Record]] = {}
    for where, record in records:
        if "question" in record:
            text = check_text(_field(record, "context", str, where), where)
            grouped.setdefault(text, []).append((where, record))
            continue
        for article_at, article in _items(record, "data", "article", where):
            for at, passage in _items(article, "paragraphs", "paragraph", article_at):
                text = check_text(_field(passage, "context", str, at), at)
                yield at, text, list(_items(passage, "qas", "question", at))
    yield from ((questions[0][0], text, questions) for text, questions in grouped.items())


def _question(
    value: Any, passage: str, where: str, faults: Counter, require_answers: bool
) -> Question:
    text = check_text(_field(value, "question", str, where), where)
    question = Question(str(_field(value, "id", str | int, where)).strip(), text, [], [])
    faults["questions without words"] += not text.strip()
    if not require_answers:
        return question
    answers = (
        []
        if value.get("is_impossible") in (True,)
        else _field(value, "answers", list | dict, where)
    )
    if isinstance(answers, dict):  # of Hugging Face; its arrays of NumPy become lists
        columns = (answers.get(name, ()) for name in ("text", "answer_start"))
        columns = [[values] if as_list(values) is None else as_list(values) for values in columns]
        answers = [{"text": text, "answer_start": start} for text, start in zip_longest(*columns)]
    faults["questions without an answer"] += not answers
    for answer in answers:
        text, start = (
            answer.get(name) if isinstance(answer, dict) else None
            for name in ("text", "answer_start")
        )
        if not isinstance(text, str) or not hasattr(start, "__index__"):
            raise UserError(
                f"{where}: found the answer {answer!r:.80}, expected its text and answer_start."
            )
        located = _locate_answer(text, int(start), passage)
        faults["answers that are not in their passage"] += located is None
        faults["answers moved to where their text occurs"] += located not in (start, None)
        question.answers.append(text)
        question.answer_starts.append(located)
    return question


def _items(values: Any, name: str, what: str, where: str) -> Iterator[Record]:
    """Yield the items of a list, each with its position."""
    return (
        (f"{where}, {what} {k}", item)
        for k, item in enumerate(_field(values, name, list, where), 1)
    )


def _field(values: Any, name: str, kind: Any, where: str) -> Any:
    value = values.get(name) if isinstance(values, Mapping) else None
    if not isinstance(value, kind):
        found = f"{name!r} is {value!r:.60}" if value is not None else f"{name!r} is missing"
        raise UserError(f"{where}: {found}, expected {EXPECTED}.")
    return value


def _locate_answer(answer: str, start: int, text: str) -> int | None:
    """The offset nearest to `start` at which the answer occurs in the text."""
    if not answer.strip():
        return None
    start = max(start, 0)
    offsets = [text.rfind(answer, 0, start + len(answer)), text.find(answer, start)]
    return min(
        (offset for offset in offsets if offset >= 0),
        key=lambda offset: abs(offset - start),
        default=None,
    )


def tokenise_passages(passages: Sequence[Passage], tokeniser: Tokeniser) -> Sequence[Passage]:
    """Set the tokens of passages and questions. A question without words gets one, which may still find an answer."""
    for passage in passages:
        passage.content = Text.from_string(passage.text, tokeniser)
        for question in passage.questions:
            content = Text.from_string(question.text, tokeniser)
            question.content = content if content.tokens else Text.from_string("？", tokeniser)
    return passages


@dataclass
class QuestionGroup:
    """Questions to the same window. spans: of answers, see `Batch`; none in prediction."""

    window: Window
    questions: list[Text]
    spans: list[tuple[int, int]]

    @property
    def texts(self) -> list[Text]:
        return [self.window.text, *self.questions]


def question_groups(
    window: Window, questions: list[Text], spans: Sequence = ()
) -> Iterator[QuestionGroup]:
    """Yield groups of at most MAX_QUESTIONS, for all of which the window is encoded once."""
    for k in range(0, len(questions), MAX_QUESTIONS):
        yield QuestionGroup(
            window, questions[k : k + MAX_QUESTIONS], list(spans[k : k + MAX_QUESTIONS])
        )


def training_groups(
    passages: Sequence[Passage], max_seq_len: int, doc_stride: int, no_answer: bool = False
) -> list[QuestionGroup]:
    """Windows that contain an answer, each with the questions answered there. Logs how many answers are in no window.

    no_answer: all windows, with all questions; those that are not answered there have NO_ANSWER.
    """
    groups, trained, n_too_long = [], set(), 0
    for passage in passages:
        spans = ((question, passage.span(question)) for question in passage.questions)
        answered = [(question.id, question.content, span) for question, span in spans if span]
        without = [
            (question.id, question.content, None)
            for question in passage.questions
            if not question.answers
        ]
        for window in windows(passage.content, max_seq_len, doc_stride):
            asked = [
                (id, text, _span_in(window, span))
                for id, text, span in answered + without * no_answer
            ]
            inside = [item for item in asked if item[2] != NO_ANSWER]
            trained |= {id for id, *_ in inside}
            kept = asked if no_answer else inside
            groups += question_groups(
                window, [text for _, text, _ in kept], [span for *_, span in kept]
            )
        n_too_long += sum(id not in trained for id, *_ in answered)
    if not trained:
        raise UserError("No question to train on: no answer occurs in its passage.")
    trained_on = f"{format_count(len(trained), 'questions')} with an answer to train on"
    log.info(f"{trained_on}. Answers that are in no window: {n_too_long:,}")
    return groups


def _span_in(window: Window, span: tuple[int, int] | None) -> tuple[int, int]:
    is_inside = span and window.begin <= span[0] and span[1] < window.end
    return (span[0] - window.begin, span[1] - window.begin) if is_inside else NO_ANSWER
