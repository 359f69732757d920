"""Treebanks in CoNLL-U: reading and checking trees."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from elmo_core.checks import as_list, check_text, describe
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.text.text_files import read_lines
from elmo_tasks.parsing.trees import FORM, HEAD, LABEL, NO_TAG, NOT_A_WORD, UPOS, Tree, find_cycle
from elmo_tasks.records import is_table, table_records, value_of


def read_trees(data: Any, name: str) -> list[Tree]:
    """Read a treebank: a file in CoNLL-U, a table, or a list of trees.

    name: of the argument, used in error messages. A table has the columns tokens, head, deprel and
    perhaps upos, as Hugging Face's universal_dependencies.
    """
    if isinstance(data, str | Path):
        return list(read_conllu(data))
    if is_table(data):
        trees = [_tree_of(record, where) for where, record in table_records(data, name)]
    else:
        items = as_list(data)
        if items is None:
            expected = "a treebank in CoNLL-U, a table, or a list of trees"
            raise TypeError(f"`{name}`: found {describe(data)}, expected {expected}.")
        trees = []
        for number, tree in enumerate(items):
            if not isinstance(tree, Tree):
                raise TypeError(f"`{name}` {number}: found {describe(tree)}, expected a Tree.")
            trees.append(replace(tree, where=tree.where or f"{name} {number}"))
    for tree in trees:
        tree.tags = tree.tags or [NO_TAG] * len(tree.tokens)
        _check_tree(tree)
    if not trees:
        raise UserError(f"`{name}` has no sentences, expected trees.")
    return trees


def _tree_of(record: Mapping[str, Any], where: str) -> Tree:
    """The tree of a row, whose heads may be strings."""
    columns = {}
    for name in ("tokens", "head", "deprel"):
        value = value_of(record, name, where)
        values = as_list(value)
        if values is None:
            raise UserError(
                f"{where}: {name} is {describe(value)}, expected a list, one for each word."
            )
        columns[name] = values
    heads = columns["head"]
    if not all(str(head).isdecimal() for head in heads):
        raise UserError(f"{where}: head is {heads!r:.60}, expected numbers of words, 0: the root.")
    return Tree(
        tokens=[check_text(token, where, "word") for token in columns["tokens"]],
        heads=[int(head) for head in heads],
        labels=[check_text(label, where, "label") for label in columns["deprel"]],
        tags=[str(tag) for tag in as_list(record.get("upos")) or ()],
        where=where,
    )


def _check_tree(tree: Tree) -> None:
    """Raise unless the words and heads are those of a tree with one root."""
    n_words = len(tree.tokens)
    if not n_words:
        raise UserError(f"{tree.where}: the sentence has no words.")
    counts = [len(part) for part in (tree.heads, tree.labels, tree.tags)]
    if counts != [n_words] * 3:
        found = f"{n_words} words, {counts[0]} heads, {counts[1]} labels, {counts[2]} tags"
        raise UserError(f"{tree.where}: found {found}, expected as many.")
    too_large = [head for head in tree.heads if not 0 <= head <= n_words]
    if too_large:
        raise UserError(
            f"{tree.where}: a head is {too_large[0]}; the sentence has {n_words} words."
        )
    n_roots = tree.heads.count(0)
    if n_roots != 1:
        raise UserError(f"{tree.where}: the sentence has {n_roots} roots (HEAD 0), expected one.")
    cycle = find_cycle([0, *tree.heads])
    if cycle:
        raise UserError(
            f"{tree.where}: the words {sorted(cycle)} are a cycle of heads, expected a tree."
        )


def read_conllu(path: str | Path, is_gold: bool = True) -> Iterator[Tree]:
    """Yield the sentences of a file. is_gold: with their trees, which each must have."""
    if not isinstance(path, str | Path):
        raise TypeError(f"found {describe(path)}, expected the name of a treebank in CoNLL-U.")
    disk.check_input(Path(path), "a treebank in CoNLL-U")
    n_sentences = 0
    lines: list[tuple[int, str]] = []  # of a sentence, with their numbers
    for number, line in enumerate(chain(read_lines(Path(path)), [""]), 1):
        if line.strip():
            lines.append((number, line))
        elif lines:
            yield _sentence(lines, path, is_gold)
            n_sentences += 1
            lines = []
    if not n_sentences:
        raise UserError(f"{path}: there is no sentence, expected CoNLL-U.")


def _sentence(lines: list[tuple[int, str]], path: str | Path, is_gold: bool) -> Tree:
    """The tree of a sentence's lines, which are numbered."""
    first, _ = lines[0]
    tree = Tree([], lines=[line for _, line in lines], where=f"{path}:{first}")
    places: list[str] = []  # where each word is
    for number, line in lines:
        if NOT_A_WORD.match(line):
            continue
        where = f"{path}:{number}"
        columns = line.split("\t")
        _check_columns(columns, line, where, n_before=len(places))
        places.append(where)
        tree.tokens.append(re.sub(r"\s+", "_", check_text(columns[FORM], where, "word")))
        if is_gold:
            head = columns[HEAD]
            label = columns[LABEL]
            if not head.isdecimal() or label in ("", "_"):
                raise UserError(
                    f"{where}: HEAD is {head!r:.20}, DEPREL {label!r:.20}, expected both."
                )
            tree.heads.append(int(head))
            tree.labels.append(label)
            tree.tags.append(columns[UPOS])
    if not places:
        raise UserError(f"{tree.where}: the sentence has no words.")
    if is_gold:
        _check_arcs(tree, places)
    return tree


def _check_columns(columns: list[str], line: str, where: str, n_before: int) -> None:
    """Raise unless the columns are those of the next word. n_before: words before it."""
    number = str(n_before + 1)
    if len(columns) != 10 or columns[0] != number or not columns[FORM].strip():
        expected = f"10 columns with tabs, a word, ID {number}"
        if n_before and columns[0] == "1":
            expected += " or a blank line before ID 1"
        raise UserError(f"{where}: found {line!r:.60}, expected {expected}.")


def _check_arcs(tree: Tree, places: list[str]) -> None:
    """Raise unless the heads are those of a tree with one root. places: of the words."""
    for head, where in zip(tree.heads, places, strict=True):
        if head > len(places):
            raise UserError(f"{where}: HEAD is {head}; the sentence has {len(places)} words.")
    n_roots = tree.heads.count(0)
    if n_roots != 1:
        raise UserError(f"{tree.where}: the sentence has {n_roots} roots (HEAD 0), expected one.")
    cycle = find_cycle([0, *tree.heads])
    if cycle:
        where = places[cycle[0] - 1]
        raise UserError(
            f"{where}: the words {sorted(cycle)} are a cycle of heads, expected a tree."
        )
