"""Training one reader on passages with questions."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo_core.machine.messages import UserError, log
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import shuffled_batches
from elmo_tasks.reading.batch import QuestionGroup, WindowQuestion, batch_of
from elmo_tasks.reading.reader import Reader, TokenisedPassage, Windowing
from elmo_tasks.reading.text import windows
from elmo_tasks.training import Best, Schedule, fit


def training_groups(passages: Sequence[TokenisedPassage], windowing: Windowing) -> list[QuestionGroup]:
    """The windows that hold answers, each with the questions that they answer. What cannot be learnt from is counted."""
    groups, cut, absent, too_long = [], 0, 0, 0
    for passage in passages:
        spans = list(passage.spans())
        absent += sum(place is None for *_, place in spans)
        cut += sum(place is not None and not place.whole for *_, place in spans)
        unread = {id for id, _, place in spans if place}
        for window in windows(passage.text, windowing.max_seq_len, windowing.doc_stride):
            questions = [
                WindowQuestion(id, text, (place.first - window.begin, place.last - window.begin))
                for id, text, place in spans
                if place and window.begin <= place.first and place.last < window.end
            ]
            unread -= {question.id for question in questions}
            groups += QuestionGroup(window, questions).split()
        too_long += len(unread)
    if not groups:
        raise UserError("No question to train on: no answer stands in its passage.")
    log.info(
        f"{len({question.id for group in groups for question in group.questions}):,} questions to train on; answers: "
        f"{cut:,} begin or end within a word, {absent:,} are not in their passage, {too_long:,} are in no window"
    )
    return groups


def train(
    reader: Reader,
    passages: Sequence[TokenisedPassage],
    dev: Sequence[TokenisedPassage],
    schedule: Schedule,
    folder: Path | None = None,
) -> Best:
    """Train the reader and leave it with the weights of its best epoch: that of the highest F1 on the dev passages.

    folder: where it is saved.
    """
    groups, random = training_groups(passages, reader.windowing), np.random.default_rng(schedule.seed)
    tokens = [group.window.tokens for group in groups]

    def loss(numbers: Sequence[int]) -> paddle.Tensor:
        return reader.network.loss(batch_of([groups[k] for k in numbers], reader.words))

    def batches() -> list[np.ndarray]:
        return shuffled_batches(tokens, schedule.batch_size, random)

    return fit(reader, batches, loss, lambda: reader.score(dev), schedule, folder)
