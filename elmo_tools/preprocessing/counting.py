"""The vocabulary of a corpus, by counting its tokens."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from elmo_core.messages import UserError, bar, format_count
from elmo_core.text.language import warn_if_unreadable
from elmo_core.text.text_files import blocks
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary


def count_vocabulary(
    paths: list[Path], min_count: int, max_size: int | None, shown: bool = True
) -> tuple[Vocabulary, str]:
    """Choose the frequent tokens of the files. Returns also what to say of them.

    min_count, max_size: see `Vocabulary.frequent`. shown: a bar, in a terminal or notebook.
    """
    counts = _count_tokens(paths, shown)
    vocabulary = Vocabulary.frequent(counts, min_count, max_size)
    if not vocabulary.words:
        raise UserError(
            f"no token has a count of {min_count}, or `max_size` is too low. "
            "Expected text in words, and more of it, or a lower `min_count`."
        )
    warn_if_unreadable(paths[0])
    total = counts.total()
    covered = sum(counts[word] for word in vocabulary.words) / total
    distinct = format_count(len(counts), "distinct tokens")
    report = (
        f"{len(vocabulary.words):,} of {distinct}, and the {len(SPECIAL_TOKENS)} special ones.\n"
        f"coverage of the text ({format_count(total, 'tokens')}): {covered:.2%}."
    )
    return vocabulary, report


def _count_tokens(paths: Iterable[Path], shown: bool) -> Counter[str]:
    """Count each token of the files."""
    counts = Counter()
    with bar(None, shown, desc="count", unit=" tokens", unit_scale=True) as progress:
        for path in paths:
            for text in blocks(path):
                tokens = text.split()
                counts.update(tokens)
                progress.update(len(tokens))
    return counts
