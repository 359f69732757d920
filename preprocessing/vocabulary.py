"""From a corpus to a vocabulary: its tokens in order of decreasing frequency."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tqdm import tqdm

from elmo_core.machine.messages import UserError
from elmo_core.text.text_files import blocks
from elmo_core.text.tokens import Vocabulary


def count_tokens(paths: Iterable[Path]) -> Counter:
    """Count the tokens of a corpus."""
    counts = Counter()
    with tqdm(desc="count", unit=" tokens", unit_scale=True, disable=None) as progress:
        for path in paths:
            for text in blocks(path):
                tokens = text.split()
                counts.update(tokens)
                progress.update(len(tokens))
    return counts


def make_vocabulary(counts: Counter, min_count: int = 1, max_size: int | None = None) -> Vocabulary:
    """The special tokens, then all tokens that occur at least `min_count` times; at most `max_size` in total."""
    vocabulary = Vocabulary.frequent(counts, min_count, max_size)
    if not vocabulary.words:
        raise UserError(f"no token has a count of {min_count}. Expected text with tokens separated by white space.")
    return vocabulary
