"""What is held out of labelled texts, and the sentence polarity dataset."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_tasks.settings import HELD_OUT
from elmo_tasks.texts import Text

POLARITY = (
    ("rt-polarity.pos", "positive"),
    ("rt-polarity.neg", "negative"),
)  # in the published order


def hold_out(texts: Sequence[Text], seed: int) -> tuple[list[Text], list[Text]]:
    """Split texts into a training set and a dev set, which is a tenth, each with the classes in proportion."""
    from sklearn.model_selection import (
        train_test_split,
    )  # takes seconds; predictions do not need it

    labels = [text.label for text in texts]
    size = max(ceil(HELD_OUT * len(texts)), len(set(labels)))
    try:
        return train_test_split(texts, test_size=size, stratify=labels, random_state=seed)
    except ValueError as error:
        counts = f"{len(texts)} texts of {len(set(labels))} classes are too few to hold some out"
        raise UserError(f"{counts} ({error}). Give `dev`, or remove rare classes.") from error


def read_polarity(folder: Path) -> tuple[list[str], list[str]]:
    """The reviews of the sentence polarity dataset v1, which are in Latin-1, and their labels."""
    pairs, expected = (
        [],
        "the sentence polarity dataset v1, which `bash download_data.sh polarity` fetches",
    )
    for name, label in POLARITY:
        disk.check_input(folder / name, expected)
        lines = (folder / name).read_text(encoding="latin-1").split("\n")
        pairs += [(line, label) for line in lines if line.strip()]
    return [review for review, _ in pairs], [label for _, label in pairs]


def published_split(reviews: Sequence[str], labels: Sequence[str], seed: int) -> tuple[Any, Any]:
    """The training and test reviews of the published scripts, each with its labels: nine tenths, and one."""
    from sklearn.model_selection import train_test_split  # takes seconds; --help does not need it

    arrays = map(np.array, (reviews, labels))
    train, test, train_labels, test_labels = train_test_split(
        *arrays, test_size=HELD_OUT, random_state=seed
    )
    return (train, train_labels), (test, test_labels)
