"""Treebanks in CoNLL-U: reading and checking trees."""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from elmo_core.checks import describe
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.text.text_files import read_lines
from elmo_tasks.parsing.trees import FORM, HEAD, LABEL, NOT_A_WORD, UPOS, Tree, find_cycle
from elmo_tasks.records import check_text


def read_conllu(path: str | Path, is_gold: bool = True) -> Iterator[Tree]:
    """Yield the sentences of a file. is_gold: with their trees, which each must have."""
    if not isinstance(path, str | Path):
        raise TypeError(f"found {describe(path)}, expected the name of a treebank in CoNLL-U.")
    disk.check_input(Path(path), "a treebank in CoNLL-U")
    tree = None
    for has_words, group in groupby(
        enumerate(read_lines(Path(path)), 1), lambda pair: bool(pair[1].strip())
    ):
        if has_words:
            yield (tree := _sentence(list(group), path, is_gold))
    if not tree:
        raise UserError(f"{path}: there is no sentence, expected CoNLL-U.")


def _sentence(lines: list[tuple[int, str]], path: str | Path, is_gold: bool) -> Tree:
    tree, places = Tree([], lines=[line for _, line in lines], where=f"{path}:{lines[0][0]}"), []
    for number, line in lines:
        where, columns = f"{path}:{number}", line.split("\t")
        if NOT_A_WORD.match(line):
            continue
        if len(columns) != 10 or columns[0] != str(len(places) + 1) or not columns[FORM].strip():
            blank = " or a blank line before ID 1" if places and columns[0] == "1" else ""
            expected = f"10 columns with tabs, a word, ID {len(places) + 1}{blank}"
            raise UserError(f"{where}: found {line!r:.60}, expected {expected}.")
        places.append(where)
        tree.tokens.append(re.sub(r"\s+", "_", check_text(columns[FORM], where, "word")))
        if is_gold:
            head, label = columns[HEAD], columns[LABEL]
            if not head.isdecimal() or label in ("", "_"):
                raise UserError(
                    f"{where}: HEAD is {head!r:.20}, DEPREL {label!r:.20}, expected both."
                )
            tree.heads.append(int(head))
            tree.labels.append(label)
            tree.tags.append(columns[UPOS])
    if not places:
        raise UserError(f"{tree.where}: the sentence has no words.")
    if wrong := [k for k, head in enumerate(tree.heads) if head > len(places)]:
        raise UserError(
            f"{places[wrong[0]]}: HEAD is {tree.heads[wrong[0]]}; the sentence has {len(places)} words."
        )
    if is_gold and tree.heads.count(0) != 1:
        raise UserError(
            f"{tree.where}: the sentence has {tree.heads.count(0)} roots (HEAD 0), expected one."
        )
    if cycle := find_cycle([0, *tree.heads]):
        raise UserError(
            f"{places[cycle[0] - 1]}: the words {sorted(cycle)} are a cycle of heads, expected a tree."
        )
    return tree
