"""Saved models: loading them again, damaged or moved files, and a process killed while saving."""

import dataclasses
import json
import multiprocessing
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from inspect import isfunction
from pathlib import Path

import pytest
import tiny
from copies import COPIES

from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.characters import CodePoints
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights import published
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.network import ClassifierSettings
from elmo_tasks.pretrained import PretrainedBiLM, randomise
from elmo_tasks.reading.network import ReaderSettings
from elmo_tasks.reading.reader import Reader
from elmo_tasks.saved import TrainedModel, check_model_folder
from elmo_tasks.tagging import network as tagging
from elmo_tasks.tagging.data import Labels, make_batch
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.word_vectors import WordVectors

SENTENCES = [["The", "bank"], ["q"], ["the", "苹果", "很", "好", "zzz"]]
SMALL = {"word_dim": 5, "hidden_dim": 3}
WORDS = Vocabulary([*SPECIAL_TOKENS, "the", "bank", "苹果", "很"])
KINDS = {
    "frozen tagger": {"elmo_at": "input,output", "layers": "mix:0,2"},
    "tuned tagger": {"elmo_trainable": True, "layers": "concat"},
    "random tagger": {"random_weights": "lstm", "words": "jieba", "segmentation": "strip", "lang": "zh"},
    "tagger of all": {
        "cell": "lstm",
        "char_cnn": True,
        "segmentation": "feature",
        "word_vectors_trainable": True,
        "n_layers": 2,
    },
    "frozen reader": {"layers": "mix"},
    "reader": {},
    "frozen classifier": {"reads_elmo": True, "layers": "mix", "head": "lstm"},
    "tuned classifier": {"reads_elmo": True, "elmo_trainable": True, "pairs": True},
    "classifier": {"reads_words": True, "head": "attention", "word_vectors_trainable": True},
}


@pytest.fixture
def build(checkpoints, tmp_path):
    """Return a function that builds a model of KINDS with random weights."""
    path = tmp_path / "v.txt"
    path.write_text("bank 1 2 3\nthe 3 2 1\n苹果 0 1 0\n老师 1 1 0\n", encoding="utf-8")

    def build(kind: str, seed: int = 1) -> TrainedModel:
        paddle.seed(seed)
        pretrained = PretrainedBiLM.from_path(checkpoints["word"]) if " " in kind and kind != "tagger of all" else None
        vectors = None if pretrained else WordVectors(path, limit=3)
        parts = {"words": WORDS, "pretrained": pretrained, "vectors": vectors}
        if "reader" in kind:
            windows = {"lang": "zh", "max_seq_len": 9, "doc_stride": 4, "max_answer_length": 3}
            return Reader.create(settings=ReaderSettings(**SMALL, **KINDS[kind], **windows), **parts)
        if "classifier" in kind:
            settings = ClassifierSettings(head_dim=3, hidden_dim=2, lang="zh", **KINDS[kind])
            parts["words"] = WORDS if settings.word_vectors_trainable else None
            return Classifier.create(settings=settings, classes=["x", "y"], data="data", **parts)
        settings = tagging.TaggerSettings(**{**SMALL, "n_layers": 1, **KINDS[kind]})
        parts |= {"labels": Labels(["O", "B-x"]), "pieces": WORDS}
        parts |= {"features": [] if pretrained else ["NN", "VB"], "feature_column": 1}
        tagger = Tagger.create(settings=settings, **parts)
        if settings.random_weights:
            randomise(tagger.network.elmo.bilm, settings.random_weights, seed)
        return tagger

    return build


def answers(model: TrainedModel) -> object:
    """Predictions, equal for models with the same weights and settings."""
    if isinstance(model, Reader):
        return model.answer("谁住在北京？", "老师住在北京。他在银行工作。", k=3)
    if isinstance(model, Classifier):
        texts = ["老师住在北京。", "the bank", ""]
        return model.probabilities(
            [(text, "他在银行工作。") for text in texts] if model.settings.pairs else texts
        ).tolist()
    model.network.eval()
    return model.network(make_batch(SENTENCES, model.words)).numpy().tolist(), model.predict([[], *SENTENCES])


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_model_equals_the_saved_one(build, tmp_path, kind):
    model = build(kind)
    if model.settings.elmo_trainable:
        bias = model.network.elmo.bilm.forward_lstm[0].bias
        bias.set_value(bias + 0.5)
    model.save(tmp_path / "model")
    loaded = type(model)(tmp_path / "model")
    assert repr(loaded).startswith(f"{type(model).__name__}('{tmp_path / 'model'}', ")
    assert {"train", "save"} <= set(dir(loaded)) and all(hasattr(model, name) for name in dir(model))
    assert answers(loaded) == answers(model)
    assert loaded.values() == model.values()
    owns_bilm = kind in ("tuned tagger", "random tagger", "tuned classifier")
    assert any(name.startswith("elmo.bilm.") for name in model.weights()) == owns_bilm


def test_the_format_of_the_folder(build, checkpoints, tmp_path):
    """Renaming a file, field or weight would break every saved model."""
    crf = {"emission.weight", "emission.bias", "crf.transitions", "crf.start", "crf.stop"}
    attention = {"similarity.0.weight", "similarity.1.weight", "similarity.1.bias", "similarity_product"}
    attention |= {f"{part}.{weight}" for part in ("projection", "merge", "ends") for weight in ("weight", "bias")}
    dictionaries = ["labels.txt", "pieces.txt", "vocab.txt"]
    elmo = {"config.json", "model.safetensors", "vocab.txt"}
    for kind, files, names in (("tagger", dictionaries, crf), ("reader", ["vocab.txt"], attention)):
        model, folder = build(f"frozen {kind}"), tmp_path / kind
        model.save(folder)
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            ["config.json", "elmo", "model.safetensors", *files]
        )
        assert {path.name for path in (folder / "elmo").iterdir()} == elmo
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        assert config[kind] == asdict(model.settings) and sorted(config["dictionaries"]) == files
        assert config["elmo"]["name"] is None
        mixes = {f"elmo.mixes.{k}.{weight}" for k in (0, 1) for weight in ("scalars", "gamma")}
        recurrent = ("gru.", "context.", "model.")
        weights = {name for name in model.weights() if not name.startswith(recurrent)}
        assert weights == {"word_embedding.weight", *mixes, *names}


def test_a_tagger_replaces_another_with_all_its_files(build, tmp_path):
    build("tagger of all").save(tmp_path)
    tagger = build("frozen tagger")
    tagger.pieces = None
    tagger.save(tmp_path)
    assert Tagger(tmp_path).pieces is None
    assert not (tmp_path / "word_vectors.txt").exists() and (tmp_path / "elmo").exists()


def edit(folder: Path, change) -> None:
    path = folder / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    change(values)
    path.write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("tagger of all", "tagger.word_dim", -1),
        ("tagger of all", "tagger.n_layers", 2.0),
        ("tagger of all", "tagger.char_cnn", 1),
        ("tagger of all", "tagger.dropout", 1.0),
        ("tagger of all", "tagger.cell", "rnn"),
        ("tagger of all", "tagger.colour", "red"),
        ("tagger of all", "tagger.hidden_dim", None),
        ("tagger of all", "tagger", None),
        ("tagger of all", "tagger", "x"),
        ("tagger of all", "tagger.scheme", "x"),
        ("tagger of all", "features", None),
        ("tagger of all", "dictionaries", None),
        ("frozen tagger", "elmo", "x"),
        ("frozen tagger", "elmo.fingerprint", None),
        ("tagger of all", "word_vectors.limit", "x"),
        ("tagger of all", "word_vectors.file", "../vectors.txt"),
        ("reader", "reader.hidden_dim", "3"),
        ("reader", "reader.lang", "xx"),
        ("reader", "reader.doc_stride", 0),
    ],
)
def test_a_damaged_config_is_an_error_with_file_and_field(build, tmp_path, kind, field, value):
    model = build(kind)
    model.save(tmp_path / "model")

    def change(values: dict) -> None:
        *sections, name = field.split(".")
        for section in sections:
            values = values[section]
        values[name] = value
        if value is None:
            del values[name]

    edit(tmp_path / "model", change)
    with pytest.raises(UserError, match=rf"model.*({field}|vocab.txt)"):
        type(model)(tmp_path / "model")


def test_a_folder_can_be_moved(build, checkpoints, tmp_path, monkeypatch, messages):
    """It holds copies of its biLM and its word vectors."""
    source = Path(checkpoints["word"])
    build("frozen tagger").save(tmp_path / "copied" / "tagger")
    build("reader").save(tmp_path / "copied" / "reader")
    copied = tmp_path / "copied/tagger/elmo/model.safetensors", tmp_path / "copied/reader/word_vectors.txt"
    assert not copied[0].samefile(source / "model.safetensors") and not copied[1].samefile(tmp_path / "v.txt")
    expected = answers(build("frozen tagger")), answers(build("reader"))
    shutil.move(tmp_path / "copied", tmp_path / "moved")
    (tmp_path / "v.txt").unlink()
    assert (answers(Tagger(tmp_path / "moved/tagger")), answers(Reader(tmp_path / "moved/reader"))) == expected
    with pytest.raises(UserError, match=r"a trained tagger, of elmo_tasks\.Tagger"):
        Reader(tmp_path / "moved/tagger")
    with pytest.raises(UserError, match="an ELMo"):
        Tagger(source)
    edit(tmp_path / "moved/tagger", lambda values: values.update(classifier=values.pop("tagger")))
    with pytest.raises(UserError, match="a trained classifier"):
        Tagger(tmp_path / "moved/tagger")
    with pytest.raises(UserError, match="a trained classifier"):
        check_model_folder(tmp_path / "moved/tagger", "tagger", overwrite=True)


def test_a_published_model_is_named(tmp_path):
    tagger = Tagger.create(
        settings=tagging.TaggerSettings(**SMALL),
        words=WORDS,
        labels=Labels("ab"),
        pretrained=PretrainedBiLM.from_path("en-reviews"),
    )
    tagger.save(tmp_path)
    assert not (tmp_path / "elmo").exists() and "/" not in (tmp_path / "config.json").read_text(encoding="utf-8")
    assert Tagger(tmp_path).predict(SENTENCES) == tagger.predict(SENTENCES)
    edit(tmp_path, lambda values: values["elmo"].update(name="zh-news"))
    with pytest.raises(UserError, match="zh-news is not the ELMo"):
        Tagger(tmp_path)


def test_another_elmo_or_other_word_vectors(build, checkpoints, tmp_path):
    build("frozen tagger").save(tmp_path / "tagger")
    build("reader").save(tmp_path / "reader")
    shutil.copytree(checkpoints["char"], tmp_path / "tagger/elmo", dirs_exist_ok=True)
    with pytest.raises(UserError, match=r"tagger/elmo is not the ELMo"):
        Tagger(tmp_path / "tagger")
    with (tmp_path / "v.txt").open("w", encoding="utf-8") as file:  # the user's own, in place, as gensim and `>` write
        file.write("bank 1 2 3\nthe 3 2 7\n")
    Reader(tmp_path / "reader")
    (tmp_path / "reader/word_vectors.txt").write_text("bank 1 2 3\nthe 3 2 7\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"word_vectors\.txt has changed"):
        Reader(tmp_path / "reader")


@pytest.mark.parametrize("changed", ["vocab.txt", "characters.json", "config.json"])
def test_the_fingerprint_covers_all_files_of_an_elmo(tmp_path, changed):
    """Two lines or ids that change places, or another clip, would give other vectors without any other sign."""
    ids = dict(zip([*CodePoints.NAMES, *"thebankof"], range(15), strict=False))
    changes = {"alphabet": "code points", "n_characters": 15} if changed == "characters.json" else {"input": "word"}
    prefix, before = tiny.save(tiny.random_bilm(**changes), tmp_path), tmp_path / changed
    (tmp_path / "characters.json").write_text(json.dumps(ids), encoding="utf-8")
    fingerprint, text = PretrainedBiLM.from_path(prefix).fingerprint, before.read_text(encoding="utf-8")
    old, new = {
        "vocab.txt": ("the\nbank", "bank\nthe"),
        "characters.json": ('"t": 6, "h": 7', '"h": 6, "t": 7'),
        "config.json": ('"cell_clip": 0.3', '"cell_clip": 0.4'),
    }[changed]
    assert old in text
    before.write_text(text.replace(old, new), encoding="utf-8")
    assert PretrainedBiLM.from_path(prefix).fingerprint != fingerprint


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_model_whose_files_are_gone_is_not_saved(build, checkpoints, tmp_path, is_replaced):
    """Neither without them, nor with those that took their place; what is there stays."""
    for kind in ("frozen tagger", "reader"):
        build(kind).save(tmp_path / kind)
        shutil.copytree(tmp_path / kind, tmp_path / f"{kind} moved")
    taggers = [Tagger(tmp_path / "frozen tagger moved"), Reader(tmp_path / "reader moved")]
    for name in ("frozen tagger moved", "reader moved"):
        shutil.rmtree(tmp_path / name)
    if is_replaced:
        tiny.save(tiny.random_bilm(input="word", seed=2), tmp_path / "frozen tagger moved/elmo")
        (tmp_path / "reader moved").mkdir()
        (tmp_path / "reader moved/word_vectors.txt").write_text("2 2\n他 5 5\n在 6 6\n", encoding="utf-8")
    for model, kind in zip(taggers, ("frozen tagger", "reader"), strict=True):
        with pytest.raises(UserError, match=f"{kind} moved"):
            model.save(tmp_path / kind)
        assert answers(type(model)(tmp_path / kind)) == answers(model)


def test_a_model_is_saved_into_its_own_folder(build, tmp_path):
    for kind in ("frozen tagger", "reader"):
        build(kind).save(tmp_path / kind)
        model = type(build(kind))(tmp_path / kind)
        model.save(tmp_path / kind)
        assert answers(type(model)(tmp_path / kind)) == answers(model)


def test_the_users_files_are_not_replaced(build, tmp_path):
    (tmp_path / "word_vectors.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match=r"word_vectors\.txt would be replaced"):
        check_model_folder(tmp_path, "tagger", overwrite=True)
    (tmp_path / "word_vectors.txt").unlink()
    build("reader").save(tmp_path)
    check_model_folder(tmp_path, "reader", overwrite=True)


@pytest.mark.parametrize("kind", ["reader", "classifier", "tagger of all"])
def test_a_model_keeps_its_dictionary(build, tmp_path, kind):
    model = build(kind)
    parts = {name: getattr(model, name) for name in ("settings", "vectors", *model._declared())}
    model = type(model).create(**parts | {"user_dict": Segmenter(["师住在 100000"])})
    model.save(tmp_path / "model")
    loaded = type(model)(tmp_path / "model")
    assert "师住在" in dataclasses.replace(loaded.tokeniser, lang="zh")("老师住在北京。")
    assert loaded.values() == model.values()
    (tmp_path / "model/user_dict.txt").write_text("老师住\n", encoding="utf-8")
    with pytest.raises(UserError, match="user_dict"):
        type(model)(tmp_path / "model")


@pytest.mark.parametrize("name", ["vocab.txt", "labels.txt", "pieces.txt"])
def test_changed_dictionaries_are_an_error(build, tmp_path, name):
    build("tagger of all").save(tmp_path / "model")
    path = tmp_path / "model" / name
    *lines, one, other = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines, other, one, ""]), encoding="utf-8")
    with pytest.raises(UserError, match=name):
        Tagger(tmp_path / "model")
    path.unlink()
    with pytest.raises(UserError, match=name):
        Tagger(tmp_path / "model")


@pytest.mark.usefixtures("no_fsync")
def test_a_process_killed_while_saving_leaves_no_mixture(build, tmp_path, monkeypatch):
    """Killed at each of the renames by which files appear: the folder holds the new model, or none."""
    old, new, replace, left = build("frozen tagger"), build("frozen tagger", seed=2), Path.replace, 0

    def dying(*paths):
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return replace(*paths)

    for n in range(6):
        folder = tmp_path / str(n)
        old.save(folder)
        with monkeypatch.context() as patched:
            left = n
            patched.setattr(Path, "replace", dying)
            try:
                new.save(folder)
            except KeyboardInterrupt:
                with pytest.raises(UserError, match=r"model\.safetensors"):
                    Tagger(folder)
                continue
        assert n == 5 and answers(Tagger(folder)) == answers(new)


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_of_a_model_answers_the_same(build, checkpoints, tmp_path, kind, name):
    """Also if the folder that it was loaded from is gone, with a lock and weights of its own."""
    build(kind).save(tmp_path / "model")
    model = type(build(kind))(tmp_path / "model")
    expected = answers(model)
    shutil.rmtree(tmp_path / "model")
    with model.inference():  # as in another thread
        copied = COPIES[name](model, tmp_path)
        with ThreadPoolExecutor() as pool:
            assert pool.submit(answers, copied).result(timeout=60) == expected
    weight = next(iter(copied.network.parameters()))
    weight.set_value(weight + 1)
    assert answers(copied) != answers(model) == expected and copied.device == model.device


def in_process(model: Tagger) -> list:
    return model.predict(SENTENCES)


def test_a_copy_in_another_process(build):
    tagger = build("frozen tagger")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(in_process, [tagger]) == [tagger.predict(SENTENCES)]


@pytest.mark.parametrize("tuned", [False, True])
def test_a_published_elmo_is_pickled_by_its_name(tmp_path, monkeypatch, tuned):
    elmo = PretrainedBiLM.from_path("en-reviews")
    assert isfunction(elmo.__reduce__()[0])  # dill copies what a method refers to, which fails
    settings = tagging.TaggerSettings(**SMALL, random_weights="lstm" if tuned else "")
    tagger = Tagger.create(settings=settings, words=WORDS, labels=Labels("ab"), pretrained=elmo)
    pickled = pickle.dumps(tagger)
    assert (len(pickled) < 1_000_000) != tuned
    assert answers(pickle.loads(pickled)) == answers(tagger)
    if not tuned:
        monkeypatch.setattr(published, "install", lambda _: Path(published.BUNDLED, "zh-news"))
        with pytest.raises(UserError, match="en-reviews is not the ELMo"):
            pickle.loads(pickled)
