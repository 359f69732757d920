"""Dependency trees: as CoNLL-U, text and pictures; the best tree of scores; attachment scores. NumPy only."""

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np

from elmo_core.display.terminal import display_width, pad, printable
from elmo_core.messages import UserError, format_count
from elmo_tasks.score import Score

FORM, UPOS, HEAD, LABEL = 1, 3, 6, 7  # columns
NOT_A_WORD = re.compile(r"#|\d+[-.]\d+\t")  # a comment, a range of words, an empty node
NO_TAG = "_"  # of a word whose part of speech is not known
LEVEL = 26  # of a picture: pixels per level of arcs
SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">
<rect width="100%" height="100%" fill="white"/><style>text{{font:14px sans-serif;text-anchor:middle}}
.l{{font-size:10px;fill:#666}}.a{{fill:#39c}}path{{fill:none;stroke:#39c;marker-end:url(#a)}}</style>
<defs><marker id="a" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto">
<polygon points="0,0 6,3 0,6" class="a"/></marker></defs>{content}</svg>
"""


@dataclass
class Tree:
    """A sentence. heads: 1 .. n of its n words, 0 for the root. scores: the probability of each head with its label.

    tags: UPOS, _ of a parser that does not predict them. text: raw. offsets: of the words in it.
    lines: of CoNLL-U. where: its file and line.
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
        words, heads, labels = (len(part) for part in (self.tokens, self.heads, self.labels))
        if not words == heads == labels:
            found = f"{format_count(words, 'words')}, {format_count(heads, 'heads')}, {format_count(labels, 'labels')}"
            raise UserError(
                f"a tree needs a head and a label for each word: found {found}. Parser.predict makes them."
            )

    def __str__(self) -> str:
        if not self.heads:
            return " ".join(self.tokens)
        self.check()
        words, width = ["ROOT", *self.tokens], max(map(display_width, self.tokens)) + 2
        rows = enumerate(zip(self.tokens, self.heads, self.labels, strict=True), 1)
        return "\n".join(
            f"{k:>3} {pad(word, width)}{pad(label, 14)}{h:>3} {words[h]}"
            for k, (word, h, label) in rows
        )

    def to_conllu(self) -> str:
        """The sentence in CoNLL-U, with everything that was read; "" if it has no words."""
        if not self.tokens:
            return ""
        if self.heads:
            self.check()
        lines, word = [], 0
        for line in self.lines or self._new_lines():
            if self.heads and not NOT_A_WORD.match(line):
                columns = line.split("\t")
                columns[HEAD], columns[LABEL] = str(self.heads[word]), self.labels[word]
                if self.tags and self.tags[word] != NO_TAG:
                    columns[UPOS] = self.tags[word]
                line, word = "\t".join(columns), word + 1
            lines.append(line)
        return "\n".join(lines) + "\n\n"

    def _new_lines(self) -> Iterator[str]:
        """The words in CoNLL-U, of raw text with where they are."""
        if self.text:
            yield "# text = " + re.sub(r"\s", " ", self.text.rstrip())
        misc = [f"TokenRange={begin}:{end}" for begin, end in self.offsets] or ["_"] * len(
            self.tokens
        )
        for k, ((_, end), (begin, _)) in enumerate(pairwise(self.offsets)):
            misc[k] = f"SpaceAfter=No|{misc[k]}" if begin <= end else misc[k]
        forms = [self.text[begin:end] for begin, end in self.offsets] or self.tokens
        for k, (form, last) in enumerate(zip(forms, misc, strict=True), 1):
            yield "\t".join([str(k), re.sub(r"\s+", "_", form) or "_", *"_" * 7, last])

    def to_svg(self) -> str:
        """A picture of the arcs above the words, in the direction of their script."""
        self.check()
        sizes = [
            max(display_width(word), len(label))
            for word, label in zip(self.tokens, self.labels, strict=True)
        ]
        ends = np.cumsum([0, *(9 * size + 16 for size in sizes)])
        x = (ends[1:] + ends[:-1]) / 2
        if is_right_to_left(self.tokens):
            x = ends[-1] - x
        heights = [
            LEVEL * abs(k - head) ** 0.8 if head else 0.0 for k, head in enumerate(self.heads, 1)
        ]
        top = max(heights, default=0) + 2 * LEVEL
        parts = [_text(at, top + 20, word) for at, word in zip(x, self.tokens, strict=True)]
        for k, (head, label, height) in enumerate(
            zip(self.heads, self.labels, heights, strict=True)
        ):
            if head:
                begin = x[head - 1]
                begin += 4 if begin < x[k] else -4
            else:
                begin = x[k]
                height = top - LEVEL / 2
            parts.append(f'<path d="M{begin:.0f} {top:.0f}v-{height:.0f}H{x[k]:.0f}V{top:.0f}"/>')
            parts.append(_text((begin + x[k]) / 2, top - height - 3, label, ' class="l"'))
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
    """The nodes of a cycle, of which there may be none. heads: of nodes 0 .. n, where 0 has none."""
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
    scores = np.vstack([np.full(len(scores) + 1, -np.inf), scores.astype(np.float64)])
    scores[1:, 0] -= (
        2 * len(scores) * np.abs(scores[1:]).max() + 1
    )  # a further root costs more than a tree is worth
    np.fill_diagonal(scores, -np.inf)
    return _arborescence(scores)[1:]


def _arborescence(scores: np.ndarray) -> np.ndarray:
    """The heads of nodes 0 .. n, of which 0 has none, by Chu-Liu and Edmonds. scores: (n + 1, n + 1), node by head.

    Each cycle of best heads is contracted into its first node, whose row and column then stand for the best arcs into it
    and out of it. In the tree, the cycle keeps all its arcs but that to the word that is entered from outside.
    """
    n, nodes_left = np.arange(len(scores)), {*range(1, len(scores))}
    words, sources = (
        index.astype(np.int32) for index in np.indices(scores.shape)
    )  # the arc that each score is of
    heads, within, levels = (
        scores.argmax(axis=1),
        [[node] for node in n],
        [],
    )  # within: the words of each node

    def arcs(nodes: Iterable[int]) -> list[tuple[int, int, list[int]]]:
        return [
            (words[node, heads[node]], sources[node, heads[node]], within[node]) for node in nodes
        ]

    while cycle := find_cycle(heads):
        first, *others = cycle
        levels.append(arcs(cycle))
        gains = (
            scores[cycle] - scores[cycle, heads[cycle]][:, None]
        )  # of breaking the cycle at a node
        into = np.array(cycle)[gains.argmax(axis=0)], n
        words[first], sources[first], scores[first] = words[into], sources[into], gains.max(axis=0)
        out = n, np.array(cycle)[scores[:, cycle].argmax(axis=1)]
        words[:, first], sources[:, first], scores[:, first] = words[out], sources[out], scores[out]
        scores[first, first], scores[:, others] = -np.inf, -np.inf
        within[first] = [word for node in cycle for word in within[node]]
        heads[np.isin(heads, cycle)] = first
        heads[others], heads[first] = 0, scores[first].argmax()
        nodes_left.difference_update(others)
    tree = np.full(len(scores), -1)
    for level in [arcs(nodes_left), *reversed(levels)]:
        for word, head, inside in level:
            if (tree[inside] < 0).all():
                tree[word] = head
    return tree


def allowed_labels(heads: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Whether each word may have each label (..., R): "root" is the label of roots (head 0), and of nothing else."""
    is_for_roots = np.array([name == "root" for name in names])
    return ((heads[..., None] == 0) == is_for_roots) | (not is_for_roots.any())


def has_tags(trees: Iterable[Tree]) -> bool:
    """Whether some words have a part of speech."""
    return any(tag != NO_TAG for tree in trees for tag in tree.tags)


@dataclass(eq=False, repr=False)
class ParserScore(Score):
    """Shares of words with the right head (UAS), also with the right label (LAS), and with the right tag, if predicted.

    Subtypes of labels, as in nmod:poss, do not count, as in the CoNLL 2018 shared task.
    """

    gold: Sequence[Tree]
    predicted: Sequence[Tree]

    @cached_property
    def shares(self) -> dict[str, float]:
        def are_equal(name: str) -> np.ndarray:
            pairs = zip(self.gold, self.predicted, strict=True)
            both = (
                zip(getattr(gold, name), getattr(tree, name), strict=True) for gold, tree in pairs
            )
            return np.array(
                [str(x).split(":")[0] == str(y).split(":")[0] for x, y in chain.from_iterable(both)]
            )

        heads = are_equal("heads")
        shares = {"uas": heads, "las": heads & are_equal("labels")}
        if has_tags(self.predicted) and has_tags(self.gold):
            shares["upos"] = are_equal("tags")
        return {name: float(values.mean()) for name, values in shares.items()}

    @property
    def value(self) -> float:
        """The score that selects the best epoch."""
        return self.shares["las"]

    @property
    def summary(self) -> str:
        return "  ".join(f"{name.upper()} {share:6.2%}" for name, share in self.shares.items())

    def to_dict(self) -> dict[str, Any]:
        return {**self.shares, "words": sum(len(tree.tokens) for tree in self.gold)}

    def table(self) -> str:
        return f"on {self.to_dict()['words']:,} words"
