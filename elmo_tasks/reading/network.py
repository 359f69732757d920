"""The reader's network, after BiDAF (Seo et al. 2017).

Its encoder reads ELMo at its input and at its output:

    passages, questions ▶ word vectors, ELMo ▶ BiGRU ▶ with ELMo again, projected
        ▶ h (B, T, D), u (Q, J, D)
    each question's passage with its attention to the question, and two features
        ▶ BiGRU ▶ logits of first and last token

If questions may have no answer, two trained logits compete with those of the tokens (Levy et al.
2017).

The encoder, which reads ELMo, runs once per passage window for up to MAX_QUESTIONS questions.

Letters: B windows of passages, Q questions, T and J tokens of either, D = 2 * hidden_dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.network.char_cnn import Maximum
from elmo_tasks.inputs import Rows, TokenInputs
from elmo_tasks.reading.data import QuestionGroup
from elmo_tasks.reading.settings import ReaderSettings
from elmo_tasks.reading.text import Window, question_features

nn = paddle.nn

FEATURES = 2  # per token of a passage, see `question_features`
MASKED_LOGIT = -1e9


@dataclass
class Batch:
    """Q questions to B windows of passages.

    passage_of: (Q,) int64, the row of each question's window. features: (Q, T, FEATURES) float32.
    spans: (Q, 2) int64, the first and the last token of each answer, counted from the window's
        beginning, or NO_ANSWER; empty in prediction.
    """

    passages: Rows
    questions: Rows
    passage_of: np.ndarray
    features: np.ndarray
    spans: np.ndarray


def window_rows(windows: Sequence[Window]) -> Rows:
    """Rows of the windows' tokens, with the sentences in which ELMo reads them."""
    sentences = []
    positions = []
    for window in windows:
        in_window, places = window.in_sentences()
        sentences.append(in_window)
        positions.append(places)
    return Rows([window.tokens for window in windows], sentences, positions)


def make_batch(groups: Sequence[QuestionGroup]) -> Batch:
    """A batch of all questions of the groups."""
    questions = list(chain.from_iterable(group.questions for group in groups))
    spans = list(chain.from_iterable(group.spans for group in groups))
    passages = window_rows([group.window for group in groups])
    passage_of = np.repeat(np.arange(len(groups)), [len(group.questions) for group in groups])
    features = np.zeros((len(questions), passages.steps, FEATURES), np.float32)
    for row, question, passage in zip(features, questions, passage_of, strict=True):
        row[: passages.lengths[passage]] = question_features(passages.tokens[passage], question)
    return Batch(
        passages=passages,
        questions=window_rows([Window(text, 0, len(text.tokens)) for text in questions]),
        passage_of=passage_of,
        features=features,
        spans=np.array(spans, np.int64),
    )


class BiDAF(nn.Layer):
    """Bidirectional attention flow. no_answer: questions may have none."""

    def __init__(self, settings: ReaderSettings, inputs: TokenInputs, no_answer: bool):
        super().__init__()
        self.inputs = inputs
        hidden = settings.hidden_dim
        dim = 2 * hidden
        self.context = nn.GRU(inputs.dim, hidden, direction="bidirect")
        self.projection = nn.Linear(dim + inputs.elmo_dim, dim)
        self.similarity = nn.LayerList([nn.Linear(dim, 1, bias_attr=False), nn.Linear(dim, 1)])
        self.similarity_product = self.create_parameter([dim])
        self.merge = nn.Linear(4 * dim + FEATURES, dim)
        self.model = nn.GRU(dim, hidden, direction="bidirect")
        self.ends = nn.Linear(2 * dim, 2)
        self.dropout = nn.Dropout(settings.dropout)
        self.no_answer = self.create_parameter([2], is_bias=True) if no_answer else None

    def forward(self, batch: Batch) -> paddle.Tensor:
        """Logits (Q, 2, T) of the answer's first and last token, whatever else is in the batch."""
        passage_of = to_tensor(batch.passage_of)
        h = paddle.gather(self.encode(batch.passages), passage_of)  # (Q, T, D)
        u = self.encode(batch.questions)  # (Q, J, D)
        lengths = batch.passages.lengths[batch.passage_of]
        passage_mask = to_tensor(batch.passages.mask[batch.passage_of])  # (Q, T)
        question_mask = to_tensor(batch.questions.mask)  # (Q, J)

        similarity = paddle.matmul(h * self.similarity_product, u, transpose_y=True)  # (Q, T, J)
        similarity = similarity + self.similarity[0](h) + self.similarity[1](u).transpose([0, 2, 1])
        similarity = similarity + ((1 - question_mask) * MASKED_LOGIT).unsqueeze(1)
        # What each token of the passage reads of the question.
        to_question = paddle.matmul(nn.functional.softmax(similarity, axis=2), u)  # (Q, T, D)
        # What the question reads of the passage: the tokens most similar to one of its own.
        relevance = Maximum.apply(similarity, 2) + (1 - passage_mask) * MASKED_LOGIT  # (Q, T)
        weights = nn.functional.softmax(relevance, axis=1)
        to_passage = paddle.matmul(weights.unsqueeze(1), h)  # (Q, 1, D)

        features = to_tensor(batch.features)
        merged = paddle.concat([h, to_question, h * to_question, h * to_passage, features], axis=2)
        merged = self.dropout(nn.functional.relu(self.merge(merged)))  # (Q, T, D)
        modelled, _ = self.model(merged, sequence_length=to_tensor(lengths))
        logits = self.ends(paddle.concat([merged, self.dropout(modelled)], axis=2))  # (Q, T, 2)
        return logits.transpose([0, 2, 1]) + ((1 - passage_mask) * MASKED_LOGIT).unsqueeze(1)

    def encode(self, texts: Rows) -> paddle.Tensor:
        """Encoded passages or questions (B, T, D)."""
        vectors = self.inputs(texts)
        h, _ = self.context(vectors.x, sequence_length=to_tensor(texts.lengths))
        if vectors.elmo is not None:
            h = paddle.concat([h, vectors.elmo], axis=2)
        # tanh: unbounded products grow until the gradient of Paddle's GRU is NaN
        return self.dropout(paddle.tanh(self.projection(h)))

    def loss(self, batch: Batch) -> paddle.Tensor:
        """Mean negative log-likelihood of the answers, or of no answer, plus ELMo's penalty.

        That of an answer is of its first and of its last token.
        """
        logits = self(batch)  # (Q, 2, T)
        spans = batch.spans
        if self.no_answer is not None:  # logit T
            spans = np.where(spans < 0, logits.shape[2], spans)
            no_answer = self.no_answer.reshape([1, 2, 1]).tile([len(spans), 1, 1])
            logits = paddle.concat([logits, no_answer], axis=2)
        ends = to_tensor(spans.ravel())  # (Q * 2,)
        # twice the mean over both ends: the sum of the two of each question
        loss = 2 * nn.functional.cross_entropy(logits.reshape([-1, logits.shape[2]]), ends)
        return loss + self.inputs.penalty()
