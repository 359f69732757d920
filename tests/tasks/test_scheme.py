"""Label schemes: their detection, `conlleval`'s chunks, and what may follow what."""

import itertools

import pytest
from label_rules import LABELS, all_paths, allowed_paths

from elmo_core.messages import UserError
from elmo_tasks.tagging.scheme import (
    are_of_words,
    check_scheme,
    detect_scheme,
    forbidden_transitions,
    spans,
)


@pytest.mark.parametrize(
    ("scheme", "labels", "expected"),
    [
        ("bio", "B-x I-x B-x O I-y", [(0, 2, "x"), (2, 3, "x"), (4, 5, "y")]),
        ("bio", "B-x I-y I-y", [(0, 1, "x"), (1, 3, "y")]),
        ("bio", "O O", []),
        ("iob1", "I-x I-x B-x I-x I-y", [(0, 2, "x"), (2, 4, "x"), (4, 5, "y")]),
        ("bioes", "B-x I-x E-x S-x S-x", [(0, 3, "x"), (3, 4, "x"), (4, 5, "x")]),
        ("bioes", "E-x I-x E-x O I-x", [(0, 1, "x"), (1, 3, "x"), (4, 5, "x")]),
        ("bioes", "B-x S-x I-x E-y", [(0, 1, "x"), (1, 2, "x"), (2, 3, "x"), (3, 4, "y")]),
        ("bioes", "B M L U", [(0, 3, ""), (3, 4, "")]),
        ("bioes", "B-x M-x L-x U-x", [(0, 3, "x"), (3, 4, "x")]),
        ("plain", "DT O", [(0, 1, "DT"), (1, 2, "O")]),
        ("lac", "n n v", [(0, 1, "n"), (1, 2, "n"), (2, 3, "v")]),
        ("lac", "n-B n-I n-I n-B", [(0, 3, "n"), (3, 4, "n")]),
        ("lac", "n n-I n-I", [(0, 1, "n"), (1, 3, "n")]),
        ("lac", "n-B O n-I O", [(0, 1, "n"), (2, 3, "n")]),
    ],
)
def test_spans_are_the_chunks_of_conlleval(scheme, labels, expected):
    assert spans(labels.split(), scheme) == expected


@pytest.mark.parametrize(
    ("scheme", "sentences"),
    [
        ("bio", ["O B-x I-x", "B-y"]),
        ("bio", ["O I-x B-y"]),  # IOB1 would have I-y
        ("bio", ["O I-x O B-x"]),
        ("bio", ["B I O", "B"]),
        ("iob1", ["O I-x I-x B-x", "I-y"]),
        ("iob1", ["O I I"]),
        ("iob1", ["I-x", "I-x B-x B-x"]),
        ("bioes", ["B M E S"]),
        ("bioes", ["O S-x"]),
        ("bioes", ["B-x M-x L-x U-x"]),
        ("lac", ["n n-B n-I", "v"]),
        ("lac", ["n-B n-I v O"]),
        ("plain", ["DT NN", "O"]),
        ("plain", ["B-x NN"]),
        ("plain", ["O O"]),
        ("plain", ["S M", "L S"]),  # sizes
        ("plain", ["S B O"]),
        ("plain", ["S-cut M-cut", "L-cut"]),
        ("plain", ["B-x I-x", "S"]),
    ],
)
def test_the_scheme_is_detected_from_the_labels(scheme, sentences):
    assert detect_scheme([text.split() for text in sentences]) == scheme


def test_numbers_are_plain_labels():
    assert detect_scheme([[0, 1], [2]]) == detect_scheme([[True, False]]) == "plain"


@pytest.mark.parametrize("scheme", sorted(LABELS))
def test_the_rules_are_those_of_the_scheme(scheme):
    names = LABELS[scheme]
    table, last = forbidden_transitions(names, scheme)
    for length in range(1, 5):
        possible = []
        for path in all_paths(len(names), length):
            is_forbidden = (
                any(table[a, b] for a, b in itertools.pairwise((-1, *path))) or last[path[-1]]
            )
            if not is_forbidden:
                possible.append(path)
        assert possible == allowed_paths(scheme, length)


@pytest.mark.parametrize(
    ("scheme", "names", "good", "bad"),
    [
        ("bio", "O B-x I-x I-y", ["O B-x I-x I-x", "B-x B-x"], ["I-x", "O I-x", "B-x I-y"]),
        ("iob1", "O B-x I-x I-y", ["I-x B-x I-x I-y"], ["B-x", "O B-x", "I-y B-x"]),
        (
            "bioes",
            "O B-x I-x E-x S-x E-y",
            ["B-x I-x E-x S-x O"],
            ["B-x", "B-x I-x", "B-x O", "E-x", "B-x E-y"],
        ),
        ("bioes", "B M E S", ["S B M M E S"], ["B", "M", "B S", "S E"]),
        ("lac", "n n-B n-I v-B v-I", ["n-B n-I n-I n", "n v-B"], ["n-I", "n n-I", "n-B v-I"]),
    ],
)
def test_sequences_that_are_allowed_and_forbidden(scheme, names, good, bad):
    names = names.split()
    table, last = forbidden_transitions(names, scheme)

    def is_forbidden(text: str) -> bool:
        path = [-1, *(names.index(name) for name in text.split())]
        return any(table[a, b] for a, b in itertools.pairwise(path)) or bool(last[path[-1]])

    for text in good:
        assert not is_forbidden(text)
    for text in bad:
        assert is_forbidden(text)


@pytest.mark.parametrize(
    ("scheme", "labels", "expected"),
    [
        ("lac", "n n-B n-I", True),
        ("bioes", "B M E S", True),
        ("bioes", "B M E S O", False),
        ("bioes", "B-x E-x", False),
        ("plain", "B M E S", False),
    ],
)
def test_whether_labels_are_of_words(scheme, labels, expected):
    assert are_of_words(labels.split(), scheme) is expected


@pytest.mark.parametrize("scheme", ["auto", "bio"])
def test_a_label_of_another_form_is_an_error_with_its_place(scheme):
    labels = [("file:1", "B-x"), *[("file:2", "I-x")] * 20, ("file:3", "B_x")]
    with pytest.raises(UserError, match="file:3"):
        check_scheme(labels, scheme)
    for other in ("plain", "lac"):
        check_scheme(labels, other)


@pytest.mark.parametrize(
    "labels", ["B_PER I_PER O B_PER", "b-PER i-PER O", "B-PER I-PER O B_LOC I_LOC", "O s_x"]
)
def test_labels_that_are_all_misspelt_are_an_error(labels):
    with pytest.raises(UserError, match=r"[BIbis][_-]"):
        check_scheme([("file:1", label) for label in labels.split()], "auto")


@pytest.mark.parametrize(
    "labels", ["NN VB", "m-B m-I s u-B u-I", "O O", "B M E S", "B-x NN VB DT", "s-adj NN VB"]
)
def test_labels_that_are_not_misspelt(labels):
    check_scheme([("file:1", label) for label in labels.split()], "auto")
