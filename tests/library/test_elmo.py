"""The network against the float64 reference, and what users of its vectors rely on."""

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
from elmo_core.encoding.pooling import POOLS, pool_array, pool_tensor, pooled_dim
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError, format_count
from elmo_core.text.characters import CodePoints
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint
from elmo_tools.pretraining.meter import memory_in_use

SENTENCES = tiny.SENTENCES


@pytest.mark.usefixtures("implementation")
def test_embeddings_equal_the_reference(variant, tmp_path):
    tiny.assert_vectors(tiny.save(variant, tmp_path), tiny.reference_of(variant))


def test_clips_bite_in_these_tests():
    parameters = tiny.reference_of(tiny.random_bilm())
    clipped, _ = reference.embed(parameters, SENTENCES)
    parameters.cell_clip = parameters.proj_clip = 0.0
    free, _ = reference.embed(parameters, SENTENCES)
    assert np.abs(clipped[2] - free[2]).max() > 0.1


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
            [
                3,
                -4,
                "-4",
                "last",
                "concat:3",
                "0,0",
                "concat:1,1",
                [1, 0, 0],
                [0, 3],
                [],
                ["a", 1.0, 2],
            ],
        ),
        (
            ELMo,
            "layers",
            [3, True, "all", [0, 1], "0,1", "mix:", "mix:0,3", "top:1", "average:0,1", [0.5, 0.5]],
        ),
        (ELMo, "pool", ["sum"]),
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
    ids=[
        "softmax",
        "word table",
        "no vocabulary",
        "bytes",
        "rows beyond the table",
        "code points",
        "columns",
    ],
)
@pytest.mark.parametrize("kind", [ELMo, ELMoEmbedder])
def test_a_model_and_a_vocabulary_that_do_not_belong_together(kind, changes, vocabulary, named):
    """The compiled loops would read outside of their arrays."""
    with pytest.raises(UserError, match=rf"params.*{named}"):
        kind((tiny.random_bilm(**changes), vocabulary))


def test_a_model_without_softmax_reads_with_any_vocabulary():
    """Which then only names words, as those of `most_similar`."""
    words = Vocabulary([*tiny.WORDS, "more"])
    assert dict(
        ELMoEmbedder((BiLM(tiny.random_bilm().config, softmax=False), words)).most_similar("more")
    )


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


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("kind", ["char", "word", "code points", "weights in memory"])
def test_a_copy_of_an_embedder_gives_the_same_vectors(tmp_path, kind, name):
    """Also if the checkpoint is gone, and while another thread computes."""
    ids = dict(zip([*CodePoints.NAMES, *"thebankof"], range(15), strict=False))
    changes = {
        "word": {"input": "word"},
        "code points": {"alphabet": "code points", "n_characters": 15},
    }
    prefix = tiny.save(tiny.random_bilm(**changes.get(kind, {})), tmp_path / "model")
    (tmp_path / "model/characters.json").write_text(json.dumps(ids), encoding="utf-8")
    params = elmo.load_bilm(prefix, softmax=True) if kind == "weights in memory" else prefix
    embedder = ELMoEmbedder(params, batch_size=2, layers=[0.5, 1.0, 2.0], carry_state=True)
    expected, substitutes = embedder.encode(SENTENCES), embedder.substitutes(SENTENCES[0], 1)
    unused = ELMoEmbedder(
        params, batch_size=2, layers=[0.5, 1.0, 2.0], carry_state=True
    )  # has not read its softmax
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


class NamedEmbedder(ELMoEmbedder):
    """A user's own kind."""


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_keeps_what_a_user_has_added(model, tmp_path, name):
    embedder = NamedEmbedder(model)
    embedder.title = "mine"
    copied = COPIES[name](embedder, tmp_path)
    assert isinstance(copied, NamedEmbedder) and copied.title == "mine"


def test_a_model_in_memory_is_shown_as_such(model):
    pair = ELMoEmbedder(elmo.load_bilm(model))
    assert "copy" not in repr(pair) and model not in repr(pair)
    assert model in repr(ELMoEmbedder(model))


def test_a_published_embedder_is_pickled_by_its_name():
    embedder = ELMoEmbedder("en/", pool="mean")  # as a shell completes it
    pickled = pickle.dumps(embedder)
    assert len(pickled) < 1000
    np.testing.assert_equal(pickle.loads(pickled).encode(SENTENCES), embedder.encode(SENTENCES))


def test_outputs_are_dropped_in_training_only(model):
    layer = ELMo(model, dropout=0.5)
    layer.eval()
    (plain,), _ = layer(SENTENCES[:1])
    np.testing.assert_allclose(
        plain.numpy(), ELMo(model, dropout=0.0)(SENTENCES[:1])[0][0].numpy(), atol=1e-6
    )
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


def chosen(array: np.ndarray, layers: str | int, pool: str | None) -> np.ndarray:
    """What an `ELMo` makes of all layers (3, n, 14) of a sentence: (n, D) or, pooled, (D,)."""
    if pool is None:
        return OF_LAYERS[layers](array)
    if layers in ("average", "top", 1):  # one layer, which is pooled
        return pool_array(OF_LAYERS[layers](array), pool)[0]
    return OF_LAYERS[layers](pool_array(array, pool)[:, 0])


@pytest.mark.parametrize("layers", OF_LAYERS)
@pytest.mark.parametrize("pool", [None, "mean", "mean_max"])
@pytest.mark.parametrize(
    ("share", "where"), [(None, ""), (1.1, "float32 in memory"), (0.6, "float16 in memory")]
)
def test_chosen_layers_are_the_same_computed_and_cached(
    model, monkeypatch, messages, layers, pool, share, where
):
    """share: fraction of the memory that the layers need in float32."""
    expected = [chosen(array, layers, pool) for array in ELMoEmbedder(model).encode(SENTENCES)]
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
                np.testing.assert_allclose(actual, array, **close)
            else:
                np.testing.assert_allclose(actual[: len(array)], array, **close)
                assert not actual[len(array) :].any()


@pytest.mark.parametrize("pool", POOLS)
def test_a_pooled_elmo_is_trained_as_by_pooling_its_vectors(pool):
    gradients = []
    for pooled_by_elmo in (True, False):
        layer = ELMo(
            (tiny.random_bilm(), Vocabulary(tiny.WORDS)),
            trainable=True,
            dropout=0.0,
            layers="concat",
            pool=pool if pooled_by_elmo else None,
        )
        layers, mask = layer.layers(SENTENCES)
        if not pooled_by_elmo:
            layers = [pool_tensor(x, mask, pool) for x in layers]
        assert layers[0].shape == [len(SENTENCES), pooled_dim(14, pool)]
        sum((x**2).sum() for x in layers).backward()
        trained = [weight for weight in layer.bilm.parameters() if weight.grad is not None]
        gradients.append([weight.grad.numpy() for weight in trained])
    assert len(gradients[0]) > 7
    assert_close(*gradients)


def test_words_and_layers_are_dropped_in_training_only(model):
    """A word is left out wherever it occurs in the batch."""
    tuned = ELMo(
        model, layers="mix:0,2", trainable=True, dropout=0.0, word_dropout=0.5, layer_dropout=0.5
    )
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


@pytest.mark.parametrize("pool", [None, "mean", "mean_max"])
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
    assert [record.levelname for record in caplog.records if "layers" in record.message] == [
        "INFO",
        "WARNING",
    ]
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
    moved = {
        name
        for name, weight in layer.state_dict().items()
        if (weight.numpy() != before[name]).any()
    }
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
    with pytest.raises(UserError, match="trains this biLM"):
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
    layer, other = (
        ELMo(model, dropout=0.0),
        ELMo((tiny.random_bilm(seed=5), Vocabulary(tiny.WORDS)), dropout=0.0),
    )
    layer.cache(SENTENCES, 1)
    layer.bilm.set_state_dict(
        {name: x for name, x in other.bilm.state_dict().items() if "softmax" not in name}
    )
    expected = other(SENTENCES)[0][0].numpy()
    assert_close([layer(SENTENCES)[0][0].numpy()], [expected])
    assert "cache" in messages().splitlines()[-1]
    layer.cache(SENTENCES, 1)
    assert_close([layer(SENTENCES)[0][0].numpy()], [expected])
