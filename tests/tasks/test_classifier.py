"""The classifier: its data, training in one and two phases, predictions, folders, run_finetune.py."""

import gzip
import json
import pickle
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics

import run_finetune
import word2vec_base
from elmo import ELMo
from elmo_core.machine import versions
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_tasks import Classifier, ClassifierSettings
from elmo_tasks.classification.data import TextReader, hold_out
from elmo_tasks.classification.heads import HEADS
from elmo_tasks.classification.score import Score

TOPICS = {"art": "the painter and his museum", "sport": "a goal in the match", "tech": "new chips for computers"}
SETTINGS = ClassifierSettings(word_dim=6, head="mean", epochs=6, lr=0.05, hidden_dim=7, batch_size=16, lang="none")
READER = TextReader(ClassifierSettings())


def topics(n: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts whose class each of their words tells, and their classes."""
    generator = random.Random(seed)
    labels = [generator.choice(list(TOPICS)) for _ in range(n)]
    return [" ".join(generator.sample(TOPICS[label].split(), 3)) for label in labels], labels


TEXTS, LABELS = topics(60)


@pytest.fixture(autouse=True)
def fast(no_fsync):
    pass


def train(texts=TEXTS, labels=LABELS, settings=SETTINGS, **options) -> Classifier:
    return Classifier.train(texts, labels, settings=settings, **{"device": "cpu", **options})


def write(path: Path, content: str) -> Path:
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


# Data


SINGLE, PAIR = [(("good film",), "p"), (("bad",), "1")], [(("a", "b c"), "1")]


@pytest.mark.parametrize(
    ("name", "content", "columns", "expected"),
    [
        ("a.tsv", "good film\tp\nbad\t1\n", None, SINGLE),
        ("a.tsv.gz", "\ufeffText\tLabel\r\ngood  film\tp\r\n\r\nbad\t1", None, SINGLE),
        ("a.tsv", "qid\tlabel\ttext_a\n1\tp\tgood film\n2\t1\tbad\n", None, SINGLE),
        ("a.tsv", "p\tx\tgood film\n1\tx\tbad\n", "2,0", SINGLE),
        ("a.tsv", "id\twords\tclass\n1\tgood film\tp\n2\tbad\t1\n", ["words", "class"], SINGLE),
        ("a.tsv", '"a" b\tp\n', None, [(('"a" b',), "p")]),
        ("a.jsonl", '{"text": "good\\n film", "label": "p", "id": 5}\n{"label": 1, "text": "bad"}\n', None,
         [SINGLE[0], (("bad",), 1)]),
        ("a.json", '[{"review": "good film", "stars": "p"}, {"review": "bad", "stars": "1"}]', "review,stars", SINGLE),
        ("a.csv", "text,label\ngood film,p\nbad,1\n", None, SINGLE),
        ("a.csv", 'id,TEXT,Label\n1,"good\n\nfilm",p\n2,bad,1\n', None, SINGLE),
        ("a.csv", 'text,label\n"a ""good"", old; film",p\n', None, [(('a "good", old; film',), "p")]),
        ("a.tsv", "a\t1\tb c\n", None, PAIR),
        ("a.tsv", "sentence1\tsentence2\tlabel\na\tb c\t1\n", None, PAIR),
        ("a.tsv", "a\tb c\t1\n", "0,2,1", PAIR),
    ],
)  # fmt: skip
def test_files_of_texts(tmp_path, name, content, columns, expected):
    reader = TextReader(ClassifierSettings(columns=columns))
    assert [(x.texts, x.label) for x in reader.read(str(write(tmp_path / name, content)), "texts")] == expected


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.tsv", "\n", "no texts"),
        ("a.tsv", "a\t1\nb\n", "a.tsv:2"),
        ("a.tsv", "a\t1\n\nb\t\n", "a.tsv:3.*label"),
        ("a.tsv", "a\tb\tc\t1\n", "columns"),
        ("a.tsv", "a\t1\nb\t\xff\n".replace("\xff", "\0"), "a.tsv:2"),
        ("a.csv", 'text,label\na,1\n"b,1\nc,1\n', "CSV"),
        ("a.csv", "words,class\na,1\n", "columns"),
        ("a.json", '[{"text": "a", "label": 1}, {"text": "b"}]', "object 2.*label"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": 3, "label": 1}\n', "jsonl:2.*int"),
        ("a.txt", "a\t1\n", "tsv"),
        ("b.tsv", None, "b.tsv"),
    ],
)
def test_faulty_files(tmp_path, name, content, word):
    if content is not None:
        write(tmp_path / name, content)
    with pytest.raises(UserError, match=word):
        READER.read(tmp_path / name, "texts")


@pytest.mark.parametrize("missing", [None, float("nan"), "", " ", 1.5, "\ud83d", "a\0"])
def test_labels_that_are_missing(missing):
    with pytest.raises(UserError, match="texts 1"):
        READER.read((["a", "b"], ["x", missing]), "texts")


@pytest.mark.parametrize("wrong", ["good", 3, {"a", "b"}, ["good", "bad"], (["a"], ["x", "y"]), ([], [])])
def test_what_is_not_texts_and_labels(wrong):
    with pytest.raises((TypeError, UserError)):
        train(wrong, None)


def test_a_dev_part_has_every_class():
    texts = READER.read((TEXTS, LABELS), "texts")
    left, held = hold_out(texts, 1)
    assert len(held) == 6 and {x.label for x in held} == set(TOPICS) and len(left) == 54
    with pytest.raises(UserError, match="dev"):
        hold_out(READER.read((TEXTS, ["only", *LABELS[1:]]), "texts"), 1)


# Training and prediction


def test_labels_come_back_as_they_went_in():
    names = dict(zip(TOPICS, (3, 1, 2), strict=True))
    classifier = train(TEXTS, [names[label] for label in LABELS])
    assert classifier.classes == [1, 2, 3] and {type(x) for x in classifier.predict(TEXTS)} == {int}
    numbers = [str(names[label]) for label in LABELS]  # as of a file
    assert classifier.score(TEXTS, numbers) == np.mean(np.array(classifier.predict(TEXTS), str) == numbers) > 0.9
    assert train(TEXTS, numbers).score(TEXTS, [names[label] for label in LABELS]) > 0.9
    assert train(TEXTS, [label == "art" for label in LABELS]).predict(["the painter"]) == [True]
    with pytest.raises(UserError, match="zz"):
        classifier.score(TEXTS, ["zz"] * len(TEXTS))
    for labels, word in (([1] * len(TEXTS), "two or more"), ([1, "1", 2] * 20, "strings")):
        with pytest.raises(UserError, match=word):
            train(TEXTS, labels)


def test_tables_and_no_epochs():
    rows = [{"review": text, "stars": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    settings = replace(SETTINGS, epochs=0, columns=["review", "stars"])
    classifier = train(rows, None, settings, dev=rows)
    assert classifier.scores["epoch"] == 0 and classifier.score(rows) == classifier.scores["dev"]["accuracy"]
    with pytest.raises(UserError, match="columns"):
        train(rows, None)
    with pytest.raises(TypeError, match="row 1: found None"):
        train([rows[0], None], None, settings)


def test_a_header_of_other_names_is_noticed(tmp_path, messages):
    rows = "".join(f"{text}\t{label}\n" for text, label in zip(TEXTS, LABELS, strict=True))
    (tmp_path / "train.tsv").write_text(f"评论\t类别\n{rows}", encoding="utf-8")
    train(tmp_path / "train.tsv", None, replace(SETTINGS, epochs=0), dev=(TEXTS, LABELS))
    assert "train.tsv:1: only this line has the label '类别'" in messages()


def test_predictions_are_those_of_the_text_alone(small_weights):
    classifier = train(settings=replace(SETTINGS, elmo=small_weights["char"], head="lstm", head_dim=5, word_dim=0))
    texts = ["a goal", "", "chips " * 40, "never seen", "the painter"]
    together = classifier.predict_proba(texts)
    assert together.shape == (5, 3) and together.dtype == np.float32
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(classifier.predict_proba([text])[0], row, atol=1e-5)
    lazy = classifier.predict(iter(texts))
    assert next(lazy) == classifier.predict(texts)[0] and list(lazy) == classifier.predict(texts)[1:]
    assert classifier.predict_proba([]).shape == (0, 3) and classifier.predict([]) == []
    for wrong in (("a", "b"), 3):
        with pytest.raises(UserError, match="text 0"):
            classifier.predict([wrong])
    with pytest.raises(TypeError):
        classifier.predict("a goal")


@pytest.mark.parametrize("inputs", ["words", "characters", "file", "tuned file", "ELMo", "tuned ELMo", "tuned at once"])
@pytest.mark.parametrize("pairs", [False, True])
def test_what_is_trained_is_complete_and_learns(tmp_path, small_weights, inputs, pairs):
    write(tmp_path / "vectors.txt", "3 2\na 1 0\nthe 0 1\nnew 1 1\n")
    elmo, file = {"elmo": small_weights["word"], "layers": "mix"}, {"word_vectors": tmp_path / "vectors.txt"}
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
    classifier = train(texts, settings=settings, dev=(texts, LABELS), test=(texts, LABELS), save_dir=tmp_path / "m",
                       progress=lambda scores: phases.append(scores["phase"]))  # fmt: skip
    assert (
        phases == [1] * settings.epochs + [2 - (inputs == "tuned at once")] * ("tuned" in inputs) * settings.tune_epochs
    )
    assert classifier.scores["test"]["accuracy"] > 0.5
    expected, scores = classifier.predict_proba(texts), classifier.evaluate(texts, LABELS)
    assert scores["accuracy"] == classifier.scores["test"]["accuracy"]  # the AUC of equal texts depends on the rounding
    for copy in (Classifier(tmp_path / "m"), pickle.loads(pickle.dumps(classifier))):
        np.testing.assert_array_equal(copy.predict_proba(texts), expected)
        assert copy.evaluate(texts, LABELS) == scores


def test_tuning_begins_with_the_first_model_and_changes_elmo(small_weights):
    settings = replace(SETTINGS, elmo=small_weights["char"], word_dim=0)
    first = train(settings=settings)
    tuned = train(settings=replace(settings, elmo_trainable=True, tune_epochs=1, elmo_lr=0.01, lstm_dropout=0.0))
    before, after = (model.network.inputs.elmo.bilm.state_dict() for model in (first, tuned))
    is_changed = [not np.array_equal(before[name].numpy(), after[name].numpy()) for name in before]
    assert any(is_changed) == (tuned.scores["epoch"] > 0)
    assert tuned.results["dev"].value >= first.results["dev"].value


@pytest.mark.parametrize("stop", [1, 6, 7, 8])
def test_resumed_training_is_the_same(tmp_path, small_weights, stop, messages):
    if not versions.random_states(paddle):
        pytest.skip(f"paddle {paddle.__version__} hides the state of its random generator, which dropout draws from")
    settings = replace(SETTINGS, elmo=small_weights["char"], elmo_trainable=True, tune_epochs=2, dropout=0.3)
    epochs = []

    def interrupt(scores):
        epochs.append(scores)
        if len(epochs) == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(settings=settings, save_dir=tmp_path / "m", progress=interrupt)
    assert "resume" in messages()
    with pytest.raises(UserError, match="lr was"):
        train(settings=replace(settings, lr=0.1), save_dir=tmp_path / "m", resume=True)
    resumed, whole = train(settings=settings, save_dir=tmp_path / "m", resume=True), train(settings=settings)
    for name, weight in whole.trained_weights().items():
        assert np.array_equal(weight.numpy(), resumed.trained_weights()[name].numpy()), name
    assert not list((tmp_path / "m").glob("training*"))


def test_balanced_classes(small_weights):
    settings = replace(SETTINGS, elmo=small_weights["char"], layers="mix", elmo_l2_coef=0.1, class_weights="balanced")
    classifier = train([*TEXTS, *[TEXTS[0]] * 60], [*LABELS, *[LABELS[0]] * 60], settings)
    weights = classifier.network.class_weights.numpy()
    assert weights[classifier.classes.index(LABELS[0])] == min(weights)


def test_settings_without_effect():
    for wrong in ({"tune_epochs": 3}, {"lstm_dropout": 0.1}, {"word_vectors_trainable": True}, {"columns": "text"}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            train(settings=ClassifierSettings(word_dim=3, **wrong))
    with pytest.raises(UserError, match="elmo"):
        train(settings=ClassifierSettings())
    with pytest.raises(UserError, match="lower"):
        train(settings=replace(SETTINGS, lr=1e20))


def test_scores_are_scikit_learns():
    generator = np.random.default_rng(0)
    labels, probabilities = generator.integers(3, size=50), generator.dirichlet(np.ones(3), 50)
    score = Score(labels, probabilities, ["a", "b", 3])
    assert score.auc == pytest.approx(metrics.roc_auc_score(labels, probabilities, multi_class="ovr"))
    assert score.to_dict()["macro_f1"] == metrics.f1_score(labels, probabilities.argmax(axis=1), average="macro")
    assert np.trace(score.to_dict()["confusion"]) / 50 == pytest.approx(score.accuracy)
    assert "3" in score.table() and set(score.to_dict()["classes"]) == {"a", "b", "3"}
    assert Score(labels[:1] * 0, probabilities[:1], ["a", "b"]).auc == 0


def test_a_layer_with_its_cache_is_shared(small_weights):
    layer = ELMo(small_weights["char"], 0, layers="concat", dropout=0.0)
    settings = replace(SETTINGS, elmo=layer, word_dim=0)
    train(settings=settings)
    cached = dict(layer.cached)
    again = train(settings=replace(settings, lr=0.01))
    assert cached.keys() == layer.cached.keys() and again.pretrained.layer is layer
    by_name = train(settings=replace(settings, elmo=small_weights["char"], lr=0.01))
    np.testing.assert_allclose(again.predict_proba(TEXTS), by_name.predict_proba(TEXTS), atol=1e-3)


# run_finetune.py


def test_the_script(tmp_path, capsys, small_weights):
    for name, n in {"train": 60, "test": 21}.items():
        rows = "".join(f"{text}\t{label}\n" for text, label in zip(*topics(n, n), strict=True))
        write(tmp_path / f"{name}.tsv", rows)
    flags = [f"--init_from_ckpt={small_weights['char']}", "--head=mean", "--epochs=5", "--lr=0.05", "--device=cpu"]
    files = [f"--train_file={tmp_path / 'train.tsv'}", f"--test_file={tmp_path / 'test.tsv'}"]
    model = f"--save_dir={tmp_path / 'model'}", f"--json={tmp_path / 'scores.json'}"
    run_finetune.main(["train", *flags, *files, *model])
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert "support" in capsys.readouterr().out
    argv = [f"--model_dir={tmp_path / 'model'}", "--device=cpu"]
    run_finetune.main(["evaluate", *argv, files[1], f"--json={tmp_path / 'test.json'}"])
    capsys.readouterr()
    assert json.loads((tmp_path / "test.json").read_text(encoding="utf-8"))["test"] == scores["test"]
    texts = write(tmp_path / "texts", "the painter\n\na goal\n")
    run_finetune.main(["predict", *argv, f"--input={texts}", f"--output={tmp_path / 'classes'}"])
    first, blank, last = (tmp_path / "classes").read_text(encoding="utf-8").split("\n")[:3]
    assert first.split("\t")[0] in TOPICS and first.endswith("\tthe painter") and not blank and last
    run_finetune.main(["predict", *argv, f"--input={texts}", "--output_format=json"])
    values = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line]
    assert len(values) == 2 and set(values[0]) == {"text", "label", "probabilities"}
    for labelled in ("test.tsv", write(tmp_path / "texts.jsonl", '{"text": "a"}').name):
        with pytest.raises(UserError, match=f"{labelled}:1: .*labelled"):
            run_finetune.main(["predict", *argv, f"--input={tmp_path / labelled}"])


def test_the_published_commands(tmp_path, capsys, small_weights):
    for name, word in (("pos", "caf\xe9 good"), ("neg", "bad")):
        content = "".join(f"{word} film {k}\n" for k in range(40)).encode("latin-1")
        (tmp_path / f"rt-polarity.{name}").write_bytes(content)
    data = f"--data_dir={tmp_path}"
    run_finetune.main([data, f"--init_from_ckpt={small_weights['char']}", "--epochs=2", "--device=cpu"])
    write(tmp_path / "vectors.txt", "2 2\ngood 1 0\nbad 0 1\n")
    word2vec_base.main([data, f"--pretrained_word2vec_file={tmp_path / 'vectors.txt'}", "--epochs=9", "--device=cpu"])
    out = capsys.readouterr().out
    assert out.count("== test: accuracy") == 2 and "100.00%" in out.partition("== test")[2]
    with pytest.raises(UserError, match="rt-polarity"):
        run_finetune.main([f"--data_dir={tmp_path / 'none'}", "--init_from_ckpt=none"])


def test_every_head_is_a_choice():
    assert ClassifierSettings.__dataclass_fields__["head"].metadata["choices"] == tuple(HEADS)
