"""The network against the float64 reference, and the properties that users of its vectors rely on."""

import gc
import json
import math
import pickle
import shutil

import numpy as np
import pytest
import reference
import tiny
from copies import COPIES
from reference import assert_close

import elmo
from elmo import BiLM, ELMo, ELMoEmbedder
from elmo_core.encoding.encoder import run_sentences
from elmo_core.encoding.layers import layer_choice
from elmo_core.kernels import precision
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError, format_count
from elmo_core.network.softmax import draw_candidates
from elmo_core.text.characters import CodePoints
from elmo_core.text.tokens import LMBatch, token_batch
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint
from elmo_tools.pretraining.meter import memory_in_use

SENTENCES = tiny.SENTENCES
VARIANTS = {
    "char relu": {},
    "tanh, three layers": {"activation": "tanh", "n_layers": 3},
    "one layer, no highway": {"n_layers": 1, "n_highway": 0},
    "no skip connections, no clips": {"use_skip_connections": False, "cell_clip": 0.0, "proj_clip": 0.0},
    "filters as wide as the projection": {"filters": ((1, 3), (3, 4))},
    "word table": {"input": "word"},
    "characters and words": {"input": "char+word", "word_dim": 3},
}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def variant(request):
    return tiny.random_bilm(**request.param)


@pytest.mark.usefixtures("implementation")
def test_embeddings_equal_the_reference(variant, tmp_path):
    tiny.assert_vectors(tiny.save(variant, tmp_path), tiny.reference_of(variant))


def test_clips_bite_in_these_tests():
    parameters = tiny.reference_of(tiny.random_bilm())
    clipped, _ = reference.embed(parameters, SENTENCES)
    parameters.cell_clip = parameters.proj_clip = 0.0
    free, _ = reference.embed(parameters, SENTENCES)
    assert np.abs(clipped[2] - free[2]).max() > 0.1


def lm_rows(batch: LMBatch):
    """A batch's inputs for the reference (each token's character ids or vocabulary id), and its targets."""
    inputs, targets = {}, {}

    def at(ids, k):
        return None if ids is None else ids[k]

    for direction in reference.DIRECTIONS:
        indices = getattr(batch, f"{direction}_input")
        goals = getattr(batch, f"{direction}_target")
        tokens = [(at(batch.tokens.characters, k), at(batch.tokens.words, k)) for k in range(indices.max() + 1)]
        inputs[direction] = [[tokens[k] for k in row[:n]] for row, n in zip(indices, batch.lengths, strict=True)]
        targets[direction] = [list(row[:n]) for row, n in zip(goals, batch.lengths, strict=True)]
    return inputs, targets


def random_state(bilm, rows):
    generator = np.random.RandomState(5)
    dtype = str(bilm.softmax.weight.dtype).removeprefix("paddle.")
    return [
        [
            tuple(paddle.to_tensor(generator.uniform(-0.2, 0.2, part.shape).astype(dtype)) for part in one)
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
    candidates = draw_candidates(len(tiny.WORDS), 6 if sampled else 0, np.random.Generator(np.random.Philox(3)))
    expected_counts = np.ones(len(tiny.WORDS))
    if sampled:
        expected_counts = reference.expected_count(reference.log_uniform(len(tiny.WORDS)), candidates.tries)
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
    assert all(tensor.stop_gradient for layer in after for direction in layer for tensor in direction)


@pytest.mark.parametrize("n_candidates", [0, 6])
def test_half_precision_stays_near_the_reference_and_spares_evaluation(n_candidates):
    """bfloat16 has 8 bits: the loss is within 1 %, the gradients within 5 % of those in float64, where no clip or maximum
    jumps.
    """
    batch = tiny.lm_batch(SENTENCES, Vocabulary(tiny.WORDS), "word")
    candidates = draw_candidates(len(tiny.WORDS), n_candidates, np.random.Generator(np.random.Philox(3)))
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
    """For every weight, in float64: with ragged rows, active clips, the sampled softmax, and a task network on top."""
    bilm = tiny.random_bilm("float64", input=input_kind)
    vocabulary = Vocabulary(tiny.WORDS)
    batch = tiny.lm_batch(SENTENCES, vocabulary, input_kind)
    state = random_state(bilm, len(SENTENCES))
    candidates = draw_candidates(len(tiny.WORDS), n_candidates, np.random.Generator(np.random.Philox(3)))

    above = token_batch(SENTENCES, input_kind, vocabulary)

    def loss():
        choice = layer_choice("all", 3, ["each"])
        packed = run_sentences(bilm, bilm.token_encoder(above.tokens), above.index, above.lengths, choice)[0].layers
        return sum(bilm(batch, state, candidates)[0]) / 2 + sum((part**3).mean() for pair in packed for part in pair)

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
            assert losses[0] - losses[1] == pytest.approx(2 * (gradient * direction).sum(), abs=4e-12), name
        weight.set_value(values)


def test_blank_tokens_and_no_break_spaces_are_unknown_characters(model, word_model):
    sentence = ["the", " ", "", "\n", "10\u00a0000"]
    for name in (model, word_model):
        (array,) = ELMoEmbedder(name).encode([sentence])
        assert array.shape == (3, 5, 14)


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        (
            ELMoEmbedder,
            "layers",
            [3, -4, "-4", "last", "concat:3", "0,0", "concat:1,1", [1, 0, 0], [0, 3], [], ["a", 1.0, 2]],
        ),
        (ELMo, "layers", [3, True, "all", [0, 1], "0,1", "mix:", "mix:0,3", "top:1", "average:0,1", [0.5, 0.5]]),
        (ELMo, "pool", ["max"]),
        (ELMo, "word_dropout", [-0.1, 0.1]),  # without trainable=True
        (ELMo, "layer_dropout", [0.1]),
        (ELMoEmbedder, "pool", ["sum"]),
        (ELMoEmbedder, "dtype", ["int8"]),
        (ELMoEmbedder, "batch_size", [0]),
        (ELMo, "dropout", [2.0]),
        (ELMo, "n_mixes", [-1, "2"]),
        (ELMo, "l2_coef", [-1]),
    ],
)
def test_wrong_options_are_named(model, kind, name, values):
    for value in values:
        with pytest.raises(UserError, match=f"^{name}="):
            kind(model, **{name: value})


@pytest.mark.parametrize("params", [None, ["a"], (), ("a", "b"), (None, None)])
def test_a_value_that_is_not_a_model(params):
    with pytest.raises(TypeError, match=r"params|checkpoint"):
        ELMoEmbedder(params)


CODE_POINTS = {"alphabet": "code points", "n_characters": 10}
SIX = dict(zip(CodePoints.NAMES, range(6), strict=True))
BEYOND = dict(zip(CodePoints.NAMES, range(5, 11), strict=True))


@pytest.mark.parametrize(
    ("changes", "vocabulary", "named"),
    [
        ({}, Vocabulary([*tiny.WORDS, "more"]), "13"),
        ({"input": "word"}, Vocabulary(tiny.WORDS[:5]), "5"),
        ({"input": "word"}, None, "vocabulary"),
        (CODE_POINTS, Vocabulary(tiny.WORDS), "code points"),
        (CODE_POINTS, Vocabulary(tiny.WORDS, alphabet=CodePoints(BEYOND)), "code points"),
        ({}, Vocabulary(tiny.WORDS, alphabet=CodePoints(SIX)), "bytes"),
        ({"max_characters": 20}, Vocabulary(tiny.WORDS), "bytes"),
    ],
    ids=["softmax", "word table", "no vocabulary", "bytes", "rows beyond the table", "code points", "columns"],
)
@pytest.mark.parametrize("kind", [ELMo, ELMoEmbedder])
def test_a_model_and_a_vocabulary_that_do_not_belong_together(kind, changes, vocabulary, named):
    """The compiled loops would read outside of their arrays."""
    with pytest.raises(UserError, match=rf"params.*{named}"):
        kind((tiny.random_bilm(**changes), vocabulary))


def test_a_model_without_softmax_reads_with_any_vocabulary():
    """Which then only names words, as those of `most_similar`."""
    words = Vocabulary([*tiny.WORDS, "more"])
    assert dict(ELMoEmbedder((BiLM(tiny.random_bilm().config, softmax=False), words)).most_similar("more"))


@pytest.mark.slow
def test_memory_does_not_grow(model):
    """Neither in the embedder nor in a trainable layer without a backward pass."""
    embedder, layer = ELMoEmbedder(model), ELMo(model, trainable=True)
    sentences = [["the", "bank", "of", f"w{k % 50}", "river"] * 20 for k in range(100)]

    def work():
        embedder.encode(sentences)
        for k in range(0, 100, 50):
            layer(sentences[k : k + 50])
        gc.collect()
        return memory_in_use()

    work()
    before = work()
    for _ in range(4):
        after = work()
    assert after - before < 20 * 2**20, f"{(after - before) / 2**20:.0f} MB more"


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


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("kind", ["char", "word", "code points", "weights in memory"])
def test_a_copy_of_an_embedder_gives_the_same_vectors(tmp_path, kind, name):
    """Also if the checkpoint is gone, and while another thread computes."""
    ids = dict(zip([*CodePoints.NAMES, *"thebankof"], range(15), strict=False))
    changes = {"word": {"input": "word"}, "code points": {"alphabet": "code points", "n_characters": 15}}
    prefix = tiny.save(tiny.random_bilm(**changes.get(kind, {})), tmp_path / "model")
    (tmp_path / "model/characters.json").write_text(json.dumps(ids), encoding="utf-8")
    params = elmo.load_bilm(prefix, softmax=True) if kind == "weights in memory" else prefix
    embedder = ELMoEmbedder(params, batch_size=2, layers=[0.5, 1.0, 2.0], carry_state=True)
    expected, substitutes = embedder.encode(SENTENCES), embedder.substitutes(SENTENCES[0], 1)
    unused = ELMoEmbedder(params, batch_size=2, layers=[0.5, 1.0, 2.0], carry_state=True)  # has not read its softmax
    with unused.token_table.lock:
        copied = COPIES[name](unused, tmp_path)
    shutil.rmtree(tmp_path / "model")
    assert copied.substitutes(SENTENCES[0], 1) == substitutes
    for again in (copied, COPIES[name](embedder, tmp_path), COPIES[name](copied, tmp_path)):
        np.testing.assert_equal(again.encode(SENTENCES), expected)
        assert (again.shape(3), again.device) == (embedder.shape(3), embedder.device)


def test_a_copy_says_when_the_softmax_is_read_and_when_it_is_gone(tmp_path, messages):
    unread = ELMoEmbedder(tiny.save(tiny.random_bilm(), tmp_path / "model"))
    pickle.dumps(unread)
    pickle.dumps(unread)
    assert messages().count("softmax") == 1
    without = tmp_path / "without"
    bilm, vocabulary = elmo.load_bilm(tmp_path / "model")
    checkpoint.save_model(without, bilm.config, bilm.state_dict(), vocabulary)
    assert pickle.dumps(ELMoEmbedder(without))
    gone = ELMoEmbedder(tmp_path / "model")
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(UserError, match=r"softmax.*model\.safetensors"):
        pickle.dumps(gone)


def test_a_model_in_memory_is_shown_as_such(model):
    pair = ELMoEmbedder(elmo.load_bilm(model))
    assert "copy" not in repr(pair) and model not in repr(pair)
    assert model in repr(ELMoEmbedder(model))


def test_a_published_embedder_is_pickled_by_its_name():
    embedder = ELMoEmbedder("en/", pool="mean")  # as a shell completes it
    pickled = pickle.dumps(embedder)
    assert len(pickled) < 1000
    np.testing.assert_equal(pickle.loads(pickled).encode(SENTENCES), embedder.encode(SENTENCES))


@pytest.mark.parametrize("layer_norm", [False, True])
def test_mixes_equal_the_reference(model, layer_norm):
    layer = ELMo(model, n_mixes=2, dropout=0.0, layer_norm=layer_norm)
    layer.mixes[1].scalars.set_value(np.array([0.3, -1.0, 2.0], dtype=np.float32))
    layer.mixes[1].gamma.set_value(np.array([1.7], dtype=np.float32))
    (first, second), mask = layer(SENTENCES)
    assert mask.numpy().sum(axis=1).tolist() == [len(s) for s in SENTENCES]
    expected, _ = reference.embed(tiny.reference_of(layer.bilm), SENTENCES)
    for mixed, scalars, gamma in ((first, np.zeros(3), 1.0), (second, np.array([0.3, -1.0, 2.0]), 1.7)):
        desired = reference.scalar_mix(expected, scalars, gamma, layer_norm)
        assert_close([row[: len(s)] for row, s in zip(mixed.numpy(), SENTENCES, strict=True)], desired, 5e-5)
        assert not (mixed.numpy() * (1 - mask.numpy()[:, :, None])).any()
    (pooled,), _ = ELMo(model, dropout=0.0, layer_norm=layer_norm, pool="mean")(SENTENCES)
    means = [array.mean(axis=1, keepdims=True) for array in expected if array.size]
    found = [row[None] for row, s in zip(pooled.numpy(), SENTENCES, strict=True) if s]
    assert_close(found, reference.scalar_mix(means, np.zeros(3), 1.0, layer_norm), 5e-5)
    assert not any(row.any() for row, s in zip(pooled.numpy(), SENTENCES, strict=True) if not s)


def test_outputs_are_dropped_in_training_only(model):
    layer = ELMo(model, dropout=0.5)
    layer.eval()
    (plain,), _ = layer(SENTENCES[:1])
    np.testing.assert_allclose(plain.numpy(), ELMo(model, dropout=0.0)(SENTENCES[:1])[0][0].numpy(), atol=1e-6)
    layer.train()
    dropped = layer(SENTENCES[:1])[0][0].numpy()
    assert 0.2 < (dropped == 0).mean() < 0.8
    np.testing.assert_allclose(dropped[dropped != 0], 2 * plain.numpy()[dropped != 0], rtol=1e-5)


def test_the_penalty_is_that_of_the_squared_scalars(model):
    layer = ELMo(model, n_mixes=2, l2_coef=0.1)
    layer.mixes[1].scalars.set_value(np.array([0.3, -1.0, 2.0], dtype=np.float32))
    assert layer.l2_loss().item() == pytest.approx(0.1 * (0.09 + 1 + 4))


OF_LAYERS = {  # the output of an untrained ELMo, from all layers (3, n, 2P)
    "mix": lambda layers: layers.mean(axis=0),
    "mix:0,2": lambda layers: layers[[0, 2]].mean(axis=0),
    "concat": lambda layers: np.concatenate(layers, axis=-1),
    "concat:1,0": lambda layers: np.concatenate(layers[[1, 0]], axis=-1),
    "average": lambda layers: layers.mean(axis=0),
    "top": lambda layers: layers[2],
    1: lambda layers: layers[1],
}


@pytest.mark.parametrize("layers", OF_LAYERS)
@pytest.mark.parametrize("pool", [None, "mean"])
@pytest.mark.parametrize(("share", "where"), [(None, ""), (1.1, "float32 in memory"), (0.6, "float16 in memory")])
def test_chosen_layers_are_the_same_computed_and_cached(model, monkeypatch, messages, layers, pool, share, where):
    """share: fraction of the memory that the layers need in float32."""
    expected = [OF_LAYERS[layers](array) for array in ELMoEmbedder(model).encode(SENTENCES)]
    layer = ELMo(model, n_mixes=2, dropout=0.0, layers=layers, pool=pool)
    if where:
        n_vectors = len(SENTENCES) if pool else sum(map(len, SENTENCES))
        n_bytes = 4 * n_vectors * layer.choice.n_layers * layer.layer_dim
        layer.cache([*SENTENCES, SENTENCES[0]], share * n_bytes / 1e9)
        assert f"cached in {where}" in messages()
        monkeypatch.setattr(layer.bilm, "lstm_layers", None)  # nothing is computed again
        layer.trainable = True
        with pytest.raises(TypeError, match="callable"):  # but if the biLM is trained
            layer(SENTENCES)
        layer.trainable = False
    close = {"atol": 1e-3, "rtol": 1e-3} if "16" in where else {"atol": 1e-5}
    for sentences, desired in ((SENTENCES, expected), (SENTENCES[2:3], expected[2:3])):
        (_, output), mask = layer(sentences)
        assert mask.numpy().sum(axis=1).tolist() == [len(s) for s in sentences]
        for actual, array in zip(output.numpy(), desired, strict=True):
            if pool:
                np.testing.assert_allclose(actual, array.mean(axis=0) if len(array) else 0 * actual, **close)
            else:
                np.testing.assert_allclose(actual[: len(array)], array, **close)
                assert not actual[len(array) :].any()


def test_words_and_layers_are_dropped_in_training_only(model):
    """A word is left out wherever it occurs in the batch."""
    tuned = ELMo(model, layers="mix:0,2", trainable=True, dropout=0.0, word_dropout=0.5, layer_dropout=0.5)
    words = [f"w{k}" for k in range(40)]
    plain, _ = ELMo(model, layers="mix:0,2").layers([words])
    paddle.seed(1)
    tuned.train()
    dropped, _ = tuned.layers([words, words])
    vectors, (one, other) = plain[0][0].numpy(), dropped[0].numpy()  # of layer 0
    is_out = (one == 0).all(axis=1)
    assert 8 < is_out.sum() < 32 and np.array_equal(one, other)
    np.testing.assert_allclose(one[~is_out], 2 * vectors[~is_out], rtol=1e-5)
    tuned.eval()
    for layer, expected in zip(tuned.layers([words])[0], plain, strict=True):
        np.testing.assert_allclose(layer.numpy(), expected.numpy(), atol=1e-5)


def test_some_sentences_are_cached(model):
    layer = ELMo(model, layers="mix:0,2")
    layer.cache(SENTENCES[:3], 1)
    expected = [array[[0, 2]] for array in ELMoEmbedder(model).encode(SENTENCES)]
    layers, _ = layer.layers(SENTENCES)
    for row, array in enumerate(expected):
        assert_close([one.numpy()[row, : array.shape[1]] for one in layers], array)
    with pytest.raises(UserError, match="trainable"):
        ELMo(model, trainable=True).cache(SENTENCES, 1)
    for wrong in ("The", ["The bank"]):  # not sentences of letters
        with pytest.raises(TypeError, match="sentence 0"):
            layer.cache(wrong, 1)
        with pytest.raises(TypeError, match="sentence"):
            layer(wrong)


@pytest.mark.parametrize("pool", [None, "mean"])
def test_another_call_caches_more_sentences(model, monkeypatch, messages, pool):
    layer = ELMo(model, dropout=0.0, pool=pool)
    empty, (expected,) = layer([])[0][0].shape, layer(SENTENCES[:3])[0]
    layer.cache(SENTENCES[:2], 1)
    layer.cache(SENTENCES[1:3], 1)
    new = "1 sentence" if pool else format_count(len(SENTENCES[2]), "tokens")
    assert new in messages().splitlines()[-1]  # only those that are new
    monkeypatch.setattr(layer.bilm, "lstm_layers", None)
    assert_close([layer(SENTENCES[:3])[0][0].numpy()], [expected.numpy()])
    assert layer([])[0][0].shape == empty


def test_all_calls_of_cache_share_the_room(model, caplog):
    layer = ELMo(model, dropout=0.0)
    expected = layer(SENTENCES)[0][0].numpy()
    caplog.set_level("INFO", logger="elmo")
    needed = 4 * sum(map(len, SENTENCES[:3])) * 3 * 14
    for sentences in (SENTENCES[:3], SENTENCES[3:]):
        layer.cache(sentences, 1.2 * needed / 1e9)
    assert [record.levelname for record in caplog.records if "layers" in record.message] == ["INFO", "WARNING"]
    assert sum(array.nbytes for array in layer.cached.values()) == needed
    assert_close([layer(SENTENCES)[0][0].numpy()], [expected])
    for wrong in (-1, math.nan):
        with pytest.raises(UserError, match="gigabytes"):
            layer.cache(SENTENCES, wrong)


@pytest.mark.parametrize("trainable", [False, True])
def test_elmo_layer_learns_what_it_should(model, trainable):
    layer = ELMo(model, trainable=trainable, l2_coef=0.1)
    before = {name: weight.numpy() for name, weight in layer.state_dict().items()}
    optimizer = paddle.optimizer.Adam(0.05, parameters=layer.parameters())
    (mixed,), _ = layer(SENTENCES)
    ((mixed**2).mean() + layer.l2_loss()).backward()
    optimizer.step()
    moved = {name for name, weight in layer.state_dict().items() if (weight.numpy() != before[name]).any()}
    if trainable:
        assert {"bilm.forward_lstm.0.input_weight", "bilm.token_encoder.embedding.weight"} < moved
    else:
        assert moved == {"mixes.0.scalars", "mixes.0.gamma"}


@pytest.mark.parametrize("trained_first", [True, False])
def test_two_layers_over_one_model_one_of_them_trained(model, trained_first):
    pair = elmo.load_bilm(model)
    if trained_first:
        trained, frozen = ELMo(pair, trainable=True, dropout=0.0), ELMo(pair)
    else:
        frozen, trained = ELMo(pair), ELMo(pair, trainable=True, dropout=0.0)
    with pytest.raises(UserError, match="trainable"):
        frozen.cache(SENTENCES, 1)
    frozen.eval()
    before = frozen(SENTENCES)[0][0].numpy()
    optimizer = paddle.optimizer.Adam(0.05, parameters=trained.parameters())
    trained(SENTENCES)[0][0].sum().backward()
    assert all(weight.grad is not None for weight in pair[0].parameters())
    optimizer.step()
    optimizer.clear_grad(set_to_zero=False)
    (after,), _ = frozen(SENTENCES)
    assert np.abs(after.numpy() - before).max() > 0.01
    after.sum().backward()
    assert all(weight.grad is None for weight in pair[0].parameters())
    assert frozen.mixes[0].gamma.grad is not None


def test_cached_layers_follow_the_weights(model, messages):
    """A sentence has the same vectors whatever else is in the batch."""
    layer, other = ELMo(model, dropout=0.0), ELMo((tiny.random_bilm(seed=5), Vocabulary(tiny.WORDS)), dropout=0.0)
    layer.cache(SENTENCES, 1)
    layer.bilm.set_state_dict({name: x for name, x in other.bilm.state_dict().items() if "softmax" not in name})
    expected = other(SENTENCES)[0][0].numpy()
    assert_close([layer(SENTENCES)[0][0].numpy()], [expected])
    assert "cache" in messages().splitlines()[-1]
    layer.cache(SENTENCES, 1)
    assert_close([layer(SENTENCES)[0][0].numpy()], [expected])


def test_parameter_names():
    """They are the keys of every checkpoint: changing one breaks all files."""
    names = set(tiny.random_bilm(n_highway=1, filters=((2, 3),)).state_dict())
    lstm = {"input_weight", "recurrent_weight", "bias", "projection_weight"}
    assert names == {
        *(f"{d}_lstm.{k}.{name}" for d in ("forward", "backward") for k in (0, 1) for name in lstm),
        "token_encoder.embedding.weight",
        *(f"token_encoder.convolutions.0.{name}" for name in ("weight", "bias")),
        *(f"token_encoder.highways.0.{gate}.{name}" for gate in ("transform", "carry") for name in ("weight", "bias")),
        *(f"token_encoder.projection.{name}" for name in ("weight", "bias")),
        "softmax.weight",
        "softmax.bias",
    }
