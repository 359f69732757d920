"""Passages and their questions, as read and as tokens."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from elmo_core.machine.messages import UserError, log
from elmo_tasks.reading.data import Passage, make_dataset, read_dataset
from elmo_tasks.reading.text import Text, TokenSpan
from elmo_tasks.records import number_records


class TokenisedPassage:
    """A passage and its questions as tokens."""

    def __init__(self, passage: Passage, language: str):
        self.passage = passage
        self.text = Text.from_string(passage.text, language)
        if not self.text.tokens:
            raise UserError(f"The passage {passage.text!r:.60} has no words.")
        self.questions = [(question, Text.from_question(question.text, language)) for question in passage.questions]

    def texts(self) -> list[Text]:
        return [self.text, *(text for _, text in self.questions)]

    def spans(self) -> Iterator[tuple[str, Text, TokenSpan | None]]:
        """Each question's id and text, and the tokens of its first answer that occurs in the passage."""
        for question, text in self.questions:
            located = zip(question.answer_starts, question.answers, strict=True)
            spans = (self.text.token_span(k, k + len(answer)) for k, answer in located if k is not None)
            yield question.id, text, next(filter(None, spans), None)


def read_passages(data: Path | str | Sequence[Mapping[str, Any]], name: str) -> list[Passage]:
    """Read a file, or dictionaries. name: of the argument, used in error messages."""
    is_file = isinstance(data, Path | str)
    dataset = read_dataset(Path(data)) if is_file else make_dataset(number_records(data, name), name)
    log.info(f"{data if is_file else name}: {dataset.describe()}")
    return dataset.passages


def tokenise_passages(passages: Iterable[Passage], lang: str) -> list[TokenisedPassage]:
    return [TokenisedPassage(passage, lang) for passage in passages]
