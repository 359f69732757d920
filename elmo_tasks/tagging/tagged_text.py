"""Tagged words, as in LAC's corpora: a line is `word/TAG word/TAG ...`; a word may contain `/`, the last one counts."""

from pathlib import Path

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError
from elmo_core.text.text_files import read_lines
from elmo_tasks.tagging.data import Sentence
from elmo_tasks.tagging.pieces import PieceSplitter
from elmo_tasks.tagging.scheme import OUTSIDE, split_lac_label


def labelled_pieces(word: str, tag: str, splitter: PieceSplitter) -> Sentence:
    pieces = splitter.split(word)
    if len(pieces) == 1 or tag == OUTSIDE:
        return Sentence(pieces, [tag] * len(pieces))
    return Sentence(pieces, [f"{tag}-B", *[f"{tag}-I"] * (len(pieces) - 1)])


def read_tagged(path: Path, splitter: PieceSplitter) -> list[Sentence]:
    """Read the sentences of a tagged corpus, split into labelled pieces. Blank lines are skipped."""
    disk.check_input(path, "lines of word/TAG")
    sentences = []
    for number, line in enumerate(read_lines(path), 1):
        sentence = Sentence([], [])
        for text in line.split():
            word, _, tag = text.rpartition("/")
            if not word or not tag:
                raise UserError(f"{path}:{number}: {text!r:.60}, expected a word, a slash and its tag, as in 故事/n.")
            if not splitter.whole and split_lac_label(tag)[1]:
                raise UserError(
                    f"{path}:{number}: the tag {tag!r} ends with -B or -I, as the labels of pieces do. Rename it, or leave "
                    "out --pieces."
                )
            pieces = labelled_pieces(word, tag, splitter)
            sentence.tokens += pieces.tokens
            sentence.labels += pieces.labels
        if sentence.tokens:
            sentences.append(sentence)
    if not sentences:
        raise UserError(f"{path}: no sentences. Expected lines of word/TAG.")
    return sentences
