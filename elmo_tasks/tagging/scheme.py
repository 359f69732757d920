"""Schemes: how the labels of tokens say what spans a sentence has.

bio     B-x begins a span, I-x continues it (IOB2)
iob1    I-x is in a span; B-x begins one directly behind another of the same tag
bioes   B-x I-x E-x, and S-x for a span of one token; also with M for I (BMES), or L and U for E and S (BILOU)
plain   a label for each token, without spans, as parts of speech
lac     x for a span of one token, else x-B x-I: that of Baidu's LAC

Outside of all spans is O. B, I, E and S may also stand alone, without a tag, as in word segmentation.
"""

import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np

from elmo_core.machine.messages import join_names, log

OUTSIDE = "O"
SCHEMES = ("bio", "iob1", "bioes", "plain", "lac")
CHUNK_LABEL = re.compile(r"O|(?P<letter>[BIESMLU])(-(?P<tag>.+))?")
SYNONYMS = {"M": "I", "L": "E", "U": "S"}


def split_lac_label(label: str) -> tuple[str, str]:
    """The tag and part of a label of LAC's scheme: B, I, or "" for the bare tag."""
    return (label[:-2], label[-1]) if label.endswith(("-B", "-I")) and len(label) > 2 else (label, "")


def parts(label: str, scheme: str) -> tuple[str, str]:
    """A label's letter, one of B, I, E, S and O, and its tag."""
    if scheme == "plain":
        return "S", label
    if label == OUTSIDE:
        return OUTSIDE, ""
    if scheme == "lac":
        tag, part = split_lac_label(label)
        return part or "S", tag
    match = CHUNK_LABEL.fullmatch(label)
    if not match:  # only if the user has named the scheme
        return "S", label
    return SYNONYMS.get(match["letter"], match["letter"]), match["tag"] or ""


def spans(labels: Sequence[str], scheme: str = "lac") -> list[tuple[int, int, str]]:
    """The spans as (begin, end, tag), end excluded, where `conlleval` sees chunks: in broken sequences, too.

    A span begins with B or S, behind a span that is complete, and where the tag changes.
    """
    found, before = [], (OUTSIDE, "")
    for k, label in enumerate(labels):
        letter, tag = parts(label, scheme)
        if letter != OUTSIDE:
            if letter in "BS" or before[0] in "OES" or tag != before[1]:
                found.append((k, k + 1, tag))
            else:
                found[-1] = (found[-1][0], k + 1, tag)
        before = letter, tag
    return found


def detect_scheme(sentences: Iterable[Sequence[str]]) -> str:
    """The scheme of labelled sentences. IOB1 is told from BIO by every B being directly behind a span of its tag."""
    sentences = list(sentences)
    labels = set(itertools.chain.from_iterable(sentences))
    matches = [CHUNK_LABEL.fullmatch(label) for label in labels]
    if not all(matches) or labels <= {OUTSIDE}:
        others = sorted(label for label in labels if not CHUNK_LABEL.fullmatch(label))
        if any(match and match["tag"] for match in matches):
            log.warning(
                f"Some labels look like those of spans, others do not ({join_names(others, 3)}): each label is taken by "
                "itself. If that is a mistake, correct the files or give --scheme."
            )
        return "plain"
    if not {match["letter"] for match in matches} <= {"B", "I", None}:
        return "bioes"
    return "bio" if any(_begins_freely(sentence) for sentence in sentences) else "iob1"


def _begins_freely(labels: Sequence[str]) -> bool:
    """Whether some B has no span of its tag before it, which IOB1 would write as I."""
    pairs = [parts(label, "bio") for label in [OUTSIDE, *labels]]
    return any(
        letter == "B" and (a == OUTSIDE or a_tag != tag) for (a, a_tag), (letter, tag) in itertools.pairwise(pairs)
    )


def forbidden_transitions(names: Sequence[str], scheme: str) -> tuple[np.ndarray, np.ndarray]:
    """The scheme's rules: (K + 1, K), whether label j cannot follow label i, or, in the last row, come first;
    and (K,), whether it cannot come last.
    """
    n, pairs = len(names), [parts(name, scheme) for name in names]
    table, last = np.zeros((n + 1, n), dtype=bool), np.zeros(n, dtype=bool)
    if scheme == "plain":
        return table, last
    needs_span = "B" if scheme == "iob1" else "IE"
    for j, (letter, tag) in enumerate(pairs):
        for i, (before, before_tag) in enumerate([*pairs, (OUTSIDE, "")]):
            continues = before in "BI" and before_tag == tag
            if letter in needs_span:
                table[i, j] = not continues
            if scheme == "bioes" and before in "BI":
                table[i, j] |= not (continues and letter in "IE")
        last[j] = scheme == "bioes" and letter in "BI"
    return table, last
