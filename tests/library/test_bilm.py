"""The bidirectional language model: loss, gradients, state, names of its weights."""

import numpy as np
import pytest
import reference
import tiny
from reference import assert_close

from elmo_core.encoding.encoder import run_sentences
from elmo_core.encoding.layers import layer_choice
from elmo_core.kernels import precision
from elmo_core.machine.runtime import paddle
from elmo_core.network.softmax import draw_candidates
from elmo_core.text.lexicon import LMBatch, token_batch
from elmo_core.text.vocabulary import Vocabulary

SENTENCES = tiny.SENTENCES


def lm_rows(batch: LMBatch):
    """A batch's inputs for the reference (each token's character ids or vocabulary id), and its
    targets.
    """
    inputs, targets = {}, {}

    def at(ids, k):
        return None if ids is None else ids[k]

    for direction in reference.DIRECTIONS:
        indices = getattr(batch, f"{direction}_input")
        goals = getattr(batch, f"{direction}_target")
        tokens = [
            (at(batch.tokens.characters, k), at(batch.tokens.words, k))
            for k in range(indices.max() + 1)
        ]
        inputs[direction] = [
            [tokens[k] for k in row[:n]] for row, n in zip(indices, batch.lengths, strict=True)
        ]
        targets[direction] = [list(row[:n]) for row, n in zip(goals, batch.lengths, strict=True)]
    return inputs, targets


def random_state(bilm, rows):
    generator = np.random.RandomState(5)
    dtype = str(bilm.softmax.weight.dtype).removeprefix("paddle.")
    return [
        [
            tuple(
                paddle.to_tensor(generator.uniform(-0.2, 0.2, part.shape).astype(dtype))
                for part in one
            )
            for one in pair
        ]
        for pair in bilm.zero_state(rows)
    ]


def reference_state(state):
    return {
        direction: [tuple(part.numpy().astype(np.float64) for part in pair[d]) for pair in state]
        for d, direction in enumerate(reference.DIRECTIONS)
    }


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.usefixtures("implementation")
def test_training_loss_and_state_equal_the_reference(variant, sampled):
    vocabulary = Vocabulary(tiny.WORDS)
    batch = tiny.lm_batch([s for s in SENTENCES if s], vocabulary, variant.config.input)
    state = random_state(variant, len(batch.lengths))
    candidates = draw_candidates(
        len(tiny.WORDS), 6 if sampled else 0, np.random.Generator(np.random.Philox(3))
    )
    expected_counts = np.ones(len(tiny.WORDS))
    if sampled:
        expected_counts = reference.expected_count(
            reference.log_uniform(len(tiny.WORDS)), candidates.tries
        )
    inputs, targets = lm_rows(batch)
    desired, last = reference.lm_loss(
        tiny.reference_of(variant),
        inputs,
        targets,
        reference_state(state),
        dict.fromkeys(reference.DIRECTIONS, (candidates.ids, expected_counts)) if sampled else None,
    )
    losses, after = variant(batch, state, candidates)
    assert float(sum(losses)) / 2 == pytest.approx(desired, abs=1e-5)
    for direction, layers in reference_state(after).items():
        for actual, expected in zip(layers, last[direction], strict=True):
            assert_close(actual, expected)
    assert all(
        tensor.stop_gradient for layer in after for direction in layer for tensor in direction
    )


@pytest.mark.parametrize("n_candidates", [0, 6])
def test_half_precision_stays_near_the_reference_and_spares_evaluation(n_candidates):
    """bfloat16 has 8 bits: the loss is within 1 %, the gradients within 5 % of those in float64,
    where no clip or maximum jumps.
    """
    batch = tiny.lm_batch(SENTENCES, Vocabulary(tiny.WORDS), "word")
    candidates = draw_candidates(
        len(tiny.WORDS), n_candidates, np.random.Generator(np.random.Philox(3))
    )
    actual = {}
    for name, dtype in (("exact", "float64"), ("half", "float32")):
        bilm = tiny.random_bilm(dtype, input="word", cell_clip=3.0, proj_clip=3.0)
        state = random_state(bilm, len(SENTENCES))
        scores = bilm.log_probabilities(batch)[:2]
        precision.use("bfloat16" if name == "half" else "float32")
        try:
            loss = sum(bilm(batch, state, candidates)[0]) / 2
            loss.backward()
            np.testing.assert_allclose(bilm.log_probabilities(batch)[:2], scores, atol=1e-6)
        finally:
            precision.use("float32")
        gradient = [tiny.dense_gradient(weight).ravel() for weight in bilm.parameters()]
        actual[name] = float(loss), np.concatenate(gradient)
    (loss, gradient), (half_loss, half_gradient) = actual["exact"], actual["half"]
    assert 0 < abs(half_loss - loss) < 0.01 * loss, (half_loss, loss)
    assert np.linalg.norm(half_gradient - gradient) < 0.05 * np.linalg.norm(gradient)


@pytest.mark.slow
@pytest.mark.parametrize("input_kind", ["char", "word"])
@pytest.mark.parametrize("n_candidates", [0, 6])
def test_training_gradients_equal_finite_differences(input_kind, n_candidates):
    """For every weight, in float64: with ragged rows, active clips, the sampled softmax, and a task
    network on top.
    """
    bilm = tiny.random_bilm("float64", input=input_kind)
    vocabulary = Vocabulary(tiny.WORDS)
    batch = tiny.lm_batch(SENTENCES, vocabulary, input_kind)
    state = random_state(bilm, len(SENTENCES))
    candidates = draw_candidates(
        len(tiny.WORDS), n_candidates, np.random.Generator(np.random.Philox(3))
    )

    above = token_batch(SENTENCES, input_kind, vocabulary)

    def loss():
        choice = layer_choice("all", 3, ["each"])
        packed = run_sentences(
            bilm, bilm.token_encoder(above.tokens), above.index, above.lengths, choice
        )[0].layers
        return sum(bilm(batch, state, candidates)[0]) / 2 + sum(
            (part**3).mean() for pair in packed for part in pair
        )

    loss().backward()
    choose = np.random.RandomState(0)
    for name, weight in bilm.state_dict().items():
        values, gradient = weight.numpy(), tiny.dense_gradient(weight)
        for _ in range(2):
            direction = choose.standard_normal(values.shape)
            direction *= 1e-5 / np.linalg.norm(direction)
            losses = []
            for sign in (1, -1):
                weight.set_value(values + sign * direction)
                with paddle.no_grad():
                    losses.append(float(loss()))
            assert losses[0] - losses[1] == pytest.approx(
                2 * (gradient * direction).sum(), abs=4e-12
            ), name
        weight.set_value(values)


def test_dropout_of_the_language_model_is_for_training_only():
    """A rate near 0 gives the loss without dropout, 0.5 does not, and evaluation has none."""
    bilm, batch = tiny.random_bilm(), tiny.lm_batch(SENTENCES, Vocabulary(tiny.WORDS))
    candidates = draw_candidates(len(tiny.WORDS), 0, np.random.default_rng(0))

    def loss(dropout):
        paddle.seed(0)
        with paddle.no_grad():
            return float(sum(bilm(batch, bilm.zero_state(len(SENTENCES)), candidates, dropout)[0]))

    exact = loss(0.0)
    assert loss(1e-12) == pytest.approx(exact, abs=1e-5)
    assert abs(loss(0.5) - exact) > 1e-2
    bilm.eval()
    assert loss(0.5) == pytest.approx(exact, abs=1e-5)


def test_parameter_names():
    """They are the keys of every checkpoint: changing one breaks all files."""
    names = set(tiny.random_bilm(n_highway=1, filters=((2, 3),)).state_dict())
    lstm = {"input_weight", "recurrent_weight", "bias", "projection_weight"}
    assert names == {
        *(f"{d}_lstm.{k}.{name}" for d in ("forward", "backward") for k in (0, 1) for name in lstm),
        "token_encoder.embedding.weight",
        *(f"token_encoder.convolutions.0.{name}" for name in ("weight", "bias")),
        *(
            f"token_encoder.highways.0.{gate}.{name}"
            for gate in ("transform", "carry")
            for name in ("weight", "bias")
        ),
        *(f"token_encoder.projection.{name}" for name in ("weight", "bias")),
        "softmax.weight",
        "softmax.bias",
    }
