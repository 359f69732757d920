"""Matrix products in bfloat16: near the float64 reference, and never without being asked for."""

import copy

import numpy as np
import pytest
import reference
import tiny
from reference import assert_close

from elmo import ELMo, ELMoEmbedder, load_bilm
from elmo_core.kernels import matmul, precision
from elmo_core.machine.runtime import paddle
from elmo_core.network.bilm import make_bilm, weights_of

SENTENCES = [*tiny.SENTENCES, *([word] * n for n, word in enumerate(tiny.WORDS[3:], 1))]


@pytest.fixture
def bfloat16():
    """On a machine with bfloat16. Restores float32."""
    if problem := matmul.bfloat16_problem("cpu"):
        pytest.skip(f"no products in bfloat16: {problem}")
    with precision.temporarily("bfloat16"):
        yield


@pytest.fixture
def model(tmp_path):
    sizes = {"projection_dim": 40, "cell_dim": 70, "filters": ((1, 12), (3, 36))}
    bilm = tiny.random_bilm(scale=0.7, cell_clip=0.0, proj_clip=0.0, **sizes)  # no clip jumps
    for weight in bilm.token_encoder.parameters():  # no gate saturates
        weight.set_value(0.3 * weight.numpy())
    return tiny.save(bilm, tmp_path / "model")


def rounded(x: np.ndarray) -> np.ndarray:
    """x in bfloat16, as float64: the 16 upper bits, rounded to even."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32).astype(np.float64)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 7, 5), (37, 70, 83), (130, 16, 33)])
def test_a_product_is_exact_but_for_the_rounding_of_its_operands(m, k, n, frozen):
    generator = np.random.default_rng(0)
    for transposed in np.ndindex(2, 2):
        a, b = (generator.standard_normal(shape, np.float32) for shape in ((m, k), (k, n)))
        x, weight = (
            paddle.to_tensor(array.T if flip else array)
            for array, flip in zip((a, b), transposed, strict=True)
        )
        if frozen:
            initial = paddle.nn.initializer.Assign(weight)
            weight = paddle.create_parameter(weight.shape, "float32", default_initializer=initial)
            matmul.freeze([weight])
        expected = rounded(a) @ rounded(b)
        result = matmul.amp_matmul(x, weight, *map(bool, transposed))
        np.testing.assert_allclose(result.numpy(), expected, atol=1e-4)
        matmul.amp_matmul(x, weight, *map(bool, transposed), add_to=result)
        np.testing.assert_allclose(result.numpy(), 2 * expected, atol=2e-4)


@pytest.mark.usefixtures("bfloat16")
def test_vectors_are_near_the_reference_and_those_of_float32_stay(model):
    expected, _ = reference.embed(tiny.reference_of(load_bilm(model)[0]), SENTENCES)
    embedder = ELMoEmbedder(model, device="cpu")
    half = ELMoEmbedder(model, device="cpu", precision="bfloat16")
    difference = 0.0
    for _ in range(2):  # with other weights prepared in between
        assert_close(embedder.encode(SENTENCES), expected)
        for found, one in zip(half.encode(SENTENCES), expected, strict=True):
            difference = max(difference, np.abs(found - one).max(initial=0))
    assert 1e-4 < difference < 0.02 * max(np.abs(one).max(initial=0) for one in expected)


def zero_some_columns(weight):
    with paddle.no_grad():
        weight[:, 2:5] = 0


def set_one_element(weight):
    array = weight.numpy()
    array[-1, -1] += 5
    weight.copy_(paddle.to_tensor(array), True)


def swap_two_rows(weight):
    weight.set_value(weight.numpy()[[1, 0, *range(2, len(weight))]])


def train_a_step(weight):
    weight.stop_gradient = False
    (weight**2).sum().backward()
    paddle.optimizer.SGD(0.1, [weight]).step()
    weight.stop_gradient = True


@pytest.mark.parametrize("chosen", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "change", [zero_some_columns, set_one_element, swap_two_rows, train_a_step]
)
@pytest.mark.parametrize(
    "name", ["forward_lstm.0.recurrent_weight", "token_encoder.highways.0.carry.weight"]
)
def test_new_weights_of_a_frozen_model_are_noticed(model, chosen, change, name, request):
    if chosen == "bfloat16":
        request.getfixturevalue("bfloat16")
    bilm, vocabulary = load_bilm(model)
    layer = ELMo((bilm, vocabulary), layers="top", dropout=0, precision=chosen)
    embedder = ELMoEmbedder(model, device="cpu", layers="top", precision=chosen)
    layer.eval()
    sentences = SENTENCES * 4
    before = layer(sentences)[0][0].numpy(), np.concatenate(embedder.encode(sentences))
    for network in (bilm, embedder.bilm):
        change(dict(network.named_parameters())[name])
    after = layer(sentences)[0][0].numpy(), np.concatenate(embedder.encode(sentences))
    fresh = make_bilm(bilm.config, weights_of(bilm)), vocabulary
    layer = ELMo(fresh, layers="top", dropout=0, precision=chosen)
    layer.eval()
    embedder = ELMoEmbedder(fresh, device="cpu", layers="top", precision=chosen)
    np.testing.assert_array_equal(after[0], layer(sentences)[0][0].numpy())
    np.testing.assert_array_equal(after[1], np.concatenate(embedder.encode(sentences)))
    assert all(np.abs(new - old).max() > 1e-4 for new, old in zip(after, before, strict=True))


def test_a_frozen_layer_that_was_used_can_be_copied_and_saved(model, tmp_path):
    layer = ELMo(model, layers="top", dropout=0)
    expected = layer(SENTENCES * 4)[0][0].numpy()
    copied = copy.deepcopy(layer)
    paddle.save({"network": layer.state_dict(), "step": 3}, str(tmp_path / "state.pdparams"))
    zero_some_columns(layer.bilm.forward_lstm[0].recurrent_weight)
    assert np.abs(layer(SENTENCES * 4)[0][0].numpy() - expected).max() > 1e-4
    np.testing.assert_array_equal(copied(SENTENCES * 4)[0][0].numpy(), expected)
    layer.set_state_dict(paddle.load(str(tmp_path / "state.pdparams"))["network"])
    np.testing.assert_array_equal(layer(SENTENCES * 4)[0][0].numpy(), expected)


@pytest.mark.usefixtures("bfloat16")
def test_a_layer_that_is_trained_learns_through_bfloat16(model):
    gradients = {}
    for chosen in ("float32", "bfloat16"):
        layer = ELMo(load_bilm(model), layers="top", trainable=True, dropout=0, precision=chosen)
        with precision.temporarily("float32"):  # what counts is the forward pass
            (layer(SENTENCES)[0][0] ** 2).mean().backward()
        gradients[chosen] = np.concatenate(
            [weight.grad.numpy().ravel() for weight in layer.bilm.parameters()]
        )
    error = np.linalg.norm(gradients["bfloat16"] - gradients["float32"]) / np.linalg.norm(
        gradients["float32"]
    )
    assert 1e-4 < error < 0.25


@pytest.mark.usefixtures("bfloat16")
def test_auto_is_bfloat16_where_it_can_be(model):
    assert ELMoEmbedder(model, device="cpu", precision="auto").precision == "bfloat16"
