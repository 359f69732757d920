"""A word's occurrences in a corpus: where they are, their senses where a file tells them, their vectors, the nearest.

Near means by the cosine. An occurrence's neighbours stand in other sentences.
"""

import argparse
import itertools
import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tqdm import tqdm

import dataset
import elmo
from elmo_core.runtime import UserError, listed, log
from elmo_core.text import read_sentences
from elmo_core.tokens import MARKERS

COLUMNS = ("file", "line", "token", "word", "sense")
NUMBER = re.compile("[0-9]{1,12}")
BACKGROUND = 20000  # sentences that tell how frequent words are in general
CANDIDATES = 5000  # words among which those nearest to a static vector are looked for
NEAREST_WORDS = 5
TIE = 1e-6  # cosines that differ by less are equal
ROWS_AT_ONCE = 512  # of a table of cosines

Place = tuple[str, int, int, str]  # of an occurrence: file name, line, token, word


@dataclass(frozen=True)
class Occurrence:
    """A word in a sentence."""

    tokens: tuple[str, ...]
    position: int
    sense: str = ""

    @property
    def word(self) -> str:
        return self.tokens[self.position]


class Sample:
    """A fair sample of what is added, of at most `size` items, in their order."""

    def __init__(self, size: int, seed: int | str):
        self.size, self.added = size, 0
        self._generator = random.Random(seed)
        self._items: list[tuple[int, object]] = []

    def add(self, item: object) -> None:
        self.added += 1
        if len(self._items) < self.size:
            self._items.append((self.added, item))
        elif (k := int(self._generator.random() * self.added)) < self.size:
            self._items[k] = self.added, item

    def items(self) -> list:
        return [item for _, item in sorted(self._items, key=lambda pair: pair[0])]


@dataclass
class Word:
    """A word's occurrences in the corpus, no two of them at the same place of sentences that say the same."""

    text: str
    met: int  # in the whole corpus
    eligible: int  # of these, in the whole corpus; with --senses, those that have a sense
    occurrences: list[Occurrence]
    repeats: int  # left out, because their sentence is there already
    vectors: np.ndarray = field(default_factory=lambda: np.empty(0))  # (layers, n, 2P), of length 1
    sentences: np.ndarray = field(default_factory=lambda: np.empty(0))  # (n,) a number for each sentence
    senses: np.ndarray = field(default_factory=lambda: np.empty(0))  # (n,)

    @property
    def comparable(self) -> bool:
        return len({occurrence.tokens for occurrence in self.occurrences}) > 1


# The true senses


def read_senses(path: Path) -> dict[Place, tuple[str, int]]:
    """The sense of each occurrence that the file names, and its line there."""
    if not path.is_file():
        found = "it is no file" if path.exists() else "there is no such file"
        raise UserError(f"--senses {path}: {found}. Expected the senses of occurrences.")
    labels: dict[Place, tuple[str, int]] = {}
    try:
        with path.open(encoding="utf-8-sig") as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
    except UnicodeDecodeError as error:
        raise UserError(f"--senses {path}: it is not UTF-8 ({error}). Convert it.") from error
    if tuple(rows[0] if rows else ()) != COLUMNS:
        raise UserError(
            f"{path}:1: found {' '.join(rows[0] if rows else ['nothing'])!r:.80}, expected the header "
            f"{' '.join(COLUMNS)!r}, separated by tabs."
        )
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(COLUMNS) or not all(row) or not all(map(NUMBER.fullmatch, row[1:3])):
            raise UserError(
                f"{path}:{number}: found {row!r:.100}, expected a file's name, two numbers (line and token, counted from "
                "0), a word and its sense, separated by tabs."
            )
        place = row[0], int(row[1]), int(row[2]), row[3]
        sense, before = labels.setdefault(place, (printable(row[4]), number))
        if sense != printable(row[4]):
            raise UserError(f"{path}:{number}: the sense is {row[4]!r}, but line {before} says {sense!r}. Remove one.")
    if not labels:
        raise UserError(f"{path}: nothing but the header. Expected a line for each occurrence.")
    return labels


# The occurrences


def find(
    corpus: dataset.Corpus, asked: Sequence[str], labels: dict[Place, tuple[str, int]], args: argparse.Namespace
) -> tuple[dict[str, Word], list[list[str]]]:
    """The asked words and those that have senses, as the corpus has them; and a sample of all its sentences."""
    texts = [*asked, *sorted({word for _, _, _, word in labels}.difference(asked))]
    samples = {text: Sample(args.max_occurrences, f"{args.seed} {text}") for text in texts}
    background, counts, met, left = Sample(BACKGROUND, args.seed), dataset.Counts(), Counter(), dict(labels)
    if labels:
        check_files(corpus, args.senses, labels)
    for path, line, tokens in tqdm(_sentences(corpus), unit=" sentences", unit_scale=True, disable=None, leave=False):
        counts.sentences += bool(tokens)
        counts.blank_lines += not tokens
        if tokens:
            background.add(tokens)
        if samples.keys().isdisjoint(tokens):
            continue
        sentence = tuple(tokens)  # one for all its occurrences
        for position, token in enumerate(tokens):
            if token in samples:
                met[token] += 1
                sense, _ = left.pop((path.name, line, position, token), ("", 0))
                if sense or not labels:
                    samples[token].add(Occurrence(sentence, position, sense))
    corpus.check(args.corpus, counts)
    if left:
        check_places(corpus, args.senses, left, len(labels))
    words = {text: _word(text, met[text], sample) for text, sample in samples.items()}
    for text in asked:
        check_found(words[text], corpus, args)
    return words, background.items()


def _sentences(corpus: dataset.Corpus) -> Iterator[tuple[Path, int, list[str]]]:
    for path in corpus.paths:
        for line, tokens in enumerate(read_sentences(path)):
            yield path, line, tokens


def _word(text: str, met: int, sample: Sample) -> Word:
    """Only the first of several sentences that say the same is kept: its vectors are theirs too."""
    first: dict[tuple[tuple[str, ...], int], Occurrence] = {}
    found = sample.items()
    for occurrence in found:
        first.setdefault((occurrence.tokens, occurrence.position), occurrence)
    return Word(text, met, sample.added, list(first.values()), len(found) - len(first))


def check_files(corpus: dataset.Corpus, senses: Path, labels: Mapping[Place, object]) -> None:
    """The files of --senses must be told apart by their names, and one of them be there."""
    names = Counter(path.name for path in corpus.paths)
    wanted = list(dict.fromkeys(file for file, *_ in labels))
    for name in wanted:
        if names[name] > 1:
            raise UserError(f"--senses {senses}: {names[name]} files of the corpus are called {name}. Expected one.")
    if not names.keys() & set(wanted):
        raise UserError(
            f"--senses {senses} is about the files {listed(wanted, 5)}, none of which is in the corpus, which has "
            f"{listed(list(names), 5)}."
        )


def check_places(corpus: dataset.Corpus, senses: Path, left: Mapping[Place, tuple[str, int]], n_labels: int) -> None:
    """Refuse a place that is not in the corpus; say how many are in files that it lacks."""
    paths = {path.name: path for path in corpus.paths}
    wrong = [(row, place) for place, (_, row) in left.items() if place[0] in paths]
    if wrong:
        row, (name, line, position, word) = min(wrong)
        tokens = next(itertools.islice(read_sentences(paths[name]), line, None), None)
        if tokens is None:
            found = f"there is no line {line} in {paths[name]}"
        elif position >= len(tokens):
            found = f"line {line} of {paths[name]} has {len(tokens)} tokens, none with the number {position}"
        else:
            found = f"token {position} of line {line} of {paths[name]} is {tokens[position]!r}, not {word!r}"
        raise UserError(
            f"{senses}:{row}: {found}. Both are counted from 0. Is it the file that the senses were made of?"
        )
    log.warning(
        f"{senses}: {len(left):,} of its {n_labels:,} occurrences are in files that the corpus lacks; left out."
    )


def check_found(word: Word, corpus: dataset.Corpus, args: argparse.Namespace) -> None:
    """The asked word must occur in two sentences."""
    if not word.met:
        raise UserError(f"{word.text!r} is not in the corpus {args.corpus}. {near_forms(corpus, word.text)}")
    if not word.occurrences:
        raise UserError(
            f"--senses {args.senses} gives a sense to none of the {word.met:,} occurrences of {word.text!r} in the corpus."
        )
    if not word.comparable:
        which = " with a sense" if args.senses else ""
        once = f"{word.text!r} occurs only once{which} in {args.corpus}"
        if word.eligible > 1:
            looked_at = len(word.occurrences) + word.repeats
            once = f"the {looked_at:,} occurrences of {word.text!r} that were looked at{which} say the same sentence"
        raise UserError(f"{once}: there is no other to compare with. More text is needed, or another word.")


def near_forms(corpus: dataset.Corpus, word: str) -> str:
    """What the corpus has that is like the word: the same in other characters, a part of a token, several tokens."""
    wanted, counts, apart = _folded(word), Counter(), ""
    for _, _, tokens in _sentences(corpus):
        counts.update(tokens)
        apart = apart or _apart(word, tokens)
    like = [token for token in counts if wanted in _folded(token)]
    like.sort(key=lambda token: (_folded(token) != wanted, -counts[token]))
    if like:
        return f"Near forms in it: {listed([f'{token} ({counts[token]:,})' for token in like[:8]])}."
    if apart:
        return f"In it the word is several tokens: {apart}. Expected a word that is one token."
    return "No token in it is like it or contains it. Is the text cut into tokens as the word is?"


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _apart(word: str, tokens: Sequence[str]) -> str:
    """The word where the sentence has it in several tokens, if it does."""
    if word not in "".join(tokens):
        return ""
    for begin in range(len(tokens)):
        for end in range(begin + 2, min(begin + len(word), len(tokens)) + 1):
            if "".join(tokens[begin:end]) == word:
                return " ".join(tokens[begin:end])
    return ""


def keep(word: Word, embedder: elmo.ELMoEmbedder) -> bool:
    """Whether a word of --senses that was not asked for can be counted; says why not."""
    if not is_known(word.text, embedder):
        log.warning(f"{word.text!r} is left out of the table: the model's table of words lacks it.")
    elif not word.comparable:
        log.warning(f"{word.text!r} is left out of the table: fewer than two sentences of the corpus give its sense.")
    else:
        return True
    return False


# Their vectors


def embed(
    embedder: elmo.ELMoEmbedder, words: Sequence[Word], own: Sequence[Occurrence]
) -> list[tuple[Occurrence, np.ndarray]]:
    """Fill in the words' vectors. Returns the user's own occurrences with theirs (layers, 2P)."""
    everything = [*(occurrence for word in words for occurrence in word.occurrences), *own]
    at = defaultdict(list)
    for k, occurrence in enumerate(everything):
        at[occurrence.tokens].append((k, occurrence.position))
    vectors = np.empty((embedder.config.n_layers + 1, len(everything), embedder.dim), dtype=np.float32)
    for tokens, array in zip(at, embedder.iter_encode(list(at)), strict=True):
        for k, position in at[tokens]:
            vectors[:, k] = array[:, position]
    if embedder.oov_share:
        log.warning(
            f"{embedder.oov_share:.1%} of the tokens are outside the vocabulary: the model reads them as <UNK>."
        )
    vectors = _unit(vectors)
    numbers = {tokens: number for number, tokens in enumerate(at)}
    begin = 0
    for word in words:
        end = begin + len(word.occurrences)
        word.vectors = vectors[:, begin:end]
        word.sentences = np.array([numbers[occurrence.tokens] for occurrence in word.occurrences])
        word.senses = np.array([occurrence.sense for occurrence in word.occurrences])
        begin = end
    return [(occurrence, vectors[:, begin + k]) for k, occurrence in enumerate(own)]


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1, so that products are cosines."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(np.float32).tiny)


def same_sense(vectors: np.ndarray, senses: np.ndarray, sentences: np.ndarray) -> np.ndarray:
    """How surely the nearest occurrence in another sentence has the same sense.

    vectors: (n, D) of length 1; senses, sentences: (n,). Returns (n,) 0 or 1, or, where several are equally near, the share
    of them that have it: what a fair draw would give on average.
    """
    shares = np.empty(len(vectors))
    vectors = vectors.astype(np.float64)
    for begin in range(0, len(vectors), ROWS_AT_ONCE):
        part = slice(begin, begin + ROWS_AT_ONCE)
        cosines = vectors[part] @ vectors.T  # (rows, n)
        cosines[sentences[part, None] == sentences] = -np.inf
        nearest = cosines >= cosines.max(axis=1, keepdims=True) - TIE
        agree = senses[part, None] == senses
        shares[part] = (nearest & agree).sum(axis=1) / nearest.sum(axis=1)
    return shares


def nearest_words(
    embedder: elmo.ELMoEmbedder, asked: Sequence[str], background: Iterable[Sequence[str]]
) -> dict[str, list[tuple[str, float]]]:
    """Of each asked word those nearest in layer 0, among the corpus's frequent ones."""
    if not asked:
        return {}
    counts = Counter(itertools.chain.from_iterable(background))
    frequent = [token for token, _ in counts.most_common() if is_word(token) and is_known(token, embedder)]
    texts = list(dict.fromkeys([*asked, *frequent[:CANDIDATES]]))
    # Layer 0 does not know the context: the words may stand in any sentences.
    rows = [array[0] for array in embedder.encode([texts[k : k + 50] for k in range(0, len(texts), 50)])]
    vectors = _unit(np.concatenate(rows))
    nearest = {}
    for k, word in enumerate(asked):
        cosines = vectors @ vectors[k]
        order = [other for other in np.argsort(-cosines, kind="stable").tolist() if other != k]
        nearest[word] = [(texts[other], float(cosines[other])) for other in order[:NEAREST_WORDS]]
    return nearest


def is_known(word: str, embedder: elmo.ELMoEmbedder) -> bool:
    return embedder.config.input == "char" or word in embedder.vocabulary


def is_word(token: str) -> bool:
    return token not in MARKERS and any(map(str.isalnum, token))


# Text in columns of a terminal


def before(occurrence: Occurrence) -> str:
    return printable(" ".join(occurrence.tokens[: occurrence.position]))


def cut(text: str, room: int) -> str:
    """As much of the text's beginning as fits into so many columns."""
    ends = list(itertools.takewhile(room.__ge__, itertools.accumulate(map(columns, text))))
    return text if len(ends) == len(text) else text[: sum(end < room for end in ends)] + "…"


def columns(text: str) -> int:
    """Columns of a terminal that a text takes: two for a wide character, none for an accent that joins the one before."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me") else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text
    )


def padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def printable(text: str) -> str:
    """The text without characters that would move the cursor or more."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)
