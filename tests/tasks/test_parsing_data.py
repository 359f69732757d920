"""Treebanks in CoNLL-U: what is read and written, and mistakes."""

from dataclasses import replace

import pytest
from treebank import WHOLE

from elmo_core.messages import UserError
from elmo_tasks.parsing.data import read_conllu


def test_conllu_is_written_as_it_was_read(tmp_path):
    (tmp_path / "x.conllu").write_text(WHOLE, encoding="utf-8")
    (tree,) = read_conllu(tmp_path / "x.conllu")
    assert tree.tokens == ["Vamos", "nos", "a", "el", "mar_azul", "."] and tree.heads == [
        0,
        1,
        5,
        5,
        1,
        1,
    ]
    assert tree.to_conllu() == WHOLE
    other = replace(tree, heads=[2, 0, 5, 5, 2, 2], labels=["x"] * 6)
    changed = other.to_conllu().splitlines()
    assert changed[3] == "1\tVamos\tir\tVERB\t_\tMood=Imp\t2\tx\t_\t_" and len(changed) == len(
        WHOLE.splitlines()
    )


MISTAKES = [  # a change of WHOLE, a word of the message
    (("\t1\tobj", "\t9\tobj"), ":5: HEAD is 9"),
    (("\t1\tpunct", "\t0\tpunct"), ":1: the sentence has 2 roots"),
    (("\t0\troot", "\t2\troot"), "0 roots"),
    (("\t5\tcase\t", "\t4\tcase\t", "\t5\tdet", "\t3\tdet"), r"\[3, 4\] are a cycle"),
    (("\t1\tobj", "\t_\tobj"), ":5: HEAD is '_'"),
    (("\tobl:arg", "\t_"), "DEPREL '_'"),
    (("\n6\t", "\n5\t"), ":11: .*ID 6.$"),
    (("\n6\t", "\n1\t"), ":11: .*ID 6 or a blank line"),
    (("2\tnos\tnosotros", "2 nos nosotros"), ":5: .*10 columns"),
    ((WHOLE, "\n\n"), "no sentence"),
    (("nos\tn", "n\0s\tn"), "NUL"),
    (("\tnos\tn", "\t\tn"), ":5: .*a word"),
]


@pytest.mark.parametrize(("change", "pattern"), MISTAKES)
def test_a_treebanks_mistakes_are_named(tmp_path, change, pattern):
    text = WHOLE
    for old, new in zip(change[::2], change[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "x.conllu").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=rf"x\.conllu.*{pattern}"):
        list(read_conllu(tmp_path / "x.conllu"))
