"""Dependency trees: as CoNLL-U, text and pictures; the best tree of scores; attachment scores.

NumPy only.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from elmo_core.display.terminal import display_width, pad, printable
from elmo_core.messages import UserError, format_count
from elmo_tasks.score import Score

FORM, UPOS, HEAD, LABEL = 1, 3, 6, 7  # columns
NOT_A_WORD = re.compile(r"#|\d+[-.]\d+\t")  # a comment, a range of words, an empty node
NO_TAG = "_"  # of a word whose part of speech is not known
LEVEL = 26  # of a picture: pixels per level of arcs
SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}">
<rect width="100%" height="100%" fill="white"/>\
<style>text{{font:14px sans-serif;text-anchor:middle}}
.l{{font-size:10px;fill:#666}}.a{{fill:#39c}}path{{fill:none;stroke:#39c;marker-end:url(#a)}}</style>
<defs><marker id="a" viewBox="0 0 6 6" refX="5" refY="3" \
markerWidth="6" markerHeight="6" orient="auto">
<polygon points="0,0 6,3 0,6" class="a"/></marker></defs>{content}</svg>
"""


@dataclass
class Tree:
    """A sentence of n words and its tree.

    heads: of each word, the number 1 .. n of its head, or 0 of the root.
    tags: UPOS, _ of a parser that does not predict them.
    scores: the probability of each head with its label.
    text: raw. offsets: of the words in it.
    lines: of CoNLL-U, as read. where: its file and line.
    """

    tokens: list[str]
    heads: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    offsets: list[tuple[int, int]] = field(default_factory=list)
    text: str = ""
    lines: list[str] = field(default_factory=list, repr=False)
    where: str = field(default="", repr=False)

    def check(self) -> None:
        """Raise unless each word has a head and a label."""
        if not len(self.tokens) == len(self.heads) == len(self.labels):
            words = format_count(len(self.tokens), "words")
            heads = format_count(len(self.heads), "heads")
            labels = format_count(len(self.labels), "labels")
            raise UserError(
                "a tree needs a head and a label for each word: "
                f"found {words}, {heads}, {labels}. Parser.predict makes them."
            )

    def __str__(self) -> str:
        if not self.heads:
            return " ".join(self.tokens)
        self.check()
        words = ["ROOT", *self.tokens]  # by the numbers that heads have
        width = max(display_width(word) for word in self.tokens) + 2
        lines = []
        for k, (head, label) in enumerate(zip(self.heads, self.labels, strict=True), 1):
            arc = f"{pad(label, 14)}{head:>3} {words[head]}"
            lines.append(f"{k:>3} {pad(words[k], width)}{arc}")
        return "\n".join(lines)

    def to_conllu(self) -> str:
        """The sentence in CoNLL-U, with everything that was read; "" if it has no words."""
        if not self.tokens:
            return ""
        if self.heads:
            self.check()
        lines = []
        word = 0
        for line in self.lines or self._new_lines():
            if self.heads and not NOT_A_WORD.match(line):
                lines.append(self._with_arc(line, word))
                word += 1
            else:
                lines.append(line)
        return "\n".join(lines) + "\n\n"

    def _with_arc(self, line: str, word: int) -> str:
        """A word's line of CoNLL-U with its head and label, and its tag, if that is known."""
        columns = line.split("\t")
        columns[HEAD] = str(self.heads[word])
        columns[LABEL] = self.labels[word]
        if self.tags and self.tags[word] != NO_TAG:
            columns[UPOS] = self.tags[word]
        return "\t".join(columns)

    def _new_lines(self) -> Iterator[str]:
        """The words in CoNLL-U; of raw text, also where they are in it."""
        if self.text:
            yield "# text = " + re.sub(r"\s", " ", self.text.rstrip())
        if self.offsets:
            forms = [self.text[begin:end] for begin, end in self.offsets]
            misc = [f"TokenRange={begin}:{end}" for begin, end in self.offsets]
        else:
            forms = self.tokens
            misc = ["_"] * len(self.tokens)
        for k, ((_, end), (next_begin, _)) in enumerate(pairwise(self.offsets)):
            if next_begin <= end:
                misc[k] = f"SpaceAfter=No|{misc[k]}"
        for k, (form, last) in enumerate(zip(forms, misc, strict=True), 1):
            word = re.sub(r"\s+", "_", form) or "_"
            empty = "_\t" * 7
            yield f"{k}\t{word}\t{empty}{last}"

    def to_svg(self) -> str:
        """A picture of the arcs above the words, in the direction of their script."""
        self.check()
        widths = []  # of the words, in pixels
        for word, label in zip(self.tokens, self.labels, strict=True):
            widths.append(9 * max(display_width(word), len(label)) + 16)
        ends = np.cumsum([0, *widths])
        middles = (ends[1:] + ends[:-1]) / 2
        if is_right_to_left(self.tokens):
            middles = ends[-1] - middles
        heights = []  # of the arcs
        for k, head in enumerate(self.heads, 1):
            heights.append(LEVEL * abs(k - head) ** 0.8 if head else 0.0)
        top = max(heights, default=0) + 2 * LEVEL  # where the arcs end, above the words

        parts = []
        for x, word in zip(middles, self.tokens, strict=True):
            parts.append(_text(x, top + 20, word))
        for x, head, label, height in zip(middles, self.heads, self.labels, heights, strict=True):
            if head:
                begin = middles[head - 1]
                begin += 4 if begin < x else -4  # beside the arc that enters the head
            else:  # a straight line from the top
                begin = x
                height = top - LEVEL / 2
            arc = f"M{begin:.0f} {top:.0f}v-{height:.0f}H{x:.0f}V{top:.0f}"
            parts.append(f'<path d="{arc}"/>')
            parts.append(_text((begin + x) / 2, top - height - 3, label, ' class="l"'))
        return SVG.format(width=int(ends[-1]), height=int(top + 30), content="".join(parts))


def is_right_to_left(tokens: Iterable[str]) -> bool:
    """Tell whether the first letter is of a script that runs from right to left."""
    for character in "".join(tokens):
        direction = unicodedata.bidirectional(character)
        if direction in ("L", "R", "AL"):
            return direction != "L"
    return False


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{attributes}>{html.escape(printable(text))}</text>'


def find_cycle(heads: Sequence[int]) -> list[int]:
    """The nodes of a cycle, or [] if there is none. heads: of nodes 0 .. n, where 0 has none."""
    seen: set[int] = {0}
    for node in range(1, len(heads)):
        path: list[int] = []
        while node not in seen:
            seen.add(node)
            path.append(node)
            node = int(heads[node])
        if node in path:
            return path[path.index(node) :]
    return []


def maximum_tree(scores: np.ndarray) -> np.ndarray:
    """The heads (n,) of the tree with the highest sum of scores and one root.

    scores: (n, n + 1), of the heads 0 .. n of each word.
    """
    # Node 0, the root, gets a row of its own, as it has no head.
    scores = np.vstack([np.full(len(scores) + 1, -np.inf), scores.astype(np.float64)])
    # A second root costs more than any tree is worth.
    scores[1:, 0] -= 2 * len(scores) * np.abs(scores[1:]).max() + 1
    np.fill_diagonal(scores, -np.inf)
    return _arborescence(scores)[1:]


def _arborescence(scores: np.ndarray) -> np.ndarray:
    """The heads of nodes 0 .. n, of which 0 has none (-1), by Chu-Liu and Edmonds.

    scores: (n + 1, n + 1), node by head; they are changed. Each cycle of best heads is contracted
    to one node. In the tree, a cycle keeps all its arcs but that to the word that is entered from
    outside.
    """
    graph = _Contraction(scores)
    levels = []  # the arcs in each cycle, and at last those of the graph without cycles
    cycle = find_cycle(graph.heads)
    while cycle:
        levels.append(graph.arcs(cycle))
        graph.contract(cycle)
        cycle = find_cycle(graph.heads)
    levels.append(graph.arcs(graph.nodes))
    tree = np.full(len(scores), -1)
    for arcs in reversed(levels):  # what enters a cycle comes before the arcs in it
        for arc in arcs:
            is_entered = (tree[arc.inside] >= 0).any()
            if not is_entered:
                tree[arc.word] = arc.head
    return tree


class _Arc(NamedTuple):
    """An arc from a head to a word. inside: the words of the contracted node that it enters."""

    word: int
    head: int
    inside: list[int]


class _Contraction:
    """A graph whose cycles are contracted to their first nodes.

    scores: (n + 1, n + 1), node by head. The row and the column of a contracted node hold the best
    arcs into the cycle and out of it.
    """

    def __init__(self, scores: np.ndarray):
        self.scores = scores
        self.heads = scores.argmax(axis=1)  # the best of each node
        self.nodes = set(range(1, len(scores)))  # that are left
        self.within = [[node] for node in range(len(scores))]  # the words of each node
        # The arc that each score is of. Where a node is contracted, it is between other words.
        self.words, self.sources = np.indices(scores.shape, dtype=np.int32)

    def arcs(self, nodes: Iterable[int]) -> list[_Arc]:
        """The best arc into each of the nodes."""
        arcs = []
        for node in nodes:
            head = self.heads[node]
            word = self.words[node, head]
            arcs.append(_Arc(word, self.sources[node, head], self.within[node]))
        return arcs

    def contract(self, cycle: list[int]) -> None:
        """Let the cycle's first node stand for the whole cycle."""
        scores = self.scores
        heads = self.heads
        first, *others = cycle
        nodes = np.arange(len(scores))

        # From each head into the cycle: an arc to a node replaces the arc that the node has.
        gains = scores[cycle] - scores[cycle, heads[cycle]][:, None]
        entered = np.array(cycle)[gains.argmax(axis=0)]
        self.words[first] = self.words[entered, nodes]
        self.sources[first] = self.sources[entered, nodes]
        scores[first] = gains.max(axis=0)

        # From the cycle to each node.
        left = np.array(cycle)[scores[:, cycle].argmax(axis=1)]
        self.words[:, first] = self.words[nodes, left]
        self.sources[:, first] = self.sources[nodes, left]
        scores[:, first] = scores[nodes, left]

        scores[first, first] = -np.inf
        scores[:, others] = -np.inf
        self.within[first] = list(chain.from_iterable(self.within[node] for node in cycle))
        heads[np.isin(heads, cycle)] = first
        heads[others] = 0  # in no further cycle
        heads[first] = scores[first].argmax()
        self.nodes.difference_update(others)


def allowed_labels(heads: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Whether each word may have each of R labels (..., R), by the words' heads (...).

    "root" is the label of roots, whose head is 0, and of nothing else.
    """
    is_for_roots = np.array([name == "root" for name in names])
    return ((heads[..., None] == 0) == is_for_roots) | (not is_for_roots.any())


def has_tags(trees: Iterable[Tree]) -> bool:
    """Whether some words have a part of speech."""
    return any(set(tree.tags) - {NO_TAG} for tree in trees)


@dataclass(eq=False, repr=False)
class ParserScore(Score):
    """Attachment scores of predicted trees, as shares of the words.

    uas: with the right head; las: also with the right label; upos: with the right tag, if tags are
    predicted. Subtypes of labels, as in nmod:poss, do not count, as in the CoNLL 2018 shared task.
    """

    gold: Sequence[Tree]
    predicted: Sequence[Tree]

    @cached_property
    def shares(self) -> dict[str, float]:
        """uas, las and, if tags are predicted, upos."""
        heads = self._agreement("heads")
        labels = self._agreement("labels")
        shares = {"uas": float(heads.mean()), "las": float((heads & labels).mean())}
        if has_tags(self.predicted) and has_tags(self.gold):
            shares["upos"] = float(self._agreement("tags").mean())
        return shares

    def _agreement(self, name: str) -> np.ndarray:
        """Whether each word (n,) has the same value in both trees. name: heads, labels or tags."""
        are_equal = []
        for gold, tree in zip(self.gold, self.predicted, strict=True):
            for x, y in zip(getattr(gold, name), getattr(tree, name), strict=True):
                are_equal.append(str(x).split(":")[0] == str(y).split(":")[0])
        return np.array(are_equal)

    @property
    def value(self) -> float:
        """The score that selects the best epoch."""
        return self.shares["las"]

    @property
    def main_figures(self) -> dict[str, float]:
        return {name.upper(): share for name, share in self.shares.items()}

    def to_dict(self) -> dict[str, Any]:
        return dict(self.shares, words=sum(len(tree.tokens) for tree in self.gold))

    def table(self) -> str:
        return f"on {self.to_dict()['words']:,} words"
