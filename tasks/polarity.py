"""The sentence polarity dataset v1: its reviews, their labels and tokens."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from elmo_core import disk, text, tokenise
from elmo_core.runtime import UserError, log

FILES = (("rt-polarity.pos", 1), ("rt-polarity.neg", 0))  # in the order that the published scripts' split needs


@dataclass
class Reviews:
    """The texts of the files, their tokens, and their labels (n,): 1 positive, 0 negative."""

    texts: list[str]
    sentences: list[list[str]]
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def identity(self) -> str:
        """Identifies the reviews by texts, order and labels, however they are tokenised."""
        digest = hashlib.sha1("\n".join(self.texts).encode("utf-8"))
        digest.update(self.labels.astype(np.int8).tobytes())
        return f"{len(self):,} reviews (SHA-1 {digest.hexdigest()[:12]})"


def read_reviews(folder: Path, tokeniser: str, max_tokens: int) -> Reviews:
    """The reviews in rt-polarity.pos and rt-polarity.neg, one a line."""
    texts, labels = [], []
    for name, label in FILES:
        if not (folder / name).is_file():
            raise UserError(
                f"--data_dir {folder}: there is no {name}. Expected the folder of the sentence polarity dataset v1: `bash "
                "download_data.sh polarity` fetches it; data/polarity is a small sample in the same form."
            )
        lines = read_lines(folder / name)
        found = [line for line in lines if line.strip()]
        if not found:
            raise UserError(f"{folder / name}: it has no reviews. Expected one a line.")
        if len(found) < len(lines):
            log.warning(f"{folder / name}: {len(lines) - len(found):,} blank lines, which are skipped.")
        texts += found
        labels += [label] * len(found)
    return Reviews(texts, tokens_of(texts, tokeniser, max_tokens, folder), np.array(labels))


def read_lines(path: Path) -> list[str]:
    """The lines of a file in UTF-8 or, as the dataset is, in latin-1."""
    disk.check_input(path, "text, one review a line")
    try:
        return list(text.read_lines(path))
    except text.NotUTF8:
        return list(text.read_lines(path, encoding="latin-1"))


def tokens_of(texts: Sequence[str], tokeniser: str, max_tokens: int, source: Path) -> list[list[str]]:
    """The first tokens of every text. Logs how many texts are cut."""
    sentences = list(map(TOKENISERS[tokeniser], texts))
    long = sum(len(sentence) > max_tokens for sentence in sentences)
    if long:
        log.warning(f"{source}: {long:,} reviews have more than --max_seq_len {max_tokens} tokens and are cut there.")
    return [sentence[:max_tokens] for sentence in sentences]


def english_tokens(text: str) -> list[str]:
    """Tokens as `preprocess.py text --lang en` makes them of a corpus: `it 's`, `do n't`, and no HTML.

    rt-polarity itself does not split clitics (`it's`), and vectors trained on such a corpus do not know these words.
    """
    sentences = map(tokenise.english, tokenise.paragraphs(text))
    return list(chain.from_iterable(chain.from_iterable(sentences)))


TOKENISERS: dict[str, Callable[[str], list[str]]] = {"en": english_tokens, "none": str.split}
