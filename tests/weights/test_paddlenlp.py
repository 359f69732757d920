"""PaddleNLP's own ELMo: layers and logits of its network, which is written anew here, and going on from its weights."""

import numpy as np
import pytest
from reference import char_ids, relu, sigmoid

import convert
from dataset import lm_batch
from elmo import ELMoEmbedder, load_bilm
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle

WORDS = ["the", "bank", "of", "苹果"]
P, FILTERS = 6, ((1, 3), (2, 4))
SENTENCES = [["the", "bank", "of"], ["苹果", "unheard"], ["the"] * 7]


def random_model(bias_hh: bool, names: str) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)

    def draw(*shape):
        return generator.standard_normal(shape).astype(np.float32) * 0.5

    tokens, n_filters = "_token_embding_layer", sum(n for _, n in FILTERS)
    found = {f"{tokens}._char_embedding_layer.weight": draw(262, 5)}
    for k, (width, n) in enumerate(FILTERS):
        found |= {f"{tokens}.cnn_layer_{k}.weight": draw(n, 5, 1, width), f"{tokens}.cnn_layer_{k}.bias": draw(n)}
    for gate in ("carry", "transform"):
        found[f"{tokens}._highway_layer.{gate}_linear_0.weight"] = draw(n_filters, n_filters)
        found[f"{tokens}._highway_layer.{gate}_linear_0.bias"] = draw(n_filters)
    found |= {f"{tokens}._linear_layer.weight": draw(n_filters, P), f"{tokens}._linear_layer.bias": draw(P)}
    for layer in (f"_elmobilm.{direction}_lstm_layer_{k}" for direction in ("forward", "backward") for k in (0, 1)):
        for name in ("weight_ih", "weight_hh", "bias_ih", *["bias_hh"] * bias_hh):
            found[names.format(layer=layer, name=name)] = draw(4 * P, P) if "weight" in name else draw(4 * P)
    return found | {"_linear_layer.weight": draw(P, 4 + len(WORDS)), "_linear_layer.bias": draw(4 + len(WORDS))}


def token_vector(found, token):
    x = found["_token_embding_layer._char_embedding_layer.weight"][char_ids(token)]  # (50, D)
    features = []
    for k, (width, _) in enumerate(FILTERS):
        kernel = found[f"_token_embding_layer.cnn_layer_{k}.weight"][:, :, 0]
        sums = [np.einsum("ndw,wd->n", kernel, x[s : s + width]) for s in range(50 - width + 1)]
        features.append(relu(np.max(sums, axis=0) + found[f"_token_embding_layer.cnn_layer_{k}.bias"]))
    x, highway = np.concatenate(features), "_token_embding_layer._highway_layer"
    carry = sigmoid(x @ found[f"{highway}.carry_linear_0.weight"] + found[f"{highway}.carry_linear_0.bias"])
    new = relu(x @ found[f"{highway}.transform_linear_0.weight"] + found[f"{highway}.transform_linear_0.bias"])
    x = carry * new + (1 - carry) * x
    return x @ found["_token_embding_layer._linear_layer.weight"] + found["_token_embding_layer._linear_layer.bias"]


def layers(found, names, sentence):
    """Of each direction (3, n + 2, P), in the order in which it reads `<S> w1 .. wn </S>`."""
    sides = []
    for direction in ("forward", "backward"):
        x = np.array([token_vector(found, token) for token in ("<S>", *sentence, "</S>")])
        x = x if direction == "forward" else x[::-1]
        outputs = [x]
        for k in (0, 1):
            layer = f"_elmobilm.{direction}_lstm_layer_{k}"
            w_x, w_h, bias = (found[names.format(layer=layer, name=n)] for n in ("weight_ih", "weight_hh", "bias_ih"))
            bias = bias + found.get(names.format(layer=layer, name="bias_hh"), 0)
            h, c, out = np.zeros(P), np.zeros(P), []
            for row in x:
                i, f, g, o = np.split(w_x @ row + w_h @ h + bias, 4)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
                out.append(h)
            x = np.array(out)
            outputs.append(x)
        sides.append(np.array(outputs))
    return sides


@pytest.mark.parametrize("names", ["{layer}.{name}_l0", "{layer}.0.cell.{name}"])
@pytest.mark.parametrize("bias_hh", [False, True])
def test_layers_and_predictions_are_those_of_its_own_network(tmp_path, bias_hh, names):
    found = random_model(bias_hh, names)
    paddle.save({name: paddle.to_tensor(array) for name, array in found.items()}, str(tmp_path / "10000.pdparams"))
    (tmp_path / "vocab-15w.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    vocab = f"--vocab={tmp_path / 'vocab-15w.txt'}"
    convert.main(["paddlenlp", str(tmp_path / "10000"), vocab, f"--output={tmp_path / 'out'}"])
    exact = {name: array.astype(np.float64) for name, array in found.items()}
    for sentence, vectors in zip(SENTENCES, ELMoEmbedder(tmp_path / "out").encode(SENTENCES), strict=True):
        forward, backward = layers(exact, names, sentence)
        wanted = np.concatenate([forward, backward[:, ::-1]], axis=2)[:, 1:-1]
        np.testing.assert_allclose(vectors, wanted, atol=1e-5)

    bilm, vocabulary = load_bilm(tmp_path / "out", head=True)
    scores, _, _ = bilm.log_probabilities(lm_batch([SENTENCES[0]], vocabulary))
    logits = layers(exact, names, SENTENCES[0])[0][-1] @ exact["_linear_layer.weight"] + exact["_linear_layer.bias"]
    order = ["UNK", "<S>", "</S>", "<PAD>", *WORDS]
    logits[:, order.index("<PAD>")] = -np.inf
    for step, word in enumerate(["the", "bank", "of", "</S>"]):
        wanted = logits[step, order.index(word)] - np.log(np.exp(logits[step]).sum())
        assert scores[0, step] == pytest.approx(wanted, abs=1e-5)


def test_another_checkpoint_is_named(tmp_path):
    paddle.save({"linear.weight": paddle.zeros([2, 2])}, str(tmp_path / "1.pdparams"))
    (tmp_path / "vocab.txt").write_text("the\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"1\.pdparams"):
        convert.main(
            ["paddlenlp", str(tmp_path / "1"), f"--vocab={tmp_path / 'vocab.txt'}", f"--output={tmp_path / 'o'}"]
        )
