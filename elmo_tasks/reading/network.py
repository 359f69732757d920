"""The reader's network, after BiDAF (Seo et al. 2017), with ELMo at the input and at the output of its encoder.

    passages, questions ▶ word vectors, ELMo ▶ BiGRU ▶ with ELMo again, projected ▶ h (B, T, D), u (Q, J, D)
    each question's passage with its attention to the question, and two features ▶ BiGRU ▶ logits of first and last token

If questions may have no answer, two trained logits compete with those of the tokens (Levy et al. 2017).

The encoder, which reads ELMo, runs once per passage window for up to MAX_QUESTIONS questions.

Letters: B windows of passages, Q questions, T and J tokens of either, D = 2 * hidden_dim, P projection of the biLM.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.network.char_cnn import Maximum
from elmo_tasks.inputs import Rows, TokenInputs
from elmo_tasks.reading.data import QuestionGroup
from elmo_tasks.reading.settings import ReaderSettings
from elmo_tasks.reading.text import Window, question_features

nn = paddle.nn

FEATURES = (
    2  # per passage token: is it a token of the question, does it occur in the question's text
)
MASKED_LOGIT = -1e9


@dataclass
class Batch:
    passages: Rows  # B windows
    questions: Rows  # Q questions
    passage_of: np.ndarray  # (Q,) int64 row of each question's window
    features: np.ndarray  # (Q, T, FEATURES) float32
    spans: (
        np.ndarray
    )  # (Q, 2) int64, first and last token of each answer from the window's beginning, or NO_ANSWER


def window_rows(windows: Sequence[Window]) -> Rows:
    sentences, positions = zip(*(window.in_sentences() for window in windows), strict=True)
    return Rows([window.tokens for window in windows], sentences, positions)


def make_batch(groups: Sequence[QuestionGroup]) -> Batch:
    questions = [question for group in groups for question in group.questions]
    passages = window_rows([group.window for group in groups])
    passage_of = np.repeat(np.arange(len(groups)), [len(group.questions) for group in groups])
    features = np.zeros((len(questions), passages.steps, FEATURES), np.float32)
    for row, question, passage in zip(features, questions, passage_of, strict=True):
        row[: passages.lengths[passage]] = question_features(passages.tokens[passage], question)
    spans = np.array([span for group in groups for span in group.spans], np.int64)
    whole = window_rows([Window(question, 0, len(question.tokens)) for question in questions])
    return Batch(passages, whole, passage_of, features, spans)


class BiDAF(nn.Layer):
    """Bidirectional attention flow. no_answer: questions may have none."""

    def __init__(self, settings: ReaderSettings, inputs: TokenInputs, no_answer: bool):
        super().__init__()
        self.inputs, hidden = inputs, settings.hidden_dim
        dim, elmo_dim = 2 * hidden, inputs.elmo_dim
        self.context = nn.GRU(inputs.dim, hidden, direction="bidirect")
        self.projection = nn.Linear(dim + elmo_dim, dim)
        self.similarity = nn.LayerList([nn.Linear(dim, 1, bias_attr=False), nn.Linear(dim, 1)])
        self.similarity_product = self.create_parameter([dim])
        self.merge = nn.Linear(4 * dim + FEATURES, dim)
        self.model = nn.GRU(dim, hidden, direction="bidirect")
        self.ends = nn.Linear(2 * dim, 2)
        self.dropout = nn.Dropout(settings.dropout)
        self.no_answer = self.create_parameter([2], is_bias=True) if no_answer else None

    def forward(self, batch: Batch) -> paddle.Tensor:
        """Logits (Q, 2, T) of the answer's first and last token. They do not depend on the batch."""
        passage_of = to_tensor(batch.passage_of)
        h = paddle.gather(self.encode(batch.passages), passage_of)  # (Q, T, D)
        u = self.encode(batch.questions)  # (Q, J, D)
        lengths = batch.passages.lengths[batch.passage_of]
        passage_mask = to_tensor(batch.passages.mask[batch.passage_of])  # (Q, T)
        question_mask = to_tensor(batch.questions.mask)  # (Q, J)
        similarity = paddle.matmul(h * self.similarity_product, u, transpose_y=True)  # (Q, T, J)
        similarity = similarity + self.similarity[0](h) + self.similarity[1](u).transpose([0, 2, 1])
        similarity = similarity + ((1 - question_mask) * MASKED_LOGIT).unsqueeze(1)
        to_question = paddle.matmul(nn.functional.softmax(similarity, axis=2), u)  # (Q, T, D)
        weights = nn.functional.softmax(
            Maximum.apply(similarity, 2) + (1 - passage_mask) * MASKED_LOGIT, axis=1
        )
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
        h = h if vectors.elmo is None else paddle.concat([h, vectors.elmo], axis=2)
        # tanh: unbounded products grow until the gradient of Paddle's GRU is NaN
        return self.dropout(paddle.tanh(self.projection(h)))

    def loss(self, batch: Batch) -> paddle.Tensor:
        """Mean negative log-likelihood of the answers' first and last tokens, or of no answer, plus ELMo's penalty."""
        logits, spans = self(batch), batch.spans
        if self.no_answer is not None:  # logit T
            spans = np.where(spans < 0, logits.shape[2], spans)
            logits = paddle.concat(
                [logits, self.no_answer.reshape([1, 2, 1]).tile([len(spans), 1, 1])], axis=2
            )
        spans = to_tensor(spans.ravel())
        loss = 2 * nn.functional.cross_entropy(logits.reshape([-1, logits.shape[2]]), spans)
        return loss + self.inputs.penalty()
