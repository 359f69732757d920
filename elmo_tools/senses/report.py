"""Occurrences, neighbours and the sense table as lines of text."""

from collections.abc import Iterable, Sequence

import numpy as np

from elmo_core.display.terminal import display_width, pad, printable, truncate
from elmo_core.messages import format_count
from elmo_tools.senses.nearest import neighbours, same_sense_shares
from elmo_tools.senses.occurrences import Occurrence, Word

HEAD = 18  # columns of layer and cosine, before sense and sentence
CORNER = "nearest has the same sense"


def summary(word: Word, nearest: Sequence[tuple[str, float]]) -> list[str]:
    """Format the word, how often it occurs, and its nearest words in layer 0 with cosines."""
    parts = [format_count(word.count, "occurrences")]
    if any(word.senses) and word.n_eligible < word.count:
        parts.append(f"{word.n_eligible:,} with a sense")
    if word.is_sampled:
        parts.append(f"a random sample of {word.sample_size:,} (--max_occurrences, --seed)")
    if word.n_duplicates:
        parts.append(f"{format_count(word.n_duplicates, 'duplicates')} left out")
    listed = ", ".join(f"{printable(text)} {cosine:.2f}" for text, cosine in nearest)
    return [
        f"{printable(word.text)}: {'; '.join(parts)}",
        f"  nearest words by the context-free vector (layer 0): {listed or 'none'}",
    ]


def concordance(
    shown: Iterable[tuple[Occurrence, np.ndarray]],
    word: Word,
    layers: Sequence[int],
    n: int,
    width: int,
) -> list[str]:
    """Format a concordance: each occurrence, then its n nearest per layer.

    shown: occurrences with their vectors (layers, 2P). width: columns of a line, if possible.
    """
    rows = []
    for number, (occurrence, vectors) in enumerate(shown, 1):
        rows.append((f"  {number}", occurrence))
        for layer in layers:
            title = f"layer {layer}"
            for other, cosine in neighbours(occurrence, vectors, word, layer, n):
                rows.append((f"    {title:<8}{cosine:.2f}", other))
                title = ""  # only before the nearest
    sense_width = max(display_width(sense) for sense in word.senses.tolist())
    if sense_width:
        sense_width += 2
    room = max(30, width - HEAD - sense_width - display_width(word.text) - 4)
    longest = max(display_width(_before(occurrence)) for _, occurrence in rows)
    left = min(room // 2, longest)
    lines = []
    for head, occurrence in rows:
        sense = pad(printable(occurrence.sense), sense_width)
        sentence = _around(occurrence, left, room - left)
        lines.append(f"{pad(head, HEAD)}{sense}{sentence}".rstrip())
    return lines


def _around(occurrence: Occurrence, left: int, right: int) -> str:
    """Format a sentence with the word in brackets, and at most so many columns on each side."""
    reversed_start = truncate(_before(occurrence)[::-1], left)  # its beginning may be cut off
    start = reversed_start[::-1]
    indent = " " * (left - display_width(start))
    after = printable(" ".join(occurrence.tokens[occurrence.position + 1 :]))
    end = truncate(after, right)
    return f"{indent}{start} [{printable(occurrence.word)}] {end}"


def _before(occurrence: Occurrence) -> str:
    return printable(" ".join(occurrence.tokens[: occurrence.position]))


def sense_table(shown: Sequence[Word], words: Sequence[Word], name: str) -> list[str]:
    """Format how often the nearest neighbour has the same sense, by chance and per layer.

    There is a row for each of the shown words and one for all words. name: of the senses' file.
    """
    rows = [(printable(word.text), [word]) for word in shown]
    rows.append((f"words of {name}: {len(words)}", words))
    title_width = max(display_width(title) for title, _ in rows)
    width = max(display_width(CORNER), title_width) + 2
    layers = [f"layer {layer}" for layer in range(len(words[0].vectors))]
    heads = ["occurrences", "senses", "chance", *layers]
    lines = [pad(CORNER, width) + "  ".join(heads)]
    scores = {word.text: same_sense_shares(word) for word in words}  # each (1 + layers, n)
    for title, chosen in rows:
        shares = np.concatenate([scores[word.text] for word in chosen], axis=1).mean(axis=1)
        n = sum(len(word.senses) for word in chosen)
        n_senses = sum(len(set(word.senses.tolist())) for word in chosen)
        percentages = [f"{share:.1%}" for share in shares]
        cells = [f"{n:,}", str(n_senses), *percentages]
        row = "  ".join(f"{cell:>{len(head)}}" for cell, head in zip(cells, heads, strict=True))
        lines.append(pad(title, width) + row)
    return lines
