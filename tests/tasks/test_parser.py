"""A parser: training, folders, raw text."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from treebank import write_treebank

from elmo_core.messages import UserError
from elmo_tasks.parsing.data import read_conllu
from elmo_tasks.parsing.parser import Parser
from elmo_tasks.parsing.settings import ParserSettings
from elmo_tasks.parsing.trees import Tree

SIZES = {"word_dim": 8, "hidden_dim": 8, "arc_dim": 8, "label_dim": 6}


@pytest.fixture(scope="module")
def treebank(tmp_path_factory) -> Path:
    return write_treebank(tmp_path_factory.mktemp("treebank") / "train.conllu")


@pytest.fixture(scope="module")
def untrained(treebank) -> Parser:
    settings = ParserSettings(elmo=None, epochs=0, **SIZES, lang="none", with_tags=True)
    return Parser.train(treebank, settings=settings, progress=False, device="cpu")


@pytest.mark.parametrize("kind", [None, "char"])
def test_a_parser_learns_is_moved_and_parses_raw_text(treebank, checkpoints, tmp_path, kind):
    elmo = str(checkpoints[kind]) if kind else None
    few = {"epochs": 40, "patience": 0, "lr": 0.01, "dropout": 0.0, "batch_size": 4}
    settings = ParserSettings(**few, **SIZES, elmo=elmo, with_tags=True)
    parser = Parser.train(
        treebank, dev=treebank, settings=settings, save_dir=tmp_path / "a", progress=False
    )
    scores = parser.evaluate(treebank)
    assert (scores["uas"], scores["las"], scores["words"]) == (1, 1, 32) and 0.5 < scores[
        "upos"
    ] <= 1
    (tmp_path / "a").rename(tmp_path / "b")
    for trained in (parser, Parser(tmp_path / "b")):
        one, other = trained.predict(["the dog  sleeps", ["a", "cat", "sees", "the", "dog"]])
        assert (one.heads, one.labels, len(one.tags)) == ([2, 3, 0], ["det", "nsubj", "root"], 3)
        assert (
            one.offsets == [(0, 3), (4, 7), (9, 15)]
            and not other.offsets
            and other.heads == [2, 3, 0, 5, 3]
        )
        assert all(0.3 < score <= 1 for score in one.scores)
    assert str(one).splitlines()[1].split() == ["2", "dog", "nsubj", "3", "sleeps"]


def test_an_untrained_parser_predicts_trees_with_one_root(untrained):
    (tree,) = untrained.predict(["the dog sleeps"])
    assert (
        tree.heads.count(0) == 1
        and tree.labels[tree.heads.index(0)] == "root"
        and tree.labels.count("root") == 1
    )
    assert all(0 < score < 1 for score in tree.scores)


def test_sentences_without_words_stay_as_they_are(untrained):
    *empty, tree = untrained.predict(["", " ", [], "the dog"])
    assert [one.tokens for one in empty] == [[], [], []] and len(tree.heads) == 2


def test_trees_are_parsed_again_and_iterators_lazily(untrained):
    unparsed = untrained.sentence("the dog")
    expected = str(untrained.predict(["the dog"])[0])
    assert str(untrained.predict([unparsed])[0]) == expected != str(unparsed) == "the dog"
    trees = untrained.iter_predict(iter(["the dog", "a"]))
    assert str(next(trees)) == expected and len(next(trees).tokens) == 1


def test_a_word_of_white_space_is_written_as_a_line(untrained):
    (blank,) = untrained.predict([["the", "\n", "dog"]])
    assert blank.to_conllu().split("\n")[1].startswith("2\t_\t")


@pytest.mark.parametrize("wrong", [3, None, [3], [None], [["the", 3]], [["the dog"]]])
def test_what_is_not_sentences_is_named(untrained, wrong):
    with pytest.raises((TypeError, UserError), match=r"sentence|text"):
        untrained.predict(wrong)


@pytest.mark.parametrize("lang", ["auto", "xx"])
def test_a_language_of_raw_text_that_is_none_is_named(untrained, lang):
    with pytest.raises(UserError, match=f"lang.*{lang}"):
        untrained.sentence("the dog", lang=lang)


def table_of(trees: list[Tree]) -> list[dict]:
    """Rows as those of Hugging Face's universal_dependencies, whose heads are strings."""
    return [
        {
            "tokens": tree.tokens,
            "head": [str(head) for head in tree.heads],
            "deprel": tree.labels,
            "upos": tree.tags,
        }
        for tree in trees
    ]


def test_a_file_trees_and_a_table_train_the_same_parser(treebank):
    trees = list(read_conllu(treebank))
    settings = ParserSettings(elmo=None, epochs=1, **SIZES, with_tags=True)
    parsers = [
        Parser.train(data, dev=data, settings=settings, progress=False, device="cpu")
        for data in (treebank, trees, table_of(trees))
    ]
    expected = parsers[0].predict("the dog sleeps")
    for parser in parsers:
        assert parser.predict("the dog sleeps") == expected
        assert parser.evaluate(trees) == parser.evaluate(table_of(trees)) == parser.scores["dev"]
    assert parsers[0].labels == parsers[2].labels


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"heads": [2, 0]}, "2 heads"),
        ({"heads": [2, 3, 4]}, "a head is 4"),
        ({"heads": [0, 0, 2]}, "2 roots"),
        ({"heads": [2, 1, 0]}, "cycle"),
        ({"tokens": [], "heads": [], "labels": []}, "no words"),
    ],
)
def test_a_tree_in_memory_that_is_none_is_named(changes, word):
    tree = Tree(["the", "dog", "sleeps"], [2, 3, 0], ["det", "nsubj", "root"])
    with pytest.raises(UserError, match=rf"train 1: .*{word}"):
        Parser.train([tree, replace(tree, **changes)])


def test_a_column_of_a_table_that_has_no_lists_is_named():
    row = {"Tokens": "the dog", "head": [2, 0], "deprel": ["det", "root"]}
    with pytest.raises(UserError, match="train, row 0: tokens is str 'the dog', expected a list"):
        Parser.train([row])


@pytest.mark.parametrize("wrong", [3, ["the dog"], [["the", "dog"]], {"tokens": ["a"]}])
def test_what_is_no_treebank_is_named(wrong):
    with pytest.raises(TypeError, match=r"train.*(tree|Tree)"):
        Parser.train(wrong)


def test_words_have_a_tag_also_if_none_is_predicted(treebank):
    settings = ParserSettings(elmo=None, epochs=0, **SIZES)
    parser = Parser.train(treebank, settings=settings, progress=False, device="cpu")
    assert parser.predict("the dog").tags == ["_", "_"]
    gold = next(read_conllu(treebank))
    again = parser.predict(gold).to_conllu().splitlines()
    assert [line.split("\t")[3] for line in again if line] == gold.tags
    assert "upos" not in parser.evaluate(treebank).to_dict()


def test_tags_that_the_treebank_lacks_cannot_be_learnt(tmp_path):
    (tmp_path / "untagged.conllu").write_text(
        "1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n\n" * 2, encoding="utf-8"
    )
    with pytest.raises(UserError, match="with_tags"):
        Parser.train(
            tmp_path / "untagged.conllu", settings=ParserSettings(elmo=None, with_tags=True)
        )


def test_labels_that_occur_only_in_dev_are_warned_of(treebank, tmp_path, messages):
    text = treebank.read_text(encoding="utf-8").replace("\tobj\t", "\tiobj\t")
    (tmp_path / "dev.conllu").write_text(text, encoding="utf-8")
    settings = ParserSettings(elmo=None, epochs=0, **SIZES)
    Parser.train(treebank, dev=tmp_path / "dev.conllu", settings=settings, progress=False)
    assert "iobj" in messages() and "dev.conllu:5" in messages()


@pytest.mark.parametrize("name", ["labels", "tags"])
@pytest.mark.parametrize("wrong", [1, None, ["x"]])
def test_labels_and_tags_of_a_folder_are_strings(untrained, tmp_path, name, wrong):
    untrained.save(tmp_path / "p")
    config = tmp_path / "p" / "config.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    content["parts"][name][0] = wrong
    config.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError, match=rf"config\.json: .*{name}"):
        Parser(tmp_path / "p")


def test_the_loss_and_the_probabilities_do_not_depend_on_the_batch(treebank):
    sizes = {"hidden_dim": 4, "arc_dim": 4, "label_dim": 4, "word_dim": 0}
    settings = ParserSettings(elmo=None, epochs=0, char_cnn=True, dropout=0.0, **sizes)
    parser = Parser.train(treebank, settings=settings, progress=False)
    short, long = list(read_conllu(treebank))[:2]
    for together, sentence in zip(parser.predict([short, long]), [short, long], strict=True):
        (alone,) = parser.predict([sentence])
        assert together.heads == alone.heads and together.scores == pytest.approx(
            alone.scores, abs=1e-5
        )

    def loss(trees) -> float:
        return parser.network.loss(parser.collate(trees)).item()

    parser.network.train()
    assert loss([short, long]) == pytest.approx(
        (3 * loss([short]) + 5 * loss([long])) / 8, rel=1e-5
    )  # per word
