"""From raw text to a corpus: shards with one sentence per line, tokens separated by spaces.

Each round of sentences goes to the shards in a new random order, one to each, so all shards have
the same size; then each shard is shuffled. The bytes depend only on the text, the options and the
seed, not on the number of processes. Memory holds a few batches of lines, later one shard.
"""

import hashlib
import math
import random
import shutil
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from elmo_core.files import disk
from elmo_core.messages import UserError, bar, format_count, log
from elmo_core.settings import Settings, default, setting
from elmo_core.text.language import AUTO, CHOICES, make_tokeniser, warn_if_without_spaces
from elmo_core.text.text_files import byte_blocks, decode, text_files
from elmo_core.text.tokenise import HAS_WORD, Tokeniser

BATCH_BYTES = 1 << 18  # whole lines for one task of a process
BATCHES_AHEAD = 4  # per process: none waits, and memory stays small
LANGUAGES = (
    "language: recognised, English, Chinese words or characters, any other, or none: split at "
    "white space, one sentence per line"
)
DICTIONARY = (
    "words for jieba, with --lang=zh: per line a word and, optionally, its frequency and tag"
)
DOCUMENT = "unit in which text is held out: a line, a paragraph (up to a blank line) or a file"


@dataclass(frozen=True, kw_only=True)
class Options(Settings):
    """How raw text becomes a corpus."""

    lang: str = setting(AUTO, LANGUAGES, choices=CHOICES)
    user_dict: str | Path | Sequence[str] | None = setting(
        None, DICTIONARY, of=(str, Path, list, tuple), metavar="FILE"
    )
    encoding: str = setting("utf-8", "encoding of the files", metavar="NAME")
    document: str = setting("line", DOCUMENT, choices=("line", "block", "file"))
    lower: bool = setting(False, "lower case")
    nfkc: bool = setting(False, "NFKC instead of NFC: full-width letters become ASCII")
    min_tokens: int = setting(2, "drop shorter sentences", minimum=1)
    max_tokens: int = setting(500, "drop longer sentences", minimum=1)
    shards: int = setting(
        10, "files in train/; training holds one in memory at a time", below=501, minimum=1
    )
    dev_fraction: float = setting(0.0, "fraction of the documents that goes to dev/", below=1)
    dev_split: str = setting("random", "which documents go to dev/", choices=("random", "last"))
    seed: int = setting(0, "random seed", below=2**32)

    def __post_init__(self):
        super().__post_init__()
        if self.lang == "none" and self.nfkc:
            raise UserError(
                "`nfkc` has no effect with `lang=none`, which only splits text at white space."
            )
        if self.dev_split == "last" and not self.dev_fraction:
            raise UserError("`dev_split=last` needs a `dev_fraction`, for instance 0.01.")
        with suppress(LookupError, UnicodeError):
            if b"\n".decode(self.encoding) == "\n":
                return
        raise UserError(
            f"`encoding` {self.encoding}: expected one of Python's that ends lines as ASCII does, "
            "such as gb18030. Convert other files with iconv first."
        )


@dataclass(frozen=True, kw_only=True)
class PreprocessingSettings(Options):
    """How `pretrain` makes a corpus and its vocabulary of raw text."""

    shards: int = default(Options, "shards", 8)
    dev_fraction: float = default(Options, "dev_fraction", 0.01)
    min_count: int = setting(3, "minimum frequency of a token of the vocabulary", minimum=1)
    max_size: int | None = setting(
        None, "maximum size of the vocabulary, special tokens included", minimum=4, of=int
    )


@dataclass(frozen=True)
class _HeldOut:
    """Which documents go to dev: the last ones, or those that draw a number below a limit.

    by_line: documents are lines, of which equal ones draw the same number.
    first: the number of the first of the last ones, if these are taken.
    """

    seed: int
    by_line: bool
    first: int | None
    limit: int

    def draw(self, document: int, line: bytes) -> int:
        """The number that a document draws: below 2**64, unless dev has the last ones.

        document: its number. line: any of its lines.
        """
        if self.first is not None:
            return 0 if document >= self.first else 2**64
        name = line.strip() if self.by_line else str(document).encode()
        drawn = hashlib.blake2b(b"%d %b" % (self.seed, name), digest_size=8).digest()
        return int.from_bytes(drawn, "big")


@dataclass
class Batch:
    """Whole lines of one file, each with the number of its document."""

    path: Path
    first: int  # number of the first line, from 1
    lines: list[bytes]
    documents: list[int]
    size: int  # bytes on disk

    def decoded(self, encoding: str) -> list[str]:
        """Return the lines as text."""
        return [
            decode(line, self.path, number, encoding)
            for number, line in enumerate(self.lines, self.first)
        ]


@dataclass
class Report:
    """Counts of the text that was read, written and omitted."""

    lines: int = 0
    size: int = 0  # bytes on disk, of a batch's report
    sentences: Counter = field(default_factory=Counter)  # by part, train or dev
    tokens: Counter = field(default_factory=Counter)
    shards: Counter = field(default_factory=Counter)
    dropped: Counter = field(default_factory=Counter)  # by reason
    lowest: int = 2**64  # number that a document of train with a sentence has drawn, see `_HeldOut`

    @property
    def reasons(self) -> str:
        """What was dropped, in words."""
        return ", ".join(f"{why}: {n:,}" for why, n in sorted(self.dropped.items()) if n)

    def add(self, batch: "Report") -> None:
        """Add what a batch has read and dropped, and its tokens."""
        self.lines += batch.lines
        self.tokens += batch.tokens
        self.dropped += batch.dropped
        self.lowest = min(self.lowest, batch.lowest)


Result = tuple[dict[str, list[str]], Report]  # a batch's lines of each part, and their counts


def make_corpus(
    inputs: Iterable[str | Path], output: Path, options: Options, processes: int = 1
) -> Report:
    """Write a new folder with train/ and, if options.dev_fraction > 0, dev/.

    inputs: files, plain or gzip, globs, and folders (recursive).
    """
    disk.check_output_folder("`output`", output)
    paths = all_files(inputs)
    with disk.atomic_folder(output) as folder:
        return write_parts(paths, folder, options, processes)


def write_parts(
    paths: list[Path], folder: Path, options: Options, processes: int = 1, shown: bool = True
) -> Report:
    """Write train/ and, if options.dev_fraction > 0, dev/ into a folder.

    shown: bars, in a terminal or notebook.
    """
    tokeniser = make_tokeniser(
        options.lang, _all_lines(paths, options.encoding), user_dict=options.user_dict
    )
    if tokeniser.lang == "any":
        warn_if_without_spaces(_all_lines(paths, options.encoding))
    if tokeniser.lang == "zh":
        tokeniser("中")  # loads jieba's dictionary before processes are started, which share it
    held_out = _HeldOut(
        seed=options.seed,
        by_line=options.document == "line",
        first=_first_held_out(paths, options, shown) if options.dev_split == "last" else None,
        limit=math.ceil(options.dev_fraction * 2**64),
    )
    if options.document == "file" and options.dev_fraction:
        _check_held_out_files(len(paths), held_out)
    write = partial(_write, paths, folder, options, tokeniser, processes=processes, shown=shown)
    report = write(held_out)
    is_drawn = options.dev_fraction > 0 and options.dev_split == "random"
    if is_drawn and report.sentences["train"] and not report.sentences["dev"]:
        log.info("dev           little text: one document is held out, more than `dev_fraction`")
        shutil.rmtree(folder / "train")
        shutil.rmtree(folder / "dev")
        report = write(replace(held_out, limit=report.lowest + 1))
    _check_parts(report)
    return report


def _write(
    paths: list[Path],
    folder: Path,
    options: Options,
    tokeniser: Tokeniser,
    held_out: _HeldOut,
    processes: int,
    shown: bool,
) -> Report:
    """Write the shuffled shards of train and dev."""
    process_batch = partial(_process_batch, options, tokeniser, held_out)
    report = Report()
    with ExitStack() as stack:
        parts = _open_parts(folder, options, stack)
        progress = stack.enter_context(_progress(paths, "tokenise", shown))
        source = batches(paths, options.document, options.encoding)
        for lines, counts in _parallel_map(process_batch, source, processes):
            for name, part in parts.items():
                part.add(lines[name])
                report.sentences[name] += len(lines[name])
            report.add(counts)
            progress.update(counts.size)
    for name, part in parts.items():
        n = report.sentences[name]
        if 0 < n < len(part.paths):
            sentences = format_count(n, "sentences")
            log.info(f"{name:<13} {sentences}: one shard instead of {len(part.paths)}")
            part.merge()
        report.shards[name] = len(part.paths)
        part.shuffle(shown)
    return report


def all_files(inputs: Iterable[str | Path]) -> list[Path]:
    """The files of all inputs, each once."""
    paths = {}  # a dictionary keeps their order
    for name in inputs:
        paths.update(dict.fromkeys(text_files(name, recursive=True)))
    return list(paths)


def _all_lines(paths: Iterable[Path], encoding: str) -> Iterator[str]:
    for batch in batches(paths):
        yield from batch.decoded(encoding)


def _check_held_out_files(n_files: int, held_out: _HeldOut) -> None:
    """Raise if no file goes to dev, before the text is tokenised."""
    drawn = [held_out.draw(file, b"") for file in range(n_files)]
    if min(drawn) >= held_out.limit:
        raise UserError("no file would be held out: `dev_fraction` is too small for so few files.")


def batches(
    paths: Iterable[Path], document: str = "line", encoding: str = "utf-8"
) -> Iterator[Batch]:
    """Yield the files' lines. document: a line, a block up to a blank line, or a file."""
    number = -1  # of the document
    for path in paths:
        starts_document = True
        for first, block, size in byte_blocks(path, BATCH_BYTES):
            lines = block.removesuffix(b"\n").split(b"\n")
            documents = []
            for line in lines:
                is_blank = not line.strip()
                if document == "block" and not is_blank:
                    # it may have blanks that are not ASCII
                    is_blank = not line.decode(encoding, "ignore").strip()
                if document == "line" or (document == "block" and is_blank):
                    starts_document = True
                if starts_document and not is_blank:
                    number += 1
                    starts_document = False
                documents.append(number)
            yield Batch(path, first, lines=lines, documents=documents, size=size)


def _process_batch(
    options: Options, tokeniser: Tokeniser, held_out: _HeldOut, batch: Batch
) -> Result:
    """Tokenise a batch to lines of train and dev. Also returns counts."""
    lines: dict[str, list[str]] = {"train": [], "dev": []}
    counts = Report(lines=len(batch.lines), size=batch.size)
    form = "NFKC" if options.nfkc else "NFC"
    decoded = batch.decoded(options.encoding)
    for text, data, document in zip(decoded, batch.lines, batch.documents, strict=True):
        drawn = held_out.draw(document, data) if options.dev_fraction else 2**64
        part = "dev" if drawn < held_out.limit else "train"
        sentences = tokeniser.sentences(text, form)
        if not sentences:
            counts.dropped["empty lines"] += 1
        for tokens in sentences:
            reason = _reason_to_drop(tokens, options)
            if reason:
                counts.dropped[reason] += 1
                continue
            sentence = " ".join(tokens)
            if options.lower:
                sentence = sentence.lower()
            lines[part].append(f"{sentence}\n")
            counts.tokens[part] += len(tokens)
            if part == "train":
                counts.lowest = min(counts.lowest, drawn)
    return lines, counts


def _reason_to_drop(tokens: list[str], options: Options) -> str | None:
    """Why a sentence is left out, if it is."""
    if not HAS_WORD.search("".join(tokens)):
        return "sentences without a letter or digit"
    if len(tokens) < options.min_tokens:
        return f"sentences of fewer than {format_count(options.min_tokens, 'tokens')}"
    if len(tokens) > options.max_tokens:
        return f"sentences of more than {format_count(options.max_tokens, 'tokens')}"
    return None


def _first_held_out(paths: list[Path], options: Options, shown: bool) -> int:
    """Return the number of the first document of dev, which is the last `dev_fraction` of all."""
    n = 0
    with _progress(paths, "count documents", shown) as progress:
        for batch in batches(paths, options.document, options.encoding):
            n = batch.documents[-1] + 1
            progress.update(batch.size)
    return n - max(1, round(options.dev_fraction * n))


def _progress(paths: list[Path], what: str, shown: bool) -> Any:
    """Return a bar in bytes, in a terminal or notebook."""
    total = sum(path.stat().st_size for path in paths)
    return bar(None, shown, total=total, desc=what, unit="B", unit_scale=True)


def _parallel_map(
    work: Callable[[Batch], Result], source: Iterator[Batch], processes: int
) -> Iterator[Result]:
    """Yield `work(batch)` for every batch, in order, computed a few batches ahead."""
    if processes == 1:
        for batch in source:
            yield work(batch)
        return
    # the main process ends the others
    ignore_interruption = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(processes, initializer=ignore_interruption) as pool:
        pending = deque()
        try:
            for batch in source:
                pending.append(pool.submit(work, batch))
                if len(pending) == BATCHES_AHEAD * processes:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            raise UserError(
                "a process was killed, perhaps out of memory. Try `processes=1`."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


class _Shards:
    """The n shards of train or dev, of about the same size."""

    def __init__(self, folder: Path, n: int, seed: int, stack: ExitStack):
        folder.mkdir()
        self.paths = [folder / f"part-{i:05d}-of-{n:05d}.txt" for i in range(n)]
        self._seed = f"{seed} {folder.name}"
        files = [
            stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
            for path in self.paths
        ]
        self._writers = self._deal([file.write for file in files])

    def _deal(self, deck: list[Callable]) -> Iterator[Callable]:
        """Yield all of a list, again and again, each time in a new random order."""
        generator = random.Random(self._seed)
        while True:
            generator.shuffle(deck)
            yield from deck

    def add(self, lines: list[str]) -> None:
        """Write each line to a shard."""
        for line, write in zip(lines, self._writers, strict=False):
            write(line)

    def merge(self) -> None:
        """Make one shard of all, whose files are closed."""
        data = b"".join(path.read_bytes() for path in self.paths)
        for path in self.paths:
            path.unlink()
        self.paths = [self.paths[0].with_name("part-00000-of-00001.txt")]
        self.paths[0].write_bytes(data)

    def shuffle(self, shown: bool) -> None:
        """Shuffle the lines of each shard, whose files are closed."""
        for path in bar(self.paths, shown, desc="shuffle", unit="shard"):
            lines = path.read_bytes().split(b"\n")[:-1]
            random.Random(f"{self._seed} {path.name}").shuffle(lines)
            path.write_bytes(b"\n".join(lines) + b"\n")


def _open_parts(folder: Path, options: Options, stack: ExitStack) -> dict[str, _Shards]:
    """Open the shards of train and, if there is one, of dev. stack: closes their files."""
    parts = {"train": _Shards(folder / "train", options.shards, options.seed, stack)}
    if options.dev_fraction:
        n_shards = max(1, round(options.dev_fraction * options.shards))
        parts["dev"] = _Shards(folder / "dev", n_shards, options.seed, stack)
    return parts


def _check_parts(report: Report) -> None:
    """Raise if train or dev has no sentences."""
    if "dev" in report.shards and not report.sentences["dev"] and report.sentences["train"]:
        raise UserError("nothing was held out: `dev_fraction` is too small for so few documents.")
    if report.sentences["train"]:
        return
    dropped = f" Left out: {report.reasons}." if report.reasons else ""
    if report.sentences["dev"]:
        raise UserError(
            "there are no sentences for training: all documents are held out, or it is one that "
            f"repeats. Give more text, or `dev_fraction=0`.{dropped}"
        )
    raise UserError(f"there are no sentences for training. Expected text.{dropped}")
