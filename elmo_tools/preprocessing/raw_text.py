"""From raw text to a corpus: shards with one sentence per line, tokens separated by spaces.

Each round of sentences goes to the shards in a new random order, one to each, so all shards have
the same size; then each shard is shuffled. The bytes depend only on the text, the options and the
seed, not on the number of processes. Memory holds a few batches of lines, later one shard.
"""

import hashlib
import random
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tqdm import tqdm

from elmo_core.files import disk
from elmo_core.messages import UserError, format_count
from elmo_core.settings import setting
from elmo_core.text.language import AUTO, CHOICES, make_tokeniser
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


@dataclass(frozen=True)
class Options:
    """How raw text becomes a corpus."""

    lang: str = setting(AUTO, LANGUAGES, choices=CHOICES)
    user_dict: str = setting("", DICTIONARY, metavar="FILE")
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

    @property
    def reasons(self) -> str:
        """What was dropped, in words."""
        return ", ".join(f"{why}: {n:,}" for why, n in sorted(self.dropped.items()) if n)

    def add(self, batch: "Report") -> None:
        """Add what a batch has read and dropped, and its tokens."""
        self.lines += batch.lines
        self.tokens += batch.tokens
        self.dropped += batch.dropped


Result = tuple[dict[str, list[str]], Report]  # a batch's lines of each part, and their counts


def make_corpus(
    inputs: Iterable[str | Path], output: Path, options: Options, processes: int = 1
) -> Report:
    """Write a new folder with train/ and, if options.dev_fraction > 0, dev/.

    inputs: files, plain or gzip, globs, and folders (recursive).
    """
    disk.check_output_folder("`output`", output)
    paths = _all_files(inputs)
    tokeniser = make_tokeniser(
        options.lang, _all_lines(paths, options.encoding), user_dict=options.user_dict
    )
    first_dev = _first_held_out(paths, options) if options.dev_split == "last" else None
    if options.document == "file" and options.dev_fraction:
        _check_held_out_files(len(paths), options, first_dev)
    if tokeniser.lang == "zh":
        tokeniser("中")  # loads jieba's dictionary before processes are started, which share it
    process_batch = partial(_process_batch, options, tokeniser, first_dev)
    report = Report()
    with disk.atomic_folder(output) as folder:
        with ExitStack() as stack:
            parts = _open_parts(folder, options, stack)
            progress = stack.enter_context(_progress(paths, "tokenise"))
            source = batches(paths, options.document, options.encoding)
            for lines, counts in _parallel_map(process_batch, source, processes):
                for name, part in parts.items():
                    part.add(lines[name])
                    report.sentences[name] += len(lines[name])
                report.add(counts)
                progress.update(counts.size)
        for name, part in parts.items():
            report.shards[name] = len(part.paths)
            _check_part(name, report)
            part.shuffle()
    return report


def _all_files(inputs: Iterable[str | Path]) -> list[Path]:
    """The files of all inputs, each once."""
    paths = {}  # a dictionary keeps their order
    for name in inputs:
        paths.update(dict.fromkeys(text_files(name, recursive=True)))
    return list(paths)


def _all_lines(paths: Iterable[Path], encoding: str) -> Iterator[str]:
    for batch in batches(paths):
        yield from batch.decoded(encoding)


def _check_held_out_files(n_files: int, options: Options, first_dev: int | None) -> None:
    """Raise if no file goes to dev, before the text is tokenised."""
    held_out = [_is_held_out(options, first_dev, file, b"") for file in range(n_files)]
    if not any(held_out):
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
    options: Options, tokeniser: Tokeniser, first_dev: int | None, batch: Batch
) -> Result:
    """Tokenise a batch to lines of train and dev. Also returns counts."""
    lines: dict[str, list[str]] = {"train": [], "dev": []}
    counts = Report(lines=len(batch.lines), size=batch.size)
    form = "NFKC" if options.nfkc else "NFC"
    decoded = batch.decoded(options.encoding)
    for text, data, document in zip(decoded, batch.lines, batch.documents, strict=True):
        part = "dev" if _is_held_out(options, first_dev, document, data) else "train"
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
    return lines, counts


def _is_held_out(options: Options, first_dev: int | None, document: int, line: bytes) -> bool:
    """Tell whether the line goes to dev. If lines are documents, equal lines stay together.

    first_dev: the first document of dev, if that is the end of the text. document: the line's.
    """
    if first_dev is not None:
        return document >= first_dev
    if not options.dev_fraction:
        return False
    name = line.strip() if options.document == "line" else str(document).encode()
    drawn = hashlib.blake2b(b"%d %b" % (options.seed, name), digest_size=8).digest()
    return int.from_bytes(drawn, "big") < options.dev_fraction * 2**64


def _reason_to_drop(tokens: list[str], options: Options) -> str | None:
    """Why a sentence is left out, if it is."""
    if not HAS_WORD.search("".join(tokens)):
        return "sentences without a letter or digit"
    if len(tokens) < options.min_tokens:
        return f"sentences of fewer than {format_count(options.min_tokens, 'tokens')}"
    if len(tokens) > options.max_tokens:
        return f"sentences of more than {format_count(options.max_tokens, 'tokens')}"
    return None


def _first_held_out(paths: list[Path], options: Options) -> int:
    """Return the number of the first document of dev, which is the last `dev_fraction` of all."""
    n = 0
    with _progress(paths, "count documents") as progress:
        for batch in batches(paths, options.document, options.encoding):
            n = batch.documents[-1] + 1
            progress.update(batch.size)
    return n - max(1, round(options.dev_fraction * n))


def _progress(paths: list[Path], what: str) -> tqdm:
    """Return a progress bar in bytes, only on a terminal."""
    total = sum(path.stat().st_size for path in paths)
    return tqdm(total=total, desc=what, unit="B", unit_scale=True, disable=None)


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

    def shuffle(self) -> None:
        """Shuffle the lines of each shard, whose files are closed."""
        for path in tqdm(self.paths, desc="shuffle", unit="shard", disable=None):
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


def _check_part(name: str, report: Report) -> None:
    """Raise if train or dev has too few sentences."""
    n = report.sentences[name]
    if not n and name == "dev":
        raise UserError("nothing was held out: `dev_fraction` is too small for so few documents.")
    if not n:
        dropped = f" Left out: {report.reasons}." if report.reasons else ""
        raise UserError(
            "there are no sentences for training. "
            f"Expected text, and a small `dev_fraction`.{dropped}"
        )
    if n < report.shards[name]:
        raise UserError(
            f"too few sentences ({n}) for {report.shards[name]} shards. Use fewer shards."
        )
