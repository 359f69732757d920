"""From text to batches: vocabulary, character ids, language-model streams, sentence batches. NumPy only.

A corpus is UTF-8 text, one sentence a line, tokens separated by white space. A language-model batch is B rows of
T steps. Each row is a stream of its own, sentence after sentence, cut every T steps: the state in which a batch
leaves a row is the state in which the next batch meets it. A row that has finished a sentence takes the next one
of the shuffled order. Here are two rows of four steps; the order is "birds sing loudly", "it rains", "no",
"we know":

                            batch 1                       batch 2
    row 0  forward  input   <S>    birds  sing   loudly   <S>   we    know  ..
                    target  birds  sing   loudly </S>     we    know  </S>  ..
           backward input   </S>   loudly sing   birds    </S>  know  we    ..
                    target  loudly sing   birds  <S>      know  we    <S>   ..
    row 1  forward  input   <S>    it     rains  <S>      no    ..
                    target  it     rains  </S>   no       </S>  ..
           backward input   </S>   rains  it     </S>     no    ..
                    target  rains  it     <S>    no       <S>   ..

A sentence of n tokens is n + 1 predictions in each direction: `</S>` is never a forward input, `<S>` never a
forward target. A word that the vocabulary lacks enters by its characters ("char" input) or as `<UNK>` ("word"
input), and is predicted as `<UNK>`.

Letters in shapes: B rows, T steps, N distinct tokens of a batch, C = 50 characters of a token.
"""

import glob
import gzip
import hashlib
import json
import os
import queue
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cached_property, partial
from itertools import chain, repeat
from pathlib import Path
from typing import IO, Any

import numpy as np

from runtime import UserError, listed, log

FOREIGN_FORMS = {b"\x1f\x8b": "gzip", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}  # by a file's first bytes
MAX_CHARS = 50
MAX_BYTES = MAX_CHARS - 2  # a token's own, between begin-of-word and end-of-word
MARKERS = BOS, EOS, UNK = "<S>", "</S>", "<UNK>"
UNK_ID = MARKERS.index(UNK)

BLOCK = 1 << 22  # bytes of text in hand at once
COUNTS_FILE = ".elmo_counts.json"
COUNTS_KEPT = 8  # vocabularies that the file remembers
LONG_COUNT = 1 << 28  # bytes whose counting takes long enough to be announced

# Five bytes that UTF-8 never uses stand for bilm-tf's characters 256 to 260, so that a table of tokens is one string
# of bytes. CHARACTERS turns a byte into bilm-tf's id plus one; BEHIND[n] turns, by "or", all but n bytes into padding.
BOS_BYTE, EOS_BYTE, WORD_BEGIN, WORD_END, PADDING = (bytes([byte]) for byte in range(0xFB, 0x100))
CHARACTERS = np.r_[1:0xFC, 257:262].astype(np.int32)
BEHIND = np.where(np.arange(MAX_CHARS) < np.arange(MAX_CHARS + 1)[:, None], 0, PADDING[0]).astype(np.uint8)


class CharTable:
    """The characters of many tokens, end to end in one string of bytes, expanded into rows of ids on demand."""

    def __init__(self, tokens: Iterable[str]):
        marker = {BOS: BOS_BYTE, EOS: EOS_BYTE}
        words = [marker.get(token) or _utf8(token)[:MAX_BYTES] for token in tokens]
        text = WORD_BEGIN + (WORD_END + WORD_BEGIN).join(words) + WORD_END + PADDING * MAX_CHARS
        self.lengths = np.fromiter(map(len, words), np.uint8, len(words)) + np.uint8(2)  # (n,) with begin and end
        self._starts = np.cumsum(self.lengths, dtype=np.int64) - self.lengths
        self._windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(text, np.uint8), MAX_CHARS)

    def rows(self, which: np.ndarray) -> np.ndarray:
        """(n, C) int32 character ids of the tokens numbered `which` (n,)."""
        return CHARACTERS.take(self._windows[self._starts[which]] | BEHIND[self.lengths[which]])


def char_ids(tokens: Sequence[str]) -> np.ndarray:
    """(n, C) int32: bilm-tf's character ids plus one. "<S>" and "</S>" become the marker characters."""
    return CharTable(tokens).rows(np.arange(len(tokens)))


def count_cut(tokens: Iterable[str]) -> int:
    """How many of the tokens have more bytes than the character input takes, and are therefore cut."""
    return sum(len(_utf8(token)) > MAX_BYTES for token in tokens)


def _utf8(token: str) -> bytes:
    return token.encode("utf-8", "ignore")  # as bilm-tf: half a surrogate pair is left out


class Vocabulary:
    """The words that can be predicted: `<S>`, `</S>`, `<UNK>`, then by falling frequency, which is not checked.

    `source` is the file whose lines the tokens were, for messages.
    """

    def __init__(self, tokens: Iterable[str], source: str | Path = "vocabulary"):
        self.tokens = list(tokens)
        self.index = {token: i for i, token in enumerate(self.tokens)}
        distinct = len(self.index) == len(self.tokens)
        marked = tuple(self.tokens[: len(MARKERS)]) == MARKERS
        if not (distinct and marked and "\n".join(self.tokens).split() == self.tokens):
            raise UserError(f"{source}:{_first_fault(self.tokens)}")

    @classmethod
    def from_file(cls, path: str | Path) -> "Vocabulary":
        """Read a vocabulary file: UTF-8, one token a line."""
        path = Path(path)
        if not path.is_file():
            raise UserError(f"{path}: there is no such file. `preprocess.py vocab` writes a vocabulary.")
        text = "".join(_blocks(path))
        if not text:
            raise UserError(f"{path}: the file is empty. `preprocess.py vocab` writes a vocabulary.")
        return cls(text.removesuffix("\n").split("\n"), source=path)

    @staticmethod
    def is_one(path: Path) -> bool:
        """Whether the file begins as vocabularies do."""
        beginning = "\n".join((*MARKERS, "")).encode()
        with path.open("rb") as file:
            return file.read(len(beginning)) == beginning

    def save(self, path: str | Path) -> None:
        """Write the file that `from_file` reads."""
        with Path(path).open("wb") as file:
            self.write(file)

    def write(self, file: IO[bytes]) -> None:
        """The same into an open file."""
        file.write(("\n".join(self.tokens) + "\n").encode("utf-8"))

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self.index

    def __getitem__(self, i: int) -> str:
        return self.tokens[i]

    def id(self, token: str) -> int:
        """The token's id, or `<UNK>`'s."""
        return self.index.get(token, UNK_ID)

    def ids(self, tokens: Sequence[str]) -> np.ndarray:
        """(n,) int64 ids, `<UNK>`'s for unknown tokens."""
        return np.fromiter(map(self.index.get, tokens, repeat(UNK_ID)), np.int64, len(tokens))

    @cached_property
    def characters(self) -> CharTable:
        """The characters of all tokens, built when first needed."""
        return CharTable(self.tokens)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-1 of the tokens in hexadecimal, to tell vocabularies apart."""
        return hashlib.sha1("\n".join(self.tokens).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def identity(self) -> str:
        """The same in brief, with their number."""
        return f"{len(self):,} tokens (SHA-1 {self.fingerprint[:12]})"


def _first_fault(tokens: list[str]) -> str:
    """The first line of a bad vocabulary that is wrong, and what is wrong with it."""
    first: dict[str, int] = {}
    for line, token in enumerate(tokens + ["the end of the file"] * (len(MARKERS) - len(tokens)), 1):
        if token.endswith("\r"):
            fault = "the line ends with CR LF, as on Windows. Convert the file: sed -i 's/\\r$//'"
        elif line <= len(MARKERS) and token != MARKERS[line - 1]:
            fault = (
                f"found {token!r}, expected {MARKERS[line - 1]}. The first three lines must be {', '.join(MARKERS)}, "
                "as `preprocess.py vocab` writes them."
            )
        elif not token:
            fault = "an empty line. Expected one token a line: remove it."
        elif token.split() != [token]:
            fault = f"{token!r} holds white space, which separates tokens. Expected one token a line."
        elif first.setdefault(token, line) != line:
            fault = f"{token!r} is in line {first[token]} already. Remove one of the two."
        else:
            continue
        return f"{line}: {fault}"
    raise AssertionError("there is no fault")


def _blocks(path: Path) -> Iterator[str]:
    """The text of a file, plain or .gz, in pieces of whole lines."""
    line = 1
    try:
        with _opened(path) as file:
            while block := file.read(BLOCK) + file.readline():
                try:
                    text = block.decode("utf-8")
                except UnicodeDecodeError as error:
                    line += block.count(b"\n", 0, error.start)
                    raise UserError(
                        f"{path}:{line}: byte 0x{block[error.start]:02x} is not UTF-8. Convert the file, for instance "
                        "with `preprocess.py --encoding`."
                    ) from error
                yield text.removeprefix("\ufeff") if line == 1 else text
                line += block.count(b"\n")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: damaged or incomplete ({error}). Fetch or make it again.") from error


def _opened(path: Path) -> IO[bytes]:
    """A file, unpacked if it begins as gzip does, whatever its name."""
    file = path.open("rb")
    if foreign_form(file.read(2)) == "gzip":
        file.close()
        return gzip.open(path, "rb")
    file.seek(0)
    return file


def foreign_form(beginning: bytes) -> str | None:
    """What a file's first bytes say that it is, if it is not plain text."""
    return next((form for mark, form in FOREIGN_FORMS.items() if beginning.startswith(mark)), None)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")  # splitlines would also split at characters that are white space within a line
    return lines if lines[-1] else lines[:-1]


def read_sentences(path: str | Path) -> Iterator[list[str]]:
    """The tokens of every line of a file. A blank line is an empty sentence, so that the count of lines is kept."""
    for text in _blocks(Path(path)):
        yield from map(str.split, _lines(text))


@dataclass
class Counts:
    """What a corpus holds."""

    sentences: int = 0
    tokens: int = 0
    unknown: int = 0  # tokens that the vocabulary lacks
    blank_lines: int = 0
    windows_lines: int = 0  # that end with CR LF
    markers: int = 0  # <S> and </S> in the text, where they do not belong

    @property
    def predictions(self) -> int:
        """In each direction: every token, and the end of every sentence."""
        return self.tokens + self.sentences

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*map(sum, zip(astuple(self), astuple(other), strict=True)))


class Corpus:
    """Text files, one sentence a line: a file, a folder, a glob, or several of these. gzip is unpacked."""

    def __init__(self, source: str | Path | Iterable[str | Path]):
        sources = [source] if isinstance(source, (str, Path)) else source
        self.paths: list[Path] = list(chain.from_iterable(map(_files, sources)))
        self._told: set[str] = set()
        if not self.paths:
            raise UserError("the corpus has no files: expected a file, a folder or a glob.")
        for path in self.paths:
            if not path.stat().st_size:
                raise UserError(f"{path}: the file is empty. Expected one sentence a line, or no such file.")
            if Vocabulary.is_one(path):
                raise UserError(f"{path} is a vocabulary. Expected text, for instance {path.parent / 'train' / '*'}.")

    @cached_property
    def identity(self) -> str:
        """Names and sizes of the files, in brief: what a position in them depends on."""
        sizes = [(path.name, path.stat().st_size) for path in self.paths]
        digest = hashlib.sha1(json.dumps(sizes).encode()).hexdigest()[:12]
        return f"{len(sizes)} files of {sum(size for _, size in sizes):,} bytes (SHA-1 {digest})"

    def check(self, where: str | Path, counts: Counts) -> None:
        """Refuse text without a sentence. Say once what is passed over and what looks wrong."""
        if not counts.sentences:
            raise UserError(f"{where}: nothing but {counts.blank_lines:,} blank lines. Expected one sentence a line.")
        for number, what in (
            (counts.blank_lines, "blank lines, which are skipped"),
            (counts.windows_lines, "lines that end with CR LF, as on Windows, which is accepted"),
            (counts.markers, "times <S> or </S> in the text: remove them, the batches have their own"),
        ):
            if number and what not in self._told:
                self._told.add(what)
                log.warning(f"{where}: {number:,} {what}.")

    def count(self, vocabulary: Vocabulary) -> Counts:
        """Count all files, or recall the counts of files and vocabulary that have not changed since."""
        memory = self.paths[0].parent / COUNTS_FILE
        remembered = _recall(memory)
        known = remembered[vocabulary.fingerprint] = dict(remembered.pop(vocabulary.fingerprint, {}))
        stale = [path for path in self.paths if known.get(str(path.absolute()), [])[:2] != _stamp(path)]
        if sum(path.stat().st_size for path in stale) > LONG_COUNT:
            log.info(f"Counting the tokens of {len(stale)} files, once for this vocabulary ...")
        can_be_kept = True
        for path in stale:
            known[str(path.absolute())] = [*_stamp(path), *astuple(_count(path, vocabulary))]
            can_be_kept = can_be_kept and _remember(memory, dict(list(remembered.items())[-COUNTS_KEPT:]))
        total = Counts()
        for path in self.paths:
            counts = Counts(*known[str(path.absolute())][2:])
            if not counts.sentences:
                self.check(path, counts)
            total += counts
        self.check(self.paths[0] if len(self.paths) == 1 else f"{len(self.paths)} files", total)
        return total


def _files(source: str | Path) -> list[Path]:
    """The files that a path or glob stands for, in sorted order, without hidden ones."""
    path = Path(source)
    if path.is_file():
        return [path]
    pattern = str(Path(glob.escape(str(path)), "*") if path.is_dir() else path)
    found = sorted(map(Path, glob.glob(pattern, recursive=True)))  # noqa: PTH207
    files = [match for match in found if match.is_file()]
    if dangling := [match for match in found if match.is_symlink() and not match.exists()]:
        raise UserError(f"{dangling[0]} is a link to {dangling[0].readlink()}, which is not there. Remove or mend it.")
    if path.is_dir() and (folders := [match.name for match in found if match.is_dir()]):
        log.warning(f"{path} has folders in it, which are passed over: {listed(folders, 3)}.")
    if not files:
        raise UserError(
            f"no file matches {pattern!r}, looked for from {Path.cwd()}. Check the path; a glob must be quoted in the "
            "shell, for instance --train_data_path='corpus/*'."
        )
    return files


def _count(path: Path, vocabulary: Vocabulary) -> Counts:
    total = Counts()
    for text in _blocks(path):
        lines, tokens = _lines(text), text.split()
        blank = lines.count("") + sum(map(str.isspace, lines))
        total += Counts(
            sentences=len(lines) - blank,
            tokens=len(tokens),
            unknown=len(tokens) - sum(map(vocabulary.index.__contains__, tokens)),
            blank_lines=blank,
            windows_lines=text.count("\r\n"),
            markers=sum(tokens.count(marker) for marker in (BOS, EOS) if marker in text),
        )
    return total


def _stamp(path: Path) -> list[int]:
    return [path.stat().st_size, path.stat().st_mtime_ns]


def _recall(memory: Path) -> dict[str, dict[str, list[int]]]:
    """What was counted: {vocabulary: {path: [size, time, *counts]}}. An unreadable file is as good as none."""
    try:
        remembered = json.loads(memory.read_text(encoding="utf-8"))
        entries = [entry for known in remembered.values() for entry in known.values()]
        intact = all(len(entry) == 2 + len(astuple(Counts())) for entry in entries)
        return remembered if intact else {}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _remember(memory: Path, counts: dict) -> bool:
    """Write the counts, if that can be done."""
    temporary = memory.with_name(f"{memory.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(counts), encoding="utf-8")
        temporary.replace(memory)
    except OSError as error:
        log.info(f"The counts cannot be kept for the next time: {error}")
        with suppress(OSError):
            temporary.unlink()
        return False
    return True


@dataclass
class Tokens:
    """The distinct tokens of a batch: what the token encoder of the network takes."""

    ids: np.ndarray  # "char": (N, C) int32 character ids, shortest token first; "word": (N,) int64 vocabulary ids
    lengths: np.ndarray | None  # "char": (N,) int32 characters that are not padding, bytes + 2; "word": None


@dataclass
class TokenBatch:
    """Sentences to embed, each row `<S> w1 .. wn </S>`."""

    tokens: Tokens
    index: np.ndarray  # (B, n_max + 2) int64 into tokens; padding is 0
    lengths: np.ndarray  # (B,) int64, n + 2


@dataclass
class LMBatch:
    """B rows of T steps in both directions. Padding, from a row's length on, is 0."""

    tokens: Tokens  # the distinct inputs of both directions
    forward_input: np.ndarray  # (B, T) int64 into tokens
    backward_input: np.ndarray  # (B, T) int64 into tokens
    forward_target: np.ndarray  # (B, T) int64 vocabulary ids
    backward_target: np.ndarray  # (B, T) int64 vocabulary ids
    lengths: np.ndarray  # (B,) int64 steps that are real: in training T
    position: dict | None = None  # in training: where the stream stands after this batch


class _Lexicon:
    """Numbers for tokens: the vocabulary's ids and, for "char" input, from V on, those of the unknown words met."""

    def __init__(self, vocabulary: Vocabulary, input: str):
        if input not in ("char", "word"):
            raise ValueError(f"input is {input!r}: expected 'char' or 'word'")
        self._vocabulary, self._by_characters = vocabulary, input == "char"
        self._unknown: dict[str, int] = {}  # word to number, less V; in the order of the numbers
        self._renew()

    def number(self, tokens: list[str]) -> np.ndarray:
        """(n,) int32 numbers of n tokens."""
        default = -1 if self._by_characters else UNK_ID
        numbers = np.fromiter(map(self._vocabulary.index.get, tokens, repeat(default)), np.int32, len(tokens))
        places = np.flatnonzero(numbers < 0)
        if len(places):
            unknown, words = self._unknown, [tokens[place] for place in places.tolist()]
            numbers[places] = [unknown.setdefault(word, len(unknown)) for word in words]
            numbers[places] += len(self._vocabulary)
            self._stale = True
        return numbers

    def forget(self, kept: list[np.ndarray]) -> None:
        """Forget the unknown words save those in the arrays `kept` of numbers, which are renumbered in place."""
        first, words = len(self._vocabulary), list(self._unknown)
        needed = np.unique(np.concatenate([numbers[numbers >= first] for numbers in kept]))
        self._unknown = {words[number - first]: new for new, number in enumerate(needed.tolist())}
        for numbers in kept:
            unknown = numbers >= first
            numbers[unknown] = first + np.searchsorted(needed, numbers[unknown])
        self._stale = True

    def targets(self, numbers: np.ndarray) -> np.ndarray:
        """The vocabulary ids of numbers, in the same shape."""
        return np.where(numbers < len(self._vocabulary), numbers, UNK_ID)

    def distinct(self, numbers: np.ndarray) -> tuple[Tokens, np.ndarray]:
        """Each token of `numbers` (n,) once, and the index (n,) at which each of the numbers is found there.

        The order follows from the tokens and not from their numbers, which in a stream depend on where it began.
        """
        if self._stale:
            self._renew()
        places = np.arange(len(numbers), dtype=np.int32)
        self._place[numbers] = places  # the last place of each
        distinct = numbers[self._place[numbers] == places]
        if self._by_characters:
            distinct = distinct[np.argsort(self._lengths[distinct], kind="stable")]
            tokens = Tokens(self._character_rows(distinct), self._lengths[distinct].astype(np.int32))
        else:
            tokens = Tokens(distinct.astype(np.int64), None)
        self._place[distinct] = places[: len(distinct)]
        return tokens, self._place[numbers]

    def _character_rows(self, numbers: np.ndarray) -> np.ndarray:
        known = numbers < len(self._vocabulary)
        rows = np.empty((len(numbers), MAX_CHARS), np.int32)
        rows[known] = self._vocabulary.characters.rows(numbers[known])
        rows[~known] = self._characters.rows(numbers[~known] - len(self._vocabulary))
        return rows

    def _renew(self) -> None:
        """Bring the tables behind `distinct` up to the unknown words of the moment."""
        self._stale = False
        self._place = np.empty(len(self._vocabulary) + len(self._unknown), np.int32)
        if self._by_characters:
            self._characters = CharTable(self._unknown)
            self._lengths = np.concatenate([self._vocabulary.characters.lengths, self._characters.lengths])


_MARKERS_ONLY = Vocabulary(MARKERS)


def padded(values: np.ndarray, lengths: np.ndarray, width: int) -> np.ndarray:
    """(B, width) int64, whose row b holds the next lengths[b] of `values`, then zeros."""
    out = np.zeros((len(lengths), width), np.int64)
    out[np.arange(width) < lengths[:, None]] = values
    return out


def token_batch(
    sentences: Sequence[Sequence[str]], input: str = "char", vocabulary: Vocabulary | None = None
) -> TokenBatch:
    """Sentences as a batch to embed. "word" input needs the vocabulary; "char" input makes no use of it."""
    if input == "word" and vocabulary is None:
        raise TypeError("token_batch: 'word' input needs a vocabulary")
    lexicon = _Lexicon(vocabulary if input == "word" else _MARKERS_ONLY, input)
    rows = [[BOS, *sentence, EOS] for sentence in sentences]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    tokens, index = lexicon.distinct(lexicon.number(list(chain.from_iterable(rows))))
    return TokenBatch(tokens, padded(index, lengths, lengths.max(initial=0)), lengths)


@dataclass(slots=True, eq=False)
class _Sentence:
    """A sentence on its way through a row."""

    words: np.ndarray  # (n + 2,) int32 numbers of <S> w1 .. wn </S>
    file: int = -1
    number: int = -1  # within the file
    done: int = 0  # of its n + 1 steps

    @property
    def left(self) -> int:
        return len(self.words) - 1 - self.done


Piece = tuple[_Sentence, int, int]  # the steps of a sentence from .. to


def _lm_batch(pieces: list[Piece], lengths: np.ndarray, steps: int, lexicon: _Lexicon) -> LMBatch:
    """The batch whose rows, of `lengths` (B,), are filled with the pieces one after another."""

    def cut(shift: int, direction: int) -> np.ndarray:
        return np.concatenate([s.words[::direction][begin + shift : end + shift] for s, begin, end in pieces])

    def rows(values: np.ndarray) -> np.ndarray:
        return padded(values, lengths, steps)  # (B, T)

    tokens, index = lexicon.distinct(np.concatenate([cut(0, 1), cut(0, -1)]))
    forward, backward = np.split(index, 2)
    return LMBatch(
        tokens=tokens,
        forward_input=rows(forward),
        backward_input=rows(backward),
        forward_target=rows(lexicon.targets(cut(1, 1))),
        backward_target=rows(lexicon.targets(cut(1, -1))),
        lengths=lengths,
    )


def lm_batch(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, input: str = "char") -> LMBatch:
    """A sentence in each row, to score sentences each by itself: as many rows as sentences, T = longest + 1."""
    lexicon = _Lexicon(vocabulary, input)
    numbered = [_Sentence(lexicon.number([BOS, *sentence, EOS])) for sentence in sentences]
    lengths = np.array([sentence.left for sentence in numbered], np.int64)
    return _lm_batch([(s, 0, s.left) for s in numbered], lengths, lengths.max(), lexicon)


class _Rows:
    """B rows of running sentences, from which batches are cut."""

    def __init__(self, batch_size: int, unroll_steps: int, vocabulary: Vocabulary, input: str):
        for name, value in (("batch_size", batch_size), ("unroll_steps", unroll_steps)):
            if value < 1:
                raise UserError(f"{name} is {value}: expected 1 or more.")
        self.under_way = [_Sentence(np.zeros(1, np.int32)) for _ in range(batch_size)]
        self._steps = unroll_steps
        self._lexicon = _Lexicon(vocabulary, input)
        self._pieces: list[Piece] = []

    def sentences(
        self, corpus: Corpus, file: int, order: Callable[[int], np.ndarray] = np.arange
    ) -> Iterator[_Sentence]:
        """The sentences of a file, in the order that the function makes of their number n: an array of 0 .. n - 1.

        When all are given out the file is forgotten: of its text only the sentences under way are kept.
        """
        numbers, borders = self._read(corpus, file)
        for number in order(len(borders) - 1).tolist():
            yield _Sentence(numbers[borders[number] : borders[number + 1]], file, number)
        held = {*self.under_way, *(sentence for sentence, _, _ in self._pieces)}
        for sentence in held:
            sentence.words = sentence.words.copy()
        self._lexicon.forget([sentence.words for sentence in held])

    def _read(self, corpus: Corpus, file: int) -> tuple[np.ndarray, np.ndarray]:
        """All sentences of a file, with their markers, end to end as int32 numbers, and their n + 1 borders."""
        numbers, lengths, counts = [], [np.zeros(1, np.int64)], Counts()
        for text in _blocks(corpus.paths[file]):
            lines = _lines(text)
            sentences = [[BOS, *words, EOS] for line in lines if (words := line.split())]
            numbers.append(self._lexicon.number(list(chain.from_iterable(sentences))))
            lengths.append(np.fromiter(map(len, sentences), np.int64, len(sentences)))
            blank = len(lines) - len(sentences)
            counts += Counts(len(sentences), blank_lines=blank, windows_lines=text.count("\r\n"))
        corpus.check(corpus.paths[file], counts)
        return np.concatenate(numbers), np.cumsum(np.concatenate(lengths))

    def batch(self, source: Iterator[_Sentence]) -> LMBatch | None:
        """The next batch, for which rows that run out take sentences from the source; None if nothing is left."""
        lengths = np.zeros(len(self.under_way), np.int64)
        self._pieces = []
        for row, sentence in enumerate(self.under_way):
            room = self._steps
            while room and (sentence.left or (sentence := next(source, None))):
                take = min(room, sentence.left)
                self.under_way[row] = sentence
                self._pieces.append((sentence, sentence.done, sentence.done + take))
                sentence.done += take
                room -= take
            lengths[row] = self._steps - room
        return _lm_batch(self._pieces, lengths, self._steps, self._lexicon) if self._pieces else None


class EvalStream:
    """All text of a corpus in its own order: every token is predicted exactly once in each direction.

    The last batches are ragged: when there are no more sentences, a row's length falls below T and then to 0. Rows
    keep their place, so that a carried state stays with its row. Every iteration starts from the beginning.
    """

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, batch_size: int, unroll_steps: int, input: str = "char"):
        self._corpus = corpus
        self._new_rows = partial(_Rows, batch_size, unroll_steps, vocabulary, input)

    def __iter__(self) -> Iterator[LMBatch]:
        rows = self._new_rows()
        files = range(len(self._corpus.paths))
        source = chain.from_iterable(rows.sentences(self._corpus, file) for file in files)
        while batch := rows.batch(source):
            yield batch


class TrainStream:
    """Batches without end, epoch after epoch, each in a new order: the share of one of `world_size` ranks.

    In every epoch the files are shuffled and dealt whole to the ranks. Those left over, fewer than the ranks, are
    read by all, of whom each takes the sentences whose number, modulo `world_size`, is its own. Within a file the
    sentences are shuffled. All follows from (seed, epoch), on every platform and with every version of NumPy. At
    the end of an epoch the rows go on with the next: every batch is full, nothing is dropped. One file is in memory
    at a time.

    `position`, also that of each batch, is made of plain containers and an array. A stream that is given it (here,
    or by `seek`) goes on with the very batches that would have followed.
    """

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        batch_size: int,
        unroll_steps: int,
        input: str = "char",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        shuffle: bool = True,
        position: dict | None = None,
    ):
        if seed < 0 or not 0 <= rank < world_size:
            raise UserError(f"seed {seed}, rank {rank} of {world_size}: expected seed and rank from 0, rank below.")
        self._corpus = corpus
        self._seed, self._rank, self._world_size, self._shuffle = seed, rank, world_size, shuffle
        self._tokens_per_step = batch_size * unroll_steps * world_size
        self._new_rows = partial(_Rows, batch_size, unroll_steps, vocabulary, input)
        self._identity = {
            "corpus": corpus.identity,
            "vocabulary": vocabulary.identity,
            "batch_size": batch_size,
            "unroll_steps": unroll_steps,
            "input": input,
            "seed": seed,
            "rank": rank,
            "world_size": world_size,
            "shuffle": shuffle,
        }
        self._go_to(0, 0, 0)
        if position is not None:
            self.seek(position)

    def steps_per_epoch(self, counts: Counts) -> int:
        """Batches of every rank that an epoch takes, rounded up."""
        return -(-counts.predictions // self._tokens_per_step)

    def __iter__(self) -> "TrainStream":
        return self

    def __next__(self) -> LMBatch:
        batch = self._rows.batch(self._source)
        batch.position = self.position
        return batch

    @property
    def position(self) -> dict:
        """Where the stream stands: so many sentences into the shuffled order of a file; and what the rows hold."""
        under_way = [(s.file, s.number, s.done) for s in self._rows.under_way]
        return {
            "epoch": self._epoch,
            "shard": self._shard,  # place in this rank's order of files
            "file": str(self._corpus.paths[self._plan[self._shard][0]]),
            "sentence": self._sentence,
            "rows": np.array(under_way, np.int64),  # (B, 3) file, number in the file, steps done
            "identity": self._identity,
        }

    def seek(self, position: dict, strict: bool = True) -> None:
        """Go on from a position. One of another stream (another seed, corpus ...) is an error that names what differs.

        With strict=False that is a warning, and the stream goes on with what is well defined: if sentences come in
        another order, from the beginning of the epoch; if there are fewer or more rows, from the same place, with
        the sentences under way in the rows that both have; otherwise exactly.
        """
        saved = position["identity"]
        differences = [name for name, value in self._identity.items() if saved.get(name) != value]
        listed = "; ".join(f"{name} was {saved.get(name)}, is {self._identity[name]}" for name in differences)
        if differences and strict:
            raise UserError(f"the position in the data was saved by another run: {listed}. Use what it was saved with.")
        if {"corpus", "seed", "rank", "world_size", "shuffle"}.intersection(differences):
            log.warning(f"The data is read from the beginning of epoch {position['epoch']}: {listed}.")
            return self._go_to(position["epoch"], 0, 0)
        if differences:
            log.warning(f"The data is read from where it was left, although {listed}.")
        self._go_to(position["epoch"], position["shard"], position["sentence"])
        self._take_up(position["rows"][: len(self._rows.under_way)])

    def _go_to(self, epoch: int, shard: int, sentence: int) -> None:
        self._epoch, self._shard, self._sentence = epoch, shard, sentence
        self._plan = self._deal()
        self._rows = self._new_rows()
        self._source = self._sentences()

    def _take_up(self, under_way: np.ndarray) -> None:
        """Give the rows the sentences that they were in the midst of: `rows` of a position."""
        for file in np.unique(under_way[under_way[:, 0] >= 0, 0]).tolist():
            rows = np.flatnonzero(under_way[:, 0] == file)
            _, numbers, done = under_way[rows].T
            sentences = self._rows.sentences(self._corpus, file, order=lambda n, numbers=numbers: numbers)
            for row, sentence, steps in zip(rows.tolist(), sentences, done.tolist(), strict=True):
                sentence.done = steps
                self._rows.under_way[row] = sentence

    def _order(self, n: int, of: int) -> np.ndarray:
        """A permutation (n,). Of what NumPy draws, only the raw bits are promised never to change."""
        if not self._shuffle:
            return np.arange(n)
        return np.argsort(np.random.PCG64([self._seed, self._epoch, of]).random_raw(n), kind="stable")

    def _deal(self) -> list[tuple[int, bool]]:
        """The files of this rank in this epoch, and whether it shares them with the others."""
        order = self._order(len(self._corpus.paths), of=0).tolist()
        whole = len(order) - len(order) % self._world_size
        mine = order[self._rank : whole : self._world_size]
        return [(file, False) for file in mine] + [(file, True) for file in order[whole:]]

    def _share(self, n: int, file: int, shared: bool) -> np.ndarray:
        """Which sentences of the n in a file this rank has still to read in this epoch, in their order."""
        order = self._order(n, of=1 + file)
        if shared:
            order = order[order % self._world_size == self._rank]
        return order[self._sentence :]

    def _sentences(self) -> Iterator[_Sentence]:
        """The sentences of this rank from where the stream stands, without end."""
        idle = 0
        while idle <= len(self._plan):
            for file, shared in self._plan[self._shard :]:
                idle += 1
                share = partial(self._share, file=file, shared=shared)
                for sentence in self._rows.sentences(self._corpus, file, share):
                    idle = 0
                    self._sentence += 1
                    yield sentence
                self._shard, self._sentence = self._shard + 1, 0
            self._epoch, self._shard = self._epoch + 1, 0
            self._plan = self._deal()
        raise UserError(f"rank {self._rank} of {self._world_size}: the corpus has no sentence for it. Use fewer ranks.")


WINDOW = 16  # batches that are made of one window of sentences
TOKENS_PER_SENTENCE = 32  # on average; where there are more, a window has fewer sentences


def windows(sentences: Iterable[Sequence[str]], size: float) -> Iterator[list[Sequence[str]]]:
    """The sentences, up to `size` at a time; math.inf: all at once."""
    window, tokens = [], 0
    for sentence in sentences:
        window.append(sentence)
        tokens += len(sentence)
        if len(window) == size or tokens >= TOKENS_PER_SENTENCE * size:
            yield window
            window, tokens = [], 0
    if window:
        yield window


def sentence_batches(
    sentences: Iterable[Sequence[str]], batch_size: int = 64, max_tokens: int = 16384, window: float | None = None
) -> Iterator[tuple[np.ndarray, list[Sequence[str]]]]:
    """Batches of sentences of like length, found among `window` at a time (default: 16 batches), from endless input, too.

    Yields the positions (B,) int64 of the sentences in the input and the sentences, longest first: no more than
    `batch_size`, with no more than `max_tokens` tokens, padding and sentence markers included, unless a single
    sentence has more.
    """
    window = WINDOW * batch_size if window is None else window
    if min(batch_size, max_tokens, window) < 1:
        raise ValueError("sentence_batches: expected batch_size, max_tokens and window to be 1 or more")
    begin = 0
    for group in windows(sentences, window):
        order = np.argsort([-len(sentence) for sentence in group], kind="stable")
        while len(order):
            rows = max(1, min(batch_size, max_tokens // (len(group[order[0]]) + 2)))
            yield begin + order[:rows], [group[k] for k in order[:rows]]
            order = order[rows:]
        begin += len(group)


def shuffled_batches(
    sentences: Sequence[Sequence[str]], batch_size: int, random: np.random.Generator
) -> list[np.ndarray]:
    """The positions (B,) of the sentences of every batch of an epoch: in random order, but like lengths together."""
    order = random.permutation(len(sentences))
    batches = [order[places] for places, _ in sentence_batches([sentences[k] for k in order], batch_size)]
    random.shuffle(batches)
    return batches


def in_order(pairs: Iterable[tuple[np.ndarray, Iterable[Any]]]) -> Iterator[Any]:
    """The values of (positions, values) pairs in the order of the positions, each as soon as its turn has come."""
    waiting: dict[int, Any] = {}
    turn = 0
    for positions, values in pairs:
        waiting.update(zip(positions.tolist(), values, strict=True))
        while turn in waiting:
            yield waiting.pop(turn)
            turn += 1
    if waiting:
        raise ValueError(f"in_order: no value has come for position {turn}")


class Prefetcher:
    """Runs an iterator in a thread of its own, which prepares up to `depth` items ahead of their use.

    An exception is raised where the iterator raised it, after the items before it. `close()`, or the end of a `with`
    block, stops the thread and drops what it has prepared.
    """

    def __init__(self, iterable: Iterable[Any], depth: int = 4):
        self._items: queue.Queue = queue.Queue(depth)
        self._stop = threading.Event()
        work = (iter(iterable), self._items, self._stop)
        self._thread = threading.Thread(target=_prefetch, args=work, daemon=True)
        self._thread.start()
        weakref.finalize(self, self._stop.set)  # the thread also ends when nobody holds the prefetcher any more

    def __iter__(self) -> "Prefetcher":
        return self

    def __next__(self) -> Any:
        if self._stop.is_set():
            raise StopIteration
        item, end = self._items.get()
        if end is not None:
            self._stop.set()
            raise end
        return item

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> "Prefetcher":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _prefetch(iterator: Iterator[Any], items: queue.Queue, stop: threading.Event) -> None:
    """Put (item, None) for every item, then (None, the exception that ends the iterator)."""
    entry = None
    while not stop.is_set():
        try:
            entry = entry or (next(iterator), None)
        except BaseException as end:
            entry = (None, end)
        try:
            items.put(entry, timeout=0.05)
            if entry[1] is not None:
                return
            entry = None
        except queue.Full:
            pass
