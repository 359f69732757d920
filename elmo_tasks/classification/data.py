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

# The files of the sentence polarity dataset and their labels, in the published order.
POLARITY = (("rt-polarity.pos", "positive"), ("rt-polarity.neg", "negative"))


def hold_out(texts: Sequence[Text], seed: int) -> tuple[list[Text], list[Text]]:
    """Split texts into a training set and a dev set, which is a tenth.

    Each has the classes in proportion.
    """
    # Here, as this import takes seconds and predictions do not need it.
    from sklearn.model_selection import train_test_split

    labels = [text.label for text in texts]
    n_classes = len(set(labels))
    size = max(ceil(HELD_OUT * len(texts)), n_classes)
    try:
        return train_test_split(texts, test_size=size, stratify=labels, random_state=seed)
    except ValueError as error:
        counts = f"{len(texts)} texts of {n_classes} classes are too few to hold some out"
        raise UserError(f"{counts} ({error}). Give `dev`, or remove rare classes.") from error


def read_polarity(folder: Path) -> tuple[list[str], list[str]]:
    """The reviews of the sentence polarity dataset v1, which are in Latin-1, and their labels."""
    expected = "the sentence polarity dataset v1, which `bash download_data.sh polarity` fetches"
    reviews = []
    labels = []
    for name, label in POLARITY:
        path = folder / name
        disk.check_input(path, expected)
        lines = path.read_text(encoding="latin-1").split("\n")
        of_label = [line for line in lines if line.strip()]
        reviews += of_label
        labels += [label] * len(of_label)
    return reviews, labels


def published_split(reviews: Sequence[str], labels: Sequence[str], seed: int) -> tuple[Any, Any]:
    """The training and test reviews of the published scripts, nine tenths and one, with labels."""
    # Here, as this import takes seconds and --help does not need it.
    from sklearn.model_selection import train_test_split

    train, test, train_labels, test_labels = train_test_split(
        np.array(reviews), np.array(labels), test_size=HELD_OUT, random_state=seed
    )
    return (train, train_labels), (test, test_labels)
