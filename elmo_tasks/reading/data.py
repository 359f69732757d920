"""Data sets of passages, questions and answers, as read and as tokens.

SQuAD, CMRC 2018, DuReader-checklist:
    {"data": [{"paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": ...}],
         "is_impossible": false}]}]}]}
As Hugging Face's datasets writes them, an object per line or an array of objects:
    {"id": ..., "context": ..., "question": ...,
     "answers": {"text": ["..."], "answer_start": [...]}}
The passage does not answer a question with `is_impossible` or without answers.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from elmo_core.checks import as_list, check_field, check_text, describe
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks.reading.text import Text, Window, windows
from elmo_tasks.records import Record, is_table, read_records, table_records

MAX_QUESTIONS = 6  # per group
# What is counted in the data, in the order in which it is logged.
WITHOUT_WORDS = "questions without words"
WITHOUT_ANSWER = "questions without an answer"
NOT_IN_PASSAGE = "answers that are not in their passage"
MOVED = "answers moved to where their text occurs"
FAULTS = (WITHOUT_WORDS, WITHOUT_ANSWER, NOT_IN_PASSAGE, MOVED)
NO_ANSWER = (-1, -1)  # the span of a question that its window does not answer
EXPECTED = "passages and questions in the JSON of SQuAD, or as Hugging Face's datasets has them"


@dataclass
class Question:
    """A question and its answers; none: the passage has none, or they are unknown.

    answer_starts: each answer's offset in the passage, None if it does not occur there.
    content: its tokens.
    """

    id: str
    text: str
    answers: list[str]
    answer_starts: list[int | None]
    content: Text | None = field(default=None, repr=False, compare=False)


@dataclass
class Passage:
    """A passage and its questions.

    content: its tokens, of which there may be none; then it has no answers.
    """

    text: str
    questions: list[Question]
    content: Text | None = field(default=None, repr=False, compare=False)

    @property
    def texts(self) -> list[Text]:
        """The passage and the questions, as tokens."""
        return [self.content] + [question.content for question in self.questions]

    def span(self, question: Question) -> tuple[int, int] | None:
        """The first and last token of a question's first answer that occurs in the passage."""
        for start, answer in zip(question.answer_starts, question.answers, strict=True):
            if start is not None:
                span = self.content.token_span(start, start + len(answer))
                if span:
                    return span
        return None


def read_passages(data: Any, name: str = "examples", require_answers: bool = True) -> list[Passage]:
    """Read a file, a table or a list of dictionaries.

    Logs how many questions and answers have which fault.

    name: of the argument, for messages. require_answers: False: those of the data are not read.
    """
    if isinstance(data, str | Path):
        name = str(data)
        records = read_records(Path(data), ("id", "context", "question", "answers"))
    elif is_table(data):
        records = table_records(data, name)
    else:
        raise TypeError(
            f"`{name}`: found {describe(data)}, "
            "expected a file, a table, or a list of dictionaries."
        )
    passages = []
    seen: set[str] = set()  # ids of questions
    faults = Counter(dict.fromkeys(FAULTS, 0))
    for where, text, values in _passages(records):
        if not text.split():
            raise UserError(f"{where}: the passage is empty.")
        passage = Passage(text, [])
        for at, value in values:
            question = _question(value, at, faults)
            if require_answers:
                _set_answers(question, value, text, where=at, faults=faults)
            passage.questions.append(question)
        for question, (at, _) in zip(passage.questions, values, strict=True):
            if question.id in seen:
                raise UserError(f"{at}: the id {question.id!r:.60} occurs twice.")
            seen.add(question.id)
        passages.append(passage)
    if not seen:
        raise UserError(f"{name}: no question, expected {EXPECTED}.")
    n_passages = format_count(len(passages), "passages")
    n_questions = format_count(len(seen), "questions")
    counts = [f"{n_passages}, {n_questions}"]
    for fault, n in faults.items():
        if n:
            counts.append(f"{fault}: {n:,}")
    log.info(f"{name}: {'; '.join(counts)}")
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
    for text, questions in grouped.items():
        first_at, _ = questions[0]
        yield first_at, text, questions


def _question(value: Any, where: str, faults: Counter) -> Question:
    """A question, without its answers."""
    text = check_text(_field(value, "question", str, where), where)
    question_id = str(_field(value, "id", str | int, where)).strip()
    if not text.strip():
        faults[WITHOUT_WORDS] += 1
    return Question(question_id, text, answers=[], answer_starts=[])


def _set_answers(
    question: Question, value: Mapping[str, Any], passage: str, where: str, faults: Counter
) -> None:
    """Add the answers to a question, each where it occurs in the passage."""
    answers = _answers(value, where)
    if not answers:
        faults[WITHOUT_ANSWER] += 1
    for answer in answers:
        text = answer.get("text") if isinstance(answer, dict) else None
        start = answer.get("answer_start") if isinstance(answer, dict) else None
        if not isinstance(text, str) or not hasattr(start, "__index__"):
            raise UserError(
                f"{where}: found the answer {answer!r:.80}, expected its text and answer_start."
            )
        located = _locate_answer(text, int(start), passage)
        if located is None:
            faults[NOT_IN_PASSAGE] += 1
        elif located != start:
            faults[MOVED] += 1
        question.answers.append(text)
        question.answer_starts.append(located)


def _answers(value: Mapping[str, Any], where: str) -> list[Any]:
    """A question's answers, as SQuAD has them: objects of text and answer_start."""
    # Equal to True, as NumPy's is, rather than truthy, as the text "false" is.
    if value.get("is_impossible") in (True,):
        return []
    answers = _field(value, "answers", list | dict, where)
    if isinstance(answers, list):
        return answers
    texts = _column(answers, "text")  # of Hugging Face
    starts = _column(answers, "answer_start")
    return [{"text": text, "answer_start": start} for text, start in zip_longest(texts, starts)]


def _column(answers: Mapping[str, Any], name: str) -> list[Any]:
    """The values of a column, which may be an array of NumPy; a single value is a column of one."""
    values = answers.get(name, ())
    listed = as_list(values)
    return [values] if listed is None else listed


def _items(values: Any, name: str, what: str, where: str) -> Iterator[Record]:
    """Yield the items of a list, each with its position."""
    for k, item in enumerate(_field(values, name, list, where), 1):
        yield f"{where}, {what} {k}", item


def _field(values: Any, name: str, kind: Any, where: str) -> Any:
    """The value of a key of an object, which is of this kind. where: the object's position."""
    return check_field(values, name, kind, where=where, expected=EXPECTED)


def _locate_answer(answer: str, start: int, text: str) -> int | None:
    """The offset nearest to `start` at which the answer occurs in the text."""
    if not answer.strip():
        return None
    start = max(start, 0)
    before = text.rfind(answer, 0, start + len(answer))  # -1: nowhere
    after = text.find(answer, start)
    found = [offset for offset in (before, after) if offset >= 0]
    return min(found, key=lambda offset: abs(offset - start), default=None)


def tokenise_passages(passages: Sequence[Passage], tokeniser: Tokeniser) -> Sequence[Passage]:
    """Set the tokens of passages and questions.

    A question without words gets one, which may still find an answer.
    """
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
        """The passage and the questions."""
        return [self.window.text, *self.questions]


def question_groups(
    window: Window, questions: list[Text], spans: Sequence = ()
) -> Iterator[QuestionGroup]:
    """Yield groups of at most MAX_QUESTIONS, for all of which the window is encoded once."""
    for k in range(0, len(questions), MAX_QUESTIONS):
        end = k + MAX_QUESTIONS
        yield QuestionGroup(window, questions[k:end], list(spans[k:end]))


def training_groups(
    passages: Sequence[Passage], max_seq_len: int, doc_stride: int, no_answer: bool = False
) -> list[QuestionGroup]:
    """Windows that contain an answer, each with the questions that it answers.

    Logs how many answers are in no window.

    no_answer: all windows, with all questions; those that are not answered there have NO_ANSWER.
    """
    groups = []
    trained: set[str] = set()  # ids of questions with an answer in a window
    n_too_long = 0
    for passage in passages:
        answered = []
        unanswered = []
        for question in passage.questions:
            span = passage.span(question)
            if span:
                answered.append((question, span))
            elif not question.answers:
                unanswered.append((question, None))
        asked = answered + unanswered if no_answer else answered
        for window in windows(passage.content, max_seq_len, doc_stride):
            texts = []
            spans = []
            for question, span in asked:
                in_window = _span_in(window, span)
                if in_window != NO_ANSWER:
                    trained.add(question.id)
                elif not no_answer:
                    continue
                texts.append(question.content)
                spans.append(in_window)
            groups += question_groups(window, texts, spans)
        n_too_long += sum(question.id not in trained for question, _ in answered)
    if not trained:
        raise UserError("No question to train on: no answer occurs in its passage.")
    trained_on = f"{format_count(len(trained), 'questions')} with an answer to train on"
    log.info(f"{trained_on}. Answers that are in no window: {n_too_long:,}")
    return groups


def _span_in(window: Window, span: tuple[int, int] | None) -> tuple[int, int]:
    """A span of a passage, counted from a window's beginning; NO_ANSWER if it is not inside."""
    if span is None:
        return NO_ANSWER
    first, last = span
    if first < window.begin or last >= window.end:
        return NO_ANSWER
    return first - window.begin, last - window.begin
