"""The corpora that prepare.py and experiment.py read, and the table of full-width forms.

word/TAG    `word/TAG word/TAG ...`; a word may hold `/`, the last one counts
CoNLL       a word a line, its columns separated by white space, the tag last; a blank line ends a sentence
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import root  # noqa: F401

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError
from elmo_core.text.text_files import read_lines
from elmo_tasks.tagging.data import BadLines

Words = list[tuple[str, str]]  # a sentence's words with their tags


def read_tagged(path: Path, bad_lines: BadLines) -> Iterator[tuple[int, Words]]:
    """The line numbers and sentences of a file of `word/TAG`; a blank line is an empty sentence."""
    for number, line in bad_lines.read(path, "lines of word/TAG"):
        words = [(word, tag) for word, _, tag in (token.rpartition("/") for token in line.split())]
        if all(word and tag for word, tag in words):
            yield number, words
        else:
            token = next(token for token, pair in zip(line.split(), words, strict=True) if not all(pair))
            bad_lines.add(path, number, f"{token!r:.60}, expected a word, a slash and its tag, as in 故事/n.")


def read_conll(path: Path, bad_lines: BadLines) -> Iterator[tuple[int, Words]]:
    """The same of a file of columns. Where tags are B-x and I-x, the rows of such a chunk are joined to one word."""
    words: Words = []
    bad, last = False, 0
    for number, line in chain(bad_lines.read(path, "columns"), [(None, "")]):
        columns = line.split()
        bad = bad or (number is not None and number != last + 1)  # a line of the sentence could not be read
        if len(columns) == 1:
            bad_lines.add(path, number, f"one column, {columns[0]!r:.40}. Expected a word and its tag.")
            bad = True
        elif columns:
            word, tag = columns[0], columns[-1]
            if tag.startswith("I-") and words and words[-1][1] == tag[2:]:
                words[-1] = (words[-1][0] + word, tag[2:])
            else:
                words.append((word, tag[2:] if tag.startswith(("B-", "I-")) else tag))
        else:
            if words and not bad:
                yield last, words
            words, bad = [], False
        last = number


def read_replacements(path: Path) -> dict[str, str]:
    """Full-width to half-width forms, from lines of one character, a tab, and one character."""
    disk.check_input(path, "full-width and half-width characters", "--word_rep_dict_path")
    found = {}
    for number, line in enumerate(read_lines(path), 1):
        wide, _, narrow = line.partition("\t")
        if wide.isspace():  # no word holds a space
            continue
        if len(wide) != 1 or len(narrow) != 1 or narrow.isspace():
            raise UserError(f"{path}:{number}: found {line!r}, expected one character, a tab, and one character.")
        found[wide] = narrow
    return found
