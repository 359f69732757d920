"""Dependency trees: the best of scores, CoNLL-U, pictures, attachment scores."""

import itertools
import re
import xml.etree.ElementTree
from dataclasses import replace

import numpy as np
import pytest

from elmo_core.messages import UserError
from elmo_tasks.parsing.trees import ParserScore, Tree, allowed_labels, find_cycle, maximum_tree


def test_the_best_tree_is_that_of_an_enumeration():
    random = np.random.default_rng(1)
    for n in (1, 2, 3, 4, 5):
        trees = [
            t
            for t in itertools.product(range(n + 1), repeat=n)
            if t.count(0) == 1 and not find_cycle([0, *t])
        ]
        assert len(trees) == n ** (n - 1)  # Cayley's formula
        for scores in random.standard_normal((40, n, n + 1)).astype(np.float32):
            best = max(trees, key=lambda tree: scores[np.arange(n), tree].sum())
            assert tuple(maximum_tree(scores)) == best
    for scores in np.zeros((900, 901)), random.standard_normal((900, 901)):  # contracted many times
        tree = maximum_tree(scores).tolist()
        assert tree.count(0) == 1 and not find_cycle([0, *tree])


def test_scores_of_hand_worked_trees():
    gold = Tree(
        list("abcd"), [2, 0, 2, 3], ["det", "root", "nmod:poss", "punct"], ["D", "V", "N", "P"]
    )
    tree = Tree(list("abcd"), [2, 0, 2, 2], ["amod", "root", "nmod", "punct"], ["D", "V", "N", "N"])
    score = ParserScore([gold, gold], [tree, gold])
    assert score.to_dict() == {"uas": 7 / 8, "las": 6 / 8, "upos": 7 / 8, "words": 8}
    assert "upos" not in ParserScore([replace(gold, tags=["_"] * 4)], [tree]).to_dict()


UNPARSED = Tree(["the", "dog"])


def test_a_sentence_without_its_tree_is_text_and_conllu_but_no_picture():
    assert str(UNPARSED) == "the dog"
    assert [row.split("\t")[6:8] for row in UNPARSED.to_conllu().splitlines() if row] == [
        ["_", "_"]
    ] * 2
    with pytest.raises(UserError, match="2 words, 0 heads"):
        UNPARSED.to_svg()


@pytest.mark.parametrize("call", [str, Tree.to_conllu, Tree.to_svg])
def test_a_tree_that_lacks_labels_is_named(call):
    with pytest.raises(UserError, match="1 label"):
        call(Tree(["the", "dog"], [2, 0], ["det"]))


def test_an_empty_sentence_has_an_empty_picture():
    assert "<path d" not in Tree([]).to_svg() and Tree([]).to_conllu() == str(Tree([])) == ""


def test_a_picture_has_an_arc_and_a_label_for_each_word():
    svg = Tree(["\1<&", "dog", "sleeps"], [2, 3, 0], ["det", "nsubj", "root"]).to_svg()
    assert xml.etree.ElementTree.fromstring(svg).tag.endswith("svg")
    assert svg.count("<path") == 3 and all(
        f">{text}<" in svg for text in ("dog", "sleeps", "det", "nsubj", "root")
    )


@pytest.mark.parametrize(
    ("tokens", "step"),
    [(["the", "dog", "sleeps"], 1), (["12", "كتاب", "UN"], -1), (["(", "ספר", ")"], -1)],
)
def test_pictures_run_in_the_direction_of_the_script(tokens, step):
    tree = Tree(tokens, [2, 0, 2], ["x", "root", "y"])
    picture = xml.etree.ElementTree.fromstring(tree.to_svg())
    texts = [
        text for text in picture.iter("{http://www.w3.org/2000/svg}text") if not text.get("class")
    ]
    assert [text.text for text in texts] == tokens
    places = [step * int(text.get("x")) for text in texts]
    assert places == sorted(places)
    first_arc, *_ = [
        path.get("d") for path in picture.iter("{http://www.w3.org/2000/svg}path") if path.get("d")
    ]
    begin, end = map(int, re.findall(r"[MH](\d+)", first_arc))  # from the second word to the first
    assert step * end < step * begin < step * int(texts[1].get("x"))


def test_root_is_the_label_of_roots_only():
    allowed = allowed_labels(np.array([[2, 0]]), ["det", "root"])
    assert allowed.tolist() == [[[True, False], [False, True]]]
    assert allowed_labels(np.array([[2, 0]]), ["det", "obj"]).all()  # a treebank without root
