"""What all tasks share, shown by a tagger: settings, training, resuming, labels, folders."""

import pickle
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import convert
from elmo import ELMo, ELMoEmbedder, load_bilm
from elmo_core.files.tensors import read_tensors, write_tensors
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_tasks import (
    Classifier,
    ClassifierSettings,
    Parser,
    ParserSettings,
    Reader,
    ReaderSettings,
    Tagger,
    TaggerSettings,
    ready,
)
from elmo_tasks.settings import TrainingSettings
from elmo_tasks.trainer import learning_rate

SENTENCES = [["Anna", "lives", "in", "Paris", "."], ["Paris", "is", "large", "."]] * 9
LABELS = [["B-PER", "O", "O", "B-LOC", "O"], ["B-LOC", "O", "O", "O"]] * 9
DATA = SENTENCES, LABELS
SETTINGS = TaggerSettings(
    elmo=None,
    epochs=4,
    lr=0.02,
    hidden_dim=7,
    n_layers=1,
    word_dim=5,
    patience=0,
    batch_size=8,
    ema=0.9,
)


@pytest.fixture(autouse=True)
def fast(no_fsync):
    pass


def train(sentences=SENTENCES, labels=LABELS, settings=SETTINGS, **options) -> Tagger:
    return Tagger.train(
        sentences, labels, **{"dev": DATA, "settings": settings, "device": "cpu", **options}
    )


def weights(tagger: Tagger) -> dict[str, np.ndarray]:
    return {name: weight.numpy() for name, weight in tagger.trained_weights().items()}


def assert_same(one: Tagger, other: Tagger) -> None:
    for name, array in weights(one).items():
        assert np.array_equal(array, weights(other)[name]), name
    assert (
        one.scores["dev"] == other.scores["dev"]
        and one.training["epoch"] == other.training["epoch"]
    )


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_settings_are_checked():
    with pytest.raises(TypeError, match="epochs"):
        TaggerSettings(epoch=3)
    with pytest.raises(TypeError, match="'en'"):
        TaggerSettings("en")
    with pytest.raises(TypeError, match="hidden_dim"):
        replace(SETTINGS, hiden_dim=3)
    for wrong in (
        {"lr": -1.0},
        {"epochs": True},
        {"scheme": "bie"},
        {"word_vectors": 3},
        {"cache_gb": float("nan")},
        {"layers": True, "elmo": "en"},
        {"elmo_lr": 0.1},
        {"word_vectors_limit": 3},
    ):
        with pytest.raises(UserError, match=next(iter(wrong))):
            TaggerSettings(**wrong)
    with pytest.raises(UserError, match=r"layers.*a string or a whole number"):
        TaggerSettings(layers=[0, 1])
    with pytest.raises(TypeError, match="TaggerSettings"):
        Tagger.train([["a"]], [["X"]], settings={"epochs": 1})
    assert TaggerSettings(lr=np.float64(0.1), epochs=np.int64(30)).changed() == {
        "lr": 0.1
    }  # of a search over arrays
    rates = [learning_rate(TrainingSettings(warmup=warmup), 0.0) for warmup in (0.0, 0.001, 0.1)]
    assert rates == pytest.approx([0.002, 0.002, 0.0002])
    assert TaggerSettings(lr=0.1).changed() == {"lr": 0.1} and TrainingSettings().seed == 2020


def names(folder: Path) -> list[str]:
    """The names in a model's folder, the digests replaced by a star."""
    visible = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    return sorted(re.sub(r"-[0-9a-f]{12}", "-*", name) for name in visible)


@pytest.mark.parametrize("elmo", [None, "small_weights"])
def test_a_trained_model_is_complete(tmp_path, elmo, request):
    settings = replace(SETTINGS, elmo=request.getfixturevalue(elmo)["char"] if elmo else None)
    trained = train(settings=settings, test=DATA, save_dir=tmp_path / "ner")
    folder = Path(shutil.move(tmp_path / "ner", tmp_path / "moved"))
    expected = ["README.md", "config.json", "curve.svg", "model-*.safetensors"]
    assert names(folder) == (sorted([*expected, "elmo-*"]) if elmo else expected)
    loaded = Tagger(folder)
    assert_same(trained, loaded)
    stored = [array.tobytes() for array in weights(loaded).values() if array.size > 7]
    assert len(set(stored)) == len(stored)
    for tagger in (loaded, pickle.loads(pickle.dumps(trained))):
        assert tagger.predict(SENTENCES) == trained.predict(SENTENCES)
        assert tagger.evaluate(*DATA) == tagger.scores["test"] == trained.scores["test"]
        assert str(tagger.scores["test"]) == str(trained.scores["test"])
        assert tagger.scores["test"].value == trained.scores["test"].value
        assert tagger.training == trained.training
        assert list(tagger.iter_spans(iter(["Anna lives in Paris."]))) == trained.spans(
            ["Anna lives in Paris."]
        )
    assert repr(loaded) == f"Tagger('{folder}')"


def test_a_copy_of_an_elmo_that_was_changed_is_noticed(tmp_path, small_weights):
    train(
        settings=replace(SETTINGS, elmo=small_weights["char"], epochs=1), save_dir=tmp_path / "ner"
    )
    (copy,) = tmp_path.glob("ner/elmo-*/model.safetensors")
    tensors, metadata = read_tensors(copy)
    write_tensors(copy, {name: 2 * x for name, x in tensors.items()}, metadata)
    with pytest.raises(UserError, match="ELMo"):
        Tagger(tmp_path / "ner")


def test_a_ready_made_model_has_a_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ready, "MODELS", tmp_path)
    monkeypatch.chdir(tmp_path)
    trained = train(settings=replace(SETTINGS, elmo="en"), test=DATA, save_dir="tagger/en-ner")
    found = Tagger("en-ner")
    assert found.folder == tmp_path / "tagger/en-ner" and found.predict(
        SENTENCES
    ) == trained.predict(SENTENCES)
    for task, name, word in ((Tagger, "en-net", "en-ner"), (Classifier, "en-ner", "classifier.$")):
        with pytest.raises(UserError, match=word):
            task(name)
    for flags, n in ([], 1), (["--language=en"], 1), (["--language=de"], 0):
        convert.main(flags)
        assert capsys.readouterr().out.count("\nen-ner") == n
    with pytest.raises(UserError, match="no trained model"):
        Tagger("./en-ner")
    with pytest.raises(UserError, match=r"^(?!.*Copy the folder)"):
        Tagger("en-ner", precision="float8")
    shutil.copytree("tagger/en-ner", "en-ner")
    assert Tagger("en-ner").folder == Path("en-ner")


def test_resumed_training_is_the_same(tmp_path, messages):
    whole = train(save_dir=tmp_path / "whole", resume=True)
    for stop in (1, 3, 4):

        def interrupt(scores):
            if scores["epoch"] == stop:  # noqa: B023
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(save_dir=tmp_path / str(stop), progress=interrupt)
        assert "resume" in messages()
        with pytest.raises(UserError, match="resume"):
            train(save_dir=tmp_path / str(stop))
        (tmp_path / str(stop) / "notes.txt").write_text("mine", encoding="utf-8")
        few = SENTENCES[:3], LABELS[:3]
        for changes in ({"settings": replace(SETTINGS, lr=0.1)}, {"dev": few}, {"test": few}):
            with pytest.raises(UserError, match=r"lr was|dev data|test data"):
                train(save_dir=tmp_path / str(stop), resume=True, **changes)
        assert_same(train(save_dir=tmp_path / str(stop), resume=True), whole)
        assert not list((tmp_path / str(stop)).glob("training*"))
        assert (tmp_path / str(stop) / "notes.txt").read_text(encoding="utf-8") == "mine"
        assert_same(train(save_dir=tmp_path / str(stop), resume=True), whole)  # which is finished
    with pytest.raises(UserError, match="seed"):
        train(save_dir=tmp_path / "whole", resume=True, settings=replace(SETTINGS, seed=3))


ANSWER = {"text": ["Anna"], "answer_start": [0]}
EXAMPLE = {"id": "1", "context": "Anna lives here.", "question": "Who ?", "answers": ANSWER}
CHINESE = {
    "id": "1",
    "context": "王芳在北京。",
    "question": "谁？",
    "answers": {"text": ["王芳"], "answer_start": [0]},
}
TREE = "1\t{}\t_\tX\t_\t_\t0\troot\t_\t_\n2\t{}\t_\tY\t_\t_\t1\tdep\t_\t_\n\n"


def train_each_task(language: str, folder: Path, **changes) -> list:
    """A tagger, a classifier, a parser and a reader with small networks, trained for no epoch."""
    few = {"epochs": 0, "hidden_dim": 3, **changes}
    linear = ClassifierSettings(**changes)
    is_chinese = language == "zh"
    sentence = ["我", "爱", "北京"] if is_chinese else ["I", "like", "Paris"]
    texts = ["".join(sentence) if is_chinese else " ".join(sentence)] * 20
    (folder / "t.conllu").write_text(TREE.format(*sentence[1:]) * 3, encoding="utf-8")
    example = CHINESE if is_chinese else EXAMPLE
    tagger = Tagger.train([sentence] * 4, [["O", "O", "B-X"]] * 4, settings=TaggerSettings(**few))
    classifier = Classifier.train(texts, ["a", "b"] * 10, settings=linear)
    parser = Parser.train(folder / "t.conllu", settings=ParserSettings(**few))
    reader = Reader.train([example], dev=[example], settings=ReaderSettings(**few))
    return [tagger, classifier, parser, reader]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_elmo_is_the_default_in_the_language_of_the_text(language, tmp_path):
    for task in train_each_task(language, tmp_path):
        assert task.settings.elmo == task.pretrained.name == language, task
        assert task.network.inputs.elmo is not None


def test_elmo_can_be_left_out(tmp_path):
    for task in train_each_task("en", tmp_path, elmo=None):
        assert task.settings.elmo is None and task.network.inputs.elmo is None, task


def test_the_language_that_is_set_chooses_the_elmo(tmp_path):
    settings = TaggerSettings(epochs=0, hidden_dim=3, lang="zh")
    assert (
        Tagger.train([["OK", "!"]] * 4, [["O", "B-X"]] * 4, settings=settings).settings.elmo == "zh"
    )


def test_text_in_another_language_is_warned_of(messages):
    settings = TaggerSettings(epochs=0, hidden_dim=3)
    Tagger.train([["Привет", "мир"]] * 4, [["O", "B-X"]] * 4, settings=settings)
    assert "--init_from_ckpt" in messages()


def test_seconds_are_those_of_all_phases():
    """A classifier is trained over fixed vectors first, then fine-tuned."""
    settings = ClassifierSettings(
        elmo="en", head="mean", epochs=2, elmo_trainable=True, tune_epochs=1, cache_gb=0.01
    )
    seconds = {}
    classifier = Classifier.train(
        [" ".join(tokens) for tokens in SENTENCES],
        ["a", "b"] * 9,
        settings=settings,
        device="cpu",
        progress=lambda scores: seconds.update({scores["phase"]: scores["seconds"]}),
    )
    assert classifier.training["seconds"] == pytest.approx(seconds[1] + seconds[2])


def test_trainings_in_threads_are_what_they_are_alone():
    alone = [train(settings=replace(SETTINGS, seed=seed)) for seed in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda seed: train(settings=replace(SETTINGS, seed=seed)), (1, 2)))
    for one, other in zip(alone, together, strict=True):
        assert_same(one, other)


def test_empty_sentences_have_no_labels():
    tagger = train(settings=replace(SETTINGS, char_cnn=True, epochs=1))
    assert tagger.predict([[], []]) == [[], []] and tagger.spans([""]) == [[]]


def test_labels_come_back_as_they_went_in():
    for names in ((1, 2, 0), (True, False, True), ("first name", "place", "none")):
        new_names = dict(zip(("B-PER", "B-LOC", "O"), names, strict=True))
        labels = []
        for row in LABELS:
            labels.append([new_names[label] for label in row])
        tagger = train(labels=labels, dev=(SENTENCES, labels))
        predicted = tagger.predict(SENTENCES[:2])
        kind = type(names[0])
        for row in predicted:
            assert all(type(label) is kind for label in row)
        assert tagger.settings.scheme == "plain"
        if kind is not str:
            strings = []
            for row in labels:
                strings.append([str(label) for label in row])
            assert tagger.evaluate(SENTENCES, strings) == tagger.evaluate(SENTENCES, labels)


def test_a_word_among_characters_is_warned_of(messages):
    train(
        [["我", "用", "iPhone", "。"]] * 20,
        [["O", "O", "B-X", "O"]] * 20,
        replace(SETTINGS, epochs=0),
        dev=None,
    )
    assert "split into characters, but a token such as 'iPhone'" in messages()


def test_labels_of_another_kind_are_warned_of(messages):
    tagger = train(settings=replace(SETTINGS, epochs=1))
    lengths = []
    for row in LABELS:
        lengths.append([len(label) for label in row])
    assert tagger.evaluate(SENTENCES, lengths)["f1"] == 0
    assert "cannot be predicted: 1, 5" in messages()


@pytest.mark.parametrize("missing", [None, float("nan"), "", " ", 1.5, "a\0", "\ud83d"])
def test_labels_that_are_missing_or_cannot_be_saved(missing):
    labels = [*LABELS[:-1], ["O", "O", missing, "O"]]
    with pytest.raises(UserError, match="train 17, token 2"):
        train(labels=labels)


def test_tokens_that_cannot_be_saved():
    with pytest.raises(UserError, match="train 17, token 0"):
        train(sentences=[*SENTENCES[:-1], ["\ud800", "is", "large", "."]])


@pytest.mark.parametrize("typo", ["B_PER", "i-per", "Ｏ"])
def test_a_typo_in_one_label_stops_the_training(tmp_path, typo):
    rows = []
    for tokens, labels in zip(*DATA, strict=True):
        for token, label in zip(tokens, labels, strict=True):
            rows.append(f"{token}\t{label}")
        rows.append("")
    token = rows[7].split()[0]
    rows[7] = f"{token}\t{typo}"
    (tmp_path / "train.txt").write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(UserError, match=r"train\.txt:\d+.*" + typo):
        train(str(tmp_path / "train.txt"), None)


def test_tables():
    rows = [{"words": tokens, "ner_tags": labels} for tokens, labels in zip(*DATA, strict=True)]
    settings = replace(SETTINGS, columns=["words", "ner_tags"])
    tagger = train(rows, None, settings, dev=rows)
    assert tagger.evaluate(rows)["f1"] == tagger.scores["dev"]["f1"]
    with pytest.raises(UserError, match="columns"):
        train(rows, None, dev=rows)
    with pytest.raises(TypeError, match="expected a list"):
        tagger.predict({"words": SENTENCES})
    for wrong, found in (((row for row in rows), "generator"), ((SENTENCES, None), "None")):
        with pytest.raises(TypeError, match=f"found {found}.*list of dictionaries"):
            train(wrong, None)


def test_word_vectors_that_have_changed_are_not_resumed(tmp_path):
    settings = replace(SETTINGS, word_vectors=tmp_path / "v.txt")
    for value, word in (1, None), (2, "word vectors was"):
        (tmp_path / "v.txt").write_text(f"1 2\nAnna {value} 2\n", encoding="utf-8")
        with pytest.raises(UserError, match=word) if word else nullcontext():
            train(settings=settings, save_dir=tmp_path / "t", resume=True)


@pytest.mark.parametrize("options", [{"layers": "mix"}, {"layers": "concat", "pool": "mean"}])
def test_a_layer_that_the_settings_do_not_describe(small_weights, options):
    with pytest.raises(UserError, match="layers='concat'"):
        train(
            settings=replace(SETTINGS, elmo=ELMo(small_weights["char"], 0, dropout=0.0, **options))
        )


def test_a_layer_with_a_softmax_and_words(small_weights, tmp_path):
    bilm, vocabulary = load_bilm(small_weights["char"], softmax=True)
    settings = replace(SETTINGS, elmo=ELMo((bilm, vocabulary), layers="concat"))
    tagger = train(settings=settings, save_dir=tmp_path / "t")
    with ThreadPoolExecutor(4) as pool:  # Paddle's LazyGuard acts on all threads
        for loaded in pool.map(lambda _: Tagger(tmp_path / "t"), range(8)):
            assert loaded.pretrained.words == tagger.pretrained.words
            assert loaded.predict(SENTENCES) == tagger.predict(SENTENCES)


def test_without_epochs(tmp_path):
    tagger = train(settings=replace(SETTINGS, epochs=0), save_dir=tmp_path / "t")
    (tmp_path / "t" / ".DS_Store").touch()
    tagger.save(tmp_path / "t", overwrite=True)
    draws = [(Tagger(tmp_path / "t"), paddle.rand([1]).item()) for _ in range(2)]
    assert draws[0][1] != draws[1][1]  # of the program's own generator
    with pytest.raises(UserError, match="a trained tagger"):
        ELMoEmbedder(tmp_path / "t")
    assert tagger.training["epoch"] == 0 and Tagger(tmp_path / "t").predict(
        SENTENCES
    ) == tagger.predict(SENTENCES)
