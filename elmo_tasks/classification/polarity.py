"""The sentence polarity dataset v1: its reviews and their labels."""

from pathlib import Path

import numpy as np

from elmo_core.machine.messages import UserError, log
from elmo_tasks.classification.texts import Texts, read_lines, tokenised

FILES = (("rt-polarity.pos", 1), ("rt-polarity.neg", 0))  # in the order that the published scripts' split needs


def read_reviews(folder: Path, lang: str, max_tokens: int) -> Texts:
    """The reviews in rt-polarity.pos and rt-polarity.neg, one a line: label 1 positive, 0 negative."""
    texts, labels = [], []
    for name, label in FILES:
        if not (folder / name).is_file():
            raise UserError(
                f"--data_dir {folder}: there is no {name}. Expected the folder of the sentence polarity dataset v1: `bash "
                "download_data.sh polarity` fetches it; data/polarity is a small sample in the same form. "
                "--train_file takes texts of your own."
            )
        lines = list(read_lines(folder / name))
        found = [line for line in lines if line.strip()]
        if not found:
            raise UserError(f"{folder / name}: it has no reviews. Expected one a line.")
        if len(found) < len(lines):
            log.warning(f"{folder / name}: {len(lines) - len(found):,} blank lines, which are skipped.")
        texts += found
        labels += [label] * len(found)
    return Texts(texts, tokenised(texts, lang, max_tokens, folder), np.array(labels))
