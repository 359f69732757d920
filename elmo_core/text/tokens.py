"""Tokens: the vocabulary, their characters, and batches of sentences. NumPy only.

Letters in shapes: B rows, T steps, N distinct tokens of a batch, C = 50 characters of a token.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.config import INPUTS
from elmo_core.machine.disk import atomic_write, check_input
from elmo_core.machine.messages import UserError, log
from elmo_core.text.characters import BOS, BYTES, EOS, Alphabet
from elmo_core.text.text_files import blocks

UNK = "<UNK>"
MARKERS = BOS, EOS, UNK
UNK_ID = MARKERS.index(UNK)
PADDLENLP_MARKERS = {"UNK", BOS, EOS, "<PAD>"}  # which its reader puts before the words of a file


class Vocabulary:
    """The words that can be predicted: `<S>`, `</S>`, `<UNK>`, then by falling frequency, which is not checked.

    source, line: the file whose lines the tokens were, and the first of these lines, for messages.
    alphabet: of the characters that words are made of.
    """

    def __init__(
        self, tokens: Iterable[str], source: str | Path = "vocabulary", alphabet: Alphabet = BYTES, line: int = 1
    ):
        self.tokens, self.alphabet = list(tokens), alphabet
        self.index = {token: i for i, token in enumerate(self.tokens)}
        distinct = len(self.index) == len(self.tokens)
        marked = tuple(self.tokens[: len(MARKERS)]) == MARKERS
        if not (distinct and marked and "\n".join(self.tokens).split() == self.tokens):
            raise UserError(f"{source}:{_first_fault(self.tokens, line - 1)}")

    @classmethod
    def from_file(cls, path: str | Path, alphabet: Alphabet = BYTES) -> "Vocabulary":
        """Read a vocabulary file: UTF-8, one token a line.

        PaddleNLP's have no markers, or its own in the first lines: then ours take their place.
        """
        path = Path(path)
        check_input(path, "a vocabulary, one token a line, as `preprocess.py vocab` writes it")
        text = "".join(blocks(path)).replace("\r\n", "\n")
        if not text:
            raise UserError(f"{path}: the file is empty. `preprocess.py vocab` writes a vocabulary.")
        tokens, line = text.removesuffix("\n").split("\n"), 1
        if not PADDLENLP_MARKERS.union(MARKERS).intersection(tokens):
            log.info(f"{path} has no markers: {', '.join(MARKERS)} are put before its {len(tokens):,} words.")
            tokens, line = [*MARKERS, *tokens], 1 - len(MARKERS)
        elif set(tokens[:4]) == PADDLENLP_MARKERS:
            log.info(f"{path} begins with PaddleNLP's markers: {', '.join(MARKERS)} take their place.")
            tokens, line = [*MARKERS, *tokens[4:]], 2
        return cls(tokens, path, alphabet, line)

    @staticmethod
    def is_one(path: Path) -> bool:
        """Whether the file begins as vocabularies do."""
        beginning = "\n".join((*MARKERS, "")).encode()
        with path.open("rb") as file:
            return file.read(len(beginning)) == beginning

    def save(self, path: str | Path) -> None:
        """Write the file that `from_file` reads."""
        with atomic_write(path, "wb") as file:
            file.write(("\n".join(self.tokens) + "\n").encode("utf-8"))

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and self.alphabet.shortened([token])[0] in self.index

    def __getitem__(self, i: int) -> str:
        return self.tokens[i]

    def ids(self, tokens: Sequence[str]) -> np.ndarray:
        """(n,) int64 ids, `<UNK>`'s for unknown tokens."""
        tokens = self.alphabet.shortened(tokens)
        return np.fromiter(map(self.index.get, tokens, repeat(UNK_ID)), np.int64, len(tokens))

    @cached_property
    def characters(self):
        """The characters of all tokens, built when first needed."""
        return self.alphabet.table(self.tokens)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-1 of the tokens in hexadecimal, to tell vocabularies apart."""
        return hashlib.sha1("\n".join(self.tokens).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def identity(self) -> str:
        """The same in brief, with their number."""
        return f"{len(self):,} tokens (SHA-1 {self.fingerprint[:12]})"


def _first_fault(tokens: list[str], before: int) -> str:
    """The first line of a bad vocabulary that is wrong, and what is wrong with it."""
    first: dict[str, int] = {}
    for line, token in enumerate(tokens + ["the end of the file"] * (len(MARKERS) - len(tokens)), 1):
        if line <= len(MARKERS) and token != MARKERS[line - 1]:
            fault = (
                f"found {token!r}, expected {MARKERS[line - 1]}. The first three lines must be {', '.join(MARKERS)}, "
                "as `preprocess.py vocab` writes them."
            )
        elif token.split() != [token]:
            fault = f"found {token!r}, expected one token a line, without white space."
        elif first.setdefault(token, line) != line:
            fault = f"{token!r} is in line {first[token] + before} already. Remove one of the two."
        else:
            continue
        return f"{line + before}: {fault}"
    raise AssertionError("there is no fault")


@dataclass
class Tokens:
    """The distinct tokens of a batch, shortest first: what the token encoder of the network takes, as far as it reads it."""

    characters: np.ndarray | None  # (N, C) int32 character ids
    lengths: np.ndarray | None  # (N,) int32 characters that are not padding, the token's own + 2
    words: np.ndarray | None = None  # (N,) int64 vocabulary ids


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

    def take(self, rows: slice) -> "LMBatch":
        """Some of the rows, with the tokens that these have."""
        lengths, steps = self.lengths[rows], self.forward_input.shape[1]
        real = np.arange(steps) < lengths[:, None]
        inputs = [self.forward_input[rows][real], self.backward_input[rows][real]]
        used, places = np.unique(np.concatenate(inputs), return_inverse=True)
        found = (self.tokens.characters, self.tokens.lengths, self.tokens.words)
        tokens = Tokens(*(None if part is None else part[used] for part in found))
        forward, backward = (padded(half, lengths, steps) for half in np.split(places.ravel(), 2))
        targets = self.forward_target[rows], self.backward_target[rows]
        return LMBatch(tokens, forward, backward, *targets, lengths, self.position)


class Lexicon:
    """Numbers for tokens: the vocabulary's ids and, if characters are read, numbers from V on for unknown words."""

    def __init__(self, vocabulary: Vocabulary, input: str):
        self._vocabulary, self._reads = vocabulary, INPUTS[input]
        self._unknown: dict[str, int] = {}  # word to number, less V; in the order of the numbers
        self._renew()

    def number(self, tokens: list[str]) -> np.ndarray:
        """(n,) int32 numbers of n tokens."""
        default = -1 if self._reads.characters else UNK_ID
        tokens = self._vocabulary.alphabet.shortened(tokens)
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
        characters = lengths = words = None
        if self._reads.characters:
            distinct = distinct[np.argsort(self._lengths[distinct], kind="stable")]
            characters, lengths = self._character_rows(distinct), self._lengths[distinct].astype(np.int32)
        if self._reads.words:
            words = self.targets(distinct).astype(np.int64)
        self._place[distinct] = places[: len(distinct)]
        return Tokens(characters, lengths, words), self._place[numbers]

    def _character_rows(self, numbers: np.ndarray) -> np.ndarray:
        known = numbers < len(self._vocabulary)
        rows = np.empty((len(numbers), self._vocabulary.alphabet.columns), np.int32)
        rows[known] = self._vocabulary.characters.rows(numbers[known])
        rows[~known] = self._characters.rows(numbers[~known] - len(self._vocabulary))
        return rows

    def _renew(self) -> None:
        """Bring the tables behind `distinct` up to the unknown words of the moment."""
        self._stale = False
        self._place = np.empty(len(self._vocabulary) + len(self._unknown), np.int32)
        if self._reads.characters:
            self._characters = self._vocabulary.alphabet.table(self._unknown)
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
    """Sentences as a batch to embed. An input that reads words needs the vocabulary, others only its alphabet."""
    if INPUTS[input].words and vocabulary is None:
        raise TypeError(f"token_batch: {input!r} input needs a vocabulary")
    needed = vocabulary and (INPUTS[input].words or vocabulary.alphabet is not BYTES)
    lexicon = Lexicon(vocabulary if needed else _MARKERS_ONLY, input)
    rows = [[BOS, *sentence, EOS] for sentence in sentences]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    tokens, index = lexicon.distinct(lexicon.number(list(chain.from_iterable(rows))))
    return TokenBatch(tokens, padded(index, lengths, lengths.max(initial=0)), lengths)


WINDOW = 16  # batches that are made of one window of sentences
TOKENS_PER_SENTENCE = 32  # on average; where there are more, a window has fewer sentences


def sentence_windows(sentences: Iterable[Sequence[str]], size: float) -> Iterator[list[Sequence[str]]]:
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
    begin = 0
    for group in sentence_windows(sentences, window):
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
