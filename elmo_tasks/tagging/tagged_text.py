"""Tagged words, as in LAC's corpora: a line is `word/TAG word/TAG ...`; a word may contain `/`, the last one counts."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from elmo_core.machine.messages import UserError
from elmo_tasks.tagging.data import Sentence
from elmo_tasks.tagging.pieces import PieceSplitter
from elmo_tasks.tagging.scheme import OUTSIDE, split_lac_label


def labelled_pieces(word: str, tag: str, splitter: PieceSplitter) -> Sentence:
    pieces = splitter.split(word)
    if len(pieces) == 1 or tag == OUTSIDE:
        return Sentence(pieces, [tag] * len(pieces))
    return Sentence(pieces, [f"{tag}-B", *[f"{tag}-I"] * (len(pieces) - 1)])


def read_tagged(lines: Iterable[str], source: str | Path, splitter: PieceSplitter) -> Iterator[Sentence]:
    """Yield the sentences of lines of tagged words, split into labelled pieces."""
    for number, line in enumerate(lines, 1):
        sentence = Sentence([], [], f"{source}:{number}")
        for text in line.split():
            word, _, tag = text.rpartition("/")
            if not word or not tag:
                raise UserError(f"{sentence.where}: {text!r:.60}, expected a word, a slash and its tag, as in 故事/n.")
            if not splitter.whole and split_lac_label(tag)[1]:
                raise UserError(
                    f"{sentence.where}: the tag {tag!r} ends with -B or -I, as the labels of pieces do. Rename it, or leave "
                    "out `pieces`."
                )
            pieces = labelled_pieces(word, tag, splitter)
            sentence.tokens += pieces.tokens
            sentence.labels += pieces.labels
        yield sentence
