"""Lines of words, with their tags or without.

tagged     `word/TAG word/TAG ...`, as in LAC's corpora and the People's Daily. A word may contain `/`, the last one counts.
           The latter's numbers of paragraphs, `19980101-01-001-001/m`, and brackets, `[中国/ns 银行/n]nt`, are left out.
segmented  words with spaces between them, as in SIGHAN's corpora. Their characters are tokens, labelled B, M, E, or S.
"""

import re

from elmo_core.machine.messages import UserError
from elmo_tasks.tagging.data import Sentence
from elmo_tasks.tagging.pieces import PieceSplitter
from elmo_tasks.tagging.scheme import OUTSIDE, split_lac_label

PARAGRAPH = re.compile(r"\s*\d{8}-\d\d-\d{3}-\d{3}/m\s")
BRACKETED = re.compile(r"(.*/[^/\]]+)\](/?\w*)")


def labelled_pieces(word: str, tag: str, splitter: PieceSplitter) -> Sentence:
    pieces = splitter.split(word)
    if len(pieces) == 1 or tag == OUTSIDE:
        return Sentence(pieces, [tag] * len(pieces))
    return Sentence(pieces, [f"{tag}-B", *[f"{tag}-I"] * (len(pieces) - 1)])


def tagged_sentence(line: str, where: str, splitter: PieceSplitter) -> Sentence:
    """The words of a line, split into labelled pieces."""
    sentence, in_brackets = Sentence([], [], where), False
    for text in PARAGRAPH.sub("", line, count=1).split():
        if text[0] == "[" and text[1:2] not in ("", "/"):
            text, in_brackets = text[1:], True
        if in_brackets and (closed := BRACKETED.fullmatch(text)):
            text, in_brackets = closed[1], False
        word, _, tag = text.rpartition("/")
        if not word or not tag:
            raise UserError(f"{where}: {text!r:.60}, expected a word, a slash and its tag, as in 故事/n.")
        if not splitter.whole and split_lac_label(tag)[1]:
            raise UserError(
                f"{where}: the tag {tag!r} ends with -B or -I, as the labels of pieces do. Rename it, or leave out `pieces`."
            )
        pieces = labelled_pieces(word, tag, splitter)
        sentence.tokens += pieces.tokens
        sentence.labels += pieces.labels
    return sentence


def segmented_sentence(line: str, where: str) -> Sentence:
    """The characters of a line of words."""
    words = line.split()
    labels = ["S" if len(word) == 1 else f"B{'M' * (len(word) - 2)}E" for word in words]
    return Sentence(list("".join(words)), list("".join(labels)), where)
