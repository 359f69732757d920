"""The sequence tagger: labels and scores, the CRF, ELMo as its input, training, and its folder."""

import errno
import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest
import tiny
from elmo_tasks.elmo_input import LayerCache, Pretrained, elmo_encoder, init_pretraining_params

import elmo
from elmo_core.files import checkpoint
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import MARKERS, UNK_ID, Vocabulary
from elmo_tasks.tagging import training
from elmo_tasks.tagging.crf import LinearChainCRF
from elmo_tasks.tagging.data import BadLines, Labels, Sentence, batch_of, read_tsv
from elmo_tasks.tagging.network import Settings
from elmo_tasks.tagging.scheme import spans, split_label
from elmo_tasks.tagging.score import Counts, Score
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.tagging.training import Schedule

LABELS = Labels(["c", "n", "n-B", "n-I", "nr", "nr-B", "nr-I", "v", "v-B", "v-I", "w"])
TINY = Settings(False, word_emb_dim=5, grnn_hidden_dim=7, dropout=0.0, elmo_dropout=0.0)
SENTENCES = [["苹果", "很", "好"], ["q"], ["the", "bank", "of", "苹果", "x", "a", "river"]]


@pytest.fixture(scope="module")
def checkpoints(small_weights, tmp_path_factory):
    """Checkpoints of random biLMs: by characters, by words, and one by characters that has no vocabulary."""
    folder = tmp_path_factory.mktemp("imported")
    imported = tiny.save(tiny.random_bilm(vocab_size=0, n_highway=1, activation="tanh"), folder)
    (folder / "vocab.txt").unlink()
    return small_weights | {"imported": imported}


def encoder_of(path: str, **changes) -> elmo_encoder:
    encoder = elmo_encoder(**changes)
    init_pretraining_params(encoder, path)
    return encoder


def tiny_tagger(pretrained: str | None = None, **changes) -> Tagger:
    paddle.seed(1)
    settings = Settings(**{**vars(TINY), "use_elmo": pretrained is not None, **changes})
    words = Vocabulary([*MARKERS, "苹果", "很", "好", "the", "of"])
    return Tagger(settings, words, LABELS, pretrained and Pretrained.of(pretrained))


# Labels and sentences


@pytest.mark.parametrize(
    ("text", "where"), [("n\nn-B\nn\n", ":3:"), ("n v\n", ":1:"), ("n\n\n", ":2:"), ("", "no label")]
)
def test_a_faulty_tag_dic_is_an_error(tmp_path, text, where):
    path = tmp_path / "tag.dic"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=f"tag.dic.*{where}"):
        Labels.from_file(path)


def test_labels_may_be_numbered(tmp_path):
    path = tmp_path / "tag.dic"
    path.write_text("0\tn-B\r\n1\tn-I\r\n2\tO\r\n", encoding="utf-8")
    assert Labels.from_file(path).names == ["n-B", "n-I", "O"]


def test_impossible_transitions_of_labels():
    labels = Labels(["n", "n-B", "n-I", "v-B", "v-I"])
    possible = {(a, b) for a in range(6) for b in range(5) if not labels.impossible()[0][a, b]}
    inside = {(1, 2), (2, 2), (3, 4), (4, 4)}
    assert possible == inside | {(a, b) for a in range(6) for b in (0, 1, 3)}


@pytest.mark.parametrize(
    "bad", ["苹果 好\tn v-B v-I", "苹果 好\tn zz", "苹果 n", "\tn", "\udcff苹果\tn"]
)  # the last is no UTF-8
def test_a_bad_line_is_an_error_or_skipped(tmp_path, caplog, bad):
    path = tmp_path / "data"
    path.write_bytes(f"苹果\tn\n\n{bad}\n苹果\tn\n".encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match="data:3:"):
        read_tsv(path, LABELS, BadLines())
    bad_lines = BadLines(skip=True)
    assert read_tsv(path, LABELS, bad_lines) == [Sentence(["苹果"], ["n"])] * 2
    bad_lines.report()
    assert "1 bad lines" in caplog.text and "data:3:" in caplog.text


# Scores


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ("n v", [(0, 1, "n"), (1, 2, "v")]),
        ("n n", [(0, 1, "n"), (1, 2, "n")]),
        ("n-B n-I n-I n-B", [(0, 3, "n"), (3, 4, "n")]),
        ("n n-I n-I", [(0, 1, "n"), (1, 3, "n")]),
        ("n-I v-I", [(0, 1, "n"), (1, 2, "v")]),
        ("n-B v-I v-I", [(0, 1, "n"), (1, 3, "v")]),
        ("n-B O n-I O", [(0, 1, "n"), (2, 3, "n")]),
    ],
)
def test_spans(labels, found):
    assert spans(labels.split()) == found


def test_counts_equal_paddles_chunk_eval():
    """In its scheme IOBES a word of one token has a part of its own, S, like our bare tag."""
    if not hasattr(paddle._C_ops, "chunk_eval"):
        pytest.skip(f"paddle {paddle.__version__} has no chunk_eval outside of static programs")
    generator = random.Random(2)
    tags, parts = ["n", "nr", "v"], {"B": 0, "I": 1, "": 3}
    labels = ["O", *(f"{tag}-{part}".rstrip("-") for tag in tags for part in parts)]

    def number(label: str) -> int:
        tag, part = split_label(label)
        return 4 * len(tags) if tag == "O" else 4 * tags.index(tag) + parts[part]

    for _ in range(100):
        n = generator.randint(1, 12)
        expected, predicted = (generator.choices(labels, k=n) for _ in range(2))
        score = Score()
        score.add(["x"] * n, expected, predicted)
        inputs = [paddle.to_tensor([list(map(number, names))]) for names in (predicted, expected)]
        outputs = paddle._C_ops.chunk_eval(*inputs, paddle.to_tensor([n]), len(tags), "IOBES", [])
        *figures, n_predicted, n_expected, n_correct = [output.item() for output in outputs]
        assert score.total == Counts(n_correct, n_predicted, n_expected)
        found = score.total.precision, score.total.recall, score.total.f1
        np.testing.assert_allclose(found, figures, rtol=1e-6)


def test_scores_by_tag_and_of_unknown_words():
    score = Score()
    score.add(["北", "京", "爱", "山"], ["n-B", "n-I", "v", "n"], ["n-B", "n-I", "n", "n"], known={"山"})
    assert score.tags == {"n": Counts(2, 3, 2), "v": Counts(0, 0, 1)}
    assert score.unknown == Counts(1, 2, 2)
    assert (score.total.precision, score.total.recall) == (2 / 3, 2 / 3)
    assert "unknown words" in score.table()
    score = Score()
    score.add(["北", "京"], ["n-B", "n-I"], ["n-B", "n-I"], known=None)
    assert "unknown words" not in score.table()


# The CRF


def random_crf(n_labels: int, spread: float, impossible=None) -> LinearChainCRF:
    crf = LinearChainCRF(n_labels, impossible)
    generator = np.random.default_rng(n_labels)
    for weight in crf.parameters():
        weight.set_value(generator.normal(size=weight.shape, scale=spread).astype(np.float32))
    return crf


def path_score(crf: LinearChainCRF, emissions: np.ndarray, path) -> float:
    start, stop, transitions = (w.numpy().astype(np.float64) for w in (crf.start, crf.stop, crf.transitions))
    steps = sum(emissions[k, label] for k, label in enumerate(path))
    return start[path[0]] + stop[path[-1]] + steps + sum(transitions[a, b] for a, b in itertools.pairwise(path))


def all_paths(n_labels: int, length: int):
    return list(itertools.product(range(n_labels), repeat=length))


@pytest.mark.parametrize("spread", [0.5, 30.0, 3000.0])
@pytest.mark.parametrize("lengths", [[1], [4, 1, 3]])
def test_the_loss_equals_enumeration(spread, lengths):
    n_labels, n_steps = 3, max(lengths)
    crf, generator = random_crf(n_labels, spread), np.random.default_rng(5)
    emissions = generator.normal(size=(len(lengths), n_steps, n_labels), scale=spread)
    labels = generator.integers(n_labels, size=(len(lengths), n_steps))
    loss = crf(paddle.to_tensor(emissions), labels, np.array(lengths)).numpy()
    for row, length in enumerate(lengths):
        scores = [path_score(crf, emissions[row], path) for path in all_paths(n_labels, length)]
        expected = np.logaddexp.reduce(scores) - path_score(crf, emissions[row], labels[row, :length])
        assert loss[row] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("spread", [1.0, 2000.0])
def test_gradients_equal_finite_differences(spread):
    n_labels, lengths, labels = 3, np.array([3, 1, 2]), np.array([[0, 2, 1], [1, 0, 0], [2, 2, 0]])
    paddle.set_default_dtype("float64")
    try:
        crf = LinearChainCRF(n_labels)
    finally:
        paddle.set_default_dtype("float32")
    generator = np.random.default_rng(3)
    crf.transitions.set_value(generator.normal(size=[n_labels, n_labels]) * spread)
    emissions = paddle.to_tensor(generator.normal(size=(3, 3, n_labels)), stop_gradient=False)
    crf(emissions, labels, lengths).sum().backward()
    for tensor in (emissions, crf.transitions, crf.start, crf.stop):
        gradient, values, step = tensor.grad.numpy(), tensor.numpy(), 1e-5
        for place in np.ndindex(*values.shape):
            ends = []
            for sign in (1, -1):
                moved = values.copy()
                moved[place] += sign * step
                tensor.set_value(moved)
                ends.append(float(crf(emissions, labels, lengths).sum()))
            tensor.set_value(values)
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("lengths", [[1], [2, 2, 4, 3]])
def test_decoding_finds_the_best_labels(lengths):
    labels = Labels(["n-B", "n-I", "n", "v"])
    impossible, _ = labels.impossible()
    generator = np.random.default_rng(len(lengths))
    for _ in range(20):
        crf = random_crf(len(labels), generator.uniform(0.1, 3), impossible)
        emissions = generator.normal(size=(len(lengths), max(lengths), len(labels))).astype(np.float32)
        found = crf.decode(paddle.to_tensor(emissions), np.array(lengths))
        for row, length in enumerate(lengths):
            possible = [
                path
                for path in all_paths(len(labels), length)
                if not any(impossible[a, b] for a, b in itertools.pairwise((-1, *path)))
            ]
            assert tuple(found[row]) == max(possible, key=lambda path: path_score(crf, emissions[row], path))


# ELMo as a layer


@pytest.mark.parametrize("kind", ["char", "word", "imported"])
def test_the_encoder_gives_the_mix_of_elmos_layers(checkpoints, kind):
    encoder = encoder_of(checkpoints[kind])
    encoder.eval()
    encoder.elmo.mixes[0].scalars.set_value(np.log([0.2, 0.3, 0.5]).astype(np.float32))
    encoder.elmo.mixes[0].gamma.set_value(np.array([2.0], np.float32))
    found = encoder(SENTENCES).numpy()
    assert found.shape == (3, 7, encoder.dim)
    expected = elmo.ELMoEmbedder(checkpoints[kind], layers=[0.4, 0.6, 1.0]).encode(SENTENCES)
    for row, array in enumerate(expected):
        np.testing.assert_allclose(found[row, : len(array)], array, rtol=1e-4, atol=1e-5)
        assert not found[row, len(array) :].any()
    np.testing.assert_array_equal(encoder(encoder.map_words(SENTENCES)).numpy(), found)


@pytest.mark.parametrize("kind", ["char", "word"])
def test_the_encoder_takes_word_ids(checkpoints, kind):
    encoder = encoder_of(checkpoints[kind])
    encoder.eval()
    known = [["苹果", "很"], ["river", "of", "bank"]]
    ids = encoder.word_ids(known)
    np.testing.assert_array_equal(ids, [[7, 8, 0], [6, 5, 4]])
    np.testing.assert_array_equal(encoder(ids).numpy(), encoder(known).numpy())
    np.testing.assert_array_equal(encoder(paddle.to_tensor(ids)).numpy(), encoder(known).numpy())


def test_only_a_word_model_has_ids_of_unknown_words(checkpoints):
    assert encoder_of(checkpoints["word"]).word_ids([["nowhere"]]).tolist() == [[UNK_ID]]
    for kind in ("char", "imported"):
        with pytest.raises(UserError, match="characters"):
            encoder_of(checkpoints[kind]).word_ids([["nowhere"]])


@pytest.mark.parametrize("ids", [[[7, 0, 8]], [[99]], [[-1]], [7], [[7.0]], [[True]], [["苹果"]]])
def test_impossible_word_ids_are_an_error(checkpoints, ids):
    with pytest.raises(UserError, match="word ids"):
        encoder_of(checkpoints["word"])(np.array(ids))


@pytest.mark.parametrize(("gigabytes", "dtype", "tolerance"), [(1, "float32", 1e-5), (1e-6, "float16", 5e-3)])
def test_cached_layers_are_the_layers(checkpoints, gigabytes, dtype, tolerance):
    encoder = encoder_of(checkpoints["char"])
    encoder.eval()
    expected = encoder(SENTENCES).numpy()
    encoder.cache = LayerCache(encoder, [*SENTENCES, SENTENCES[0]], gigabytes)  # 11 words x 3 layers x 14: 1,848 bytes
    assert {str(array.dtype) for array in encoder.cache.layers.values()} == {dtype}
    encoder.elmo.layers = None  # must not be called
    np.testing.assert_allclose(encoder(encoder.map_words(SENTENCES)).numpy(), expected, atol=tolerance)
    np.testing.assert_allclose(encoder(encoder.map_words(SENTENCES[1:2])).numpy(), expected[1:2, :1], atol=tolerance)


def test_dropout_and_penalty(checkpoints):
    encoder = encoder_of(checkpoints["char"], elmo_l2_coef=0.5, dropout=0.5)
    assert 0.3 < (encoder(SENTENCES).numpy()[2] == 0).mean() < 0.7
    encoder.elmo.mixes[0].scalars.set_value(np.array([1, 2, 0], np.float32))
    assert encoder.l2_loss().item() == pytest.approx(0.5 * 5)


# The tagger at work and in training


@pytest.mark.parametrize("kind", [None, "char", "word"])
def test_a_sentences_tags_do_not_depend_on_its_batch(checkpoints, kind):
    tagger = tiny_tagger(checkpoints.get(kind))
    tagger.network.eval()
    together = tagger.network(batch_of(SENTENCES, tagger.words)).numpy()
    for row, sentence in enumerate(SENTENCES):
        alone = tagger.network(batch_of([sentence], tagger.words)).numpy()[0]
        np.testing.assert_allclose(together[row, : len(sentence)], alone, atol=1e-5)
    tags = tagger.tag([[], *SENTENCES, [], SENTENCES[0] * 50])
    assert tags[0] == tags[4] == []
    assert tags[1:4] == [tagger.tag([sentence])[0] for sentence in SENTENCES]
    assert tags[5] == tagger.tag([SENTENCES[0] * 50])[0]


def test_parts_learn_at_their_own_rates(checkpoints):
    """Adam's first step has the length of the rate."""
    tagger = tiny_tagger(checkpoints["word"], emb_learning_rate=5.0, crf_learning_rate=0.2, elmo_trainable=True)
    before = {name: weight.numpy().copy() for name, weight in tagger.network.state_dict().items()}
    optimizer = paddle.optimizer.Adam(0.01, parameters=tagger.network.parameters())
    tagger.network.loss(batch_of([["苹果", "好"]], tagger.words, [[1, 7]])).backward()
    optimizer.step()
    for name, rate in {
        "word_embedding.weight": 0.05,
        "emission.weight": 0.01,
        "crf.transitions": 0.002,
        "encoder.elmo.bilm.token_encoder.embedding.weight": 0.001,
        "encoder.elmo.mixes.0.gamma": 0.01,
    }.items():
        change = np.abs(tagger.network.state_dict()[name].numpy() - before[name]).max()
        assert change == pytest.approx(rate, rel=1e-2), name


def sentences_to_learn() -> list[Sentence]:
    """`bank` is a verb after `the`; otherwise it forms a word with the token that follows."""
    generator = random.Random(4)
    found = []
    for _ in range(30):
        tokens, labels = [], []
        for _ in range(generator.randint(1, 5)):
            verb = generator.random() < 0.5
            tokens += ["the", "bank"] if verb else ["bank", "q"]
            labels += ["c", "v"] if verb else ["n-B", "n-I"]
        found.append(Sentence(tokens, labels))
    return found


@pytest.mark.parametrize("kind", [None, "char"])
def test_the_tagger_learns_and_keeps_its_best_epoch(checkpoints, kind, monkeypatch):
    sentences = sentences_to_learn()
    paddle.seed(1)
    words = training.training_words(sentences)
    pretrained = Pretrained.of(checkpoints[kind]) if kind else None
    tagger = Tagger(Settings(**{**vars(TINY), "use_elmo": bool(kind)}), words, LABELS, pretrained)
    scores, score_of = [], Tagger.score

    def score(tagger, *rest):
        scores.append(score_of(tagger, *rest))
        return scores[-1]

    monkeypatch.setattr(Tagger, "score", score)
    schedule = Schedule(epochs=60, batch_size=8, base_learning_rate=0.02, patience=3)
    best = training.train(tagger, sentences, sentences[:9], schedule)
    epochs = [found.total.f1 for found in scores]
    assert best.score.total.f1 == max(epochs) == epochs[best.epoch - 1] > 0.98
    assert len(epochs) in (60, best.epoch + 3)
    assert score_of(tagger, sentences[:9], set()).total == best.score.total


def test_a_full_disk_leaves_the_best_tagger_so_far(tmp_path, monkeypatch):
    save, calls = checkpoint.save, []

    def full(*given):
        calls.append(given)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(*given)

    monkeypatch.setattr(checkpoint, "save", full)
    sentences = sentences_to_learn()
    tagger = Tagger(Settings(**{**vars(TINY), "use_elmo": False}), training.training_words(sentences), LABELS)
    with pytest.raises(OSError, match="No space"):
        training.train(tagger, sentences, sentences[:9], Schedule(epochs=60, base_learning_rate=0.02), tmp_path)
    Tagger.load(tmp_path)


def test_rare_words_become_unknown_in_training(monkeypatch):
    sentences = [Sentence(["苹果"], ["n"])] * 50 + [Sentence(["好"], ["v"])]
    words = training.training_words(sentences)
    tagger, seen = Tagger(TINY, words, LABELS), []
    loss = tagger.network.loss
    monkeypatch.setattr(tagger.network, "loss", lambda batch: seen.extend(batch.ids.ravel().tolist()) or loss(batch))
    training.train(tagger, sentences, sentences[:1], Schedule(epochs=40))
    assert 8 <= seen.count(words.id("好")) <= 32  # of 40 times, expected 20
    assert 1900 < seen.count(words.id("苹果")) < 2000  # of 2,000, expected 1,961


def test_a_learning_rate_that_is_too_high_is_an_error():
    sentences = sentences_to_learn()
    tagger = Tagger(TINY, training.training_words(sentences), LABELS)
    with pytest.raises(UserError, match="--base_learning_rate"):
        training.train(tagger, sentences, sentences, Schedule(epochs=20, base_learning_rate=1e30))


# The tagger's folder


@pytest.mark.parametrize("kind", ["frozen", "tuned", "baseline"])
def test_a_tagger_round_trips(checkpoints, tmp_path, kind):
    pretrained = None if kind == "baseline" else checkpoints["word"]
    tagger = tiny_tagger(pretrained, elmo_trainable=kind == "tuned")
    if kind == "tuned":
        bias = tagger.network.encoder.elmo.bilm.forward_lstm[0].bias
        bias.set_value(bias + 0.5)
    tagger.save(tmp_path)
    assert any(key.startswith("encoder.elmo.bilm") for key in tagger.weights()) == (kind == "tuned")
    loaded = Tagger.load(tmp_path)
    batch = batch_of(SENTENCES, tagger.words)
    tagger.network.eval(), loaded.network.eval()
    np.testing.assert_array_equal(loaded.network(batch).numpy(), tagger.network(batch).numpy())
    assert loaded.tag(SENTENCES) == tagger.tag(SENTENCES)


def test_the_form_of_the_folder(checkpoints, tmp_path):
    """Taggers that users have saved must be read by every later version."""
    tagger = tiny_tagger(str(Path(checkpoints["word"]).parent))  # its latest; another may be the latest later
    tagger.pieces = tagger.words
    tagger.save(tmp_path)
    names = ["best.pdparams", "config.json", "pieces.txt", "tag.dic", "words.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config["tagger"] == tagger.settings.to_dict() and "cell" not in config["tagger"]
    assert set(config["elmo"]) == {"checkpoint", "fingerprint"} and config["elmo"]["checkpoint"] == checkpoints["word"]
    assert set(config["dictionaries"]) == {"words.txt", "tag.dic", "pieces.txt"}
    assert {key for key in tagger.weights() if not key.startswith("gru.")} == {
        *("word_embedding.weight", "encoder.elmo.mixes.0.scalars", "encoder.elmo.mixes.0.gamma"),
        *("emission.weight", "emission.bias", "crf.transitions", "crf.start", "crf.stop"),
    }


def edit_config(folder: Path, change) -> None:
    path = folder / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    change(values)
    path.write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.parametrize(("field", "value"), [("word_emb_dim", -1), ("bigru_num", 2.0), ("use_elmo", 1), ("x", 3)])
def test_damaged_settings_are_an_error_with_file_and_field(tmp_path, field, value):
    tiny_tagger().save(tmp_path)
    edit_config(tmp_path, lambda values: values["tagger"].update({field: value}))
    with pytest.raises(UserError, match=rf"config\.json: tagger\.{field}"):
        Tagger.load(tmp_path)


def test_another_elmo_is_refused(checkpoints, tmp_path):
    tiny_tagger(checkpoints["word"]).save(tmp_path)
    with pytest.raises(UserError, match="not the ELMo"):
        Tagger.load(tmp_path, checkpoints["char"])
    with pytest.raises(UserError, match="tagger"):
        Tagger.load(Path(checkpoints["char"]).parent)
    edit_config(tmp_path, lambda values: values["elmo"].update(checkpoint="/moved/away"))
    with pytest.raises(UserError, match=r"/moved/away.*--pretrain_elmo_model_path"):
        Tagger.load(tmp_path)
    assert Tagger.load(tmp_path, checkpoints["word"]).pretrained == Pretrained.of(checkpoints["word"])
    edit_config(tmp_path, lambda values: values.pop("elmo"))
    with pytest.raises(UserError, match=r"config\.json: elmo"):
        Tagger.load(tmp_path)


def test_changed_dictionaries_are_refused(tmp_path):
    tagger = tiny_tagger()
    tagger.pieces = tagger.words
    tagger.save(tmp_path)
    for name in ("words.txt", "tag.dic", "pieces.txt"):
        path = tmp_path / name
        before = path.read_text(encoding="utf-8")
        *lines, one, other = before.splitlines()
        path.write_text("\n".join([*lines, other, one, ""]), encoding="utf-8")
        with pytest.raises(UserError, match=name):
            Tagger.load(tmp_path)
        path.write_text(before, encoding="utf-8")
    path.unlink()
    with pytest.raises(UserError, match=name):
        Tagger.load(tmp_path)
    edit_config(tmp_path, lambda values: values.pop("dictionaries"))
    assert Tagger.load(tmp_path).pieces is None  # saved before fingerprints were kept
