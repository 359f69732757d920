"""The reader's network equals its equations in NumPy."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from reading import SMALL, TEXT, WORDS, group, make_reader, random_network

from elmo_core.machine.runtime import paddle
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks.inputs import PretrainedELMo, TokenInputs
from elmo_tasks.reading.data import NO_ANSWER
from elmo_tasks.reading.network import MASKED_LOGIT, BiDAF, make_batch, window_rows
from elmo_tasks.reading.text import Text, Window


@pytest.fixture(scope="module")
def network() -> BiDAF:
    return random_network()


def gru(x: np.ndarray, weights: dict, name: str) -> np.ndarray:
    """Both directions of a GRU over (T, D), in NumPy."""
    forward = gru_direction(x, weights, name, suffix="")
    backward = gru_direction(x[::-1], weights, name, suffix="_reverse")[::-1]
    return np.concatenate([forward, backward], axis=1)


def gru_direction(x: np.ndarray, weights: dict, name: str, suffix: str) -> np.ndarray:
    """The states after each row of x."""
    w_x = weights[f"{name}.weight_ih_l0{suffix}"]
    w_h = weights[f"{name}.weight_hh_l0{suffix}"]
    b_x = weights[f"{name}.bias_ih_l0{suffix}"]
    b_h = weights[f"{name}.bias_hh_l0{suffix}"]
    h = np.zeros(w_h.shape[1])
    states = []
    for row in x:
        r_x, z_x, c_x = np.split(w_x @ row + b_x, 3)
        r_h, z_h, c_h = np.split(w_h @ h + b_h, 3)
        r = sigmoid(r_x + r_h)
        z = sigmoid(z_x + z_h)
        h = z * h + (1 - z) * np.tanh(c_x + r * c_h)
        states.append(h)
    return np.array(states)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def reference(net: BiDAF, window: Window, question: Text) -> np.ndarray:
    """The logits (T, 2) in float64, from BiDAF's equations."""
    w = {name: weight.numpy().astype(np.float64) for name, weight in net.state_dict().items()}

    def encoded(tokens: list[str]) -> np.ndarray:
        h = gru(w["inputs.words.embedding.weight"][WORDS.ids(tokens)], w, "context")
        return np.tanh(h @ w["projection.weight"] + w["projection.bias"])

    h = encoded(window.tokens)
    u = encoded(question.tokens)
    s = np.empty((len(h), len(u)))
    for t, j in itertools.product(range(len(h)), range(len(u))):
        s[t, j] = h[t] @ w["similarity.0.weight"][:, 0] + u[j] @ w["similarity.1.weight"][:, 0]
        s[t, j] += w["similarity.1.bias"][0] + (h[t] * u[j]) @ w["similarity_product"]
    to_question = softmax(s) @ u
    to_passage = softmax(s.max(axis=1)) @ h
    features = np.array(
        [[token in question.tokens, token in question.text] for token in window.tokens], float
    )
    merged = np.concatenate([h, to_question, h * to_question, h * to_passage, features], axis=1)
    merged = np.maximum(merged @ w["merge.weight"] + w["merge.bias"], 0)
    modelled = np.concatenate([merged, gru(merged, w, "model")], axis=1)
    return modelled @ w["ends.weight"] + w["ends.bias"]


def test_the_network_is_bidaf_whatever_else_is_in_the_batch(network):
    groups = [
        group(),
        group("北京。", "谁住在北京？", "哪里？"),
        group(TEXT, "他在哪里工作？", begin=2, end=9),
    ]
    with paddle.no_grad():
        logits = network(make_batch(groups)).numpy()
    rows = iter(logits)
    for one in groups:
        n = len(one.window.tokens)
        for question in one.questions:
            row = next(rows)
            expected = reference(network, one.window, question)
            np.testing.assert_allclose(row[:, :n].T, expected, rtol=1e-4, atol=1e-5)
            assert (row[:, n:] < MASKED_LOGIT / 2).all()
    assert next(rows, None) is None


def test_the_loss_is_minus_the_log_probability_of_both_ends(network):
    one = group(TEXT, "谁住在上海？")
    first, last = np.log(softmax(reference(network, one.window, one.questions[0]).T))
    assert network.loss(make_batch([one])).item() == pytest.approx(-first[1] - last[2], rel=1e-4)


def test_the_loss_of_no_answer_is_minus_its_log_probability(network):
    net = make_reader(no_answer=True).network
    for name, weight in network.state_dict().items():
        net.state_dict()[name].set_value(weight)
    net.no_answer.set_value(paddle.to_tensor([0.5, -1.5]))
    net.eval()
    one = group(TEXT, "谁住在上海？", "哪里？")
    one.spans[1] = NO_ANSWER
    rows = [reference(net, one.window, question).T for question in one.questions]
    log = [np.log(softmax(np.append(row, [[0.5], [-1.5]], axis=1))) for row in rows]
    expected = -(log[0][0, 1] + log[0][1, 2] + log[1][:, -1].sum()) / 2
    assert net.loss(make_batch([one])).item() == pytest.approx(expected, rel=1e-4)


def test_elmo_is_at_the_input_and_at_the_output_of_the_encoder(checkpoints):
    settings = replace(SMALL, elmo=str(checkpoints["char"]), layers="mix", elmo_dropout=0.0)
    net = make_reader(settings).network
    batch = make_batch([group(), group("北京。", "谁住在北京？")])
    net.loss(batch).backward()
    net.eval()
    mixes = net.inputs.mixes
    assert len(mixes) == 2 and all(np.abs(mix.scalars.grad.numpy()).min() > 0 for mix in mixes)
    assert all(weight.grad is None for weight in net.inputs.elmo.bilm.parameters())
    before = net(batch).numpy()
    for mix in mixes:
        mix.gamma.set_value(paddle.to_tensor([0.5]))
        assert np.abs(net(batch).numpy() - before).max() > 1e-4
        mix.gamma.set_value(paddle.to_tensor([1.0]))


@pytest.mark.parametrize("cached", [False, True])
def test_a_windows_layers_are_those_of_its_sentences(checkpoints, cached):
    settings = replace(SMALL, elmo=str(checkpoints["char"]), word_dim=0)
    inputs = TokenInputs(settings, None, None, PretrainedELMo.load(checkpoints["char"]))
    inputs.eval()
    text = Text.from_string(TEXT, Tokeniser("zh"))
    other = Text.from_string("医生在银行？", Tokeniser("zh"))
    of_sentences = []  # (3, n, 2P)
    for sentence in text.sentences:
        layers = inputs.elmo.layers([sentence])[0]
        of_sentences.append(paddle.concat(layers).numpy())
    expected = np.concatenate(of_sentences, axis=1)
    if cached:
        inputs.elmo.cache(text.sentences, 1)
    vectors = inputs(window_rows([Window(text, 3, 9), Window(other, 0, len(other.tokens))]))
    assert vectors.mask.numpy().sum(axis=1).tolist() == [6, len(other.tokens)]
    np.testing.assert_allclose(
        vectors.x.numpy()[0, :6], np.concatenate(expected[:, 3:9], axis=-1), rtol=1e-5, atol=1e-6
    )
