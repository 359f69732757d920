"""The classifier's heads and inputs: equal to NumPy, whatever the batch; trained, saved and explained."""

import random

import numpy as np
import pytest

import run_finetune
from elmo import ELMo, ELMoEmbedder
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.tokens import Vocabulary
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.heads import CNN_WIDTHS, HEADS
from elmo_tasks.classification.network import ClassifierNetwork, ClassifierSettings
from elmo_tasks.classification.training import make_elmo
from elmo_tasks.classification.words import Words
from elmo_tasks.pretrained import PretrainedBiLM

LENGTHS, DIM, SIZE = (5, 1, 0, 7), 6, 3
TEXTS = ["red red blue", "", "blue", "red never seen", "red " * 30]
PAIRS = [(a, b) for a in TEXTS for b in ("blue", "")]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(head, name: str, rows: list[np.ndarray]) -> np.ndarray:
    """The head's result (B, H) in float64, text by text."""
    dim = len(rows[0][0])
    weights = {key: value.numpy().astype(np.float64) for key, value in head.state_dict().items()}
    results = []
    for x in rows:  # (n, D)
        if not len(x):
            results.append(np.zeros(head.dim))
        elif name == "mean":
            results.append(x.mean(axis=0))
        elif name == "max":
            results.append(x.max(axis=0))
        elif name == "attention":
            scores = np.exp(x @ weights["score.weight"])  # (n, 1)
            results.append((scores / scores.sum() * x).sum(axis=0))
        elif name == "lstm":
            directions = []
            for suffix, order in (("", 1), ("_reverse", -1)):
                w, u, b, c = (
                    weights[f"lstm.{part}_l0{suffix}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                )
                h, cell, states = np.zeros(SIZE), np.zeros(SIZE), []
                for row in x[::order]:
                    i, f, g, o = np.split(w @ row + b + u @ h + c, 4)
                    cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
                    h = sigmoid(o) * np.tanh(cell)
                    states.append(h)
                directions.append(np.max(states, axis=0))
            results.append(np.concatenate(directions))
        else:
            parts = []
            for k, width in enumerate(CNN_WIDTHS):
                padded = np.concatenate([np.zeros((width // 2, dim)), x, np.zeros((width, dim))])
                windows = np.stack([padded[t : t + width].ravel() for t in range(len(x))])
                filtered = windows @ weights[f"filters.{k}.weight"] + weights[f"filters.{k}.bias"]
                parts.append(np.maximum(filtered, 0).max(axis=0))
            results.append(np.concatenate(parts))
    return np.stack(results)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_and_its_gradient_equal_numpy(name):
    paddle.seed(4)
    draw = np.random.RandomState(0)
    rows = [draw.standard_normal((n, DIM)) for n in LENGTHS]
    head, mask = HEADS[name](DIM, SIZE), np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    x = np.zeros((*mask.shape, DIM), np.float32)
    x[mask] = np.concatenate(rows)
    x, mask = paddle.to_tensor(x, stop_gradient=False), paddle.to_tensor(mask.astype(np.float32))
    result = head.of_tokens(x, mask)
    np.testing.assert_allclose(result.numpy(), reference(head, name, rows), atol=1e-5)
    direction = draw.standard_normal(result.shape)
    (result * paddle.to_tensor(direction.astype(np.float32))).sum().backward()
    for text, row in enumerate(rows):
        for token, column in np.ndindex(*row.shape):
            values = []
            for step in (1e-6, -1e-6):
                moved = row.copy()
                moved[token, column] += step
                values.append(reference(head, name, [moved])[0] @ direction[text])
            expected = (values[0] - values[1]) / 2e-6
            assert x.grad.numpy()[text, token, column] == pytest.approx(expected, abs=1e-4)


def network(name: str, pairs: bool, source: str, prefix: str) -> ClassifierNetwork:
    """A network with random weights. source: its inputs."""
    tuned, vocabulary = source.startswith("tuned"), Vocabulary.frequent(["red", "blue"])
    settings = ClassifierSettings(
        head=name, head_dim=SIZE, hidden_dim=5, pairs=pairs, elmo_trainable=tuned, lang="none", layers="mix"
    )
    elmo = make_elmo(settings, PretrainedBiLM.from_path(prefix)) if "ELMo" in source else None
    words = Words(None, 1, vocabulary, settings.pool) if "words" in source else None
    return ClassifierNetwork(settings, 3, elmo, words)


@pytest.mark.parametrize("source", ["ELMo", "tuned ELMo", "words", "ELMo and words"])
@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("pairs", [False, True])
def test_a_text_does_not_depend_on_the_batch(small_weights, name, pairs, source):
    paddle.seed(3)
    model = network(name, pairs, source, small_weights["char"])
    sentences = [text.split() for text in TEXTS]
    others = [["blue"], ["red", "x"], [], ["x"], ["blue"]]
    with paddle.no_grad():
        model.standardise([sentences, others])
        together = model(sentences + others if pairs else sentences).numpy()
        alone = [model([a, b] if pairs else [a]).numpy()[0] for a, b in zip(sentences, others, strict=True)]
    assert np.isfinite(together).all() and np.ptp(together, axis=0).max() > 0.01
    np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("name", ["mean", "max"])
def test_the_last_layers_get_standardised_texts(small_weights, name):
    settings = ClassifierSettings(head=name, lang="none")
    model = ClassifierNetwork(settings, 3, make_elmo(settings, PretrainedBiLM.from_path(small_weights["char"])), None)
    sentences = [text.split() for text in ["red red blue", "blue", "red never seen", "", "a b c d e"]]
    model.standardise([sentences[:2], sentences[2:]])
    with paddle.no_grad():
        results = model.head(*model.token_vectors(sentences)).numpy()
    results = results if name == "mean" else results[[0, 1, 2, 4]]  # an empty text has no maximum
    np.testing.assert_allclose(results.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(results.std(axis=0), 1, atol=1e-2)


def same_first_words(n: int) -> tuple[list[tuple[str, str]], list[int]]:
    """Pairs of texts, and whether their first words are the same."""
    generator = random.Random(3)
    pairs = [(generator.choice(["red x", "blue x"]), generator.choice(["red y", "blue y"])) for _ in range(n)]
    return pairs, [int(a.split()[0] == b.split()[0]) for a, b in pairs]


@pytest.mark.parametrize("tuned", [False, True])
@pytest.mark.parametrize("name", HEADS)
def test_heads_learn_and_are_saved(small_weights, tmp_path, name, tuned):
    texts, labels = same_first_words(120)
    inputs = {"epochs": 30, "tune_epochs": 3}
    if tuned:
        inputs |= {"elmo_trainable": True, "elmo_lr": [0.001, 0.003]}
    else:  # words learnt beside ELMo
        inputs |= {"word_vectors_trainable": True, "word_vectors_lr": 0.01}
    progress = []
    classifier = Classifier.train(
        texts,
        labels,
        elmo=small_weights["char"],
        head=name,
        head_dim=16,
        hidden_dim=16,
        lr=0.02,
        weight_decay=0.01,
        dropout=0.0,
        batch_size=16,
        device="cpu",
        save_dir=tmp_path / "model",
        progress=progress.append,
        **inputs,
    )
    assert classifier.evaluate(texts, labels)["accuracy"] > 0.95
    assert max(one["dev"]["accuracy"] for one in progress) == classifier.scores["dev"]["accuracy"]
    again = Classifier(tmp_path / "model")
    assert again.settings == classifier.settings and again.settings.head == name
    np.testing.assert_allclose(again.probabilities(PAIRS), classifier.probabilities(PAIRS), atol=1e-4)


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts, labels = ["good film", "bad film"] * 20, np.array(["p", "n"] * 20)
    quick = {"device": "cpu", "epochs": 2, "lr": 0.02, "weight_decay": 0.1}
    classifier = Classifier.train(np.array(texts), labels, test=(tuple(texts), list(labels)), **quick)
    assert classifier.scores["test"]["accuracy"] == 1 and classifier.predict(texts[:2]) == ["p", "n"]
    run = Classifier.cross_validate(texts, labels, folds=4, **quick)
    assert len(run.accuracies) == 4 and run.predictions.is_correct.all() and "support" in run.report()
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match="epoch"):
        Classifier.cross_validate(texts, labels, epoch=2)
    with pytest.raises(UserError, match="labels"):
        Classifier.train(texts, labels[1:])
    for call in (Classifier.train, classifier.evaluate):
        with pytest.raises(TypeError, match=r"`texts`.*labels"):
            call(texts)


# Explanations


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("name", HEADS)
def test_an_explanation_is_the_weight_or_what_zeros_change(small_weights, name, pairs):
    paddle.seed(5)
    settings = ClassifierSettings(
        head=name, head_dim=SIZE, hidden_dim=5, pairs=pairs, lang="none", reads_elmo=True, reads_words=True
    )
    source = PretrainedBiLM.from_path(small_weights["char"])
    classifier = Classifier.create(settings=settings, classes=["x", "y"], pretrained=source)
    text = ("red the blue", "of red") if pairs else "red the blue"
    sentences = [part.split() for part in (text if pairs else [text])]
    classifier.network.standardise([sentences, [other.split() for other in TEXTS]])
    explained = classifier.explain(text)
    parts = explained if pairs else [explained]
    assert [[token for token, _ in part] for part in parts] == sentences
    weights = [[weight for _, weight in part] for part in parts]
    if name == "attention":
        assert [sum(row) for row in weights] == pytest.approx([1.0] * len(sentences), abs=1e-5)
        return
    network, before = classifier.network, classifier.probabilities([text])[0]
    for side, row in enumerate(weights):
        for token, weight in enumerate(row):
            changed = vectors_of(network, sentences)
            changed[side][token] = 0
            results = [reference(network.head, name, [x]).astype(np.float32)[0] for x in changed]
            after = paddle.nn.functional.softmax(network.classify(paddle.to_tensor(np.stack(results)))).numpy()[0]
            assert weight == pytest.approx(float((before - after)[before.argmax()]), abs=1e-5)


def vectors_of(network: ClassifierNetwork, sentences: list[list[str]]) -> list[np.ndarray]:
    """The standardised vectors (n, D) of each text's tokens."""
    parts = []
    for source, part in zip((network.elmo, network.words), network.inputs, strict=True):
        pool, source.pool = source.pool, None
        parts.append(part(source.layers(sentences)[0]).numpy())
        source.pool = pool
    return [x[: len(sentence)].copy() for x, sentence in zip(np.concatenate(parts, axis=-1), sentences, strict=True)]


def test_a_page_shades_the_words_and_escapes_everything(tmp_path, monkeypatch, capsys):
    texts, labels = ["good <b>film</b> &amp;", 'bad "{{texts}}" <script>'] * 20, ["<i>p</i>", "n"] * 20
    quick = {"device": "cpu", "epochs": 3, "lr": 0.02, "weight_decay": 0.1, "lang": "none", "head": "attention"}
    Classifier.train(texts, labels, save_dir=tmp_path / "model", **quick)
    (tmp_path / "texts").write_text("\n".join([*texts[:2], "", "good"]), encoding="utf-8")
    argv = [f"--model_dir={tmp_path / 'model'}", f"--input={tmp_path / 'texts'}", "--device=cpu"]
    run_finetune.main(["predict", *argv, f"--explain={tmp_path / 'page.html'}"])
    assert len(capsys.readouterr().out.splitlines()) == 4
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<article>") == 3 and page.count("--share: 0.70") >= 3
    for escaped in (
        "&lt;b&gt;film&lt;/b&gt;",
        "&amp;amp;",
        "&lt;i&gt;p&lt;/i&gt;",
        "{{texts}}&quot;",
        "&lt;script&gt;",
    ):
        assert escaped in page
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")


class Column:
    """A column as of `datasets`, or of pandas, whose rows have other numbers."""

    ndim = 1

    def __init__(self, values):
        self.values = list(values)

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)

    def __getitem__(self, number):
        return self.values[number - 100]


@pytest.mark.parametrize("kind", [list, tuple, np.array, Column])
def test_any_sequence_is_accepted(small_weights, kind):
    texts, labels = ["good film", "bad film"] * 20, ["p", "n"] * 20
    quick = {"device": "cpu", "epochs": 3, "lr": 0.02, "weight_decay": 0.1, "lang": "none", "hidden_dim": 4}
    classifier = Classifier.train(kind(texts), kind(labels), dev=(kind(texts), kind(labels)), **quick)
    assert classifier.evaluate(kind(texts), kind(labels))["accuracy"] == 1
    expected = classifier.probabilities(texts)
    np.testing.assert_array_equal(classifier.probabilities(kind(texts)), expected)
    sentences = kind([kind(["good", "film"]), kind(["bad", "film"])])
    arrays = ELMoEmbedder(small_weights["char"], device="cpu").encode(sentences)
    assert [array.shape[1] for array in arrays] == [2, 2]
    (vectors,), _ = ELMo(small_weights["char"], layers="top")(sentences)
    assert vectors.shape[:2] == [2, 2]


@pytest.mark.parametrize("texts", ["good", {"good": 1}, {"good"}, 3, (text for text in ["good"])])
def test_what_is_no_sequence_is_an_error(texts):
    with pytest.raises(TypeError, match="expected a list"):
        Classifier.train(texts, ["p"])
