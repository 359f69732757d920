"""The classifier: training in one and two phases, predictions, folders."""

import gzip
import json
import pickle
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elmo import ELMo
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_tasks import Classifier, ClassifierSettings
from elmo_tasks.classification import logistic
from elmo_tasks.classification.classifier import _warn_once

TOPICS = {
    "art": "the painter and his museum",
    "sport": "a goal in the match",
    "tech": "new chips for computers",
}
SETTINGS = ClassifierSettings(
    elmo=None, word_dim=6, head="mean", epochs=6, lr=0.05, hidden_dim=7, batch_size=16, lang="none"
)


def topics(n: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts whose class each of their words tells, and their classes."""
    generator = random.Random(seed)
    labels = [generator.choice(list(TOPICS)) for _ in range(n)]
    return [" ".join(generator.sample(TOPICS[label].split(), 3)) for label in labels], labels


TEXTS, LABELS = topics(60)


class Frame:
    """What is looked at of a DataFrame of pandas, which the tests do not need."""

    columns = ("review", "stars")
    iloc = None


@pytest.fixture(autouse=True)
def fast(no_fsync):
    pass


def train(texts=TEXTS, labels=LABELS, settings=SETTINGS, **options) -> Classifier:
    return Classifier.train(texts, labels, settings=settings, **{"device": "cpu", **options})


def write(path: Path, content: str) -> Path:
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


def test_labels_come_back_as_they_went_in():
    names = dict(zip(TOPICS, (3, 1, 2), strict=True))
    classifier = train(TEXTS, [names[label] for label in LABELS])
    assert classifier.labels == [1, 2, 3] and {type(x) for x in classifier.predict(TEXTS)} == {int}
    numbers = [str(names[label]) for label in LABELS]  # as of a file
    assert (
        classifier.evaluate(TEXTS, numbers)["accuracy"]
        == np.mean(np.array(classifier.predict(TEXTS), str) == numbers)
        > 0.9
    )
    assert (
        train(TEXTS, numbers).evaluate(TEXTS, [names[label] for label in LABELS])["accuracy"] > 0.9
    )
    assert train(TEXTS, [label == "art" for label in LABELS]).predict(["the painter"]) == [True]
    with pytest.raises(UserError, match="zz"):
        classifier.evaluate(TEXTS, ["zz"] * len(TEXTS))
    for labels, word in (([1] * len(TEXTS), "two or more"), ([1, "1", 2] * 20, "strings")):
        with pytest.raises(UserError, match=word):
            train(TEXTS, labels)


def test_tables_and_no_epochs():
    rows = [{"review": text, "stars": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    settings = replace(SETTINGS, epochs=0, columns=["review", "stars"])
    classifier = train(rows, None, settings, dev=rows)
    assert (
        classifier.training["epoch"] == 0
        and classifier.evaluate(rows)["accuracy"] == classifier.scores["dev"]["accuracy"]
    )
    with pytest.raises(UserError, match="columns"):
        train(rows, None)
    with pytest.raises(TypeError, match="row 1: found None"):
        train([rows[0], None], None, settings)


def test_a_header_of_other_names_is_noticed(tmp_path, messages):
    rows = "".join(f"{text}\t{label}\n" for text, label in zip(TEXTS, LABELS, strict=True))
    (tmp_path / "train.tsv").write_text(f"评论\t类别\n{rows}", encoding="utf-8")
    train(tmp_path / "train.tsv", None, replace(SETTINGS, epochs=0), dev=(TEXTS, LABELS))
    assert "train.tsv:1: only this line has the label '类别'" in messages()


@pytest.mark.parametrize("named", [False, True])
def test_swapped_columns_are_noticed(tmp_path, messages, named):
    texts = [f"text {k}" for k in range(30)] * 2
    rows = "".join(f"{k % 2}\t{text}\n" for k, text in enumerate(texts))
    (tmp_path / "train.tsv").write_text(rows, encoding="utf-8")
    columns = "1,0" if named else None
    settings = replace(SETTINGS, epochs=0, columns=columns)
    train(tmp_path / "train.tsv", None, settings)
    assert ("30 labels of 60 texts" in messages()) != named


def test_texts_without_words_are_noticed_and_have_a_class(messages):
    classifier = train([*TEXTS, "", " "], [*LABELS, "art", "art"], replace(SETTINGS, epochs=1))
    assert "2 texts without words" in messages()
    _warn_once.cache_clear()
    assert {*classifier.predict(["a goal", "", "\u200b", " "])} <= {*TOPICS}
    assert messages().count("without words gets") == 1


def test_labels_for_other_texts_are_counted():
    with pytest.raises(UserError, match="60 examples and 5 labels"):
        train(labels=LABELS[:5])


def test_predictions_are_those_of_the_text_alone(small_weights):
    classifier = train(
        settings=replace(SETTINGS, elmo=small_weights["char"], head="lstm", head_dim=5, word_dim=0)
    )
    texts = ["a goal", "", "chips " * 40, "never seen", "the painter"]
    together = classifier.predict_proba(texts)
    assert together.shape == (5, 3) and together.dtype == np.float32
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(classifier.predict_proba([text])[0], row, atol=1e-5)
    lazy = classifier.iter_predict(iter(texts))
    assert (
        next(lazy) == classifier.predict(texts)[0] and list(lazy) == classifier.predict(texts)[1:]
    )
    assert classifier.predict_proba([]).shape == (0, 3) and classifier.predict([]) == []
    for wrong in (("a", "b"), 3, None, ["a"] * 2):
        with pytest.raises(TypeError, match="text 1: "):
            classifier.predict(["a goal", wrong])
    with pytest.raises(TypeError, match="a column of texts"):
        classifier.predict("a" for _ in range(3))
    assert classifier.predict("a goal") == classifier.predict(["a goal"])[0]
    np.testing.assert_array_equal(
        classifier.predict_proba("a goal"), classifier.predict_proba(["a goal"])[0]
    )
    with pytest.raises(TypeError, match="Frame with the columns review, stars"):
        classifier.predict(Frame())


INPUTS = ["words", "characters", "file", "tuned file", "ELMo", "tuned ELMo", "tuned at once"]


@pytest.mark.parametrize(
    ("inputs", "pairs"), [*((name, False) for name in INPUTS), ("words", True), ("ELMo", True)]
)
def test_what_is_trained_is_complete_and_learns(tmp_path, small_weights, inputs, pairs):
    write(tmp_path / "vectors.txt", "3 2\na 1 0\nthe 0 1\nnew 1 1\n")
    elmo = {"elmo": small_weights["word"], "layers": "mix"}
    file = {"word_vectors": tmp_path / "vectors.txt"}
    chosen = {
        "words": {"word_dim": 6},
        "characters": {"char_cnn": True},
        "file": {**file, "word_dim": 6},
        "tuned file": {**file, "word_vectors_trainable": True},
        "ELMo": elmo,
        "tuned ELMo": {**elmo, **file, "elmo_trainable": True, "elmo_lr": 0.003},
        "tuned at once": {**elmo, "elmo_trainable": True, "epochs": 0, "tune_epochs": 9},
    }[inputs]
    settings = replace(SETTINGS, **{"word_dim": 0, **chosen})
    texts = [(text, "x y") for text in TEXTS] if pairs else TEXTS
    phases = []
    classifier = train(
        texts,
        settings=settings,
        dev=(texts, LABELS),
        test=(texts, LABELS),
        save_dir=tmp_path / "m",
        progress=lambda scores: phases.append(scores["phase"]),
    )
    expected_phases = [1] * settings.epochs
    if inputs == "tuned at once":
        expected_phases = [1] * settings.tune_epochs
    elif "tuned" in inputs:
        expected_phases += [2] * settings.tune_epochs
    assert phases == expected_phases
    assert classifier.scores["test"]["accuracy"] > 0.5
    expected = classifier.predict_proba(texts)
    scores = classifier.evaluate(texts, LABELS)
    # Not so the AUC: that of equal texts depends on the rounding.
    assert scores["accuracy"] == classifier.scores["test"]["accuracy"]
    for copy in (Classifier(tmp_path / "m"), pickle.loads(pickle.dumps(classifier))):
        np.testing.assert_array_equal(copy.predict_proba(texts), expected)
        assert copy.evaluate(texts, LABELS) == scores


def test_tuning_begins_with_the_first_model_and_changes_elmo(small_weights):
    settings = replace(SETTINGS, elmo=small_weights["char"], word_dim=0)
    first = train(settings=settings)
    tuned = train(
        settings=replace(
            settings, elmo_trainable=True, tune_epochs=1, elmo_lr=0.01, lstm_dropout=0.0
        )
    )
    before, after = (model.network.inputs.elmo.bilm.state_dict() for model in (first, tuned))
    is_changed = [not np.array_equal(before[name].numpy(), after[name].numpy()) for name in before]
    assert any(is_changed) == (tuned.training["epoch"] > 0)
    assert tuned.scores["dev"].value >= first.scores["dev"].value


@pytest.fixture(scope="module")
def in_two_phases(small_weights) -> ClassifierSettings:
    return replace(
        SETTINGS, elmo=small_weights["char"], elmo_trainable=True, tune_epochs=2, dropout=0.3
    )


@pytest.fixture(scope="module")
def uninterrupted(in_two_phases) -> Classifier:
    return train(settings=in_two_phases)


@pytest.mark.parametrize("stop", [1, 6, 7, 8])
def test_resumed_training_is_the_same(tmp_path, in_two_phases, uninterrupted, stop, messages):
    if not paddle_compat.random_states(paddle):
        version = paddle.__version__
        pytest.skip(f"paddle {version} hides the state of its generator, which dropout draws from")
    epochs = []

    def interrupt(scores):
        epochs.append(scores)
        if len(epochs) == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(settings=in_two_phases, save_dir=tmp_path / "m", progress=interrupt)
    assert "resume" in messages()
    with pytest.raises(UserError, match="lr was"):
        train(settings=replace(in_two_phases, lr=0.1), save_dir=tmp_path / "m", resume=True)
    resumed = train(settings=in_two_phases, save_dir=tmp_path / "m", resume=True)
    assert "cached layers" not in messages()
    for name, weight in uninterrupted.trained_weights().items():
        assert np.array_equal(weight.numpy(), resumed.trained_weights()[name].numpy()), name
    assert not list((tmp_path / "m").glob("training*"))


def test_averages_in_the_first_phase_leave_the_frozen_elmo_and_its_cache_alone(
    in_two_phases, messages
):
    train(settings=replace(in_two_phases, ema=0.9, epochs=2))
    assert "cached layers" not in messages()


def test_balanced_classes(small_weights):
    settings = replace(
        SETTINGS,
        elmo=small_weights["char"],
        layers="mix",
        elmo_l2_coef=0.1,
        class_weights="balanced",
    )
    classifier = train([*TEXTS, *[TEXTS[0]] * 60], [*LABELS, *[LABELS[0]] * 60], settings)
    weights = classifier.network.class_weights.numpy()
    assert weights[classifier.labels.index(LABELS[0])] == min(weights)


def test_settings_without_effect():
    for wrong in (
        {"tune_epochs": 3},
        {"lstm_dropout": 0.1},
        {"word_vectors_trainable": True},
        {"columns": "text"},
    ):
        with pytest.raises(UserError, match=next(iter(wrong))):
            train(settings=ClassifierSettings(head="mean", word_dim=3, **wrong))
    with pytest.raises(UserError, match="elmo"):
        train(settings=ClassifierSettings(elmo=None, head="mean"))
    with pytest.raises(UserError, match="elmo"):
        train(settings=ClassifierSettings(elmo=None, ngrams="none"))
    with pytest.raises(UserError, match="lower"):
        train(settings=replace(SETTINGS, lr=1e20))


def test_a_layer_with_its_cache_is_shared(small_weights):
    layer = ELMo(small_weights["char"], 0, layers="concat", dropout=0.0)
    settings = replace(SETTINGS, elmo=layer, word_dim=0)
    train(settings=settings)
    cached = dict(layer.cached)
    again = train(settings=replace(settings, lr=0.01))
    assert cached.keys() == layer.cached.keys() and again.pretrained.layer is layer
    by_name = train(settings=replace(settings, elmo=small_weights["char"], lr=0.01))
    np.testing.assert_allclose(again.predict_proba(TEXTS), by_name.predict_proba(TEXTS), atol=1e-3)


@pytest.mark.parametrize(
    "labels", ["abc", [["art"], "sport", "tech"], [{}, "sport", "tech"], [None, "sport", "tech"]]
)
def test_labels_of_a_folder_are_strings_or_numbers(tmp_path, labels):
    train(settings=replace(SETTINGS, epochs=0), save_dir=tmp_path / "m")
    config = tmp_path / "m" / "config.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    content["parts"]["labels"] = labels
    config.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.json: .*labels"):
        Classifier(tmp_path / "m")


def several(n: int, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """Texts about none, one or two of the topics, and the lists of these."""
    generator = random.Random(seed)
    texts, labels = [], []
    for _ in range(n):
        chosen = sorted(generator.sample(list(TOPICS), generator.choice([0, 1, 1, 2])))
        words = ["and", "this"]
        for label in chosen:
            words += generator.sample(TOPICS[label].split(), 3)
        texts.append(" ".join(words))
        labels.append(chosen)
    return texts, labels


SEVERAL = several(120)
QUICK = replace(SETTINGS, epochs=1)


@pytest.fixture(scope="module")
def of_several(tmp_path_factory) -> Classifier:
    """A classifier of lists of labels, saved."""
    folder = tmp_path_factory.mktemp("several") / "m"
    settings = replace(SETTINGS, epochs=10)
    return train(*SEVERAL, settings, save_dir=folder, test=several(60, 1))


def test_lists_of_labels_are_predicted_as_lists(of_several):
    texts, labels = several(60, 2)
    predicted = of_several.predict(texts)
    assert {type(x) for x in predicted} == {list} and [] in predicted
    assert max(len(x) for x in predicted) == 2
    assert np.mean([a == b for a, b in zip(predicted, labels, strict=True)]) > 0.8
    probabilities = of_several.predict_proba(texts)
    assert probabilities.shape == (60, 3)
    assert probabilities.sum(axis=1).max() > 1.5 and probabilities.sum(axis=1).min() < 0.7
    for found, row in zip(predicted, probabilities, strict=True):
        chosen = row >= of_several.threshold
        assert found == np.array(of_several.labels)[chosen].tolist()
    assert of_several.predict(texts[0]) == predicted[0]
    assert list(of_several.iter_predict(iter(texts))) == predicted


def test_the_threshold_is_that_of_the_dev_set_and_is_saved(of_several, messages):
    assert 0 < of_several.threshold == of_several.scores["dev"]["threshold"] < 1
    assert of_several.scores["test"]["threshold"] == of_several.threshold
    copy = Classifier(of_several.folder)
    assert copy.threshold == of_several.threshold
    scores = copy.evaluate(*several(60, 1))
    assert scores == of_several.scores["test"] and scores["micro_f1"] == scores.value > 0.8
    card = (of_several.folder / "README.md").read_text(encoding="utf-8")
    assert f"{of_several.threshold:.4f}" in card and "micro-F1" in card
    again = train(*SEVERAL, replace(SETTINGS, epochs=10))
    assert again.threshold == of_several.threshold and f"{again.threshold:.4f}" in messages()


def test_a_threshold_of_a_folder_is_a_probability(of_several, tmp_path):
    of_several.save(tmp_path / "m")
    config = tmp_path / "m" / "config.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    for wrong in ("x", 2, True):
        content["parts"]["threshold"] = wrong
        config.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(UserError, match=r"config\.json: .*threshold"):
            Classifier(tmp_path / "m")


@pytest.mark.parametrize(("name", "separator"), [("a.csv", "|"), ("a.tsv", ", "), ("a.jsonl", "")])
def test_lists_of_labels_in_files(tmp_path, of_several, name, separator):
    lines = {"a.csv": ["text,label"], "a.tsv": [], "a.jsonl": []}[name]
    for text, labels in zip(*SEVERAL, strict=True):
        joined = separator.join(labels)
        row = {"a.csv": f"{text},{joined}", "a.tsv": f"{text}\t{joined}"}.get(name)
        lines.append(row or json.dumps({"text": text, "labels": labels}))
    write(tmp_path / name, "\n".join(lines) + "\n")
    settings = replace(SETTINGS, epochs=10, label_separator=separator)
    classifier = train(tmp_path / name, None, settings)
    texts, labels = several(60, 2)
    assert classifier.predict(texts) == of_several.predict(texts)
    assert classifier.evaluate(texts, labels)["micro_f1"] > 0.8


def test_sets_and_tables_of_labels(of_several):
    texts, labels = SEVERAL
    rows = [{"text": text, "label": found} for text, found in zip(texts, labels, strict=True)]
    for given in ((rows, None), (texts, [set(x) for x in labels]), (texts, [*map(tuple, labels)])):
        found = train(*given, replace(SETTINGS, epochs=10))
        assert found.predict(texts) == of_several.predict(texts)


@pytest.mark.parametrize(
    ("labels", "pattern"),
    [
        ([["a"], "b", ["a", "b"]], r"train 1: .*label 'b'.*list of labels \['a'\] in train 0"),
        ([[], [], []], "no text has labels"),
        ([["a", "b"], ["b", "a"], ["a", "b"]], r"all texts have the labels \['a', 'b'\]"),
        ([["a"], ["a", "a"], ["b"]], "train 1: .*'a' occurs 2 times"),
        ([["a"], ["a", None], ["b"]], "train 1: .*empty"),
        ([["1"], ["a", 1], ["b"]], "differ only in type"),
    ],
)
def test_faulty_lists_of_labels(labels, pattern):
    with pytest.raises(UserError, match=pattern):
        train(["x", "y", "z"], labels, QUICK)


def test_one_label_that_applies_to_some_texts():
    labels = [["art"] if "art" in found else [] for found in SEVERAL[1]]
    classifier = train(SEVERAL[0], labels, replace(SETTINGS, epochs=10))
    assert classifier.labels == ["art"]
    assert classifier.evaluate(SEVERAL[0], labels).accuracy > 0.9


def test_data_to_score_have_lists_of_labels_if_those_of_training_had(of_several):
    assert of_several.evaluate(["a goal"], [[]])["texts"] == 1
    with pytest.raises(UserError, match=r"data 0: .*'art'.*expected a list of labels"):
        of_several.evaluate(["a goal"], ["art"])
    with pytest.raises(UserError, match=r"data 0: .*\['art'\].*expected one label"):
        train(settings=QUICK).evaluate(["a goal"], [["art"]])


def test_labels_of_lists_that_training_lacks_count_as_missed(of_several, messages):
    texts, labels = several(60, 2)
    before = of_several.evaluate(texts, labels)
    labels[3] = [*labels[3], "music"]
    after = of_several.evaluate(texts, labels)
    assert after["micro_recall"] < before["micro_recall"]
    assert after["micro_precision"] == before["micro_precision"]
    assert after["classes"]["music"]["recall"] == 0
    assert "data 3: 1 label that" in messages()
    with pytest.raises(UserError, match=r"data 0: .*'zz'"):
        of_several.evaluate(["x"], [["zz"]])


def test_balanced_classes_are_of_one_label_each():
    with pytest.raises(UserError, match="class_weights"):
        train(*SEVERAL, replace(QUICK, class_weights="balanced"))


def test_lists_with_one_label_each_are_noticed(messages):
    train(TEXTS, [[label] for label in LABELS], QUICK)
    assert "one label, but in a list" in messages()


def test_a_class_with_one_text_is_noticed_and_learnt(messages):
    classifier = train([*TEXTS, "a string quartet", "sun and rain"], [*LABELS, "music", "weather"])
    assert "2 of the 5 labels occur only once, such as 'music'" in messages()
    assert classifier.labels == ["art", "music", "sport", "tech", "weather"]
    assert classifier.training["sizes"]["train"] + classifier.training["sizes"]["dev"] == 62


def test_far_too_many_labels_are_another_column():
    texts = [f"text {k}" for k in range(10_001)]
    for labels in (texts, [[text] for text in texts]):
        with pytest.raises(UserError, match=r"10,001 different labels.*'text 0'.*10,000"):
            train(["a b"] * 10_001, labels, QUICK)


def test_pairs_and_texts_are_not_mixed():
    pairs = [(text, "x y") for text in TEXTS]
    with pytest.raises(UserError, match="train 5: found one text, 'alone'"):
        train([*pairs[:5], "alone", *pairs[6:]], settings=QUICK)
    classifier = train(pairs, settings=QUICK)
    with pytest.raises(UserError, match=r"data 0: .*tuple of two strings"):
        classifier.evaluate(TEXTS, LABELS)
    with pytest.raises(UserError, match=r"data 1: .*no second text"):
        classifier.evaluate([("a", "b"), ("a", "")], ["art", "art"])
    for wrong in (("a",), ("a", None), "a"):
        with pytest.raises(TypeError, match=r"text 1: .*tuple of two strings"):
            classifier.predict([("a", "b"), wrong])


def test_the_score_has_the_most_confident_mistakes():
    classifier = train()
    labels = ["tech", *LABELS[1:]] if LABELS[0] != "tech" else ["art", *LABELS[1:]]
    mistakes = classifier.evaluate(TEXTS, labels).mistakes(60)
    probabilities = classifier.predict_proba(TEXTS).max(axis=1)
    (first,) = [x for x in mistakes if x.text == TEXTS[0] and x.gold == labels[0]]
    assert (first.gold, first.predicted) == (labels[0], classifier.predict(TEXTS[0]))
    assert first.probability == pytest.approx(probabilities[0], abs=1e-5)
    found = [mistake.probability for mistake in mistakes]
    assert found == sorted(found, reverse=True)
    wrong = np.array(classifier.predict(TEXTS)) != labels
    assert len(mistakes) == wrong.sum()


LINEAR = ClassifierSettings(elmo=None, lang="en")


def test_by_default_words_are_counted_beside_elmo(small_weights, tmp_path):
    settings = ClassifierSettings(elmo=small_weights["char"], lang="en")
    classifier = train(settings=settings, save_dir=tmp_path / "model")
    assert classifier.predict(TEXTS) == LABELS
    assert classifier.scores["dev"]["texts"] == len(TEXTS)  # each by a model without it
    assert classifier.scores["dev"]["accuracy"] > 0.9
    again = Classifier(tmp_path / "model", device="cpu")
    texts = ["a goal in the museum", "", "never seen", "GOAL match"]
    probabilities = classifier.predict_proba(texts)
    np.testing.assert_array_equal(again.predict_proba(texts), probabilities)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "penalties by cross-validation" in card
    copy = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(copy.predict_proba(texts), probabilities)


@pytest.mark.parametrize("elmo", [True, False])
@pytest.mark.parametrize("is_pair", [True, False])
def test_a_linear_classifiers_logits_equal_numpy(small_weights, elmo, is_pair):
    """The weights of the standardised means and maxima of ELMo's layers, and those of n-grams."""
    path = small_weights["char"] if elmo else None
    texts = [(text, TEXTS[k - 1]) if is_pair else text for k, text in enumerate(TEXTS)]
    classifier = train(texts, settings=replace(LINEAR, elmo=path))
    examples = classifier.read((texts[:5], LABELS[:5]))
    sides = [[text.tokens[k] for text in examples] for k in range(1 + is_pair)]
    expected = np.zeros((5, 3))
    network = classifier.network
    if elmo:
        vectors = []
        for side in sides:
            rows = []
            for tokens in side:
                (layers, _) = ELMo(path, 0, layers="concat").layers([tokens])
                parts = []
                for k, layer in enumerate(layers):
                    states = layer.numpy()[0].astype(np.float64)
                    pooled = np.concatenate([states.mean(axis=0), states.max(axis=0)])
                    (statistics,) = network.inputs.statistics
                    mean, deviation = statistics.mean.numpy()[k], statistics.deviation.numpy()[k]
                    parts.append((pooled - mean) / deviation)
                rows.append(np.concatenate(parts))
            vectors.append(np.array(rows))
        expected += combined(*vectors) @ network.output.weight.numpy()
        expected += network.output.bias.numpy()
    counted = classifier.collate(examples).ngrams.toarray().astype(np.float64)
    counts = np.split(counted, len(sides))
    features = combined(*counts)
    if is_pair:
        first, second = counts
        features = np.column_stack([features, (first * second).sum(axis=1)])
    expected += features @ network.ngram_weights.numpy() + network.ngram_bias.numpy()
    with paddle.no_grad():
        network.eval()
        logits = network(classifier.collate(examples)).numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("elmo", [True, False])
@pytest.mark.parametrize("is_pair", [True, False])
def test_the_network_has_the_solution_of_the_regression(small_weights, monkeypatch, is_pair, elmo):
    solved = []
    solve = logistic.train

    def train_and_keep(**arguments):
        solved.append(solve(**arguments))
        return solved[0]

    monkeypatch.setattr(logistic, "train", train_and_keep)
    path = small_weights["char"] if elmo else None
    texts = [(text, TEXTS[k - 1]) if is_pair else text for k, text in enumerate(TEXTS)]
    classifier = train(texts[:-9], LABELS[:-9], settings=replace(LINEAR, elmo=path))
    examples = classifier.read((texts[:5], LABELS[:5]))
    blocks, _ = classifier.regression(examples)
    expected = solved[0].linear.logits(list(blocks.values()))
    with paddle.no_grad():
        logits = classifier.network(classifier.collate(examples)).numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-4)


def combined(a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    """The features of a text, or of a pair."""
    return a if b is None else np.concatenate([a, b, np.abs(a - b), a * b], axis=1)


def test_both_texts_of_a_pair_are_counted():
    pairs = [(f"so {text}", f"so {label}") for text, label in zip(TEXTS, LABELS, strict=True)]
    classifier = train(pairs, settings=LINEAR)
    number = classifier.parts["ngrams"].index(("words", "so", 2 * len(pairs)))
    assert classifier.ngrams.idf[number] == 1  # as it is in all texts


def test_ngrams_are_of_the_whole_text():
    """ELMo reads its first tokens only."""
    late = [f"{'well ' * 5}{text}" for text in TEXTS]
    classifier = train(late, settings=replace(LINEAR, max_seq_len=5))
    assert classifier.predict(late) == LABELS


def test_the_score_on_dev_is_that_of_texts_that_were_not_seen():
    """What nothing tells is not known, though the words of a text are learnt by heart."""
    generator = random.Random(5)
    texts = [f"a{k} b{k} c{k}" for k in range(60)]
    labels = [generator.choice("xy") for _ in texts]
    classifier = train(texts, labels, settings=LINEAR)
    assert classifier.scores["dev"]["texts"] == 60
    assert classifier.scores["dev"]["accuracy"] < 0.8


def test_dev_is_scored_if_it_is_given():
    classifier = train(settings=LINEAR, dev=(TEXTS[:7], LABELS[:7]))
    assert classifier.scores["dev"]["texts"] == 7 and classifier.training["sizes"]["train"] == 60


def test_balanced_classes_have_the_same_weight():
    texts = ["good film"] * 30 + ["bad film"] * 6 + ["film"] * 36
    labels = ["good"] * 30 + ["bad"] * 6 + ["good"] * 30 + ["bad"] * 6
    usual = train(texts, labels, settings=LINEAR).predict_proba("film")
    balanced = train(texts, labels, settings=replace(LINEAR, class_weights="balanced"))
    assert usual[0] < 0.25 and balanced.predict_proba("film")[0] == pytest.approx(0.5, abs=0.1)


def test_lists_of_labels_are_counted_for_each_label():
    labels = [[label, "any"] if k % 2 else [label] for k, label in enumerate(LABELS)]
    classifier = train(TEXTS, labels, settings=LINEAR)
    assert classifier.predict_proba("the painter and his museum").sum() > 1
    found = [set(row) - {"any"} for row in classifier.predict(TEXTS)]
    assert found == [{label} for label in LABELS]


@pytest.mark.parametrize("setting", [{"epochs": 3}, {"word_dim": 4}, {"lr": 0.1}])
def test_the_linear_head_names_settings_that_it_does_not_have(setting):
    with pytest.raises(UserError, match=next(iter(setting))):
        train(settings=replace(LINEAR, **setting))
    with pytest.raises(UserError, match="ngrams"):
        train(settings=replace(SETTINGS, ngrams="words"))


def test_fine_tuning_begins_with_the_linear_head(small_weights):
    settings = replace(LINEAR, elmo=small_weights["char"], elmo_trainable=True, tune_epochs=1)
    tuned = train(settings=settings, dev=(TEXTS, LABELS))
    assert tuned.scores["dev"]["accuracy"] > 0.9 and tuned.training["epoch"] in (0, 1)
