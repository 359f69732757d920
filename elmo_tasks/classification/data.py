"""What is held out of labelled texts, and the sentence polarity dataset."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_tasks.records import Label
from elmo_tasks.settings import HELD_OUT
from elmo_tasks.texts import Text

# The files of the sentence polarity dataset and their labels, in the published order.
POLARITY = (("rt-polarity.pos", "positive"), ("rt-polarity.neg", "negative"))

# Stand for a label in the split of texts with lists of labels: of those without one, and of all.
NO_LABEL = ()
ANY = ("any",)


def is_multi_label(texts: Sequence[Text]) -> bool:
    """Whether the label of each text is a list of labels. Raise if that of only some is."""
    first = texts[0]
    are_lists = isinstance(first.label, tuple)
    for text in texts:
        if isinstance(text.label, tuple) != are_lists:
            found = f"{_in_words(text.label)}, but {_in_words(first.label)} in {first.where}"
            raise UserError(
                f"{text.where}: found {found}. Expected a label each or, if a text can have "
                "several labels or none, a list each. `label_separator` splits those of a column."
            )
    return are_lists


def _in_words(label: Any) -> str:
    """A label, or the labels of a list."""
    if isinstance(label, tuple):
        return f"the list of labels {list(label)!r:.60}"
    return f"the label {label!r:.60}"


def indicators(texts: Sequence[Text], numbers: Mapping[Label, int], n_labels: int) -> np.ndarray:
    """Whether each label applies to each text (n, labels), of those that have numbers."""
    found = np.zeros((len(texts), n_labels), bool)
    for row, text in zip(found, texts, strict=True):
        row[[numbers[label] for label in text.labels if label in numbers]] = True
    return found


def unseen_labels(texts: Sequence[Text], known: Container[Label]) -> list[Label]:
    """The labels of the texts that are not known, each once and in their order."""
    labels = chain.from_iterable(text.labels for text in texts)
    return list(dict.fromkeys(label for label in labels if label not in known))


def hold_out(texts: Sequence[Text], seed: int) -> tuple[list[Text], list[Text]]:
    """Split texts into a training set and a dev set, which is a tenth.

    Each has the classes, or labels, in proportion. A class with one text stays in training.
    """
    if is_multi_label(texts):
        return _hold_out_several(texts, seed)
    # Here, as this import takes seconds and predictions do not need it.
    from sklearn.model_selection import train_test_split

    counts = Counter(text.label for text in texts)
    single = [text for text in texts if counts[text.label] == 1]
    others = [text for text in texts if counts[text.label] > 1]
    if not others:
        raise UserError(
            f"each of the {len(texts)} classes has one text, none of which can be held out. "
            "Give `dev`, or more texts."
        )
    labels = [text.label for text in others]
    size = max(ceil(HELD_OUT * len(others)), len(counts) - len(single))
    train, dev = train_test_split(others, test_size=size, stratify=labels, random_state=seed)
    return train + single, dev


def _hold_out_several(texts: Sequence[Text], seed: int) -> tuple[list[Text], list[Text]]:
    """Split texts that have lists of labels: of each label, from the rarest, and of all texts.

    All labels stay in training.
    """
    labels = [[*(text.labels or [NO_LABEL]), ANY] for text in texts]
    with_label: dict[Any, list[int]] = {}
    for k in np.random.default_rng(seed).permutation(len(texts)).tolist():
        for label in labels[k]:
            with_label.setdefault(label, []).append(k)
    n_left = {label: len(numbers) for label, numbers in with_label.items()}
    held: set[int] = set()
    # Labels that are equally frequent stay in the order of the texts.
    for label, numbers in sorted(with_label.items(), key=lambda item: len(item[1])):
        n_kept = len(numbers) - round(HELD_OUT * len(numbers))
        if label is ANY:
            n_kept = min(n_kept, len(texts) - 1)
        for k in numbers:
            is_needed = any(n_left[other] == 1 for other in labels[k])
            if n_left[label] > n_kept and k not in held and not is_needed:
                held.add(k)
                for other in labels[k]:
                    n_left[other] -= 1
    if not held:
        raise UserError(
            f"each of the {len(texts)} texts has a label that no other has: none can be held out. "
            "Give `dev`, or more texts."
        )
    train = [text for k, text in enumerate(texts) if k not in held]
    dev = [text for k, text in enumerate(texts) if k in held]
    return train, dev


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
