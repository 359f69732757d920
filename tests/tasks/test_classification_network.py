"""The classifier's network: means without padding, pairs, the loss, independence of the batch."""

from dataclasses import replace

import numpy as np
import pytest

from elmo_core.machine.runtime import paddle
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_tasks import Classifier, ClassifierSettings
from elmo_tasks.classification.heads import HEADS
from elmo_tasks.classification.network import Batch
from elmo_tasks.inputs import Rows

WORDS = ["the", "river", "bank", "of"]
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *WORDS])
SMALL = ClassifierSettings(
    elmo=None, lang="none", word_dim=5, hidden_dim=0, head_dim=3, head="mean", dropout=0.0
)
PARTS = {"labels": ["a", "b", "c"], "multi_label": False, "threshold": None, "words": WORDS}
TEXTS = [["the", "bank"], ["river"], [], ["the", "bank", "of", "the", "river"]]


def network(pairs: bool = False, multi_label: bool = False, **changes):
    parts = {**PARTS, "pairs": pairs, "multi_label": multi_label}
    found = Classifier.create(replace(SMALL, **changes), parts, "cpu").network
    found.eval()
    return found


def means(net) -> np.ndarray:
    """The mean embedding of each text, zeros of an empty one."""
    table = net.inputs.words.embedding.weight.numpy()
    rows = np.zeros((len(TEXTS), SMALL.word_dim))
    for row, text in zip(rows, TEXTS, strict=True):
        if text:
            row[:] = table[VOCABULARY.ids(text)].mean(axis=0)
    return rows


def linear(layer, x: np.ndarray) -> np.ndarray:
    return x @ layer.weight.numpy() + layer.bias.numpy()


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)


def test_the_mean_is_over_the_tokens_not_over_the_padding():
    net = network()
    expected = linear(net.output, means(net))
    np.testing.assert_allclose(net(Batch(Rows(TEXTS))).numpy(), expected, rtol=1e-4, atol=1e-6)


def test_a_pair_is_both_texts_their_difference_and_their_product():
    net = network(pairs=True, hidden_dim=4)
    a, b = np.split(means(net), 2)
    x = np.concatenate([a, b, np.abs(a - b), a * b], axis=1)
    expected = linear(net.output, np.tanh(linear(net.hidden, x)))
    np.testing.assert_allclose(net(Batch(Rows(TEXTS))).numpy(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("head", HEADS)
def test_a_texts_logits_do_not_depend_on_the_batch(head):
    net = network(head=head)
    together = net(Batch(Rows(TEXTS))).numpy()
    for text, row in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(net(Batch(Rows([text]))).numpy()[0], row, rtol=1e-4, atol=1e-6)


def test_the_loss_is_the_mean_cross_entropy_weighted_by_class():
    net = network()
    labels = np.array([0, 2, 1, 0])
    weights = np.array([0.5, 2.0, 1.0], np.float32)
    net.train()
    probabilities = softmax(net(Batch(Rows(TEXTS))).numpy())
    surprise = -np.log(probabilities[np.arange(4), labels])
    batch = Batch(Rows(TEXTS), labels)
    assert net.loss(batch).item() == pytest.approx(surprise.mean(), rel=1e-4)
    net.class_weights = paddle.to_tensor(weights)
    expected = (weights[labels] * surprise).sum() / weights[labels].sum()
    assert net.loss(batch).item() == pytest.approx(expected, rel=1e-4)


def test_of_lists_of_labels_the_loss_is_the_sum_of_those_of_each():
    net = network(multi_label=True)
    labels = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0], [1, 1, 1]], np.float32)
    probabilities = 1 / (1 + np.exp(-net(Batch(Rows(TEXTS))).numpy()))
    np.testing.assert_allclose(
        net.probabilities(Batch(Rows(TEXTS))).numpy(), probabilities, rtol=1e-5
    )
    likelihood = np.where(labels, probabilities, 1 - probabilities)
    expected = -np.log(likelihood).sum(axis=1).mean()
    net.train()
    assert net.loss(Batch(Rows(TEXTS), labels)).item() == pytest.approx(expected, rel=1e-4)
