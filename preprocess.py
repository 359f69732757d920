"""Raw text to a corpus, and a corpus to a vocabulary.

    python preprocess.py text 'raw/*.txt.gz' --lang en --output corpora/news --dev_fraction 0.01
    python preprocess.py vocab 'corpora/news/train/*' --output corpora/news/vocabulary.txt

`text` cuts documents into sentences and sentences into tokens, and writes one sentence a line. Sentences are dealt over
the shards in the order in which they are read, from a deck of shards shuffled anew for every round, so that all shards
are of one size; then each shard is shuffled in itself. Nothing but the text, the options and the seed decides the bytes
that come out. Memory holds a few batches of lines, then one shard.

How text is cut into sentences and tokens: tokenise.py.
"""

import argparse
import codecs
import gzip
import hashlib
import io
import random
import re
import shlex
import shutil
import signal
import tempfile
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

from tqdm import tqdm

import args as arguments
from dataset import Corpus
from elmo_core import disk, runtime
from elmo_core.characters import MAX_BYTES
from elmo_core.runtime import UserError, log
from elmo_core.tokenise import HAS_WORD, chinese, english, jieba_cut, paragraphs
from elmo_core.tokens import MARKERS, Vocabulary

BATCH_BYTES = 1 << 18  # of whole lines: the work of one process at a time
BATCHES_AHEAD = 4  # for each process: none waits, and memory stays small
MAX_SHARDS = 1000  # files open at the same time
PARTIAL = ".partial-"  # begins the name of the folder that holds what is not whole yet
SHARD = re.compile(r"part-\d{5}-of-\d{5}\.txt")
COVERAGE_SIZES = (10_000, 20_000, 50_000, 100_000, 200_000, 500_000)


def input_files(inputs: Iterable[str]) -> list[Path]:
    """The files that paths, globs and folders (with all below them) stand for, each once, in a fixed order."""
    found: dict[Path, None] = {}
    for name in inputs:
        path, paths = matches(name)
        paths = [path for path in paths if not path.name.startswith(".")]
        if dangling := [path for path in paths if path.is_symlink() and not path.exists()]:
            raise UserError(f"{dangling[0]} is a link to a file that is not there. Remove or mend it.")
        files = [path for path in paths if path.is_file()]
        if not files:
            what = "this folder has no files" if path.is_dir() else "no such file"
            raise UserError(f"{name}: {what}, looked for from {Path.cwd()}. Expected a file, a folder or a glob.")
        found.update(dict.fromkeys(files))
    return list(found)


def matches(name: str) -> tuple[Path, list[Path]]:
    """A path, and what it, its folder or its glob has, in a fixed order."""
    try:
        path = Path(name).expanduser()
    except RuntimeError as error:
        raise UserError(f"{name}: there is no such home folder. Expected a file, a folder or a glob.") from error
    if path.is_dir():
        return path, sorted(path.rglob("*"))
    if path.exists() or not set("*?[") & set(name):
        return path, [path]
    anchor = Path(path.anchor or ".")
    try:
        return path, sorted(anchor.glob(str(path.relative_to(path.anchor))))
    except ValueError as error:  # which Python 3.13 no longer raises
        raise UserError(
            f"{name}: ** stands for folders, in a part of its own. Expected such as 'raw/**/*.txt'."
        ) from error


@dataclass
class Batch:
    """Whole lines of one file, with the number of the document that each belongs to."""

    path: Path
    first: int  # line number of the first, from 1
    lines: list[bytes]
    documents: list[int]
    size: int  # bytes of the file, as it is on disk

    def decode(self, i: int, encoding: str) -> str:
        """Line i as text, or an error that names it and guesses the encoding."""
        try:
            return self.lines[i].decode(encoding)
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self.path}, line {self.first + i}: byte 0x{error.object[error.start]:02x} at position "
                f"{error.start + 1} is not {encoding}. {guess_encoding(b''.join(self.lines), encoding)}"
            ) from None

    def text(self) -> str:
        """All lines at once: those of a corpus, which is UTF-8."""
        data = b"".join(self.lines)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = self.first + data.count(b"\n", 0, error.start)
            raise UserError(
                f"{self.path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8, as a corpus is. Make it with "
                "`preprocess.py text --encoding`, or convert it with iconv."
            ) from None
        return text.removeprefix("\ufeff") if self.first == 1 else text


def guess_encoding(data: bytes, wrong: str) -> str:
    """Advice for bytes that are not in the encoding they were read in."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "The file looks like UTF-16: convert it with iconv -f utf-16 -t utf-8."
    if b"\0" in data:
        return "This does not look like a text file."
    alone = len(re.findall(rb"(?<![\x80-\xff])[\x80-\xff](?![\x80-\xff])", data))  # as accents in latin-1 are
    paired = len(re.findall(rb"[\x80-\xff]{2}", data))  # as most Chinese characters are
    names = ["utf-8", *(("gb18030", "big5") if paired > alone else ()), "latin-1"]
    for name in names:
        try:
            data.decode(name)
        except UnicodeDecodeError:
            continue
        if codecs.lookup(name) != codecs.lookup(wrong):
            return f"The text looks like {name}: try --encoding {name}, or --undecodable drop to leave such lines out."
    return "Give the right --encoding, or --undecodable drop to leave such lines out."


def batches(paths: Iterable[Path], document: str = "line") -> Iterator[Batch]:
    """The lines of files, plain or gzipped. A document is a line, a block up to a blank line, or a file."""
    number = -1
    for path in paths:
        first, position, fresh = 1, 0, True
        try:
            with path.open("rb") as raw:
                zipped = raw.peek(2)[:2] == b"\x1f\x8b"
                stream = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if zipped else raw
                while lines := stream.readlines(BATCH_BYTES):
                    documents = []
                    for line in lines:
                        blank = not line.strip()
                        fresh |= document == "line" or (document == "block" and blank)
                        number, fresh = (number, fresh) if blank else (number + fresh, False)
                        documents.append(number)
                    yield Batch(path, first, lines, documents, raw.tell() - position)
                    first, position = first + len(lines), raw.tell()
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UserError(f"{path}: damaged or incomplete ({error}). Fetch or make it again.") from error


@dataclass(frozen=True)
class Recipe:
    """How text becomes sentences, and which documents are held out."""

    lang: str = "en"
    form: str = "NFC"
    lower: bool = False
    negation: str = "treebank"
    encoding: str = "utf-8"
    undecodable: str = "error"
    min_tokens: int = 2
    max_tokens: int = 500
    document: str = "line"
    dev_fraction: float = 0.0
    first_dev: int | None = None  # the document from which on all are held out, else it is drawn by lot
    seed: int = 0

    def holds_out(self, number: int, line: bytes) -> bool:
        """Whether a line of the document with that number goes to dev. Documents that are equal lines stay together."""
        if self.first_dev is not None or not self.dev_fraction:
            return self.first_dev is not None and number >= self.first_dev
        name = line.strip() if self.document == "line" else str(number).encode()
        lot = hashlib.blake2b(b"%d %b" % (self.seed, name), digest_size=8).digest()
        return int.from_bytes(lot, "big") < self.dev_fraction * 2**64

    def sentences(self, line: str) -> Iterator[list[str]]:
        """The sentences of a line of raw text, each a list of tokens."""
        cut = chinese if self.lang == "zh" else partial(english, negation=self.negation)
        for paragraph in paragraphs(line, self.form):
            yield from cut(paragraph)

    def dropped(self, tokens: list[str]) -> str | None:
        """Why a sentence is left out, if it is."""
        if not HAS_WORD.search("".join(tokens)):
            return "sentences without a letter or digit"
        if len(tokens) < self.min_tokens:
            return f"sentences of fewer than {self.min_tokens} tokens"
        if len(tokens) > self.max_tokens:
            return f"sentences of more than {self.max_tokens} tokens"
        return None


@dataclass
class Sentences:
    """What a batch of lines has become: lines of the corpus for train and dev, and counts."""

    train: list[str]
    dev: list[str]
    counts: Counter
    dropped: Counter
    size: int


def segment(recipe: Recipe, batch: Batch) -> Sentences:
    """The work of a process: lines to sentences."""
    result = Sentences([], [], Counter(lines=len(batch.lines)), Counter(), batch.size)
    for i, document in enumerate(batch.documents):
        try:
            line = batch.decode(i, recipe.encoding)
        except UserError:
            if recipe.undecodable == "error":
                raise
            result.dropped[f"lines that are not {recipe.encoding}"] += 1
            continue
        part = "dev" if recipe.holds_out(document, batch.lines[i]) else "train"
        found = False
        for tokens in recipe.sentences(line):
            found = True
            if reason := recipe.dropped(tokens):
                result.dropped[reason] += 1
                continue
            sentence = " ".join(tokens)
            getattr(result, part).append((sentence.lower() if recipe.lower else sentence) + "\n")
            result.counts[part] += len(tokens)
        result.dropped["empty lines"] += not found
    return result


@contextmanager
def undisturbed() -> Iterator[None]:
    """Interruptions wait until the end of the block: a process that is half started would be waited for for ever."""
    came = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def prepare(lang: str) -> None:
    """Make a process of the pool ready: interruptions are for the first process to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    load(lang)


def load(lang: str) -> None:
    """Read what a language needs, before processes are started that can share it."""
    if lang == "zh":
        jieba_cut()


def in_parallel(recipe: Recipe, source: Iterable[Batch], processes: int) -> Iterator[Sentences]:
    """`segment` of every batch, in the order of the batches, a few batches ahead."""
    load(recipe.lang)
    if processes == 1:
        yield from map(partial(segment, recipe), source)
        return
    with ProcessPoolExecutor(processes, initializer=prepare, initargs=(recipe.lang,)) as pool:
        waiting = deque()
        try:
            for batch in source:
                with undisturbed():
                    waiting.append(pool.submit(segment, recipe, batch))
                if len(waiting) > BATCHES_AHEAD * processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise UserError("a process was killed, perhaps for want of memory: try --processes 1.") from None
        finally:
            with undisturbed():
                pool.shutdown(cancel_futures=True)


class Shards:
    """One part of the corpus, train or dev, under way to `n` shards of like size."""

    def __init__(self, folder: Path, n: int, seed: int, stack: ExitStack):
        folder.mkdir()
        self.paths = [folder / f"part-{i:05d}-of-{n:05d}.txt" for i in range(n)]
        self.seed = f"{seed} {folder.name}"
        self.sentences = 0
        files = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in self.paths]
        self._writers = self._deal([file.write for file in files])

    def _deal(self, deck: list[Callable]) -> Iterator[Callable]:
        draw = random.Random(self.seed)
        while True:
            draw.shuffle(deck)
            yield from deck

    def add(self, lines: list[str]) -> None:
        for line, write in zip(lines, self._writers, strict=False):
            write(line)
        self.sentences += len(lines)

    def shuffle(self, path: Path) -> None:
        """Shuffle one shard in itself."""
        lines = path.read_bytes().split(b"\n")[:-1]
        random.Random(f"{self.seed} {path.name}").shuffle(lines)
        path.write_bytes(b"\n".join(lines) + b"\n")


@contextmanager
def staging(output: Path) -> Iterator[Path]:
    """A folder whose `train` and `dev` become the output's when all has gone well, and otherwise vanish."""
    created = not output.exists()
    output.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=output) as name:
            yield Path(name)
            with undisturbed():
                for part in ("train", "dev"):
                    shutil.rmtree(output / part, ignore_errors=True)
                for part in ("dev", "train"):  # train last: where it stands, all stands
                    if Path(name, part).exists():
                        Path(name, part).rename(output / part)
    except BaseException:
        if created and not any(output.iterdir()):
            output.rmdir()
        raise


def check_output(output: Path, overwrite: bool) -> None:
    """Refuse to write where something is or nothing can be, and ever to remove what another program wrote."""
    if output.exists() and not output.is_dir():
        raise UserError(f"--output {output}: this is a file. Expected a folder, which need not exist.")
    disk.check_output("--output", output / "train" / "*")
    present = [path for path in output.iterdir() if not path.name.startswith(PARTIAL)] if output.exists() else []
    if present and not overwrite:
        raise UserError(
            f"--output {output}: the folder is not empty (it has {present[0].name}). Choose another, or give --overwrite "
            "to replace its train and dev."
        )
    for path in [*output.glob("train/*"), *output.glob("dev/*")]:
        if not (SHARD.fullmatch(path.name) or path.name.startswith(".")):
            raise UserError(f"{path} was not written by preprocess.py, and would be removed. Choose another --output.")


def progress(paths: list[Path], verb: str) -> tqdm:
    """A progress bar in bytes of the files."""
    total = sum(path.stat().st_size for path in paths)
    return tqdm(total=total, desc=verb, unit="B", unit_scale=True, mininterval=0.5, dynamic_ncols=True)


def first_held_out(paths: list[Path], document: str, fraction: float) -> int:
    """The number of the document with which the last `fraction` of all documents begins."""
    last = -1
    with progress(paths, "count documents") as bar:
        for batch in batches(paths, document):
            last = batch.documents[-1]
            bar.update(batch.size)
    return last + 1 - max(1, round(fraction * (last + 1)))


def text(args: argparse.Namespace) -> None:
    """Raw text to a corpus."""
    check_text(args)
    output = Path(args.output)
    check_output(output, args.overwrite)
    paths = input_files(args.input)
    inside = [path for path in paths if output.resolve() in path.resolve().parents]
    if inside:
        raise UserError(f"--output {output} holds {inside[0]}, which is to be read. Choose another folder.")
    last = args.dev_fraction and args.dev_split == "last"
    recipe = Recipe(
        **{name: getattr(args, name) for name in Recipe.__dataclass_fields__ if hasattr(args, name)},
        form="NFKC" if args.nfkc else "NFC",
        first_dev=first_held_out(paths, args.document, args.dev_fraction) if last else None,
    )
    began, counts, dropped = time.perf_counter(), Counter(), Counter()
    with staging(output) as folder:
        with ExitStack() as stack:
            parts = {"train": Shards(folder / "train", args.shards, args.seed, stack)}
            if args.dev_fraction:
                n = max(1, round(args.dev_fraction * args.shards))
                parts["dev"] = Shards(folder / "dev", n, args.seed, stack)
            results = stack.enter_context(closing(in_parallel(recipe, batches(paths, args.document), args.processes)))
            bar = stack.enter_context(progress(paths, "tokenise"))
            for result in results:
                for name, part in parts.items():
                    part.add(getattr(result, name))
                counts += result.counts
                dropped += result.dropped
                bar.update(result.size)
        for name, part in parts.items():
            check_part(name, part)
        shuffles = [partial(part.shuffle, path) for part in parts.values() for path in part.paths]
        for shuffle in tqdm(shuffles, desc="shuffle", unit="shard"):
            shuffle()
    report_text(args, parts, counts, dropped, time.perf_counter() - began)


def check_part(name: str, part: Shards) -> None:
    """Refuse shards without a sentence."""
    if not part.sentences and name == "dev":
        raise UserError("nothing was held out: --dev_fraction is too small for so few documents (see --document).")
    if not part.sentences:
        raise UserError("no sentence for training was found. Expected files with text, and a small --dev_fraction.")
    if part.sentences < len(part.paths):
        raise UserError(f"{part.sentences} sentences are too few for {len(part.paths)} shards: use --shards 1.")


def report_text(args: argparse.Namespace, parts: dict, counts: Counter, dropped: Counter, seconds: float) -> None:
    """Say what was written, what was left out and why, and what to type next."""
    tokens = sum(counts[name] for name in parts)
    rate = f"{tokens:,} tokens in {seconds:.0f} s, {tokens / seconds:,.0f} a second"
    log.info(f"{counts['lines']:,} lines, {rate}.")
    log.info("left out: " + (", ".join(f"{n:,} {why}" for why, n in sorted(dropped.items()) if n) or "nothing") + ".")
    for name, part in parts.items():
        folder = Path(args.output) / name
        log.info(f"{folder}: {part.sentences:,} sentences, {counts[name]:,} tokens in {len(part.paths)} shards.")
    train = str(Path(args.output) / "train" / "*")
    target = str(Path(args.output) / "vocabulary.txt")
    log.info(f"next: python preprocess.py vocab {shlex.quote(train)} --output {shlex.quote(target)}")


def vocab(args: argparse.Namespace) -> None:
    """A corpus to a vocabulary."""
    if args.max_size is not None and args.max_size <= len(MARKERS):
        raise UserError(f"--max_size {args.max_size}: expected {len(MARKERS) + 1} or more, special tokens included.")
    output = Path(args.output)
    paths = list(dict.fromkeys(Corpus(args.input).paths))
    check_vocabulary(output, args.overwrite, args.input, paths)
    counts = count_tokens(paths)
    markers = {marker: counts.pop(marker, 0) for marker in MARKERS}
    if not counts:
        raise UserError(f"{' '.join(args.input)}: no tokens. Expected one sentence a line, tokens between white space.")
    words = sorted((word for word in counts if counts[word] >= args.min_count), key=lambda word: (-counts[word], word))
    words = words[: args.max_size and args.max_size - len(MARKERS)]
    if not words:
        raise UserError(f"no token occurs {args.min_count} times: lower --min_count.")
    with disk.atomic_write(output, "wb") as file:
        Vocabulary([*MARKERS, *words]).write(file)
    report_vocab(args, counts, words, markers)


def check_vocabulary(output: Path, overwrite: bool, inputs: Iterable[str], paths: Iterable[Path]) -> None:
    """Refuse, before the counting, an output that cannot be written, is in use, or would be read as text the next time."""
    disk.check_output("--output", output, *paths)
    for name in inputs:
        if stands_for(name, output):
            raise UserError(
                f"--output {output} would be text of the corpus {name} the next time. Choose another folder."
            )
    if output.exists() and not overwrite:
        raise UserError(f"--output {output} exists already: choose another name, or give --overwrite.")


def stands_for(name: str, path: Path) -> bool:
    """Whether a folder or glob of a corpus is also about a file that need not exist. `**` are any folders."""
    source, path = Path(name).resolve(), path.resolve()
    if source.exists():
        return source == path.parent
    root, deep, rest = str(source).partition("**")
    return path.match(rest.strip("/") or "*") and Path(root) in path.parents if deep else path.match(str(source))


def count_tokens(paths: list[Path]) -> Counter:
    """How often each token occurs in a corpus."""
    counts = Counter()
    with progress(paths, "count tokens") as bar:
        for batch in batches(paths):
            counts.update(batch.text().split())
            bar.update(batch.size)
    return counts


def report_vocab(args: argparse.Namespace, counts: Counter, words: list[str], markers: dict[str, int]) -> None:
    """Say how much of the running text the vocabulary covers, and what else its user ought to know."""
    total = counts.total()
    covered = list(accumulate(counts[word] for word in words))
    for marker, n in markers.items():
        if n:
            log.warning(f"{marker} stands {n:,} times in the corpus. The vocabulary has it once, as a special token.")
    log.info(f"{args.output}: {len(words):,} of {len(counts):,} distinct tokens, and the {len(MARKERS)} special ones.")
    log.info(f"coverage of the running text ({total:,} tokens): {covered[-1] / total:.2%}.")
    sizes = [size for size in COVERAGE_SIZES if size < len(words)]
    if sizes:
        log.info("with fewer words: " + ", ".join(f"{size:,}: {covered[size - 1] / total:.2%}" for size in sizes) + ".")
    long = [word for word in counts if len(word.encode("utf-8")) > MAX_BYTES]
    share = sum(counts[word] for word in long) / total
    log.info(
        f"longer than the {MAX_BYTES} bytes of the character input: {len(long):,} tokens, {share:.4%} of the text."
    )
    folders = {Path(name).parent for name in args.input}
    train = args.input[0] if len(args.input) == 1 else str(folders.pop() / "*") if len(folders) == 1 else "CORPUS"
    flags = f"--train_data_path={shlex.quote(train)} --vocab_file={shlex.quote(str(args.output))}"
    log.info(f"next: python run_pretrain.py {flags} --save_dir=checkpoints")


def check_encoding(name: str) -> None:
    """Refuse an encoding that Python does not know, or whose lines do not end with the byte of ASCII's line feed."""
    try:
        plain = b"\n".decode(name) == "\n"
    except UnicodeDecodeError:  # half a character
        plain = False
    except (LookupError, UnicodeError):
        raise UserError(f"--encoding {name}: not known. Expected for instance utf-8, gb18030, big5, latin-1.") from None
    if not plain:
        raise UserError(f"--encoding {name}: convert the files first, with iconv -f {name} -t utf-8.")


def check_text(args: argparse.Namespace) -> None:
    """Refuse arguments of `text` that make no sense together."""
    if args.max_tokens < args.min_tokens:
        raise UserError(f"--max_tokens {args.max_tokens}: expected {args.min_tokens} or more, which is --min_tokens.")
    if args.shards > MAX_SHARDS:
        raise UserError(f"--shards {args.shards}: expected {MAX_SHARDS} or fewer, all are open at the same time.")
    if args.dev_split == "last" and not args.dev_fraction:
        raise UserError("--dev_split last: how much is to be held out? Give --dev_fraction, such as 0.01.")
    check_encoding(args.encoding)


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "input", nargs="+", metavar="INPUT", help="files, plain or gzipped, quoted globs, or folders with all in them"
    )
    parser.add_argument("--lang", choices=("en", "zh"), required=True, help="language of the text")
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="folder of the corpus, which gets train/ and perhaps dev/"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace train/ and dev/ of an earlier run")

    reading = parser.add_argument_group("reading")
    reading.add_argument("--encoding", default="utf-8", metavar="NAME", help="encoding of the files")
    reading.add_argument(
        "--undecodable", choices=("error", "drop"), default="error", help="what to do with a line in another encoding"
    )
    reading.add_argument(
        "--document",
        choices=("line", "block", "file"),
        default="line",
        help="what --dev_fraction keeps together: a line, the lines up to a blank one, or a file",
    )

    tokens = parser.add_argument_group("sentences and tokens")
    tokens.add_argument("--lower", action="store_true", help="lower case")
    tokens.add_argument("--nfkc", action="store_true", help="NFKC instead of NFC: full-width letters become plain ones")
    tokens.add_argument(
        "--negation", choices=("treebank", "lm1b"), default="treebank", help="English: do n't, ca n't or don 't, can 't"
    )
    tokens.add_argument("--min_tokens", **arguments.COUNT, default=2, help="leave out shorter sentences")
    tokens.add_argument("--max_tokens", **arguments.COUNT, default=500, help="leave out longer sentences")

    parts = parser.add_argument_group("shards and held-out part")
    parts.add_argument(
        "--shards", **arguments.COUNT, default=10, help="files that train/ has; one at a time is in memory"
    )
    parts.add_argument(
        "--dev_fraction",
        type=arguments.share,
        default=0.0,
        metavar="X",
        help="share of the documents that goes to dev/",
    )
    parts.add_argument(
        "--dev_split", choices=("random", "last"), default="random", help="which documents: drawn by lot, or the last"
    )
    parts.add_argument("--seed", type=arguments.seed, metavar="N", default=0, help="decides the order and the lot")
    parts.add_argument(
        "--processes",
        **arguments.COUNT,
        default=runtime.n_cores(),
        help="that work; the result does not depend on it",
    )


def add_vocab_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "input", nargs="+", metavar="INPUT", help="the corpus: files, plain or gzipped, quoted globs, or folders"
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="the vocabulary file")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier file")
    parser.add_argument("--min_count", **arguments.COUNT, default=1, help="leave out tokens that occur less often")
    parser.add_argument(
        "--max_size", **arguments.COUNT, help="most lines of the file, the three special tokens included"
    )


def main(argv: list[str] | None = None) -> None:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    add_text_arguments(commands.add_parser("text", help="raw text to a corpus of tokenised sentences"))
    add_vocab_arguments(commands.add_parser("vocab", help="a corpus to a vocabulary"))
    args = parser.parse_args(argv)
    {"text": text, "vocab": vocab}[args.command](args)


if __name__ == "__main__":
    runtime.script(main)
