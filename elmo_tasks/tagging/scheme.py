"""Labelling schemes: how token labels encode spans.

bio     B-x begins a span, I-x continues it (IOB2)
iob1    I-x is in a span; B-x begins one directly after another of the same tag
bioes   B-x I-x E-x, and S-x for a span of one token; also with M for I (BMES), or L and U for E and S (BILOU)
plain   one label per token, without spans, such as parts of speech
lac     x for a span of one token, else x-B x-I, as in Baidu's LAC

O is outside all spans. B, I, E and S may also stand alone, without a tag, as in word segmentation, where a B and an I or E
are among them: S, M and L, for example, are plain labels.
"""

import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np

from elmo_core.checks import Label
from elmo_core.messages import UserError, join_names

OUTSIDE = "O"
SCHEMES = ("bio", "iob1", "bioes", "plain", "lac")
SPAN_LABEL = re.compile(r"O|(?P<prefix>[BIESMLU])(-(?P<tag>.+))?")
MISSPELT = re.compile(r"[BIESMLUbiesmlu](_|-(?![BI]$)).+")  # B_PER, b-PER; but m-B is LAC's
SYNONYMS = {"M": "I", "L": "E", "U": "S"}


def split_lac_label(label: str) -> tuple[str, str]:
    """Split a label of LAC's scheme into its tag and its suffix: B, I, or "" for a bare tag."""
    return (
        (label[:-2], label[-1]) if label.endswith(("-B", "-I")) and len(label) > 2 else (label, "")
    )


def prefix_and_tag(label: Label, scheme: str) -> tuple[str, str]:
    """A label's prefix, one of B, I, E, S and O, and its tag."""
    label = str(label)
    if scheme == "plain":
        return "S", label
    if label == OUTSIDE:
        return OUTSIDE, ""
    if scheme == "lac":
        tag, suffix = split_lac_label(label)
        return suffix or "S", tag
    match = SPAN_LABEL.fullmatch(label)
    if not match:  # only if the user chose the scheme
        return "S", label
    return SYNONYMS.get(match["prefix"], match["prefix"]), match["tag"] or ""


def spans(labels: Sequence[Label], scheme: str = "lac") -> list[tuple[int, int, str]]:
    """The spans as (begin, end, tag), end exclusive, as `conlleval` finds them, even in invalid sequences.

    A span begins with B or S, after a complete span, and where the tag changes.
    """
    result, previous, previous_tag = [], OUTSIDE, ""
    for k, label in enumerate(labels):
        prefix, tag = prefix_and_tag(label, scheme)
        if prefix != OUTSIDE:
            if prefix in "BS" or previous in "OES" or tag != previous_tag:
                result.append((k, k + 1, tag))
            else:
                result[-1] = (result[-1][0], k + 1, tag)
        previous, previous_tag = prefix, tag
    return result


def are_of_words(labels: Iterable[Label], scheme: str) -> bool:
    """Whether labels say of each token which word it belongs to: in LAC's scheme, or without tags and O."""
    return scheme == "lac" or all(  # in plain labels, each has a tag
        prefix != OUTSIDE and not tag for prefix, tag in (prefix_and_tag(x, scheme) for x in labels)
    )


def check_scheme(labels: Iterable[tuple[str, Label]], scheme: str) -> None:
    """Raise if a label is not of the scheme; of "auto", if nine tenths of those other than O are of spans, or misspelt.

    labels: those of all tokens, with their positions.
    """
    if scheme in ("plain", "lac"):
        return
    n, n_misspelt, wrong = 0, 0, []
    for where, label in labels:
        match = isinstance(label, str) and SPAN_LABEL.fullmatch(label)
        if match:
            n += bool(match["tag"])
        else:
            n_misspelt += bool(MISSPELT.fullmatch(str(label)))
            wrong.append((where, label))
    share = (n + n_misspelt) / max(1, n + len(wrong))
    if wrong and (scheme != "auto" or share >= 0.9):
        where, label = wrong[0]
        names = join_names(sorted({repr(label) for _, label in wrong}), 5)
        found = f"the label {label!r} is no label of a span, as B-PER, I-PER and O are"
        counts = f"{len(wrong):,} are such: {names}; {n:,} are labels of spans"
        raise UserError(f"{where}: {found}. Correct it, or set `scheme=plain`. {counts}.")


def detect_scheme(sentences: Iterable[Sequence[Label]]) -> str:
    """Detect the scheme of labelled sentences. It is IOB1, not BIO, if every B directly follows a span of its tag."""
    sentences = list(sentences)
    labels = set(itertools.chain.from_iterable(sentences))
    if not all(isinstance(label, str) for label in labels):
        return "plain"
    inner = {label for label in labels if split_lac_label(label)[1] == "I"}
    if inner and {f"{label[:-1]}B" for label in inner} <= labels:
        return "lac"
    labels.discard(OUTSIDE)
    if not labels or not all(map(SPAN_LABEL.fullmatch, labels)) or not _encode_spans(labels):
        return "plain"
    if not {label[0] for label in labels} <= {"B", "I"}:
        return "bioes"
    return "bio" if any(_has_iob2_begin(sentence) for sentence in sentences) else "iob1"


def _encode_spans(labels: set[str]) -> bool:
    """Whether the prefixes can encode spans: M, E and L need a B, and of bare ones only I needs none."""
    tagged, bare = (
        {label[0] for label in labels if ("-" in label) == has_tag} for has_tag in (True, False)
    )
    if "B" not in tagged and tagged & set("MEL"):
        return False
    return not bare or bare == {"I"} or ("B" in bare and bool(bare & set("IMEL")))


def _has_iob2_begin(labels: Sequence[str]) -> bool:
    """Return whether some B does not follow a span of its tag; IOB1 would use I there."""
    pairs = [prefix_and_tag(label, "bio") for label in [OUTSIDE, *labels]]
    return any(
        prefix == "B" and (previous == OUTSIDE or previous_tag != tag)
        for (previous, previous_tag), (prefix, tag) in itertools.pairwise(pairs)
    )


def forbidden_transitions(names: Sequence[Label], scheme: str) -> tuple[np.ndarray, np.ndarray]:
    """The scheme's rules for K labels.

    Returns (K + 1, K) bool, whether label j cannot follow label i or, in the last row, be first; and (K,) bool, whether
    a label cannot be last.
    """
    pairs = [prefix_and_tag(name, scheme) for name in names]
    needs_span = "B" if scheme == "iob1" else "IE"
    is_open = [
        scheme == "bioes" and prefix in "BI" for prefix, _ in pairs
    ]  # I or E of its tag must follow

    def is_forbidden(before: tuple[str, str], must_continue: bool, prefix: str, tag: str) -> bool:
        return before not in (("B", tag), ("I", tag)) if prefix in needs_span else must_continue

    rows = zip([*pairs, (OUTSIDE, "")], [*is_open, False], strict=True)
    return np.array([[is_forbidden(*row, *pair) for pair in pairs] for row in rows]), np.array(
        is_open
    )
