"""The vectors of a text in one HDF5 file, as bilm-tf and AllenNLP lay it out; or those of a vocabulary.

    python run_embed.py --init_from_ckpt=checkpoints --input=sentences.txt --output=vectors.hdf5
    python run_embed.py --init_from_ckpt=checkpoints --input=sentences.txt --output=vectors.hdf5 --layers=top --dtype=float16
    python run_embed.py --init_from_ckpt=checkpoints --vocab=vocab.txt --output=vocab_vectors.hdf5

Dataset "0" holds the vectors of the first line, and so on: (layers, n, 2P) for a line of n tokens; without "layers" for a
single layer or a mix; without "n" with --pool. A blank line keeps its place. Dataset "sentence_to_index" is a JSON object
{sentence: line}, in which the last of equal sentences counts.

An interrupted run goes on where it stopped when the same command is given again; until it is done, its file is called
OUTPUT.partial. Several processes share the work. On one machine they put their parts together by themselves:

    python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo run_embed.py ... --output=vectors.hdf5

Elsewhere each takes a share, counted from 0, and then the parts are put together:

    python run_embed.py ... --shard=0/2 --output=part0.hdf5         (and --shard=1/2 --output=part1.hdf5)
    python run_embed.py --merge part0.hdf5 part1.hdf5 --output=vectors.hdf5
"""

import argparse
import math
import os
import re
import signal
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

import args as arguments
from elmo_core import runtime, token_vectors
from elmo_core.characters import MAX_BYTES, count_cut
from elmo_core.runtime import UserError, log
from elmo_core.tokens import UNK
from embedding import vector_file, vector_parts
from embedding.text_windows import Text, progress
from embedding.vector_file import VectorFile, Window
from embedding.vector_parts import Share

if TYPE_CHECKING:  # neither --help nor --merge waits for Paddle
    from elmo import ELMoEmbedder

BLOCK = 16  # windows over which the vectors of tokens are remembered
WORDS_AT_ONCE = 2048
FOR_TEXT = {"layers": "all", "mix": None, "dtype": "float32", "pool": None, "shard": None, "forget_sentences": False}
FOR_MODEL = {"init_from_ckpt": None, "batch_size": 128, "device": "auto"}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    work = parser.add_mutually_exclusive_group(required=True)
    work.add_argument("--input", type=Path, metavar="FILE", help="text, one sentence a line, tokens apart; also .gz")
    work.add_argument("--vocab", type=Path, metavar="FILE", help="words, one a line: their vectors without a context")
    work.add_argument("--merge", type=Path, nargs="+", metavar="PART", help="parts that --shard has made")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="HDF5 file to write")
    arguments.add_checkpoint(parser)
    stored = parser.add_argument_group("what is stored")
    choice = stored.add_mutually_exclusive_group()
    choice.add_argument(
        "--layers", metavar="L", help="all, top, average, a number, or several as in 0,1 (default: all)"
    )
    choice.add_argument(
        "--mix",
        type=_numbers,
        metavar="S,...,GAMMA",
        help="one mix: gamma * sum_j softmax(s)_j h_j, as a ScalarMix has learnt it: --mix=-0.3,1.2,0.4,1.7",
    )
    stored.add_argument("--dtype", choices=("float32", "float16"), help="of the numbers (default: float32)")
    stored.add_argument("--pool", choices=("mean",), help="one vector a sentence: the mean over its tokens")
    stored.add_argument("--forget_sentences", action="store_true", help="leave sentence_to_index out")
    run = parser.add_argument_group("run")
    run.add_argument("--batch_size", type=arguments.positive_int, metavar="N", help="sentences at once (default: 128)")
    run.add_argument("--device", help="auto, cpu, gpu or gpu:N (default: auto)")
    run.add_argument(
        "--shard", type=_shard, metavar="I/N", help="only this share of the text, counted from 0: 0/2, 1/2"
    )
    args = parser.parse_args(argv)
    _check_flags(parser, args)
    for name, value in {**FOR_TEXT, **FOR_MODEL}.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args


def _numbers(text: str) -> list[float]:
    try:
        numbers = [float(number) for number in text.split(",")]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected numbers, a scalar for each layer and gamma, as in 0,0,0,1"
        )
    return numbers


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not found or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected I/N, the share I from 0 to N - 1: 0/2 and 1/2 are two halves"
        )
    return int(found[1]), int(found[2])


def _check_flags(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse what is missing, and flags that would have no effect."""
    work = next(name for name in ("input", "vocab", "merge") if getattr(args, name))
    useless = {"input": (), "vocab": (*FOR_TEXT, "batch_size"), "merge": (*FOR_TEXT, *FOR_MODEL)}[work]
    if given := [f"--{name}" for name in useless if getattr(args, name)]:
        parser.error(f"{given[0]} has no effect with --{work}: leave it out")
    if work != "merge" and not args.init_from_ckpt:
        parser.error(f"--{work} needs a model: --init_from_ckpt")


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    check_output(args.output)
    if args.merge:
        if missing := [path for path in args.merge if not path.is_file()]:
            raise UserError(f"--merge {missing[0]}: there is no such file.")
        vector_parts.merge(args.merge, args.output)
    elif args.vocab:
        embed_vocabulary(args)
    else:
        embed(args)


def check_output(path: Path) -> None:
    if path.is_dir():
        raise UserError(f"--output {path} is a folder, expected the name of a file.")
    if not path.parent.is_dir():
        raise UserError(f"--output {path}: there is no folder {path.parent}.")


# A text


def embed(args: argparse.Namespace) -> None:
    """Write a text's vectors, or this process's share of them."""
    share = vector_parts.my_share(args.shard, args.output)
    embedding = Embedding(args, share)
    whole = vector_parts.of_all(embedding.settings) if share.parts else embedding.settings
    if args.output.exists() and vector_file.is_finished(args.output, whole):
        vector_parts.remove(share.parts)  # if they are left of a run that was killed at its very end
        return
    if not (share.parts and share.path.exists() and vector_file.is_finished(share.path, embedding.settings)):
        embedding.introduce()
        embedding.write()
    if share.parts:
        vector_parts.join(share.parts, args.output)


class Embedding:
    """A text's vectors on their way into a file."""

    def __init__(self, args: argparse.Namespace, share: Share):
        self.share, self.output = share, args.output
        self.embedder = load(args)
        self.text = Text(args.input, args.batch_size, self.embedder.vocabulary)
        self.begin, self.end = self.text.share(share.number, share.of)  # windows of the text
        self.spans = self.text.spans[self.begin : self.end]
        n_layers = len(self.embedder.chosen)
        self.settings = {  # what must be the same to go on, and for parts to belong together
            "model": describe(self.embedder),
            "text": str(self.text),
            "layers": args.layers if args.mix is None else f"mix {','.join(map(str, args.mix))}",
            "pool": args.pool,
            "dtype": args.dtype,
            "batch_size": args.batch_size,
            "sentences": not args.forget_sentences,
            "shape": [*[n_layers] * bool(n_layers), *[None] * (not args.pool), self.embedder.dim],
            "first_line": sum(span.lines for span in self.text.spans[: self.begin]),
            "lines": sum(span.lines for span in self.spans),
            "lines_in_all": self.text.lines,
        }

    def introduce(self) -> None:
        """Say what is about to be done and what is odd about the text; refuse what the disk cannot hold."""
        text, settings = self.text, self.settings
        pooled = bool(settings["pool"])
        shape = ", ".join("n" if number is None else str(number) for number in settings["shape"])
        log.info(f"device        {self.embedder.device}")
        log.info(f"text          {text.path}: {text}")
        if settings["lines"] < text.lines:
            log.info(f"share         {settings['lines']:,} lines from line {settings['first_line'] + 1:,}")
        each = f"{self._bytes(1, 1):,} bytes a {'line' if pooled else 'token'}"
        log.info(f"vectors       ({shape}) {settings['dtype']}, {each}")
        for count, what in (
            (text.blank, f"blank lines: their {'vectors are zero' if pooled else 'datasets are empty'}"),
            (text.cut, f"tokens with more than {MAX_BYTES} bytes, which are read up to there"),
            (text.unknown, f"tokens that the model's vocabulary lacks: they have the vectors of {UNK}"),
        ):
            if count:
                log.warning(f"{text.path}: {count:,} {what}.")
        self._check_room()

    def _check_room(self) -> None:
        parts = self.share.parts
        spans = self.text.spans if parts else self.spans
        lines, tokens = sum(span.lines for span in spans), sum(span.tokens for span in spans)
        entries = sum(span.entries for span in spans) if self.settings["sentences"] else 0
        size = vector_file.expected_size(lines, self._bytes(lines, tokens), entries)
        log.info(f"size          {vector_file.size(size)}{', and the same once more for the parts' if parts else ''}")
        needed = 2 * size if parts else size  # parts are put together beside themselves
        there = sum(map(vector_file.allocated, {self.output, *parts}))
        advice = "Store less (--layers top, --dtype float16, --pool mean), "
        vector_file.check_room(self.output, needed - there, advice)

    def _bytes(self, lines: int, tokens: int) -> int:
        """Of the vectors of so many lines and tokens."""
        numbers = math.prod(number for number in self.settings["shape"] if number is not None)
        return numbers * np.dtype(self.settings["dtype"]).itemsize * (lines if self.settings["pool"] else tokens)

    def write(self) -> None:
        """Write what is not written yet, and give the file its name."""
        path, has_entries = self.share.path, self.settings["sentences"]
        windows = [Window(span.lines, span.entries if has_entries else 0) for span in self.spans]
        with vector_file.under_way(path, self.settings, windows, self._shapes()) as file:
            if missing := self._missing(file):
                self._fill(file, missing)
            file.finish(path, keep_ledger=self.share.of > 1)
        log.info(f"wrote         {path}, {vector_file.size_of(path)}")

    def _shapes(self) -> Iterator[tuple[int, ...]]:
        """The shapes of the lines' datasets, in a pass over the text."""
        with progress("laying out", " lines", self.settings["lines"]) as bar:
            for _, sentences in self.text.windows(self.begin, self.end):
                for sentence in sentences:
                    yield tuple(len(sentence) if number is None else number for number in self.settings["shape"])
                bar.update(len(sentences))

    def _missing(self, file: VectorFile) -> set[int]:
        """The windows of the text that are not in the file, or not as they were written."""
        begun = [window for window in range(len(file.windows)) if file.is_begun(window)]
        done = set()
        with progress("checking", " windows", len(begun)) as bar:
            for window in begun:
                done.update([window] * file.is_done(window))
                bar.update()
        if damaged := len(begun) - len(done):
            log.warning(f"{file.path}: {damaged} windows are cut short or damaged. They are computed again.")
        if begun:
            log.info(f"goes on       {len(done):,} of {len(file.windows):,} windows are done")
        return {self.begin + window for window in range(len(file.windows)) if window not in done}

    def _fill(self, file: VectorFile, missing: set[int]) -> None:
        """Write the missing windows.

        What a block has remembered of its tokens decides the last bits of its vectors: who begins within a block meets
        the tokens before.
        """
        log.info(f"file          {file.path}, {vector_file.size(file.size)} when it is done")
        total = sum(self.text.spans[window].tokens for window in missing)
        began, launcher = time.perf_counter(), os.getppid()
        first = min(missing) // BLOCK * BLOCK
        last = {window // BLOCK: window for window in sorted(missing)}  # of each block
        try:
            with interruptible() as came, progress("embedding", " tokens", total) as bar:
                for window, (line, sentences) in enumerate(self.text.windows(first, max(missing) + 1), first):
                    if window % BLOCK == 0:
                        self.embedder.forget()
                    if window not in missing:
                        if window < last.get(window // BLOCK, 0):
                            self.embedder.meet(sentences)
                        continue
                    entries = vector_file.entries(line, sentences) if self.settings["sentences"] else b""
                    file.write(window - self.begin, self._arrays(line, sentences, bar), entries)
                    missing.remove(window)
                    if came or (self.share.parts and os.getppid() != launcher):
                        raise KeyboardInterrupt  # a launcher that is killed leaves its processes behind
        except KeyboardInterrupt:
            done = len(file.windows) - len(missing)
            log.info(f"stopped       {done:,} of {len(file.windows):,} windows are done: the same command goes on")
            raise
        seconds = time.perf_counter() - began
        log.info(f"embedded      {total:,} tokens in {runtime.duration(seconds)}, {total / seconds:,.0f} tokens/s")

    def _arrays(self, line: int, sentences: list[list[str]], bar: tqdm) -> Iterator[tuple[int, np.ndarray]]:
        """The numbers of a window's lines and their arrays, in the order in which they are computed."""
        for places, batch in self.embedder.batches(sentences):
            for place, array in zip(places.tolist(), batch, strict=True):
                if not np.isfinite(array).all():
                    raise UserError(
                        f"{self.text.path}:{line + place + 1}: the vectors are not finite in {array.dtype}. Use --dtype "
                        "float32, or a model or --mix of smaller numbers."
                    )
                yield line + place, array
                bar.update(len(sentences[place]))


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM, for which Paddle has handlers that say nothing, end the block; the list tells which has come.

    An exception that comes while Python tidies up after an object is printed and lost: the list is not.
    """
    came: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def load(args: argparse.Namespace) -> "ELMoEmbedder":
    from elmo import ELMoEmbedder, load_bilm

    runtime.set_device(args.device)
    bilm, vocabulary = load_bilm(args.init_from_ckpt)
    layers = args.layers if args.mix is None else mix_weights(args.mix, bilm.config.n_layers + 1)
    kind = {"layers": layers, "pool": args.pool, "dtype": args.dtype}
    return ELMoEmbedder((bilm, vocabulary), args.batch_size, args.device, **kind)


def mix_weights(numbers: Sequence[float], n_layers: int) -> list[float]:
    """The weights of the layers in a mix of scalars and gamma."""
    *scalars, gamma = numbers
    if len(scalars) != n_layers:
        raise UserError(
            f"--mix has {len(numbers)} numbers, expected {n_layers + 1}: a scalar for each of {n_layers} layers, and gamma."
        )
    weights = np.exp(np.array(scalars) - max(scalars))
    return (gamma * weights / weights.sum()).tolist()


def describe(embedder: "ELMoEmbedder") -> str:
    """A model in brief: the same for the same weights, wherever they are."""
    config = {name: value for name, value in embedder.config.to_dict().items() if name != "vocab_size"}
    checksum = zlib.crc32(repr(sorted(config.items())).encode())
    for name, weight in sorted(embedder.bilm.state_dict().items()):
        checksum = zlib.crc32(np.ascontiguousarray(weight.numpy()), zlib.crc32(name.encode(), checksum))
    if embedder.vocabulary:
        checksum = zlib.crc32(embedder.vocabulary.fingerprint.encode(), checksum)
    return f"{config['input']} input, P {config['projection_dim']}, H {config['cell_dim']} (CRC-32 {checksum:08x})"


# A vocabulary


def embed_vocabulary(args: argparse.Namespace) -> None:
    """Write the vectors of a vocabulary's words without a context."""
    if args.output.exists():
        raise UserError(f"--output {args.output} exists. Choose another, or delete it.")
    words = token_vectors.read_words(args.vocab)
    embedder = load(args)
    known, width = embedder.vocabulary, embedder.config.projection_dim
    log.info(f"device        {embedder.device}")
    log.info(f"vectors       ({len(words):,}, {width}) float32, {vector_file.size(4 * len(words) * width)}")
    for count, what in (
        (sum(word not in known for word in words) if known else 0, f"lacks: they have the vector of {UNK}"),
        (0 if known else count_cut(words), f"reads no further than {MAX_BYTES} bytes"),
    ):
        if count:
            log.warning(f"{args.vocab}: {count:,} words that the model {what}.")
    vector_file.check_room(args.output, 4 * len(words) * width)
    with progress("embedding", " words", len(words)) as bar:
        token_vectors.write(args.output, words, width, watched(embedder, words, bar))
    log.info(f"wrote         {args.output}")


def watched(embedder: "ELMoEmbedder", words: list[str], bar: tqdm) -> Iterator[np.ndarray]:
    """The vectors (n, P) of the words, piece by piece."""
    for k in range(0, len(words), WORDS_AT_ONCE):
        part = embedder.encode_tokens(words[k : k + WORDS_AT_ONCE])
        yield part
        bar.update(len(part))


if __name__ == "__main__":
    runtime.script(main)
