"""The words that a language model can predict, and their ids. NumPy only."""

import hashlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import count, repeat
from pathlib import Path

import numpy as np

from elmo_core.command import command_line
from elmo_core.files.disk import atomic_write, check_input, user_path
from elmo_core.messages import UserError, log
from elmo_core.text.characters import BOS, BYTES, EOS, Alphabet
from elmo_core.text.speller import Speller, UnknownWords
from elmo_core.text.text_files import read_lines

UNK = "<UNK>"
SPECIAL_TOKENS = [BOS, EOS, UNK]
UNK_ID = SPECIAL_TOKENS.index(UNK)
SLICE = 1 << 16  # tokens that are checked at once
MIN_SPELLED = 1000  # words that a speller learns from, at least
# PaddleNLP's reader puts these before the words of a file.
PADDLENLP_SPECIAL_TOKENS = {"UNK", BOS, EOS, "<PAD>"}


class Vocabulary:
    """The words that can be predicted: `<S>`, `</S>`, `<UNK>`, then the others.

    The others are expected by decreasing frequency, which is not checked.
    source, lines: where the tokens come from, for error messages: a file, and their lines.
    alphabet: how words become character ids.
    unknown_words: those that a corpus has outside the vocabulary, from which spelling is learnt;
    None: no corpus is known.
    """

    # The rows of the tokens in the tables of a model for which they had another order.
    rows: slice | np.ndarray = slice(None)

    def __init__(
        self,
        tokens: Iterable[str],
        source: str | Path = "vocabulary",
        alphabet: Alphabet = BYTES,
        lines: Iterable = (),
        unknown_words: UnknownWords | None = None,
    ):
        self.tokens = list(tokens)
        self.source = source
        self.alphabet = alphabet
        self.unknown_words = unknown_words
        self.index = {token: i for i, token in enumerate(self.tokens)}
        are_distinct = len(self.index) == len(self.tokens)
        begin_as_expected = self.tokens[: len(SPECIAL_TOKENS)] == SPECIAL_TOKENS
        if not (are_distinct and begin_as_expected and _are_words(self.tokens)):
            raise UserError(f"{source}:{_first_error(self.tokens, lines or count(1))}")

    @classmethod
    def from_file(cls, path: str | Path, alphabet: Alphabet = BYTES) -> "Vocabulary":
        """Read a vocabulary file: UTF-8, one token per line.

        Our special tokens replace PaddleNLP's. They are added to a file without any.
        """
        file = user_path(path)
        tokens = _read_vocabulary(file)
        ours = ", ".join(SPECIAL_TOKENS)
        n_theirs = len(PADDLENLP_SPECIAL_TOKENS)
        if set(tokens[:n_theirs]) == PADDLENLP_SPECIAL_TOKENS:
            log.info(f"{file} begins with PaddleNLP's special tokens: {ours} replace them.")
            words = tokens[n_theirs:]
            first_line = 1 + n_theirs - len(SPECIAL_TOKENS)
            return cls(SPECIAL_TOKENS + words, file, alphabet, count(first_line))
        if PADDLENLP_SPECIAL_TOKENS.union(SPECIAL_TOKENS).isdisjoint(tokens):
            log.info(f"{file} has no special tokens: adding {ours} to its {len(tokens):,} words.")
            first_line = 1 - len(SPECIAL_TOKENS)
            return cls(SPECIAL_TOKENS + tokens, file, alphabet, count(first_line))
        return cls(tokens, file, alphabet)

    @classmethod
    def from_bilm_file(cls, path: Path) -> "Vocabulary":
        """Read bilm-tf's file, with the special tokens in any lines.

        They become the first, and `rows` has the old rows.
        """
        tokens = []
        lines = []
        for line, token in enumerate(_read_vocabulary(path), 1):
            if token != "!!!MAXTERMID":  # which bilm-tf skips
                tokens.append(token)
                lines.append(line)
        # A special token's rank is its id, that of any other is behind; sorting is stable.
        ranks = {token: rank for rank, token in enumerate(SPECIAL_TOKENS)}
        rows = sorted(
            range(len(tokens)), key=lambda row: ranks.get(tokens[row], len(SPECIAL_TOKENS))
        )
        vocabulary = cls([tokens[row] for row in rows], path, lines=[lines[row] for row in rows])
        vocabulary.rows = np.array(rows)
        return vocabulary

    @classmethod
    def frequent(
        cls, tokens: Iterable[str], min_count: int = 1, max_size: int | None = None
    ) -> "Vocabulary":
        """Choose the tokens of a text that occur at least min_count times.

        tokens: or a Counter of them. max_size: at most so many, with the special tokens.
        """
        counts = tokens if isinstance(tokens, Counter) else Counter(tokens)
        words = []
        for token, number in counts.items():
            # the count first: most tokens of a text are rare
            if number >= min_count and token not in SPECIAL_TOKENS and token.split() == [token]:
                words.append(token)
        words.sort(key=lambda word: (-counts[word], word))
        if max_size is not None:
            words = words[: max(0, max_size - len(SPECIAL_TOKENS))]
        return cls(SPECIAL_TOKENS + words)

    @staticmethod
    def is_vocabulary_file(path: Path) -> bool:
        """Tell whether the file begins with the special tokens."""
        with path.open("rb") as file:
            begin = file.read(40).removeprefix(BOM_UTF8).decode("utf-8", "ignore")
        return begin.split()[: len(SPECIAL_TOKENS)] == SPECIAL_TOKENS

    def save(self, path: str | Path) -> None:
        """Write the file that `from_file` reads."""
        with atomic_write(path, "wb") as file:
            file.write(("\n".join(self.tokens) + "\n").encode("utf-8"))

    def __reduce__(self):
        # without the character table, which is large
        return Vocabulary, (self.tokens, "vocabulary", self.alphabet, (), self.unknown_words)

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self):,} words>"

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and self.alphabet.truncated([token])[0] in self.index

    def __getitem__(self, i: int) -> str:
        return self.tokens[i]

    def ids(self, tokens: Sequence[str]) -> np.ndarray:
        """Ids (n,) int64; unknown tokens get that of `<UNK>`."""
        tokens = self.alphabet.truncated(tokens)
        return np.fromiter(map(self.index.get, tokens, repeat(UNK_ID)), np.int64, len(tokens))

    @property
    def words(self) -> list[str]:
        """Return the tokens without the special ones."""
        return self.tokens[len(SPECIAL_TOKENS) :]

    @cached_property
    def characters(self):
        """Build the character table of all tokens, on first use."""
        return self.alphabet.table(self.tokens)

    @property
    def has_speller(self) -> bool:
        """Whether unknown words can be spelled: a corpus has been counted."""
        return self.unknown_words is not None

    @cached_property
    def speller(self) -> Speller:
        """Learn to spell, on first use, which takes seconds.

        Where the corpus had few unknown words, the vocabulary's rarest are learnt from, too.
        """
        n_missing = max(0, MIN_SPELLED - len(self.unknown_words.counts))
        rarest = self.words[::-1][:n_missing]
        never_spelled = [token for token in self.tokens if token != UNK]
        return Speller(self.unknown_words, never_spelled, others=rarest)

    @cached_property
    def fingerprint(self) -> str:
        """Compute a digest of the tokens, to tell vocabularies apart."""
        return fingerprint(self.tokens)

    @property
    def identity(self) -> str:
        """Return the number of tokens and a short fingerprint."""
        return f"{len(self):,} tokens (SHA-1 {self.fingerprint[:12]})"


def fingerprint(words: Sequence[str]) -> str:
    """Compute a digest of words in their order."""
    return hashlib.sha1("\n".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def _read_vocabulary(path: Path) -> list[str]:
    maker = command_line("preprocess.py vocab")
    check_input(path, f"a vocabulary, one token per line, as `{maker}` writes it")
    tokens = list(read_lines(path))
    if not tokens:
        raise UserError(f"{path}: the file is empty. `{maker}` writes a vocabulary.")
    return tokens


def _are_words(tokens: list[str]) -> bool:
    """Whether no token is empty or has white space."""
    for begin in range(0, len(tokens), SLICE):
        part = tokens[begin : begin + SLICE]
        if "\n".join(part).split() != part:
            return False
    return True


def _first_error(tokens: list[str], lines: Iterable[int]) -> str:
    """Find the first wrong line of a bad vocabulary, `LINE: the error`. lines: of the tokens."""
    first: dict[str, int] = {}
    for line, token in zip(lines, tokens, strict=False):
        if first.setdefault(token, line) != line:
            return f"{line}: {token!r} is already in line {first[token]}. Remove one of the two."
        if token.split() != [token]:
            return f"{line}: found {token!r}, expected one token per line, without white space."
    maker = command_line("preprocess.py vocab")
    expected = f"the lines {', '.join(SPECIAL_TOKENS)} first, as `{maker}` writes them"
    return f"1: found {', '.join(tokens[:3])}, expected {expected}."
