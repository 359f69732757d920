"""Show what a word means in context: its occurrences in a text, and the nearest others, by layer.

    python run_polysemy.py --init_from_ckpt=checkpoints --corpus='corpus/dev/*' --word=bank,苹果
    python run_polysemy.py --init_from_ckpt=checkpoints --corpus='corpus/dev/*' --word=bank \\
        --sentence='we sat on the bank of the river .'
    python run_polysemy.py --init_from_ckpt=checkpoints/sample --corpus='data/dev/*' \\
        --senses=data/dev_senses.tsv
    python run_polysemy.py --init_from_ckpt=checkpoints --corpus='corpus/dev/*' --word=打,包袱 \\
        --page=words.html

The corpus is text as for pretraining: one sentence per line, tokens separated by white space.
Neighbours are nearest by cosine, and in other sentences: the same sentence, or one with the same
tokens, never counts.

--senses FILE has the true senses of occurrences: tab-separated, with the header "file line token
word sense", where file is the name of a file of the corpus, and line and token are counted from 0.
It adds a table: how often the nearest neighbour has the same sense, per layer. Layer 0 is
context-free: all occurrences are equally near, so it is at chance.
"""

import argparse
import re
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

import args as arguments
import script
from elmo_core.files import disk
from elmo_core.messages import UserError, log
from elmo_core.text.corpus import Corpus
from elmo_core.weights import model_files
from elmo_tools.senses.nearest import embed, examples, is_known, nearest_words
from elmo_tools.senses.occurrences import Occurrence, Word, find_words, read_senses
from elmo_tools.senses.page import write_page
from elmo_tools.senses.report import concordance, sense_table, summary

if TYPE_CHECKING:  # --help does not wait for Paddle
    from elmo import ELMoEmbedder


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    arguments.add(parser, "init_from_ckpt", required=True)
    parser.add_argument(
        "--corpus",
        required=True,
        metavar="PATH",
        help="text: a file, a folder, or a glob in quotes",
    )
    parser.add_argument(
        "--word", action="append", metavar="WORD[,...]", help="word to show; repeatable"
    )
    parser.add_argument(
        "--senses",
        **arguments.FILE,
        help="TSV of gold senses; without --word, print only their table",
    )
    parser.add_argument(
        "--max_occurrences", **arguments.COUNT, default=1000, help="size of a word's random sample"
    )
    arguments.add(parser, "batch_size", help="sentences per batch")
    arguments.add(parser, "seed", "device")

    group = parser.add_argument_group("neighbours")
    group.add_argument(
        "--examples", **arguments.COUNT, default=3, help="occurrences to show per word"
    )
    group.add_argument(
        "--neighbours",
        **arguments.COUNT,
        default=3,
        help="nearest to show per occurrence and layer",
    )
    group.add_argument(
        "--sentence",
        action="append",
        metavar="TEXT",
        help="your own sentence with the word, instead of examples from the corpus; repeatable",
    )

    parser.add_argument(
        "--page",
        type=disk.user_path,
        metavar="FILE.html",
        help="also write a page for browsers: a picture of all occurrences, with their sentences "
        "and neighbours",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    query_words = parse_words(args)
    user_occurrences = find_user_occurrences(args.sentence or [], query_words)
    senses = read_senses(args.senses) if args.senses else {}
    corpus = Corpus(args.corpus)
    model_files_read = model_files.resolve_name(args.init_from_ckpt).iterdir()
    disk.check_output("--page", args.page, args.senses, *corpus.paths, *model_files_read)
    embedder = load(args)
    for word in query_words:
        if not is_known(word, embedder):
            raise UserError(
                f"{word!r} is <UNK> to {args.init_from_ckpt}. "
                "Use words of vocab.txt or a character model."
            )

    by_text, background = find_words(
        corpus=corpus,
        query_words=query_words,
        path=args.senses,
        senses=senses,
        max_occurrences=args.max_occurrences,
        seed=args.seed,
    )
    words = [
        word for word in by_text.values() if word.text in query_words or is_scorable(word, embedder)
    ]
    if not words:
        raise UserError(f"--senses {args.senses}: no word can be scored. The log above says why.")
    user_examples = embed(embedder, words, user_occurrences)
    if embedder.oov_share:
        log.warning(f"{embedder.oov_share:.1%} of the tokens are outside the model's vocabulary.")

    displayed = [by_text[text] for text in query_words]
    # Of the table and the page: without --word, all words of --senses.
    rows = displayed or sorted(words, key=lambda word: word.text)
    with_nearest_words = rows if args.page else displayed
    nearest = nearest_words(embedder, [word.text for word in with_nearest_words], background)
    layers = range(1, embedder.config.n_layers + 1)
    width = shutil.get_terminal_size((110, 24)).columns
    for word in displayed:
        shown = [pair for pair in user_examples if pair[0].word == word.text]
        if not shown:
            shown = examples(word, args.examples, args.seed)
        print_lines(summary(word, nearest[word.text]))
        print_lines(
            concordance(shown=shown, word=word, layers=layers, n=args.neighbours, width=width)
        )
    if senses:
        print()
        print_lines(sense_table(rows, words, args.senses.name))
    if args.page:
        write_page(
            path=args.page,
            words=rows,
            background=background,
            nearest=nearest,
            seed=args.seed,
            model=str(args.init_from_ckpt),
            corpus=args.corpus,
        )
        print(f"page: {args.page}")


def print_lines(lines: Sequence[str]) -> None:
    print("\n".join(lines))


def load(args: argparse.Namespace) -> "ELMoEmbedder":
    from elmo import ELMoEmbedder

    return ELMoEmbedder(args.init_from_ckpt, args.batch_size, args.device)


def parse_words(args: argparse.Namespace) -> list[str]:
    """Return the words of --word, each once."""
    words = []
    for text in args.word or []:
        words.extend(part.strip() for part in re.split("[,，]", text))
    words = [word for word in words if word]
    if not words and not args.senses:
        raise UserError("--word is required, or --senses FILE for a table of all its words.")
    return list(dict.fromkeys(words))


def find_user_occurrences(texts: Sequence[str], query_words: Sequence[str]) -> list[Occurrence]:
    """Find the occurrences of --word in --sentence."""
    occurrences = []
    for text in texts:
        tokens = tuple(text.split())
        positions = [position for position, token in enumerate(tokens) if token in query_words]
        if not positions:
            words = " or ".join(query_words) or "a --word"
            raise UserError(
                f"--sentence {text!r}: no token is {words}. Expected tokens separated by spaces."
            )
        occurrences += [Occurrence(tokens, position) for position in positions]
    return occurrences


def is_scorable(word: Word, embedder: "ELMoEmbedder") -> bool:
    """Tell whether a word of --senses can be in the table. Log why not."""
    if not is_known(word.text, embedder):
        reason = "it is not in the model's vocabulary"
    elif word.comparable:
        return True
    elif word.is_sampled:
        reason = "its sample is of fewer than two sentences (--max_occurrences)"
    else:
        reason = "its sense is given in fewer than two sentences"
    log.warning(f"{word.text!r} is left out of the table: {reason}.")
    return False


if __name__ == "__main__":
    script.run(main)
