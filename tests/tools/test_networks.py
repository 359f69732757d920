"""Exported taggers, classifiers and parsers: their answers are the models'."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tiny
from exporting import RUNTIMES, random_tagger, random_weights, raw_lines

import export_model
from elmo_core.messages import UserError
from elmo_tasks.classification import ngrams
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.heads import HEADS
from elmo_tasks.classification.settings import ClassifierSettings
from elmo_tasks.parsing.parser import Parser
from elmo_tasks.parsing.settings import ParserSettings
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.task import Task
from elmo_tools.export.networks import TaggerNetwork


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"elmo": False, "vectors": True, "n_layers": 1},
        {"char_cnn": True, "elmo_at": "both", "layers": "mix:0,2", "n_layers": 1},
        {"elmo_at": "both", "layers": "concat"},
        {
            "bilm": {"input": "word"},
            "elmo_at": "output",
            "layers": "top",
            "vectors": True,
            "char_cnn": True,
        },
        {"elmo_trainable": True, "bilm": {"max_characters": 20}, "char_cnn": True},
    ],
)
def test_a_tagger_gives_the_same_labels(export, tmp_path, runtime, settings):
    tagger = random_tagger(tmp_path, **settings)
    generator = random.Random(7)
    words = [*tiny.WORDS[3:], "The", "BANK", "Bank", "x" * 60]
    sentences = [generator.choices(words, k=k) for k in (5, 0, 1, 9, 2, 3, 7, 12)]
    expected = expected_ids(tagger, sentences)
    exported = export(tmp_path / "tagger", runtime)
    assert exported.label_ids(sentences) == expected
    assert len(set().union(*expected)) > 1
    assert [exported.label_ids([sentence])[0] for sentence in sentences] == expected


def expected_ids(tagger: Tagger, sentences: list[list[str]]) -> list[list[int]]:
    """The numbers of the labels that the tagger predicts."""
    ids = []
    for labels in tagger.predict(sentences):
        ids.append([tagger.label_ids[label] for label in labels])
    return ids


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    "settings", [{}, {"bilm": {"input": "word"}, "elmo_at": "both", "vectors": True}]
)
def test_a_tagger_of_jiebas_words(export, tmp_path, runtime, settings):
    tagger = random_tagger(tmp_path, unit="jieba", lang="characters", char_cnn=True, **settings)
    sentences = [list("很高兴在北京银行"), list("苹果很大"), [], ["the", "很", "bank"], list("很")]
    exported = export(tmp_path / "tagger", runtime)
    expected = expected_ids(tagger, sentences)
    assert exported.label_ids(sentences) == expected
    assert [exported.label_ids([sentence])[0] for sentence in sentences] == expected


def test_a_tagger_carries_the_dictionary_that_it_was_loaded_with(tmp_path):
    random_tagger(tmp_path, elmo=False, scheme="lac", lang="characters", user_dict=["很的"])
    tagger = Tagger(tmp_path / "tagger", "cpu", user_dict=["云计算 5 n"])
    assert TaggerNetwork(tagger).files["user_dict.txt"] == "很的\n云计算 5 n\n"


# N-grams, and the numbers of texts with them.
CHARACTERS = [
    ("characters", " th", 5),
    ("characters", "an", 2),
    ("characters", "苹果", 3),
    ("characters", "果很", 1),
]
BOTH = [
    ("words", "the", 6),
    ("words", "bank", 3),
    ("words", "river bank", 1),
    ("words", "of the", 2),
    *CHARACTERS,
]


def random_classifier(
    folder: Path,
    pairs: bool = False,
    multi_label: bool = False,
    ngrams: Sequence[ngrams.Entry] | None = None,
    **settings,
) -> Classifier:
    """A classifier with random weights, and the classes a, b and 3."""
    elmo = tiny.save(tiny.random_bilm(), folder / "elmo")
    defaults = {"lang": "none", "hidden_dim": 6, "head_dim": 5, "elmo": elmo, "max_seq_len": 20}
    settings = ClassifierSettings(**{**defaults, **settings})
    parts = {
        "labels": ["a", "b", 3],
        "multi_label": multi_label,
        "threshold": None,
        "pairs": pairs,
        "words": ["the"] if settings.word_dim else None,
        "ngrams": ngrams,
        "ngram_texts": 7,
    }
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
        *[{"head": head} for head in HEADS],
        *[{"head": head, "pairs": True} for head in HEADS],
        {"head": "mean", "layers": "mix"},
        {"head": "lstm", "layers": "mix:0,2", "elmo_trainable": True},
        {"head": "lstm", "layers": "top", "hidden_dim": 0},
        {"head": "mean", "word_dim": 3, "char_cnn": True},
        {"head": "mean", "multi_label": True},
        {"ngrams": BOTH},
        {"ngrams": BOTH, "pairs": True, "max_seq_len": 3},
        {"ngrams": BOTH, "multi_label": True, "max_seq_len": 3},
        {"ngrams": BOTH, "elmo": None},
        {"ngrams": BOTH, "elmo": None, "pairs": True},
        {"ngrams": BOTH, "elmo_trainable": True, "layers": "mix"},
        {"ngrams": CHARACTERS, "elmo": None, "lang": "zh"},
    ],
)
def test_a_classifier_gives_the_same_probabilities(export, tmp_path, runtime, settings):
    classifier = random_classifier(tmp_path, **settings)
    exported = export(tmp_path / "classifier", runtime)
    generator = random.Random(7)
    words = [*tiny.WORDS[3:], "x" * 60]
    texts = [" ".join(generator.choices(words, k=k)) for k in (5, 0, 1, 9, 2, 3, 0, 12, 4, 1)]
    lines = texts
    given = texts
    if classifier.parts["pairs"]:
        given = [*zip(texts[:5], texts[5:], strict=True)]
        lines = ["\t".join(pair) for pair in given]
    found = classifier.predict_proba(given)
    assert np.ptp(found, axis=0).max() > 0.02
    answers = [values for values, _ in exported.predict(exported.run, lines)]
    key = "labels" if classifier.parts["multi_label"] else "label"
    assert [values[key] for values in answers] == classifier.predict(given)  # a number stays one
    for line, values, probabilities in zip(lines, answers, found, strict=True):
        alone, _ = next(exported.predict(exported.run, [line]))  # without the others' padding
        for answer in (values, alone):
            answered = [*answer["probabilities"].values()]
            np.testing.assert_allclose(answered, probabilities, atol=1e-5)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("pool", ["max", "mean_max"])
def test_pooled_inputs_are_exported(export, tmp_path, monkeypatch, runtime, pool):
    def make_inputs(task, **options):
        return Task.make_inputs(task, **{**options, "pool": pool})

    monkeypatch.setattr(Classifier, "make_inputs", make_inputs)
    classifier = random_classifier(tmp_path, head="mean", word_dim=3, char_cnn=True)
    sentences = [["the", "river", "bank"], [], ["the"], ["x" * 60, "of"]]
    found = classifier.predict_proba([" ".join(sentence) for sentence in sentences])
    exported = export(tmp_path / "classifier", runtime)
    np.testing.assert_allclose(exported(sentences), found, atol=1e-5)


def test_a_classifier_that_draws_vectors_is_not_exported(tmp_path):
    (tmp_path / "vectors.txt").write_text("2 2\nthe 1 2\nbank 3 -1\n", encoding="utf-8")
    random_classifier(tmp_path, word_vectors=tmp_path / "vectors.txt")
    with pytest.raises(UserError, match="vectors"):
        export_model.main([str(tmp_path / "classifier"), f"--output={tmp_path / 'exported'}"])
    assert not (tmp_path / "exported").exists()


def random_parser(folder: Path, **settings) -> Parser:
    """A parser with random weights, small enough that no two scores are equal."""
    sizes = {"hidden_dim": 5, "arc_dim": 6, "label_dim": 4, "word_dim": 3, "lang": "en"}
    settings = ParserSettings(
        **{**sizes, "elmo": tiny.save(tiny.random_bilm(), folder / "elmo"), **settings}
    )
    parts = {
        "labels": ["root", "nsubj", "obj", "det"],
        "tags": ["N", "V", "X"],
        "words": ["the", "river", "很"],
    }
    parser = Parser.create(settings, parts, "cpu")
    random_weights(parser.network, "inputs.elmo.bilm")
    for weight in parser.network.recurrent.parameters():
        weight.set_value(0.3 * weight)
    parser.save(folder / "parser")
    return parser


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    "settings",
    [
        {"with_tags": True},
        {"elmo": None, "char_cnn": True, "n_layers": 1},
        {"layers": "mix", "lang": "none"},
    ],
)
def test_a_parser_gives_the_same_trees(export, tmp_path, runtime, settings):
    parser = random_parser(tmp_path, **settings)
    words = []
    for k in range(99):
        words += [f"the{k}", f"很{k}", f"bank{k}"]
    lines = [line for line in raw_lines(12, words) if line]
    trees = parser.predict(lines)
    exported = export(tmp_path / "parser", runtime)
    answers = list(exported.predict(exported.run, lines))
    assert [text + "\n" for _, text in answers] == [tree.to_conllu() for tree in trees]
    assert len(set().union(*[tree.heads for tree in trees])) > 5
    assert len(set().union(*[tree.labels for tree in trees])) > 1
    for (values, text), line, tree in zip(answers, lines, trees, strict=True):
        assert values == {
            name: getattr(tree, name) for name in ("tokens", "heads", "labels", "tags")
        }
        assert next(exported.predict(exported.run, [line]))[1] == text
    # A line without words has no tree, and costs the others nothing.
    if parser.settings.lang == "en":
        assert [*exported.predict(exported.run, ["\u200b", lines[0]])] == [({}, ""), answers[0]]
