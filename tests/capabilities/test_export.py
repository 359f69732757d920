"""export_model.py: exported graphs equal the models, in Paddle Inference and ONNX Runtime, for any input."""

import importlib
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import manylangs_model
import numpy as np
import pytest
import reference
import tiny

import convert
import export_model
import run_finetune
import run_tag
from elmo import ELMoEmbedder
from elmo_core.messages import UserError
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.heads import HEADS
from elmo_tasks.classification.network import ClassifierSettings
from elmo_tasks.parsing.network import ParserSettings
from elmo_tasks.parsing.parser import Parser
from elmo_tasks.tagging.network import TaggerSettings
from elmo_tasks.tagging.tagger import Tagger
from export import folder as export_folder

RUNTIMES = ["run_paddle", "run_onnx"]
SENTENCES = tiny.SENTENCES


class Exported:
    """An exported folder and its programs."""

    def __init__(self, folder: Path, runtime: str):
        for path in folder.glob("*.py"):
            sys.modules.pop(path.stem, None)
        sys.path.insert(0, str(folder))
        try:
            self.program = importlib.import_module(runtime)
            self.arrays = importlib.import_module("model_io").arrays
            self.predictor = importlib.import_module("predict")
            self.predict = self.predictor.predict
        finally:
            sys.path.remove(str(folder))
        self.run = self.program.load()

    def __call__(self, sentences) -> np.ndarray:
        return self.run(self.arrays(sentences))[0]

    def label_ids(self, sentences) -> list[list[int]]:
        return self.predictor.label_ids(self.run, sentences)


@pytest.fixture
def export(tmp_path, no_fsync):
    def run(model, runtime: str, *more: str) -> Exported:
        onnx = ["--onnx"] if runtime == "run_onnx" else []
        export_model.main([str(model), f"--output={tmp_path / 'exported'}", *onnx, *more])
        return Exported(tmp_path / "exported", runtime)

    return run


def assert_close(output: np.ndarray, expected: np.ndarray, tolerance: float = 3e-6) -> None:
    """tolerance: relative to the largest value."""
    largest = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(output, expected, atol=tolerance * largest, rtol=0)


def check(output: np.ndarray, sentences, expected) -> None:
    """Check that the output (..., B, T, 2P) has the expected vectors, and zeros at padding."""
    for row, (sentence, vectors) in enumerate(zip(sentences, expected, strict=True)):
        assert_close(output[..., row, : len(sentence), :], vectors)
        assert not output[..., row, len(sentence) :, :].any()


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"input": "word"},
        {"input": "char+word", "word_dim": 3, "activation": "tanh", "n_highway": 0},
        {"max_characters": 20, "n_layers": 3, "use_skip_connections": False, "cell_clip": 0.0, "proj_clip": 0.0},
        {"n_layers": 1, "forget_bias": 0.5, "projection_dim": 11},  # as wide as the filters: no projection
    ],
)
def test_vectors_are_the_embedders_whatever_the_batch(export, tmp_path, runtime, changes):
    prefix = tiny.save(tiny.random_bilm(**changes), tmp_path / "model")
    exported, embedder = export(prefix, runtime), ELMoEmbedder(prefix, device="cpu")
    expected = embedder.encode(SENTENCES)
    check(exported(SENTENCES), SENTENCES, expected)
    for sentence, vectors in zip(SENTENCES, expected, strict=True):
        check(exported([sentence]), [sentence], [vectors])


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("word_dim", "char_dim"), [(7, 5), (7, 0)])
def test_code_points_and_their_words(export, tmp_path, runtime, word_dim, char_dim):
    tokens, encoder = manylangs_model.write_model(tmp_path / "zhs", word_dim, char_dim)
    convert.main(["import", str(tmp_path / "zhs"), f"--output={tmp_path / 'model'}"])
    sentences = manylangs_model.SENTENCES
    expected = [manylangs_model.expected(tokens, encoder, sentence) for sentence in sentences]
    check(export(tmp_path / "model", runtime)(sentences), sentences, expected)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("layers", ["0", "0,1", "average"])
def test_layers(export, model, runtime, layers):
    found = export(model, runtime, f"--layers={layers}")(SENTENCES)
    check(found, SENTENCES, ELMoEmbedder(model, device="cpu", layers=layers).encode(SENTENCES))


def test_the_numbers_of_characters_are_the_references(export, model):
    arrays = export(model, "run_paddle").arrays(SENTENCES)
    for row, sentence in zip(arrays["characters"], SENTENCES, strict=True):
        ids = [reference.char_ids(token) for token in sentence]
        np.testing.assert_array_equal(row[: len(sentence)], np.reshape(ids, [-1, 50]))
        assert (row[len(sentence) :] == 261).all()


# Taggers


def random_tagger(folder: Path, elmo: bool = True, vectors: bool = False, bilm=(), pieces=None, **settings) -> Tagger:
    """A tagger with random weights, so that every part affects the labels."""
    settings = {
        "scheme": "bioes",
        "hidden_dim": 5,
        "word_dim": 4,
        "n_layers": 2,
        "lang": "en",
        "elmo": None,
        **settings,
    }
    labels = ["B-x", "I-x", "E-x", "S-x", "O"]
    if settings["scheme"] == "lac":
        labels = ["n", "n-B", "n-I", "v", "v-B", "v-I", "O"]
    if elmo:
        settings |= {"elmo": tiny.save(tiny.random_bilm(**dict(bilm)), folder / "elmo")}
        settings.setdefault("layers", "mix")
    if vectors:
        (folder / "vectors.txt").write_text("3 2\nthe 1 2\nbank 3 -1\nBank -2 2\n", encoding="utf-8")
        settings["word_vectors"] = folder / "vectors.txt"
    parts = {"labels": labels, "words": ["the", "river", "bank", "很"], "known": None, "pieces": pieces}
    settings = TaggerSettings(**settings)
    tagger = Tagger.create(settings, parts, "cpu")
    random_weights(tagger.network, "inputs.elmo.bilm")
    tagger.network.emission.weight.set_value(4 * tagger.network.emission.weight)  # so that the labels vary
    tagger.save(folder / "tagger")
    return tagger


def random_weights(layer, but: str = "nothing") -> None:
    generator = np.random.default_rng(5)
    for name, weight in layer.state_dict().items():
        if not name.startswith(but) and "deviation" not in name:
            spread = 0.3 if "bias" in name else 1.0
            weight.set_value((generator.standard_normal(weight.shape) * spread).astype(np.float32))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"elmo": False, "vectors": True, "n_layers": 1},
        {"char_cnn": True, "elmo_at": "both", "layers": "mix:0,2", "n_layers": 1},
        {"elmo_at": "both", "layers": "concat"},
        {"bilm": {"input": "word"}, "elmo_at": "output", "layers": "top", "vectors": True, "char_cnn": True},
        {"elmo_trainable": True, "bilm": {"max_characters": 20}, "char_cnn": True},
    ],
)
def test_a_tagger_gives_the_same_labels(export, tmp_path, runtime, settings):
    tagger, generator = random_tagger(tmp_path, **settings), random.Random(7)
    words = [*tiny.WORDS[3:], "The", "BANK", "Bank", "x" * 60]
    sentences = [generator.choices(words, k=k) for k in (5, 0, 1, 9, 2, 3, 7, 12)]
    expected = [[tagger.label_ids[label] for label in labels] for labels in tagger.predict(sentences)]
    exported = export(tmp_path / "tagger", runtime)
    assert exported.label_ids(sentences) == expected and len({k for row in expected for k in row}) > 1
    assert [exported.label_ids([sentence])[0] for sentence in sentences] == expected


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("settings", [{}, {"bilm": {"input": "word"}, "elmo_at": "both", "vectors": True}])
def test_a_tagger_of_jiebas_words(export, tmp_path, runtime, settings):
    tagger = random_tagger(tmp_path, unit="jieba", lang="characters", char_cnn=True, **settings)
    sentences = [list("很高兴在北京银行"), list("苹果很大"), [], ["the", "很", "bank"], list("很")]
    exported = export(tmp_path / "tagger", runtime)
    expected = [[tagger.label_ids[label] for label in labels] for labels in tagger.predict(sentences)]
    assert exported.label_ids(sentences) == expected
    assert [exported.label_ids([sentence])[0] for sentence in sentences] == expected


# Classifiers


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    """A folder with trained classifiers: of tokens, of raw texts and pairs."""
    folder, generator = tmp_path_factory.mktemp("heads"), random.Random(3)
    model = tiny.save(tiny.random_bilm(scale=1.0), folder / "elmo")
    rows = [generator.choice([("river bank", "a"), ("of the", "b"), ("苹果 很", "c")]) for _ in range(40)]
    (folder / "texts.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    pairs = ["text_a\ttext_b\tlabel", *(f"{text}\tthe bank\t{label}" for text, label in rows)]
    (folder / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    quick = ["--device=cpu", "--epochs=1", "--hidden_dim=6", "--lang=none", f"--init_from_ckpt={model}"]
    for name, file, more in (
        ("texts", "texts", []),
        ("raw texts", "texts", ["--lang=en", "--max_seq_len=9"]),
        ("raw pairs", "pairs", ["--lang=en", "--max_seq_len=9", "--head_dim=5"]),
    ):
        files = [f"--{part}_file={folder / file}.tsv" for part in ("train", "dev", "test")]
        run_finetune.main([*quick, *files, *more, f"--save_dir={folder / f'head of {name}'}"])
    return folder


def random_classifier(folder: Path, pairs: bool = False, **settings) -> Classifier:
    """A classifier with random weights, and classes a to c."""
    elmo = tiny.save(tiny.random_bilm(), folder / "elmo")
    settings = {"lang": "none", "hidden_dim": 6, "head_dim": 5, "elmo": elmo, "max_seq_len": 20} | settings
    settings = ClassifierSettings(**settings)
    parts = {"labels": ["a", "b", 3], "pairs": pairs, "words": ["the"] if settings.word_dim else None}
    classifier = Classifier.create(settings, parts, "cpu")
    random_weights(classifier.network, "inputs.elmo.bilm")
    for part in classifier.network.inputs.statistics:
        part.deviation.set_value(1 + part.mean**2)
    classifier.save(folder / "classifier")
    return classifier


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    "settings",
    [
        *({"head": head, "pairs": pairs} for head in HEADS for pairs in (False, True)),
        {"head": "mean", "layers": "mix"},
        {"head": "lstm", "layers": "mix:0,2", "elmo_trainable": True},
        {"head": "lstm", "layers": "top", "hidden_dim": 0},
        {"head": "mean", "word_dim": 3, "char_cnn": True},
    ],
)
def test_a_classifier_gives_the_same_probabilities(export, tmp_path, runtime, settings):
    classifier, generator = random_classifier(tmp_path, **settings), random.Random(7)
    exported, pairs = export(tmp_path / "classifier", runtime), classifier.parts["pairs"]
    sentences = [generator.choices([*tiny.WORDS[3:], "x" * 60], k=k) for k in (5, 0, 1, 9, 2, 3, 0, 12, 4, 1)]
    texts = [" ".join(sentence) for sentence in sentences]
    rows = [[k, k + 5] if pairs else [k] for k in range(5 if pairs else 10)]
    found = classifier.predict_proba([tuple(texts[k] for k in row) for row in rows] if pairs else texts)
    assert np.ptp(found, axis=0).max() > 0.02
    lines = ["\t".join(texts[k] for k in row) for row in rows]
    labels = [values["label"] for values, _ in exported.predict(exported.run, lines)]
    assert labels == [classifier.classes[k] for k in found.argmax(axis=1)]  # a number stays one
    np.testing.assert_allclose(exported(sentences), found, atol=1e-5)
    for row, probabilities in zip(rows, found, strict=True):  # without the others' padding
        np.testing.assert_allclose(exported([sentences[k] for k in row]), [probabilities], atol=1e-5)


def test_a_classifier_that_draws_vectors_is_not_exported(tmp_path):
    (tmp_path / "vectors.txt").write_text("2 2\nthe 1 2\nbank 3 -1\n", encoding="utf-8")
    random_classifier(tmp_path, word_vectors=tmp_path / "vectors.txt")
    with pytest.raises(UserError, match="vectors"):
        export_model.main([str(tmp_path / "classifier"), f"--output={tmp_path / 'exported'}"])
    assert not (tmp_path / "exported").exists()


# Parsers


def random_parser(folder: Path, **settings) -> Parser:
    """A parser with random weights, small enough that no two scores are equal."""
    sizes = {"hidden_dim": 5, "arc_dim": 6, "label_dim": 4, "word_dim": 3, "lang": "en"}
    settings = ParserSettings(**{**sizes, "elmo": tiny.save(tiny.random_bilm(), folder / "elmo"), **settings})
    parts = {"labels": ["root", "nsubj", "obj", "det"], "tags": ["N", "V", "X"], "words": ["the", "river", "很"]}
    parser = Parser.create(settings, parts, "cpu")
    random_weights(parser.network, "inputs.elmo.bilm")
    for weight in parser.network.recurrent.parameters():
        weight.set_value(0.3 * weight)
    parser.save(folder / "parser")
    return parser


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    "settings",
    [{"with_tags": True}, {"elmo": None, "char_cnn": True, "n_layers": 1}, {"layers": "mix", "lang": "none"}],
)
def test_a_parser_gives_the_same_trees(export, tmp_path, runtime, settings):
    parser = random_parser(tmp_path, **settings)
    lines = [
        line for line in raw_lines(12, [f"{word}{k}" for k in range(99) for word in ("the", "很", "bank")]) if line
    ]
    trees = parser.predict(lines)
    exported = export(tmp_path / "parser", runtime)
    answers = list(exported.predict(exported.run, lines))
    assert [text + "\n" for _, text in answers] == [tree.to_conllu() for tree in trees]
    assert (
        len({head for tree in trees for head in tree.heads}) > 5 and len({x for tree in trees for x in tree.labels}) > 1
    )
    for (values, text), line, tree in zip(answers, lines, trees, strict=True):
        assert values == {name: getattr(tree, name) for name in ("tokens", "heads", "labels", "tags")}
        assert next(exported.predict(exported.run, [line]))[1] == text
    if parser.settings.lang == "en":  # a line without words has no tree, and costs the others nothing
        assert [*exported.predict(exported.run, ["\u200b", lines[0]])] == [({}, ""), answers[0]]


# Raw text


def raw_lines(n: int, words: list[str], space: str = " ") -> list[str]:
    """Lines with marks, entities, tags and abbreviations, some of many sentences. space: between words."""
    generator, marks = (
        random.Random(11),
        [". ", "!", "... ", ", ", "’s ", "—", " &amp; ", "<br />", " Mr. ", " $2,900 ", "。", "，“"],
    )
    ends = [*[space] * 9, *marks]
    sizes = [generator.randint(1, 40) for _ in range(n)]
    return ["".join(generator.choice(words) + generator.choice(ends) for _ in range(size)).strip() for size in sizes]


JIEBA = {"unit": "jieba", "lang": "characters", "user_dict": ["很的 1000000"]}
LAC = {"scheme": "lac", "lang": "zh", "elmo": False, "pieces": ["银行", "河", "苹果", "的"]}


def predicted(kind: str, lines: list[str], tmp_path: Path, heads: Path) -> tuple[Path, list[dict]]:
    """The folder of a trained model, and what it predicts for the lines."""
    file, output, model = tmp_path / "lines", tmp_path / "output", heads / f"head of {kind}"
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    script, flags = run_finetune, [f"--input={file}", f"--output={output}", "--output_format=json"]
    if kind in ("tagger", "lac", "jieba"):
        random_tagger(tmp_path, **{"lac": LAC, "jieba": JIEBA}.get(kind, {}))
        script, flags, model = run_tag, flags, tmp_path / "tagger"
    script.main(["predict", f"--model_dir={model}", *flags])
    return model, [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("kind", ["tagger", "lac", "jieba", "raw texts", "raw pairs"])
def test_the_programs_answer_raw_lines_without_this_project(tmp_path, heads, runtime, kind):
    lines, folder = raw_lines(70, tiny.WORDS[3:]), tmp_path / "exported"
    if kind in ("lac", "jieba"):
        lines = raw_lines(70, ["银行", "河流", "苹果", "很", "的", "Ａ１"], "")
    elif kind == "raw pairs":
        lines = [f"{a}\t{b}" for a, b in zip(raw_lines(90, ["the", "river"])[20:], lines, strict=True)]
    model, expected = predicted(kind, lines, tmp_path, heads)
    export_model.main([str(model), f"--output={folder}", *["--onnx"] * (runtime == "run_onnx")])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    options = {"cwd": folder, "env": environment, "capture_output": True, "encoding": "utf-8", "timeout": 300}
    done = subprocess.run([sys.executable, f"{runtime}.py", "--json"], input="\n".join(lines), **options)
    assert not done.returncode, done.stderr
    for line, values in zip(done.stdout.splitlines(), expected, strict=True):
        answer = json.loads(line)
        assert answer.pop("probabilities", {}) == pytest.approx(values.pop("probabilities", {}), abs=1e-5)
        assert answer.pop("score", 0) == pytest.approx(values.pop("score", 0), abs=1e-5)
        for span in values.get("spans", []):
            del span["score"]
        assert answer == values
    assert f"{runtime}.py" in (folder / "README.md").read_text(encoding="utf-8")


# What else is in the folder


def test_a_ready_made_model_is_exported_with_its_licence(tmp_path, no_fsync):
    """By the name that the task's script takes; the ELMo in the graph has sources of its own."""
    folder = tmp_path / "exported"
    export_model.main(["zh-gsd", f"--output={folder}"])
    cards = (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "CC BY-SA 4.0" in cards and "UNER_Chinese-GSDSIMP" in cards and "CMRC 2018" in cards
    assert "MODEL_CARD.md" in (folder / "README.md").read_text(encoding="utf-8")


def test_the_readme_names_the_files_that_are_there(export, model, tmp_path):
    export(model, "run_paddle")
    readme = (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(model\.\w+)`", readme))
    assert named and all((tmp_path / "exported" / name).is_file() for name in named)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("from elmo_core.files import disk", "elmo_core.files"),  # a package
        ("from elmo_tasks.reading.text import Passage\nfrom elmo_tasks.tagging.text import Line", "text.py"),
        ("import elmo_core.messages", "elmo_core.messages"),
    ],
)
def test_programs_that_would_not_run_are_not_exported(monkeypatch, tmp_path, line, named):
    (tmp_path / "predict.py").write_text(f"{line}\n", encoding="utf-8")
    monkeypatch.setattr(export_folder, "EXAMPLES", tmp_path)
    with pytest.raises(ImportError, match=re.escape(named)):
        export_folder._programs(["predict.py"])


# Mistakes


def test_a_name_of_two_models_is_explained(tmp_path):
    with pytest.raises(UserError, match=r"parser/en-ewt or tagger/en-ewt"):
        export_model.main(["en-ewt", f"--output={tmp_path / 'exported'}"])


def test_a_users_model_takes_precedence_over_a_name(tmp_path, monkeypatch):
    random_tagger(tmp_path, elmo=False)
    (tmp_path / "tagger").rename(tmp_path / "zh-gsd")
    monkeypatch.chdir(tmp_path)
    assert export_model.find_task("zh-gsd") == Path("zh-gsd")


def test_flags_of_elmo_are_not_a_taggers(tmp_path):
    random_tagger(tmp_path, elmo=False)
    with pytest.raises(UserError, match="--layers"):
        export_model.main([str(tmp_path / "tagger"), f"--output={tmp_path / 'exported'}", "--layers=0"])


def test_without_the_package_onnx(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "export.onnx_graph", raising=False)
    with pytest.raises(UserError, match="pip install onnx"):
        export_model.main([model, f"--output={tmp_path / 'exported'}", "--onnx"])
