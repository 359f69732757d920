"""Paddle's own tools over a network that has ELMo in it: real training, as with lists of tokens."""

import contextlib

import numpy as np
import pytest
import runs
import tiny
from test_token_inputs import KINDS, make

from elmo_core.kernels import cpu_lstm, fused
from elmo_core.machine.runtime import paddle

SENTENCES = [tiny.SENTENCES[k % 5] for k in range(20)]
LABELS = [k % 5 % 3 for k in range(20)]
cross_entropy = paddle.nn.functional.cross_entropy


class Sentences(paddle.io.Dataset):
    def __len__(self):
        return len(SENTENCES)

    def __getitem__(self, number):
        return SENTENCES[number], LABELS[number]


class Network(paddle.nn.Layer):
    def __init__(self, kind: str, **options):
        super().__init__()
        self.elmo = make(kind, pool="mean", **options)
        paddle.seed(1)
        self.output = paddle.nn.Linear(self.elmo.dim, 3)

    def forward(self, sentences):
        (vectors,), _ = self.elmo(sentences)
        return self.output(vectors)


class OfCharacters(Network):
    def forward(self, characters, lengths):
        return super().forward({"characters": characters, "lengths": lengths})


class OfWords(Network):
    def forward(self, lengths, words):
        return super().forward({"lengths": lengths, "words": words})


class OfBoth(Network):
    def forward(self, characters, lengths, words):
        return super().forward({"characters": characters, "lengths": lengths, "words": words})


NETWORKS = {"char": OfCharacters, "word": OfWords, "char+word": OfBoth}


def load(network: Network, **options) -> paddle.io.DataLoader:
    def collate(rows):
        sentences = [sentence for sentence, _ in rows]
        return network.elmo.inputs(sentences), np.array([label for _, label in rows])

    return paddle.io.DataLoader(Sentences(), batch_size=6, collate_fn=collate, **options)


def optimizer_of(network: Network) -> paddle.optimizer.Optimizer:
    return paddle.optimizer.SGD(0.1, parameters=network.parameters())


def train(network: Network, batches) -> list[np.ndarray]:
    """Train two epochs; return the weights that it has then."""
    optimizer = optimizer_of(network)
    for _ in range(2):
        for sentences, labels in batches:
            cross_entropy(network(sentences), paddle.to_tensor(labels)).backward()
            optimizer.step()
            optimizer.clear_grad()
    return [weight.numpy() for weight in network.parameters()]


def assert_equal(weights: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for weight, wanted in zip(weights, expected, strict=True):
        np.testing.assert_array_equal(weight, wanted)


@pytest.fixture(
    params=[(kind, trainable) for kind in KINDS for trainable in (False, True)], ids=str
)
def options(request):
    kind, trainable = request.param
    return {"kind": kind, "trainable": trainable}


@pytest.fixture
def expected(options):
    """The weights after training on lists of tokens."""
    starts = range(0, len(SENTENCES), 6)
    batches = [(SENTENCES[k : k + 6], LABELS[k : k + 6]) for k in starts]
    network = Network(**options)
    before = [weight.numpy() for weight in network.parameters()]
    after = train(network, batches)
    changed = [not np.array_equal(a, b) for a, b in zip(before, after, strict=True)]
    assert sum(changed) > (5 if options["trainable"] else 2)
    return after


@pytest.mark.parametrize("loader", [{}, {"num_workers": 2}], ids=["here", "workers"])
def test_a_data_loader_trains_as_lists_do(options, expected, loader):
    network = Network(**options)
    assert_equal(train(network, load(network, **loader)), expected)


def test_a_data_loader_without_shared_memory():
    network = Network("char+word")
    here = list(load(network))
    others = list(load(network, num_workers=2, use_shared_memory=False))
    for (inputs, _), (wanted, _) in zip(others, here, strict=True):
        assert list(inputs) == list(wanted)
        for name, array in inputs.items():
            np.testing.assert_array_equal(array.numpy(), wanted[name].numpy())


def test_model_fit_trains_as_lists_do(options, expected):
    network = NETWORKS[options["kind"]](**options)
    model = paddle.Model(network)
    model.prepare(optimizer_of(network), paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy())
    loader = load(network, num_workers=2)
    model.fit(loader, epochs=2, verbose=0, shuffle=False)
    assert_equal([weight.numpy() for weight in network.parameters()], expected)
    network.eval()
    of_lists = Network.forward(network, SENTENCES).numpy()
    (predictions,) = model.predict(loader, verbose=0, stack_outputs=True)
    np.testing.assert_allclose(predictions, of_lists, rtol=1e-5, atol=1e-6)
    accuracy = (of_lists.argmax(axis=1) == LABELS).mean()
    assert model.evaluate(loader, verbose=0)["acc"] == pytest.approx(accuracy)


@pytest.mark.ranks
def test_data_parallel_averages_gradients(tmp_path):
    processes = runs.start_ranks("tests/support/rank_parallel.py", [], tmp_path)
    ended = [process.wait(timeout=120) for process in processes]
    for k in range(2):
        output = (tmp_path / f"rank{k}").read_text(encoding="utf-8")
        assert ended[k] == 0, output
        assert output.splitlines()[-1] == "compared: 108", output
        assert "weight" not in output and "bias" not in output, output


def auto_cast_state():
    core = paddle.base.core
    if hasattr(core, "_get_amp_attrs"):
        return core._get_amp_attrs()
    return paddle.base.framework._dygraph_tracer()  # of Paddle 2.6


@contextlib.contextmanager
def auto_cast_as_on_a_gpu():
    """Put Paddle into the state of `auto_cast`, which it leaves alone on a CPU."""
    state = auto_cast_state()
    state._amp_level = paddle.base.core.AmpLevel.O1
    state._amp_dtype = "bfloat16"
    try:
        yield
    finally:
        state._amp_level = paddle.base.core.AmpLevel.O0
        state._amp_dtype = "float32"


@pytest.mark.filterwarnings("ignore:amp_guard can only be enabled")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_auto_cast_on_a_cpu_changes_nothing(options, dtype):
    losses = []
    gradients = []
    for enabled in (False, True):
        network = Network(**options)
        inputs = network.elmo.inputs(SENTENCES)
        with paddle.amp.auto_cast(enable=enabled, level="O1", dtype=dtype):
            loss = cross_entropy(network(inputs), paddle.to_tensor(LABELS))
            loss.backward()
        losses.append(float(loss))
        weights = [weight for weight in network.parameters() if weight.grad is not None]
        gradients.append([weight.grad.numpy() for weight in weights])
    assert losses[0] == losses[1]
    assert_equal(*gradients)


def test_elmo_computes_as_without_auto_cast(monkeypatch):
    """Forward and backward: on a GPU, Paddle would round the operands of its products."""
    if fused.kernel() is None:
        pytest.skip("no C compiler, or a Paddle without MKL")  # then autograd goes backward
    network = Network("char", trainable=True)
    inputs = network.elmo.inputs(SENTENCES)
    levels = []
    original = cpu_lstm.amp_matmul

    def product(*arguments, **options):
        levels.append(auto_cast_state()._amp_level)
        return original(*arguments, **options)

    monkeypatch.setattr(cpu_lstm, "amp_matmul", product)
    with auto_cast_as_on_a_gpu():
        (vectors,), _ = network.elmo(inputs)
        n_forward = len(levels)
        vectors.sum().backward()
        assert auto_cast_state()._amp_level == paddle.base.core.AmpLevel.O1
    assert 0 < n_forward < len(levels)
    assert set(levels) == {paddle.base.core.AmpLevel.O0}
