"""Training a reader on passages with questions."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo_core.machine.messages import UserError, format_count, log
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import shuffled_batches
from elmo_tasks.reading.batch import QuestionGroup, WindowQuestion, make_batch, question_groups
from elmo_tasks.reading.reader import Reader, TokenisedPassage
from elmo_tasks.reading.text import windows
from elmo_tasks.training import BestEpoch, TrainingSettings, fit


def training_groups(passages: Sequence[TokenisedPassage], max_seq_len: int, doc_stride: int) -> list[QuestionGroup]:
    """The windows that contain answers, each with the questions they answer. Logs how many answers are unusable."""
    groups, trained, n_inexact, n_missing, n_too_long = [], set(), 0, 0, 0
    for passage in passages:
        spans = [(id, text, span) for id, text, span in passage.spans() if span]
        n_missing += len(passage.questions) - len(spans)
        n_inexact += sum(not span.exact for *_, span in spans)
        for window in windows(passage.text, max_seq_len, doc_stride):
            questions = [
                WindowQuestion(id, text, (span.first - window.begin, span.last - window.begin))
                for id, text, span in spans
                if window.begin <= span.first and span.last < window.end
            ]
            trained |= {question.id for question in questions}
            groups += question_groups(window, questions)
        n_too_long += sum(id not in trained for id, *_ in spans)
    if not groups:
        raise UserError("No question to train on: no answer occurs in its passage.")
    log.info(
        f"{format_count(len(trained), 'questions')} to train on. Answers that begin or end within a word: {n_inexact:,}, "
        f"not in their passage: {n_missing:,}, in no window: {n_too_long:,}"
    )
    return groups


def train(
    reader: Reader,
    passages: Sequence[TokenisedPassage],
    dev: Sequence[TokenisedPassage],
    schedule: TrainingSettings,
    folder: Path | None = None,
    resume: bool = False,
) -> BestEpoch:
    """Train the reader and leave it with the weights of the epoch with the highest F1 on the dev passages.

    folder: where it is saved. resume: continue an interrupted run.
    """
    groups = training_groups(passages, reader.settings.max_seq_len, reader.settings.doc_stride)
    tokens = [group.window.tokens for group in groups]

    def loss(indices: Sequence[int]) -> paddle.Tensor:
        return reader.network.loss(make_batch([groups[k] for k in indices], reader.words))

    def batches(random: np.random.Generator) -> list[np.ndarray]:
        return shuffled_batches(tokens, schedule.batch_size, random)

    return fit(reader, batches, loss, lambda: reader.score(dev), schedule, folder, resume)
