"""Which label sequences each scheme allows, as regular expressions: independent of the project's
table of transitions.
"""

import itertools
import re
from collections.abc import Sequence

LABELS = {  # of two tags where the number of sequences permits it
    "plain": ["NN", "B-x", "I-x"],
    "bio": ["O", "B-x", "I-x", "B-y", "I-y"],
    "iob1": ["O", "B-x", "I-x", "B-y", "I-y"],
    "bioes": ["O", "B-x", "I-x", "E-x", "S-x"],
    "lac": ["n", "n-B", "n-I", "v-B", "v-I"],
}
ALLOWED = {  # each label is followed by a space
    "plain": "(NN |B-x |I-x )*",
    "bio": "(O |B-x (I-x )*|B-y (I-y )*)*",
    "iob1": "(O |I-x ([IB]-x )*|I-y ([IB]-y )*)*",
    "bioes": "(O |S-x |B-x (I-x )*E-x )*",
    "lac": "(n |n-B (n-I )*|v-B (v-I )*)*",
}


def all_paths(n_labels: int, length: int) -> list[tuple[int, ...]]:
    """All sequences of label ids of this length."""
    return list(itertools.product(range(n_labels), repeat=length))


def is_allowed(labels: Sequence[str], scheme: str) -> bool:
    return bool(re.fullmatch(ALLOWED[scheme], "".join(f"{label} " for label in labels)))


def allowed_paths(scheme: str, length: int) -> list[tuple[int, ...]]:
    """The sequences of ids of LABELS[scheme] that the scheme allows."""
    names = LABELS[scheme]
    return [
        path
        for path in all_paths(len(names), length)
        if is_allowed([names[k] for k in path], scheme)
    ]
