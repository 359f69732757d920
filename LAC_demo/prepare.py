"""A tagged corpus into the demo's format, pieces of a vocabulary with labels; and back.

    python prepare.py corpus.txt --vocab_file ../checkpoints/zh/vocab.txt --output data/mine/train.tsv
    python prepare.py corpus.conll --format conll --whole_words --output data/mine/train.tsv
    python prepare.py data/mine/train.tsv --reverse --output words.txt

A corpus is lines of `word/TAG word/TAG` (the last slash counts), or CoNLL columns. A word that the vocabulary lacks is
cut into pieces, always the longest that it has, from the left; for a biLM that reads characters words can stay
whole. Full-width forms become half-width ones, unless the vocabulary has them.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import flags
from pieces import Pieces, labels_of_corpus, tagged_line
from reader import Words, read_conll, read_replacements, read_tagged

import args as arguments
import script
from elmo_core.machine import disk
from elmo_core.machine.messages import UserError
from elmo_core.text.corpus import Corpus
from elmo_core.text.tokens import Vocabulary
from elmo_tasks.tagging.data import BadLines, Labels, Sentence, read_tsv
from elmo_tasks.tagging.score import words_of

READERS = {"tagged": read_tagged, "conll": read_conll}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument("input", type=Path, help="the corpus; with --reverse, the demo's format")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="what is written")
    parser.add_argument("--format", choices=READERS, default="tagged", help="of the corpus: word/TAG, or CoNLL columns")
    arguments.add_vocabulary(parser)
    parser.add_argument("--whole_words", action="store_true", help="do not cut words into pieces")
    parser.add_argument("--reverse", action="store_true", help="from the demo's format to lines of word/TAG")
    flags.add_label_dict(parser)
    parser.add_argument(
        "--make_label_dict", action="store_true", help="write --label_dict_path: the corpus's tags, with -B and -I"
    )
    flags.add_replacements(parser)
    flags.add_skip_bad_lines(parser)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    check_output(args)
    bad_lines = BadLines(args.skip_bad_lines)
    if args.reverse:
        sentences = read_tsv(args.input, Labels.from_file(args.label_dict_path), bad_lines)
        write(args.output, (tagged_line(words_of(sentence.tokens, sentence.labels)) for sentence in sentences))
        print(f"{args.output}: {len(sentences):,} sentences")
    else:
        words_to_pieces(args, bad_lines)
    bad_lines.report()


def check_output(args: argparse.Namespace) -> None:
    """Refuse to overwrite an input, or to write two files into one."""
    corpus = Corpus(args.input).paths if args.reverse else [args.input]
    dictionaries = args.vocab_file, args.label_dict_path, args.word_rep_dict_path
    disk.check_output("--output", args.output, *corpus, *dictionaries)
    if args.make_label_dict and args.output.resolve() == args.label_dict_path.resolve():
        raise UserError(f"--output {args.output} is --label_dict_path too, which is to be written. Name another file.")


def words_to_pieces(args: argparse.Namespace, bad_lines: BadLines) -> None:
    if not (args.vocab_file or args.whole_words):
        raise UserError(flags.VOCABULARY_MISSING)
    vocabulary = Vocabulary.from_file(args.vocab_file) if args.vocab_file else None
    pieces = Pieces(vocabulary, read_replacements(args.word_rep_dict_path), args.whole_words)
    corpus = list(READERS[args.format](args.input, bad_lines))
    labels = make_labels(args, corpus) if args.make_label_dict else Labels.from_file(args.label_dict_path)
    sentences = []
    for line, words in corpus:
        sentence = pieces.sentence(words, labels)
        if isinstance(sentence, str):
            bad_lines.add(args.input, line, f"the tag {sentence!r} is not in {labels.source}.")
        elif words:
            sentences.append(sentence)
    if not sentences:
        raise UserError(f"{args.input}: no sentence that can be used.")
    write(args.output, (f"{' '.join(s.tokens)}\t{' '.join(s.labels)}" for s in sentences))
    report(args, corpus, sentences, pieces)


def make_labels(args: argparse.Namespace, corpus: list[tuple[int, Words]]) -> Labels:
    """All labels that the corpus can need, written to a new file."""
    if args.label_dict_path.exists():
        raise UserError(f"{args.label_dict_path} exists already: name a new file by --label_dict_path.")
    labels = labels_of_corpus((words for _, words in corpus), args.whole_words, args.input)
    write(args.label_dict_path, labels.names)
    return labels


def write(path: Path, lines: Iterable[str]) -> None:
    with disk.atomic_write(path) as file:
        file.writelines(f"{line}\n" for line in lines)


def report(
    args: argparse.Namespace, corpus: list[tuple[int, Words]], sentences: list[Sentence], pieces: Pieces
) -> None:
    n_pieces = sum(len(sentence.tokens) for sentence in sentences)
    divided = sum(label.endswith("-B") for sentence in sentences for label in sentence.labels)
    n_words = sum(not label.endswith("-I") for sentence in sentences for label in sentence.labels)
    unknown = sum(piece not in pieces.known for sentence in sentences for piece in sentence.tokens)
    print(
        f"{args.output}: {len(sentences):,} sentences, {n_words:,} words, {divided:,} of them in several pieces; "
        f"{n_pieces:,} pieces" + (f", {unknown:,} of them not in the vocabulary" if args.vocab_file else "")
    )
    if blank := sum(not words for _, words in corpus):
        print(f"{blank:,} blank lines skipped")


if __name__ == "__main__":
    script.run(main)
