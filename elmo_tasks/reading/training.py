"""Training a reader on passages with questions."""

from collections.abc import Sequence

from elmo_core.machine.messages import UserError, format_count, log
from elmo_tasks.reading.batch import QuestionGroup, WindowQuestion, question_groups
from elmo_tasks.reading.passages import TokenisedPassage
from elmo_tasks.reading.text import windows
from elmo_tasks.training import TrainingSettings

TRAINING = TrainingSettings(epochs=20, patience=4, batch_size=8, ema=0.999)  # the defaults
MIN_COUNT = 2  # of a word in the training data, else it is unknown


def training_groups(passages: Sequence[TokenisedPassage], max_seq_len: int, doc_stride: int) -> list[QuestionGroup]:
    """Windows that contain an answer, each with the questions answered there. Logs how many answers are unusable."""
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
