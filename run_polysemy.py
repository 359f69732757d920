"""What a word means in context: its occurrences in a text, and for some of them the nearest others, by layer.

    python run_polysemy.py --init_from_ckpt=checkpoints --corpus='corpus/dev/*' --word=bank,苹果
    python run_polysemy.py --init_from_ckpt=checkpoints --corpus='corpus/dev/*' --word=bank --plot=bank.png \\
        --sentence='we sat on the bank of the river .'
    python run_polysemy.py --init_from_ckpt=checkpoints/sample --corpus='data/dev/*' --senses=data/dev_senses.tsv
    python run_polysemy.py --init_from_ckpt=checkpoints --corpus='corpus/dev/*' --word=打,包袱 --page=words.html

The corpus is text as for pretraining, one sentence a line, tokens separated by white space. Nearest is by the cosine.
Neighbours of an occurrence are in other sentences: the same sentence, or one with the same tokens, never counts.

--senses FILE holds the true senses of occurrences: tab-separated, with the header "file line token word sense", where file
is the name of a file of the corpus, and line and token are counted from 0. It adds how often the nearest neighbour has the
same sense, for every layer. Layer 0 does not know the context: there all occurrences are equally near, and it is at chance.
"""

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import args as arguments
import elmo
import script
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.machine import disk
from elmo_core.machine.messages import UserError, log
from elmo_core.text.corpus import Corpus
from senses.nearest import NEAREST_WORDS, embed, examples, is_known, nearest_words
from senses.occurrences import Occurrence, Word, find_words, read_senses
from senses.page import write_page
from senses.picture import draw, font_families
from senses.report import concordance, sense_table, summary


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    arguments.add_checkpoint(parser, required=True)
    parser.add_argument("--corpus", required=True, metavar="PATH", help="text: a file, a folder, or a glob in quotes")
    several = {"type": _text, "action": "append"}  # these flags may be given several times
    parser.add_argument("--word", **several, metavar="WORD[,...]", help="word to look at")
    parser.add_argument("--senses", **arguments.FILE, help="true senses; alone: only the table of all its words")
    parser.add_argument("--max_occurrences", **arguments.COUNT, default=1000, help="per word; if more, a random sample")
    arguments.add_seed(parser)
    parser.add_argument("--batch_size", **arguments.COUNT, default=128, help="sentences embedded at once")
    arguments.add_device(parser)

    shown = parser.add_argument_group("neighbours")
    shown.add_argument("--examples", **arguments.COUNT, default=3, help="occurrences of a word that are shown")
    shown.add_argument("--neighbours", **arguments.COUNT, default=3, help="nearest others of each, in each layer")
    shown.add_argument(
        "--sentence", **several, metavar="TEXT", help="sentence of your own, shown instead of the corpus's"
    )
    shown.add_argument("--layers", type=_layers, metavar="N[,...]", help="layers to show (default: all but 0)")
    shown.add_argument("--word2vec", **arguments.FILE, help="static vectors of the same text to compare with")

    picture = parser.add_argument_group("picture")
    picture.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the occurrences in two dimensions")
    page = "write a page for any browser: the picture with all sentences and their nearest others"
    picture.add_argument("--page", type=Path, metavar="FILE.html", help=page)
    picture.add_argument("--projection", choices=("pca", "tsne"), default="pca", help="how to get to two dimensions")
    picture.add_argument("--font", **arguments.FILE, help="font of the picture (default: an installed one)")
    return parser.parse_args(argv)


def _text(text: str) -> str:
    if re.search("[\ud800-\udfff]", text):  # bytes that are not the locale's encoding
        raise argparse.ArgumentTypeError(f"{text!a:.60} is not UTF-8. Set the terminal's encoding to UTF-8")
    return text


def _layers(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(map(str.isdecimal, numbers)):
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers of layers, as in 1,2")
    return list(dict.fromkeys(map(int, numbers)))


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    asked = asked_words(args)
    own = own_sentences(args.sentence or [], asked)
    senses = read_senses(args.senses) if args.senses else None
    check_outputs(args)
    corpus = Corpus(args.corpus)
    static = load_word_vectors(args.word2vec) if args.word2vec else None
    embedder = elmo.ELMoEmbedder(args.init_from_ckpt, args.batch_size, args.device, progress=sys.stderr.isatty())
    layers = args.layers or range(1, embedder.config.n_layers + 1)
    check_model(args, asked, layers, static, embedder)

    found, background = find_words(corpus, asked, senses, args.max_occurrences, args.seed)
    words = [word for word in found.values() if word.text in asked or can_be_counted(word, embedder)]
    if not words:
        raise UserError(f"--senses {args.senses}: none of its words can be counted. The log above says why.")
    own = embed(embedder, words, own)
    if embedder.oov_share:
        log.warning(f"{embedder.oov_share:.1%} of the tokens are not in the vocabulary: the model reads <UNK>.")

    shown = [found[text] for text in asked]
    rows = shown or sorted(words, key=lambda word: word.text)
    nearest = nearest_words(embedder, [word.text for word in rows], background)
    width = shutil.get_terminal_size((110, 24)).columns
    for word in shown:
        vectors = {"layer 0": nearest[word.text]}
        if static is not None:
            vectors["word2vec"] = static.most_similar(word.text, topn=NEAREST_WORDS)
        chosen = [pair for pair in own if pair[0].word == word.text] or examples(word, args.examples, args.seed)
        print(*summary(word, vectors), *concordance(chosen, word, layers, args.neighbours, width), sep="\n")
    if senses:
        print("", *sense_table(rows, words, args.senses.name), sep="\n")
    if args.plot:
        draw(args.plot, shown, layers, background, args.projection, args.seed, args.font)
        print(f"picture: {args.plot}")
    if args.page:
        names = {"model": str(args.init_from_ckpt), "corpus": args.corpus}
        write_page(args.page, rows, layers, background, nearest, args.projection, args.seed, **names)
        print(f"page: {args.page}")


def asked_words(args: argparse.Namespace) -> list[str]:
    words = [word.strip() for text in args.word or [] for word in re.split("[,，]", text) if word.strip()]
    words = words or args.word or []  # a comma itself
    if not words and not args.senses:
        raise UserError("--word is missing: which word? (--senses FILE alone gives the table of all its words.)")
    for word in words:
        if word.split() != [word]:
            raise UserError(f"--word {word!r}: expected one token without white space, as the corpus has it.")
    return list(dict.fromkeys(words))


def own_sentences(texts: Sequence[str], asked: Sequence[str]) -> list[Occurrence]:
    """The occurrences of --word in the sentences of --sentence."""
    found = []
    for text in texts:
        tokens = tuple(text.split())
        here = [Occurrence(tokens, tokens.index(word)) for word in asked if word in tokens]
        if not here:
            raise UserError(
                f"--sentence {text!r}: none of its tokens is {' or '.join(asked) or 'a --word'}. Expected tokens separated "
                "by spaces, as the corpus has them."
            )
        found += here
    return found


def check_outputs(args: argparse.Namespace) -> None:
    for flag, path, suffixes in (("--plot", args.plot, (".png",)), ("--page", args.page, (".html", ".htm"))):
        if path and path.suffix.lower() not in suffixes:
            raise UserError(f"{flag} {path}: expected a name that ends in {suffixes[0]}.")
        if path:
            disk.check_output(flag, path)
    if args.plot:
        if not args.word:
            raise UserError("--plot: give the words to draw with --word.")
        font_families(args.font)


def check_model(
    args: argparse.Namespace, asked: Sequence[str], layers: Sequence[int], static, embedder: elmo.ELMoEmbedder
) -> None:
    """Refuse layers and words that the model or the word2vec file does not have."""
    if args.max_occurrences < 2:
        raise UserError("--max_occurrences: expected 2 or more, because there would be nothing to compare with.")
    if not 1 <= min(layers) <= max(layers) <= embedder.config.n_layers:
        raise UserError(
            f"--layers: expected 1 to {embedder.config.n_layers}. (Layer 0 is the same for all occurrences.)"
        )
    for word in asked:
        if not is_known(word, embedder):
            raise UserError(
                f"{word!r} is not in the vocabulary of {args.init_from_ckpt}, a model with a table of words: to it the word "
                "is <UNK>. Choose a word of its vocab.txt, or a model that reads characters."
            )
        if static is not None and word not in static:
            raise UserError(f"--word2vec {args.word2vec}: it has no {word!r}. Was it trained on the same text?")


def can_be_counted(word: Word, embedder: elmo.ELMoEmbedder) -> bool:
    """Whether a word of --senses that was not asked for gets into the table; the log says why not."""
    reason = "" if word.comparable else "its sense is given in fewer than two sentences"
    reason = reason if is_known(word.text, embedder) else "it is not in the model's vocabulary"
    if reason:
        log.warning(f"{word.text!r} is left out of the table: {reason}.")
    return not reason


if __name__ == "__main__":
    script.run(main)
