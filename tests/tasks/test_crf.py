"""The CRF against the enumeration of all label sequences in float64, in every scheme."""

import itertools

import numpy as np
import pytest
import reference
from label_rules import LABELS, all_paths, allowed_paths

from elmo_core.machine.runtime import paddle
from elmo_tasks.tagging.crf import LinearChainCRF
from elmo_tasks.tagging.scheme import forbidden_transitions
from elmo_tasks.tagging.viterbi import best_paths

SCHEMES = sorted(LABELS)
LENGTHS = np.array([4, 1, 3, 2])


def random_crf(scheme: str, spread: float = 1.0) -> LinearChainCRF:
    """A CRF with the scheme's rules and random weights, in float64."""
    paddle.set_default_dtype("float64")
    try:
        crf = LinearChainCRF(*forbidden_transitions(LABELS[scheme], scheme))
    finally:
        paddle.set_default_dtype("float32")
    generator = np.random.default_rng(3)
    for weight in crf.parameters():
        weight.set_value(generator.normal(size=weight.shape, scale=spread))
    return crf


def weights_of(crf: LinearChainCRF) -> dict[str, np.ndarray]:
    return {name: weight.numpy().astype(np.float64) for name, weight in crf.named_parameters()}


def random_emissions(n_labels: int, spread: float = 1.0, seed: int = 5) -> np.ndarray:
    """(B, T, K), also beyond the ends of the sentences."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(len(LENGTHS), LENGTHS.max(), n_labels), scale=spread)


def random_labels(n_labels: int) -> np.ndarray:
    """(B, T), 0 beyond the ends of the sentences, as a batch has them."""
    generator = np.random.default_rng(7)
    labels = generator.integers(n_labels, size=(len(LENGTHS), LENGTHS.max()))
    return np.where(np.arange(LENGTHS.max()) < LENGTHS[:, None], labels, 0)


# The reference


def path_scores(paths, emissions: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """The scores (n,) of label sequences (n, T) of one sentence, with emissions (T, K)."""
    paths = np.array(paths)
    emitted = emissions[np.arange(paths.shape[1]), paths].sum(axis=1)
    moves = weights["transitions"][paths[:, :-1], paths[:, 1:]].sum(axis=1)
    return weights["start"][paths[:, 0]] + emitted + moves + weights["stop"][paths[:, -1]]


def losses(emissions: np.ndarray, labels: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """The negative log-likelihoods (B,) among all sequences."""
    rows = []
    for x, path, length in zip(emissions, labels, LENGTHS, strict=True):
        scores = path_scores(all_paths(x.shape[1], length), x[:length], weights)
        (score,) = path_scores([path[:length]], x[:length], weights)
        rows.append(reference.logsumexp(scores) - score)
    return np.array(rows)


# Tests


@pytest.mark.parametrize("spread", [0.5, 30.0])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_loss_is_that_of_enumeration(scheme, spread):
    n_labels = len(LABELS[scheme])
    crf, emissions, labels = (
        random_crf(scheme, spread),
        random_emissions(n_labels, spread),
        random_labels(n_labels),
    )
    expected = losses(emissions, labels, weights_of(crf))
    np.testing.assert_allclose(
        crf(paddle.to_tensor(emissions), labels, LENGTHS).numpy(), expected, rtol=1e-12
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradients_are_finite_differences(scheme):
    n_labels = len(LABELS[scheme])
    crf, labels = random_crf(scheme), random_labels(n_labels)
    weights, values = weights_of(crf), random_emissions(n_labels)
    emissions = paddle.to_tensor(values, stop_gradient=False)
    crf(emissions, labels, LENGTHS).sum().backward()
    gradients = {name: weight.grad.numpy() for name, weight in crf.named_parameters()}

    def loss(_) -> float:
        return float(losses(values, labels, weights).sum())

    np.testing.assert_allclose(
        emissions.grad.numpy(), reference.numerical_gradient(loss, values), atol=1e-8
    )
    for name, weight in weights.items():
        expected = reference.numerical_gradient(loss, weight)
        np.testing.assert_allclose(gradients[name], expected, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_decoding_finds_the_best_sequence_that_the_scheme_allows(scheme):
    crf = random_crf(scheme)
    weights = weights_of(crf)
    n_forbidden = 0
    for seed in range(20):
        emissions = random_emissions(len(LABELS[scheme]), 2.0, seed)
        decoded = crf.decode(emissions, LENGTHS)
        for x, length, path in zip(emissions, LENGTHS, decoded, strict=True):
            possible = allowed_paths(scheme, length)
            best = path_scores(possible, x[:length], weights).argmax()
            assert tuple(path) == possible[best]
            paths = all_paths(x.shape[1], length)
            n_forbidden += paths[path_scores(paths, x[:length], weights).argmax()] != possible[best]
    assert (n_forbidden > 0) == (scheme != "plain")  # the rules made a difference


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_probability_of_a_span_is_that_of_its_labels(scheme):
    """The sum over the allowed sequences with the same labels there, among all allowed ones."""
    crf = random_crf(scheme)
    length = 4
    emissions = random_emissions(len(LABELS[scheme]))[0]
    possible = allowed_paths(scheme, length)
    scores = path_scores(possible, emissions, weights_of(crf))
    probabilities = np.exp(scores - reference.logsumexp(scores))
    spans = list(itertools.combinations(range(length + 1), 2))
    for path in (possible[0], possible[len(possible) // 2], possible[scores.argmax()]):
        expected = []
        for begin, end in spans:
            is_same = [other[begin:end] == path[begin:end] for other in possible]
            expected.append(probabilities[is_same].sum())
        found = crf.span_probabilities(emissions, np.array(path), spans)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_scores_of_one_token():
    weights = {
        "transitions": np.zeros((2, 2)),
        "start": np.array([1.0, 0.0]),
        "stop": np.array([0.0, 3.0]),
    }
    emissions = np.array([[[1.0, 0.0]]])
    (path,) = best_paths(
        emissions, weights["transitions"], weights["start"], weights["stop"], np.array([1])
    )
    assert path.tolist() == [1]  # 0 + 0 + 3 against 1 + 1 + 0


def test_an_empty_sentence_has_no_labels():
    crf = random_crf("bio")
    first, second = crf.decode(random_emissions(5)[:2], np.array([0, 2]))
    assert first.tolist() == [] and len(second) == 2
