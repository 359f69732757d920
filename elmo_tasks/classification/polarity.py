"""The sentence polarity dataset v1: its reviews and their labels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo_core.messages import UserError, format_count, log
from elmo_core.text.language import make_tokeniser
from elmo_tasks.classification.texts import Texts, read_lines, tokenise_texts

FILES = (("rt-polarity.pos", 1), ("rt-polarity.neg", 0))  # in the order that gives the published scripts' split


def check_folder(folder: Path) -> None:
    """Raise unless this is the folder of the data set."""
    for name, _ in FILES:
        if not (folder / name).is_file():
            raise UserError(
                f"{folder}: there is no {name}. Expected the folder of the sentence polarity dataset v1: `bash "
                "download_data.sh polarity` downloads it; data/polarity is a small sample in the same form. Your own texts "
                "are in a file."
            )


def read_reviews(
    folder: Path,
    lang: str,
    max_tokens: int,
    words: Sequence[str] = (),
    user_dict: Path | str | Sequence[str] | None = None,
) -> Texts:
    """Read rt-polarity.pos (label 1) and rt-polarity.neg (label 0), one review per line."""
    check_folder(folder)
    texts, labels = [], []
    for name, label in FILES:
        lines = list(read_lines(folder / name))
        reviews = [line for line in lines if line.strip()]
        if not reviews:
            raise UserError(f"{folder / name}: it has no reviews. Expected one per line.")
        if len(reviews) < len(lines):
            log.warning(f"{folder / name}: {format_count(len(lines) - len(reviews), 'blank lines')} skipped.")
        texts += reviews
        labels += [label] * len(reviews)
    tokeniser = make_tokeniser(lang, texts, words, user_dict)
    return Texts(texts, tokenise_texts(texts, tokeniser, max_tokens, folder), np.array(labels), tokeniser=tokeniser)
