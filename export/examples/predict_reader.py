"""The answers to lines of a question and a passage, separated by a tab."""

from collections.abc import Iterator

import numpy as np
from model_io import SETTINGS, Run, arrays, tokeniser

from elmo_core.messages import UserError
from elmo_tasks.reading.text import Answer, Text, Window, best_answers, question_features, span_scores, windows

WINDOWS_PER_BATCH = 8


def predict(run: Run, lines: list[str], lang: str = SETTINGS["lang"]) -> Iterator[tuple[dict, str]]:
    """The best answer to each line: its text ("": none), offsets and probability; and the text in one line."""
    for line in lines:
        question, tab, passage = line.partition("\t")
        if not tab:
            raise UserError(f"{line!r:.60}: expected a question and a passage separated by a tab.")
        (answer,) = answers(run, question, passage, lang)
        yield answer.to_dict(), " ".join(answer.text.split())


def answers(run: Run, question: str, passage: str, lang: str = SETTINGS["lang"], k: int = 1) -> list[Answer]:
    """The k best answers, best first, as `Reader.answer` gives them."""
    text, asked = Text.from_string(passage, tokeniser(lang)), Text.from_question(question, tokeniser(lang))
    if not text.tokens:
        raise UserError(f"the passage {passage!r:.60} has no words.")
    longest = SETTINGS["max_answer_length"]
    scores = np.full((len(text.tokens), longest), -np.inf, np.float32)
    cover = windows(text, SETTINGS["max_seq_len"], SETTINGS["doc_stride"])
    for first in range(0, len(cover), WINDOWS_PER_BATCH):
        batch = cover[first : first + WINDOWS_PER_BATCH]
        for window, logits in zip(batch, run(inputs(batch, asked)), strict=True):
            in_window = scores[window.begin : window.end]
            np.maximum(in_window, span_scores(logits[:, : len(window.tokens)], longest), out=in_window)
    return best_answers(text, scores, k, SETTINGS["no_answer"])


def inputs(batch: list[Window], question: Text) -> dict[str, np.ndarray]:
    """The inputs of a question to several windows of a passage."""
    whole = Window.whole(question)
    sentences = list(dict.fromkeys(sentence for window in [*batch, whole] for sentence, _ in window.parts()))
    row, longest = {sentence: row for row, sentence in enumerate(sentences)}, max(map(len, sentences))

    def indices(window: Window) -> list[int]:
        return [row[sentence] * longest + t for sentence, part in window.parts() for t in range(part.start, part.stop)]

    size = max(len(window.tokens) for window in batch)
    passage, features = np.full((len(batch), size), -1), np.zeros((len(batch), size, 2), np.int64)
    for k, window in enumerate(batch):
        passage[k, : len(window.tokens)] = indices(window)
        features[k, : len(window.tokens)] = question_features(window.tokens, question)
    questions = np.tile(np.array(indices(whole)), (len(batch), 1))
    return arrays(sentences) | {"passage": passage, "question": questions, "features": features}
