"""PaddleNLP's ELMo: layers and log-probabilities of its network, with the reference."""

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import reference
import tiny
from damage import accepted

import convert
from elmo import ELMoEmbedder, load_bilm
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.weights.pickles import read_paddle

WORDS = ["the", "bank", "of", "苹果"]
P = 6
FILTERS = ((1, 3), (2, 4))
TOKENS = "_token_embding_layer"
SENTENCES = [["the", "bank", "of"], ["苹果", "unheard"], ["the"] * 7]


def random_model(bias_hh: bool, names: str) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)

    def draw(*shape):
        return generator.standard_normal(shape).astype(np.float32) * 0.5

    n_filters = sum(number for _, number in FILTERS)
    found = {f"{TOKENS}._char_embedding_layer.weight": draw(262, 5)}
    for k, (width, number) in enumerate(FILTERS):
        found[f"{TOKENS}.cnn_layer_{k}.weight"] = draw(number, 5, 1, width)
        found[f"{TOKENS}.cnn_layer_{k}.bias"] = draw(number)
    for gate in ("carry", "transform"):
        found[f"{TOKENS}._highway_layer.{gate}_linear_0.weight"] = draw(n_filters, n_filters)
        found[f"{TOKENS}._highway_layer.{gate}_linear_0.bias"] = draw(n_filters)
    found[f"{TOKENS}._linear_layer.weight"] = draw(n_filters, P)
    found[f"{TOKENS}._linear_layer.bias"] = draw(P)
    for direction in ("forward", "backward"):
        for k in (0, 1):
            layer = f"_elmobilm.{direction}_lstm_layer_{k}"
            found[names.format(layer=layer, name="weight_ih")] = draw(4 * P, P)
            found[names.format(layer=layer, name="weight_hh")] = draw(4 * P, P)
            found[names.format(layer=layer, name="bias_ih")] = draw(4 * P)
            if bias_hh:
                found[names.format(layer=layer, name="bias_hh")] = draw(4 * P)
    found["_linear_layer.weight"] = draw(P, 4 + len(WORDS))
    found["_linear_layer.bias"] = draw(4 + len(WORDS))
    return found


def save(arrays: dict[str, np.ndarray], folder: Path) -> None:
    tensors = {name: paddle.to_tensor(array) for name, array in arrays.items()}
    paddle.save(tensors, str(folder / "10000.pdparams"))


def parameters_of(found: dict[str, np.ndarray], names: str) -> reference.Parameters:
    """The model's parameters for the reference.

    There are no projections and no skip connections; gates are i, f, g, o.
    """
    found = {name: array.astype(np.float64) for name, array in found.items()}
    lstm = {}
    for direction in reference.DIRECTIONS:
        lstm[direction] = []
        for k in (0, 1):
            layer = f"_elmobilm.{direction}_lstm_layer_{k}"
            w_x = found[names.format(layer=layer, name="weight_ih")]
            w_h = found[names.format(layer=layer, name="weight_hh")]
            bias = found[names.format(layer=layer, name="bias_ih")]
            bias = bias + found.get(names.format(layer=layer, name="bias_hh"), 0)
            lstm[direction].append(reference.layer_of(w_x.T, w_h.T, bias, np.eye(P), order="ifjo"))
    parameters = reference.Parameters(lstm, skip=False)
    parameters.char_embed = found[f"{TOKENS}._char_embedding_layer.weight"]
    for k, (width, _) in enumerate(FILTERS):
        kernel = found[f"{TOKENS}.cnn_layer_{k}.weight"][:, :, 0].T  # (width, D, n)
        parameters.cnn.append((width, kernel, found[f"{TOKENS}.cnn_layer_{k}.bias"]))
    highway = {}
    for gate in ("carry", "transform"):
        linear = f"{TOKENS}._highway_layer.{gate}_linear_0"
        highway[f"W_{gate}"] = found[f"{linear}.weight"]
        highway[f"b_{gate}"] = found[f"{linear}.bias"]
    parameters.highways = [highway]
    parameters.proj = (
        found[f"{TOKENS}._linear_layer.weight"],
        found[f"{TOKENS}._linear_layer.bias"],
    )
    # the fourth is its padding
    weight = np.delete(found["_linear_layer.weight"].T, 3, axis=0)
    bias = np.delete(found["_linear_layer.bias"], 3)
    parameters.softmax = (weight, bias)
    return parameters


@pytest.mark.parametrize("names", ["{layer}.{name}_l0", "{layer}.0.cell.{name}"])
@pytest.mark.parametrize("bias_hh", [False, True])
def test_layers_and_predictions_are_those_of_its_own_network(tmp_path, bias_hh, names):
    found = random_model(bias_hh, names)
    save(found, tmp_path)
    (tmp_path / "vocab-15w.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    vocab = f"--vocab={tmp_path / 'vocab-15w.txt'}"
    for argv in (["import", str(tmp_path / "10000.pdparams"), vocab], ["import", str(tmp_path)]):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        convert.main([*argv, f"--output={tmp_path / 'out'}"])
    parameters = parameters_of(found, names)
    expected_vectors, _ = reference.embed(parameters, SENTENCES)
    reference.assert_close(ELMoEmbedder(tmp_path / "out").encode(SENTENCES), expected_vectors)

    bilm, vocabulary = load_bilm(tmp_path / "out", softmax=True)
    scores, _, _ = bilm.log_probabilities(tiny.lm_batch([SENTENCES[0]], vocabulary))
    order = ["UNK", "<S>", "</S>", *WORDS]
    words = ["<S>", *SENTENCES[0], "</S>"]
    state = reference.start_state(parameters, 1)["forward"]
    for step in range(len(words) - 1):
        inputs = [[words[step]]]
        targets = [[order.index(words[step + 1])]]
        loss, state = reference.direction_loss(parameters, "forward", inputs, targets, state)
        assert scores[0, step] == pytest.approx(-loss, abs=1e-5)


def test_numbers_too_large_for_float32_are_an_error(tmp_path):
    found = random_model(True, "{layer}.{name}_l0")
    found["_linear_layer.bias"] = np.full(4 + len(WORDS), 1e99)
    save(found, tmp_path)
    (tmp_path / "vocab-15w.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"_linear_layer\.bias"):
        convert.main(["import", str(tmp_path), f"--output={tmp_path / 'out'}"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("input", ["char", "word", "char+word"])
def test_a_state_dict_that_a_user_has_saved(tmp_path, input, protocol):
    bilm = tiny.random_bilm(input=input)
    tiny.save(bilm, tmp_path / "own")
    paddle.save(bilm.state_dict(), str(tmp_path / "own" / "mine.pdparams"), protocol=protocol)
    files = [str(tmp_path / "own" / name) for name in ("mine.pdparams", "vocab.txt")]
    convert.main(["import", *files, f"--output={tmp_path / 'out'}"])
    found, vocabulary = load_bilm(tmp_path / "out", softmax=True)
    assert vocabulary.tokens == tiny.WORDS
    for name, weight in bilm.state_dict().items():
        np.testing.assert_array_equal(found.state_dict()[name].numpy(), weight.numpy(), strict=True)


class Evil:
    def __reduce__(self):
        return print, ("code was run",)


@pytest.mark.parametrize("content", [Evil(), {"a": Evil()}, print, np.zeros(2, object)])
def test_no_code_is_run(tmp_path, capsys, content):
    (tmp_path / "x.pdparams").write_bytes(pickle.dumps(content, 4))
    with pytest.raises(UserError, match=r"x\.pdparams"):
        read_paddle(tmp_path / "x.pdparams")
    assert "code was run" not in capsys.readouterr().out


def test_damage_is_an_error_or_changes_numbers(tmp_path):
    save({"a": np.arange(6.0).reshape(2, 3), "b": np.ones(2, np.float32)}, tmp_path)
    path = tmp_path / "10000.pdparams"
    assert read_paddle(path)["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert list(accepted(path, lambda: read_paddle(path), times=600))
