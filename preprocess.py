"""Convert raw text to a corpus, and a corpus to a vocabulary or to word vectors.

    python preprocess.py text 'raw/*.txt.gz' --output corpora/news --dev_fraction 0.01
    python preprocess.py vocab 'corpora/news/train/*' --output corpora/news/vocab.txt
    python preprocess.py vectors 'corpora/news/train/*' --output corpora/news/word2vec.bin

`text` splits documents into sentences and tokens (elmo_core/text/tokenise.py) and writes one
sentence per line to shards of the same size, in random order. The output depends only on the text,
the options and the seed.

`vocab` writes the three special tokens, then the tokens of a corpus in order of decreasing
frequency.

`vectors` trains word2vec on a corpus: to initialise an ELMo's token encoder
(--pretrained_word_embeddings of its pretraining), and as a baseline for ELMo.
"""

import argparse
import shlex
import time
from pathlib import Path

import args as arguments
import script
from elmo_core.command import command_line
from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.corpus import Corpus
from elmo_tools.preprocessing import word2vec
from elmo_tools.preprocessing.counting import count_vocabulary
from elmo_tools.preprocessing.raw_text import Options, make_corpus


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    add_text(commands.add_parser("text", help="raw text to a corpus of tokenised sentences"))
    add_vocab(commands.add_parser("vocab", help="a corpus to a vocabulary"))
    add_vectors(commands.add_parser("vectors", help="a corpus to word2vec vectors"))
    return parser.parse_args(argv)


def add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "input",
        nargs="+",
        metavar="INPUT",
        help="files (also .gz), globs in quotes, or folders",
    )


def add_text(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    arguments.add_settings(parser, Options, "lang", "user_dict")
    parser.add_argument(
        "--output", **arguments.DIR, required=True, help="new folder for train/ and dev/"
    )
    arguments.add_settings(parser.add_argument_group("input"), Options, "encoding", "document")
    tokens = parser.add_argument_group("sentences and tokens")
    arguments.add_settings(tokens, Options, "lower", "nfkc", "min_tokens", "max_tokens")
    parts = parser.add_argument_group("shards and dev set")
    arguments.add_settings(parts, Options, "shards", "dev_fraction", "dev_split", "seed")
    parts.add_argument(
        "--processes",
        **arguments.COUNT,
        default=runtime.n_cores(),
        help="worker processes; the result does not depend on their number",
    )


def add_vocab(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument("--output", **arguments.FILE, required=True, help="vocabulary to write")
    parser.add_argument(
        "--min_count", **arguments.COUNT, default=1, help="minimum frequency of a token"
    )
    parser.add_argument(
        "--max_size", **arguments.COUNT, help="maximum size, special tokens included"
    )


def add_vectors(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument(
        "--output",
        **arguments.FILE,
        required=True,
        help="vectors to write: binary if the name ends in .bin, else text",
    )
    parser.add_argument(
        "--dimensions", **arguments.COUNT, default=word2vec.DIMENSIONS, help="vector size"
    )
    arguments.add(parser, "seed")


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    if args.command == "text":
        write_corpus(args)
    elif args.command == "vocab":
        write_vocabulary(args)
    else:
        word2vec.train(corpus_files(args), args.output, seed=args.seed, dimensions=args.dimensions)


def write_corpus(args: argparse.Namespace) -> None:
    """Write a corpus. Log its size, what was omitted, and the next command."""
    start = time.perf_counter()
    options = Options(**arguments.options(Options.__init__, args))
    report = make_corpus(args.input, args.output, options, args.processes)
    seconds = time.perf_counter() - start
    n_tokens = report.tokens.total()
    size = f"{format_count(report.lines, 'lines')}, {format_count(n_tokens, 'tokens')}"
    log.info(f"{size} in {seconds:.0f} s, {n_tokens / seconds:,.0f} per second.")
    log.info(f"left out: {report.reasons or 'nothing'}.")
    for part, n_shards in report.shards.items():
        sentences = format_count(report.sentences[part], "sentences")
        tokens = format_count(report.tokens[part], "tokens")
        shards = format_count(n_shards, "shards")
        log.info(f"{args.output / part}: {sentences}, {tokens} in {shards}.")
    train = shlex.quote(str(args.output / "train/*"))
    target = shlex.quote(str(args.output / "vocab.txt"))
    log.info(f"next: {command_line(f'preprocess.py vocab {train} --output {target}')}")


def write_vocabulary(args: argparse.Namespace) -> None:
    """Write a vocabulary. Log its coverage of the text, and the next command."""
    paths = corpus_files(args)
    vocabulary, report = count_vocabulary(paths, args.min_count, args.max_size)
    vocabulary.save(args.output)
    log.info(f"{args.output}: {report}")
    train = args.input[0] if len(args.input) == 1 else "CORPUS"
    flags = f"--train_data_path={shlex.quote(train)} --vocab_file={shlex.quote(str(args.output))}"
    log.info(f"next: {command_line(f'run_pretrain.py {flags} --save_dir=checkpoints')}")


def corpus_files(args: argparse.Namespace) -> list[Path]:
    """Return the files of the corpus, each once. Raise if --output cannot be written."""
    if args.output.exists():
        raise UserError(f"--output {args.output} exists. Choose another name, or delete it.")
    disk.check_output("--output", args.output)
    return list(dict.fromkeys(Corpus(args.input).paths))


if __name__ == "__main__":
    script.run(main)
