"""A network with ELMo as `paddle.jit` saves it and trains it."""

import subprocess
import sys

import numpy as np
import pytest
import tiny
from test_token_inputs import KINDS, make

from elmo import ELMo, Vocabulary
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.characters import Bytes

InputSpec = paddle.static.InputSpec
SPECS = {
    "characters": InputSpec([None, None, None], "int64", "characters"),
    "words": InputSpec([None, None], "int64", "words"),
    "lengths": InputSpec([None], "int64", "lengths"),
}
# Runs saved networks where nothing of this project can be imported.
LOADED = """
import sys
import numpy as np
import paddle
for folder in sys.argv[1:]:
    arrays = np.load(f"{folder}/inputs.npz")
    network = paddle.jit.load(f"{folder}/network")
    network.eval()
    outputs = network(*[paddle.to_tensor(arrays[name]) for name in sorted(arrays)])
    np.savez(f"{folder}/outputs.npz", *[output.numpy() for output in outputs])
assert "elmo" not in sys.modules and "elmo_core" not in sys.modules
"""


class Network(paddle.nn.Layer):
    """Its forward pass reads a dict, and branches, which `paddle.jit` rewrites."""

    def __init__(self, elmo):
        super().__init__()
        self.elmo = elmo
        paddle.seed(1)
        self.output = paddle.nn.Linear(elmo.dim, 3)

    def forward(self, inputs):
        (vectors,), mask = self.elmo(inputs)
        if mask.sum() > 1000:
            vectors = vectors * 0
        return self.output(vectors), mask


def save(network, folder) -> list[str]:
    """Save a network, and return the names of its inputs in their order."""
    names = list(network.elmo.inputs([]))
    network.eval()
    specs = {name: SPECS[name] for name in names}
    paddle.jit.save(network, str(folder / "network"), input_spec=[specs])
    return names


def assert_close(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


def test_saved_networks_answer_without_this_package(tmp_path):
    networks = {}
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        networks[kind] = Network(make(kind, layers="concat", trainable=True))
        save(networks[kind], tmp_path / kind)
        inputs = networks[kind].elmo.inputs(tiny.SENTENCES)
        arrays = {name: x.numpy() for name, x in inputs.items()}
        np.savez(tmp_path / kind / "inputs.npz", **arrays)
    subprocess.run([sys.executable, "-I", "-c", LOADED, *KINDS], cwd=tmp_path, check=True)
    for kind, network in networks.items():
        logits, mask = np.load(tmp_path / kind / "outputs.npz").values()
        expected, expected_mask = network(network.elmo.inputs(tiny.SENTENCES))
        np.testing.assert_array_equal(mask, expected_mask.numpy())
        assert_close(logits, expected.numpy())


@pytest.mark.parametrize(
    "options",
    [
        {"layer_norm": True},
        {"layers": "mix:0,2", "pool": "mean"},
        {"layers": "concat:0,2", "pool": "mean_max"},
        {"layers": 0},
        {"layers": "average", "precision": "auto"},
    ],
    ids=str,
)
def test_the_layers_and_batches_of_a_saved_network(options, tmp_path):
    network = Network(make(**{"precision": "float32", **options}))
    names = save(network, tmp_path)
    loaded = paddle.jit.load(str(tmp_path / "network"))
    loaded.eval()
    network.elmo.precision = "float32"  # which a saved network always has
    for sentences in (tiny.SENTENCES, [["the"]], [["bank", "of"], []]):
        inputs = network.elmo.inputs(sentences)
        logits, mask = loaded(*[inputs[name] for name in names])
        expected, expected_mask = network(inputs)
        np.testing.assert_array_equal(mask.numpy(), expected_mask.numpy())
        assert_close(logits.numpy(), expected.numpy())


@pytest.mark.parametrize(
    "changes",
    [
        {"activation": "tanh", "use_skip_connections": False, "cell_clip": 0.0, "proj_clip": 0.0},
        {"n_layers": 3, "n_highway": 0, "filters": ((1, 3), (3, 4)), "max_characters": 20},
    ],
    ids=["tanh, no skip connections, no clips", "three layers, no highway, no projection"],
)
def test_variants_are_saved(changes, tmp_path):
    vocabulary = Vocabulary(tiny.WORDS, alphabet=Bytes(changes.get("max_characters", 50)))
    network = Network(ELMo((tiny.random_bilm(**changes), vocabulary), dropout=0.0))
    save(network, tmp_path)
    loaded = paddle.jit.load(str(tmp_path / "network"))
    loaded.eval()
    inputs = network.elmo.inputs(tiny.SENTENCES)
    assert_close(loaded(*inputs.values())[0].numpy(), network(inputs)[0].numpy())


def test_padding_does_not_matter(tmp_path):
    network = Network(make("word"))
    save(network, tmp_path)
    loaded = paddle.jit.load(str(tmp_path / "network"))
    loaded.eval()
    expected, _ = loaded(*network.elmo.inputs([["the", "bank"]]).values())
    logits, _ = loaded(*network.elmo.inputs([["the", "bank"], ["of"] * 9]).values())
    assert_close(logits[0, :2].numpy(), expected[0].numpy())


def losses(network, forward, sentences) -> list[float]:
    """The losses of three steps of training."""
    optimizer = paddle.optimizer.Adam(0.05, parameters=network.parameters())
    inputs = network.elmo.inputs(sentences)
    found = []
    for _ in range(3):
        logits, mask = forward(inputs)
        loss = (logits**2 * mask.unsqueeze(-1)).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        found.append(float(loss))
    return found


def test_a_network_over_a_frozen_elmo_is_trained_as_a_graph():
    expected = losses(network := Network(make()), network, tiny.SENTENCES)
    network = Network(make())
    graph = paddle.jit.to_static(network, full_graph=True)
    assert_close(losses(network, graph, tiny.SENTENCES), expected)
    assert expected[2] < expected[0]


def test_what_a_graph_cannot_is_named(tmp_path):
    network = Network(make(trainable=True))
    with pytest.raises(UserError, match="eval"):
        paddle.jit.save(
            network,
            str(tmp_path / "network"),
            input_spec=[{name: SPECS[name] for name in ("characters", "lengths")}],
        )
    network = Network(make("word"))
    with pytest.raises(UserError, match="expected lengths, words"):
        paddle.jit.save(
            network,
            str(tmp_path / "network"),
            input_spec=[{name: SPECS[name] for name in ("characters", "lengths")}],
        )
    with pytest.raises(UserError, match="not lists"):
        paddle.jit.save(network, str(tmp_path / "network"), input_spec=[[SPECS["words"]]])
