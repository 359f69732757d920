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
    """The word, its number of occurrences, and the nearest words in layer 0, with cosines."""
    parts = [format_count(word.count, "occurrences")]
    if any(word.senses) and word.n_eligible < word.count:
        parts.append(f"{word.n_eligible:,} with a sense")
    if word.is_sampled:
        parts.append(f"a random sample of {word.sample_size:,} (--max_occurrences, --seed)")
    if word.n_duplicates:
        parts.append(f"{format_count(word.n_duplicates, 'duplicates')} left out")
    listed = ", ".join(f"{printable(text)} {cosine:.2f}" for text, cosine in nearest) or "none"
    nearest = f"  nearest words by the context-free vector (layer 0): {listed}"
    return [f"{printable(word.text)}: {'; '.join(parts)}", nearest]


def concordance(
    shown: Iterable[tuple[Occurrence, np.ndarray]],
    word: Word,
    layers: Sequence[int],
    n: int,
    width: int,
) -> list[str]:
    """Format a concordance: each occurrence, then its n nearest per layer. shown: with vectors (layers, 2P)."""
    rows = []
    for number, (occurrence, vectors) in enumerate(shown, 1):
        rows.append((f"  {number}", occurrence))
        for layer in layers:
            for rank, (other, cosine) in enumerate(neighbours(occurrence, vectors, word, layer, n)):
                rows.append((f"    {'' if rank else f'layer {layer}':<8}{cosine:.2f}", other))
    senses = max(display_width(sense) for sense in word.senses.tolist())
    senses += 2 * (senses > 0)
    room = max(30, width - HEAD - senses - display_width(word.text) - 4)
    left = min(room // 2, max(display_width(_before(occurrence)) for _, occurrence in rows))
    lines = []
    for head, occurrence in rows:
        start = truncate(_before(occurrence)[::-1], left)[::-1]
        end = truncate(
            printable(" ".join(occurrence.tokens[occurrence.position + 1 :])), room - left
        )
        sentence = (
            f"{' ' * (left - display_width(start))}{start} [{printable(occurrence.word)}] {end}"
        )
        lines.append(
            (pad(head, HEAD) + pad(printable(occurrence.sense), senses) + sentence).rstrip()
        )
    return lines


def _before(occurrence: Occurrence) -> str:
    return printable(" ".join(occurrence.tokens[: occurrence.position]))


def sense_table(shown: Sequence[Word], words: Sequence[Word], name: str) -> list[str]:
    """How often the nearest neighbour has the same sense, by chance and per layer, for the shown words and for all."""
    rows = [(printable(word.text), [word]) for word in shown] + [
        (f"words of {name}: {len(words)}", words)
    ]
    width = max(display_width(text) for text in (CORNER, *(title for title, _ in rows))) + 2
    heads = [
        "occurrences",
        "senses",
        "chance",
        *(f"layer {layer}" for layer in range(len(words[0].vectors))),
    ]
    lines = [pad(CORNER, width) + "  ".join(heads)]
    scores = {word.text: same_sense_shares(word) for word in words}  # each (1 + layers, n)
    for title, chosen in rows:
        shares = np.concatenate([scores[word.text] for word in chosen], axis=1).mean(axis=1)
        n, n_senses = (
            sum(len(word.senses) for word in chosen),
            sum(len(set(word.senses.tolist())) for word in chosen),
        )
        cells = [f"{n:,}", f"{n_senses}", *(f"{share:.1%}" for share in shares)]
        row = "  ".join(f"{cell:>{len(head)}}" for cell, head in zip(cells, heads, strict=True))
        lines.append(pad(title, width) + row)
    return lines
