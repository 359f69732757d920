"""Probabilistic grammars without recursion: their notation, and exact entropy and probabilities.

Such a grammar is a finite automaton over words: a state is the rest of a sentence, an edge emits
one word. The entropy of a sentence, its expected length and the probability of a given sentence are
exact sums over it, and it is decidable whether some sentence has two derivations. README.md
explains the notation.
"""

import math
import random
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, combinations, pairwise, product
from pathlib import Path
from typing import NamedTuple


class GrammarError(ValueError):
    """A mistake in a grammar, with its location."""


class Word(NamedTuple):
    """A terminal: its text, part of speech ("" if the grammar has none) and sense ("" if there is
    only one).
    """

    text: str
    tag: str = ""
    sense: str = ""


# A symbol that is a string names a rule, or is one of these four.
CAPITAL, ARTICLE, BEFORE_VOWEL, BEFORE_CONSONANT = "^", "a(n)", "an ...", "a ..."
Symbol = Word | str
Stack = tuple[Symbol, ...]
Rules = dict[str, list[tuple[float, Stack]]]


class GrammarReader:
    """Reads the notation into `rules`. Words marked `!` are included only with `held_out`."""

    VARIABLE = re.compile(r"@\w+")
    WEIGHT = re.compile(r"(.*?)(?:\s+\*(\d+))?", re.DOTALL)
    JOINT = re.compile(r"_(?![^<>]*>)")  # an underscore joins words, but not in the name of a rule
    CALL = re.compile(r"<([^<>]+)>(\?(\d*))?")
    WORD = re.compile(r"([^:/<>|@*^]+)(?::([\w-]+))?(?:/(\S+))?")

    def __init__(self, held_out: bool = False):
        self.held_out = held_out
        self.rules: Rules = {}
        self.values: dict[str, list[str]] = {}  # by @variable
        self.tags: dict[str, str] = {}  # default tags, by word

    def read(self, path: Path) -> None:
        # Variables and tags first: they may stand anywhere in the file.
        for number, definition in sorted(
            self.definitions(path), key=lambda item: item[1][0] not in "@:"
        ):
            try:
                self.define(definition)
            except GrammarError as error:
                raise GrammarError(f"{path.name}, line {number}: {error}") from None

    @staticmethod
    def definitions(path: Path) -> Iterator[tuple[int, str]]:
        """Yield each definition with its indented lines, and the number of its first line."""
        first, lines = 0, []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            if lines and not line[0].isspace():
                yield first, "\n".join(lines)
                lines = []
            first = first if lines else number
            lines.append(line)
        if lines:
            yield first, "\n".join(lines)

    def define(self, definition: str) -> None:
        head, kind, body = [*definition.split(maxsplit=2), "", ""][:3]
        if kind not in ("=", "~") or not body:
            raise GrammarError(
                f"expected `name = alternatives` or `name ~ words`, found {definition!r}"
            )
        if head.startswith("@"):
            self.values[head] = body.split()
        elif head.startswith(":"):
            self.tags.update((word, head[1:]) for word in body.split())
        elif kind == "~":
            self.define_list(head, body.split())
        else:
            self.define_alternatives(head, re.split(r"[|\n]", body))

    def define_list(self, head: str, entries: list[str]) -> None:
        """`name.a,b:tag ~ x,y z` defines the parallel lists name.a (x z) and name.b (y z), most
        frequent first.
        """
        head, _, tag = head.partition(":")
        first, *others = head.split(",")
        names = [first, *(f"{first.rpartition('.')[0]}.{other}" for other in others)]
        rank = 0
        for entry in entries:
            held_out = entry.startswith("!")
            forms = (
                entry.removeprefix("!").split(",") if len(names) > 1 else [entry.removeprefix("!")]
            )
            if len(forms) not in (1, len(names)):
                raise GrammarError(f"{entry!r} has {len(forms)} forms, {head!r} has {len(names)}")
            rank += not held_out
            if held_out and not self.held_out:
                continue
            weight = 0.5 if held_out else 1 / (rank + 1)
            for name, form in zip(names, forms * (len(names) // len(forms)), strict=True):
                self.add(name, weight, self.symbols(self.JOINT.sub(" ", form), tag))

    def define_alternatives(self, head: str, alternatives: list[str]) -> None:
        """`name = x | y *3`, once per value of the variables in the name.

        An alternative with further variables becomes one per value of these, with an equal share of
        its weight.
        """
        for text in filter(str.strip, alternatives):
            body, weight = self.WEIGHT.fullmatch(text.strip()).groups()
            for outer in self.assignments(head):
                inner = list(self.assignments(self.substitute(body, outer)))
                for values in inner:
                    symbols = self.symbols(self.substitute(body, outer | values))
                    self.add(self.substitute(head, outer), int(weight or 1) / len(inner), symbols)

    def assignments(self, text: str) -> Iterator[dict[str, str]]:
        names = sorted(set(self.VARIABLE.findall(text)))
        for name in names:
            if name not in self.values:
                raise GrammarError(f"{name} has no values: a line `{name} = ...` is missing")
        for values in product(*(self.values[name] for name in names)):
            yield dict(zip(names, values, strict=True))

    def substitute(self, text: str, values: dict[str, str]) -> str:
        return self.VARIABLE.sub(lambda match: values.get(match[0], match[0]), text)

    def symbols(self, text: str, tag: str = "") -> Stack:
        return tuple(self.symbol(token, tag) for token in text.split())

    def symbol(self, token: str, tag: str) -> Symbol:
        if token in (CAPITAL, ARTICLE):
            return token
        if call := self.CALL.fullmatch(token):
            name, optional, percent = call.groups()
            if not optional:
                return name
            chance = int(percent or 50) / 100
            self.rules[token] = [(chance, (name,)), (1 - chance, ())]
            return token
        if not (word := self.WORD.fullmatch(token)):
            raise GrammarError(
                f"expected <rule>, word, word:tag, word/sense or word:tag/sense, found {token!r}"
            )
        text, own_tag, sense = word.groups()
        return Word(text, own_tag or tag or self.tags.get(text, ""), sense or "")

    def add(self, name: str, weight: float, symbols: Stack) -> None:
        self.rules.setdefault(name, []).append((weight, symbols))


def normalise(rules: Rules, start: str) -> Rules:
    """Turn weights into probabilities. Raise for rules that are undefined, unused or recursive."""
    seen: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise GrammarError(f"{name!r} uses itself: {' > '.join((*above, name))}")
        if name not in rules:
            raise GrammarError(f"{name!r}, used in {above[-1]!r}, is not defined")
        if name not in seen:
            seen.add(name)
            for _, symbols in rules[name]:
                for symbol in symbols:
                    if isinstance(symbol, str) and symbol not in (CAPITAL, ARTICLE):
                        visit(symbol, (*above, name))

    visit(start, ())
    if unused := rules.keys() - seen:
        raise GrammarError(f"never used: {', '.join(sorted(unused))}")
    totals = {
        name: math.fsum(weight for weight, _ in alternatives)
        for name, alternatives in rules.items()
    }
    return {
        name: [(w / totals[name], s) for w, s in alternatives]
        for name, alternatives in rules.items()
    }


def starts_with_vowel(word: Word) -> bool:
    return word.text[0] in "aeiouAEIOU" or word.text.startswith("honest")


class Edge(NamedTuple):
    probability: float
    word: Word
    target: int


class Automaton:
    """All sentences of a rule.

    States are numbered so that every edge leads to a smaller number; 0 is the end.
    """

    def __init__(self, rules: Rules, start: str):
        self.rules = rules
        self.edges: list[list[Edge]] = [[]]
        self.start = self.add_state((start,), {(): 0})
        self.cumulative = [
            list(accumulate(edge.probability for edge in edges)) for edges in self.edges
        ]
        self.by_text: list[dict[str, list[Edge]]] = []
        for edges in self.edges:
            index: dict[str, list[Edge]] = {}
            for edge in edges:
                index.setdefault(edge.word.text, []).append(edge)
            self.by_text.append(index)

    def add_state(self, stack: Stack, numbers: dict[Stack, int]) -> int:
        """The number of the state whose remaining symbols are `stack`.

        numbers: the known states.
        """
        if stack not in numbers:
            probabilities: dict[tuple[Word, Stack], float] = defaultdict(float)
            for probability, word, rest in self.first_words(stack):
                probabilities[word, rest] += probability
            edges = [
                Edge(p, word, self.add_state(rest, numbers))
                for (word, rest), p in probabilities.items()
            ]
            self.edges.append(edges)
            numbers[stack] = len(self.edges) - 1
        return numbers[stack]

    def first_words(self, stack: Stack) -> Iterator[tuple[float, Word, Stack]]:
        """Yield the first words of `stack`: probability, word, and the remaining symbols."""
        if not stack:
            raise GrammarError("a sentence is empty, or an article has nothing after it")
        head, rest = stack[0], stack[1:]
        if isinstance(head, Word):
            yield 1.0, head, rest
        elif head == CAPITAL:
            for probability, word, remaining in self.first_words(rest):
                yield (
                    probability,
                    word._replace(text=word.text[0].upper() + word.text[1:]),
                    remaining,
                )
        elif head == ARTICLE:
            vowel = math.fsum(p for p, word, _ in self.first_words(rest) if starts_with_vowel(word))
            for probability, text, marker in (
                (vowel, "an", BEFORE_VOWEL),
                (1 - vowel, "a", BEFORE_CONSONANT),
            ):
                if probability > 1e-9:
                    yield probability, Word(text), (marker, *rest)
        elif head in (BEFORE_VOWEL, BEFORE_CONSONANT):
            wanted = head == BEFORE_VOWEL
            fitting = [
                first for first in self.first_words(rest) if starts_with_vowel(first[1]) == wanted
            ]
            total = math.fsum(probability for probability, _, _ in fitting)
            for probability, word, remaining in fitting:
                yield probability / total, word, remaining
        else:
            for outer, symbols in self.rules[head]:
                for inner, word, remaining in self.first_words(symbols + rest):
                    yield outer * inner, word, remaining

    def draw(self, rng: random.Random) -> list[Word]:
        """A random sentence.

        Uses only `rng.random()`, whose numbers Python promises not to change.
        """
        state, words = self.start, []
        while state:
            chosen = bisect(self.cumulative[state], rng.random() * self.cumulative[state][-1])
            edge = self.edges[state][min(chosen, len(self.edges[state]) - 1)]
            words.append(edge.word)
            state = edge.target
        return words

    def parse(self, tokens: Iterable[str]) -> tuple[float, list[Word]]:
        """Log-probability of a sentence, summed over its derivations, and one derivation's words
        with tags and senses.

        Returns minus infinity and no words if the grammar cannot generate the sentence.
        """
        paths = {
            self.start: (1.0, None)
        }  # state: its probability so far, and its words linked from the latest back
        for token in tokens:
            following: dict[int, tuple[float, tuple]] = {}
            for state, (probability, path) in paths.items():
                for edge in self.by_text[state].get(token, ()):
                    before = following[edge.target][0] if edge.target in following else 0.0
                    following[edge.target] = (
                        before + probability * edge.probability,
                        (edge.word, path),
                    )
            paths = following
        if 0 not in paths:
            return -math.inf, []
        probability, path = paths[0]
        words = []
        while path:
            word, path = path
            words.append(word)
        return math.log(probability), words[::-1]

    def surprisals(self, tokens: Sequence[str]) -> tuple[list[float], list[float]]:
        """Surprisal in nats of each token and of the end: given the words before it, and given
        those after it.

        The end is `</S>` given all words, and `<S>` given all words.
        """
        paths, prefixes = (
            {self.start: 1.0},
            [1.0],
        )  # probability of the words so far, by state and in total
        for token in tokens:
            following: dict[int, float] = defaultdict(float)
            for state, probability in paths.items():
                for edge in self.by_text[state].get(token, ()):
                    following[edge.target] += probability * edge.probability
            paths = following
            prefixes.append(math.fsum(paths.values()))
        sentence, endings, suffixes = (
            paths.get(0, 0.0),
            {0: 1.0},
            [1.0],
        )  # endings: of the words from here on, by state
        for token in reversed(tokens):
            preceding: dict[int, float] = defaultdict(float)
            for target, probability in endings.items():
                for state, edge in self.into[target].get(token, ()):
                    preceding[state] += probability * edge.probability
            endings = preceding
            suffixes.append(
                math.fsum(
                    self.visits[state] * probability for state, probability in endings.items()
                )
            )
        if not sentence:
            raise GrammarError(f"the grammar cannot generate this: {' '.join(tokens)[:60]}")
        forward, backward = (
            [math.log(before / after) for before, after in pairwise([*chances, sentence])]
            for chances in (prefixes, suffixes)
        )
        return forward, [*backward[-2::-1], backward[-1]]

    @cached_property
    def visits(self) -> list[float]:
        """The probability that a sentence passes through each state."""
        visits = [0.0] * len(self.edges)
        visits[self.start] = 1.0
        for state in range(self.start, 0, -1):
            for edge in self.edges[state]:
                visits[edge.target] += visits[state] * edge.probability
        return visits

    @cached_property
    def into(self) -> list[dict[str, list[tuple[int, Edge]]]]:
        """By state and word, the edges that lead to it, each with the state that it comes from."""
        into: list[dict[str, list[tuple[int, Edge]]]] = [defaultdict(list) for _ in self.edges]
        for state, edges in enumerate(self.edges):
            for edge in edges:
                into[edge.target][edge.word.text].append((state, edge))
        return into

    def entropy(self) -> float:
        """Entropy of a derivation in nats; of a sentence, if none has two derivations."""
        nats = []
        for edges in self.edges:
            nats.append(math.fsum(p * (nats[target] - math.log(p)) for p, _, target in edges))
        return nats[self.start]

    def expected_length(self) -> float:
        """Expected number of words of a sentence."""
        words = []
        for edges in self.edges:
            words.append(math.fsum(p * (1 + words[target]) for p, _, target in edges))
        return words[self.start]

    def ambiguous_ending(self) -> list[str] | None:
        """The last words of a sentence with two derivations, from where they diverge.

        None if no sentence has two.

        Two derivations are two paths that diverge at some state by one word. From there the pair of
        states advances by words that both can emit, until the paths meet, at the end at the latest.
        Every pair is visited once.
        """
        hopeless: set[tuple[int, int]] = set()

        def meet(one: int, other: int) -> list[str] | None:
            if one == other:
                return self.any_ending(one)
            if (one, other) in hopeless:
                return None
            ours, theirs = self.by_text[one], self.by_text[other]
            for text in sorted(ours.keys() & theirs.keys()):
                for edge, twin in product(ours[text], theirs[text]):
                    if (ending := meet(edge.target, twin.target)) is not None:
                        return [text, *ending]
            hopeless.update(((one, other), (other, one)))
            return None

        for index in self.by_text:
            for text, edges in index.items():
                for edge, twin in combinations(edges, 2):
                    if (ending := meet(edge.target, twin.target)) is not None:
                        return [text, *ending]
        return None

    def any_ending(self, state: int) -> list[str]:
        """Words from a state to the end."""
        words = []
        while state:
            edge = max(self.edges[state])
            words.append(edge.word.text)
            state = edge.target
        return words
