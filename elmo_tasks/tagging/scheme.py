"""Labelling schemes: how token labels encode spans.

bio     B-x begins a span, I-x continues it (IOB2)
iob1    I-x is in a span; B-x begins one directly after another of the same tag
bioes   B-x I-x E-x, and S-x for a span of one token; also with M for I (BMES), or L and U for E and
        S (BILOU)
plain   one label per token, without spans, such as parts of speech
lac     x for a span of one token, else x-B x-I, as in Baidu's LAC

O is outside all spans. B, I, E and S may also stand alone, without a tag, as in word segmentation,
where a B and an I or E are among them: S, M and L, for example, are plain labels.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain

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
    if label.endswith(("-B", "-I")) and len(label) > 2:
        return label[:-2], label[-1]
    return label, ""


@lru_cache(10_000, typed=True)  # 1 is not True
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
    """The spans as (begin, end, tag), end exclusive, as `conlleval` finds them.

    A span begins with B or S, after a complete span, and where the tag changes; so the spans of
    invalid sequences are defined, too.
    """
    result = []
    previous = OUTSIDE
    previous_tag = ""
    for k, label in enumerate(labels):
        prefix, tag = prefix_and_tag(label, scheme)
        if prefix != OUTSIDE:
            if prefix in "BS" or previous in "OES" or tag != previous_tag:
                result.append((k, k + 1, tag))
            else:
                begin, _, _ = result[-1]
                result[-1] = (begin, k + 1, tag)
        previous = prefix
        previous_tag = tag
    return result


def are_of_words(labels: Iterable[Label], scheme: str) -> bool:
    """Whether labels say of each token which word it belongs to.

    They do in LAC's scheme, and if they have neither tags nor O. (Plain labels are tags.)
    """
    if scheme == "lac":
        return True
    for label in labels:
        prefix, tag = prefix_and_tag(label, scheme)
        if prefix == OUTSIDE or tag:
            return False
    return True


def check_scheme(labels: Iterable[tuple[str, Label]], scheme: str) -> None:
    """Raise if a label is not of the scheme.

    If that is "auto": if nine tenths of the labels other than O are of spans, or misspelt ones.

    labels: those of all tokens, with their positions.
    """
    if scheme in ("plain", "lac"):
        return
    n_tagged = 0
    n_misspelt = 0
    wrong = []
    for where, label in labels:
        match = SPAN_LABEL.fullmatch(label) if isinstance(label, str) else None
        if not match:
            wrong.append((where, label))
            if MISSPELT.fullmatch(str(label)):
                n_misspelt += 1
        elif match["tag"]:
            n_tagged += 1
    share = (n_tagged + n_misspelt) / max(1, n_tagged + len(wrong))
    if wrong and (scheme != "auto" or share >= 0.9):
        where, label = wrong[0]
        names = join_names(sorted({repr(label) for _, label in wrong}), 5)
        found = f"the label {label!r} is no label of a span, as B-PER, I-PER and O are"
        counts = f"{len(wrong):,} are such: {names}; {n_tagged:,} are labels of spans"
        raise UserError(f"{where}: {found}. Correct it, or set `scheme=plain`. {counts}.")


def detect_scheme(sentences: Iterable[Sequence[Label]]) -> str:
    """Detect the scheme of labelled sentences.

    It is IOB1, not BIO, if every B directly follows a span of its tag.
    """
    sentences = list(sentences)
    labels = set(chain.from_iterable(sentences))
    if not all(isinstance(label, str) for label in labels):
        return "plain"
    inner = {label for label in labels if split_lac_label(label)[1] == "I"}
    if inner and {f"{label[:-1]}B" for label in inner} <= labels:
        return "lac"
    labels.discard(OUTSIDE)
    are_of_spans = all(SPAN_LABEL.fullmatch(label) for label in labels)
    if not labels or not are_of_spans or not _encode_spans(labels):
        return "plain"
    if not {label[0] for label in labels} <= {"B", "I"}:
        return "bioes"
    return "bio" if any(_has_iob2_begin(sentence) for sentence in sentences) else "iob1"


def _encode_spans(labels: set[str]) -> bool:
    """Whether the prefixes can encode spans.

    With tags, M, E and L need a B. Bare ones are I alone, or B with at least one of I, M, E and L.
    """
    tagged = {label[0] for label in labels if "-" in label}
    bare = {label[0] for label in labels if "-" not in label}
    if "B" not in tagged and tagged & set("MEL"):
        return False
    return not bare or bare == {"I"} or ("B" in bare and bool(bare & set("IMEL")))


def _has_iob2_begin(labels: Sequence[str]) -> bool:
    """Return whether some B does not follow a span of its tag; IOB1 would use I there."""
    previous = OUTSIDE
    previous_tag = ""
    for label in labels:
        prefix, tag = prefix_and_tag(label, "bio")
        if prefix == "B" and (previous == OUTSIDE or previous_tag != tag):
            return True
        previous = prefix
        previous_tag = tag
    return False


def forbidden_transitions(names: Sequence[Label], scheme: str) -> tuple[np.ndarray, np.ndarray]:
    """The scheme's rules for K labels.

    Returns (K + 1, K) bool, whether label j cannot follow label i or, in the last row, be first;
    and (K,) bool, whether a label cannot be last.
    """
    pairs = [prefix_and_tag(name, scheme) for name in names]
    # Those of open spans: an I or E of their tag must follow.
    is_open = [scheme == "bioes" and prefix in "BI" for prefix, _ in pairs]
    # Those that are only within a span: a B or I of their tag must precede.
    is_inner = [prefix in ("B" if scheme == "iob1" else "IE") for prefix, _ in pairs]

    forbidden = np.zeros((len(pairs) + 1, len(pairs)), bool)
    for j, (_, tag) in enumerate(pairs):
        span_of_tag = (("B", tag), ("I", tag))
        for i, before in enumerate([*pairs, (OUTSIDE, "")]):
            if is_inner[j]:
                forbidden[i, j] = before not in span_of_tag
            else:
                forbidden[i, j] = i < len(pairs) and is_open[i]
    return forbidden, np.array(is_open)
