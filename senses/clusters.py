"""Propose senses for a word of which no file has the gold ones: clusters of its occurrences by k-means."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from senses.nearest import kmeans
from senses.occurrences import Word
from senses.picture import distinctiveness

MAX_GROUPS = 6
SENTENCES_PER_GROUP = 3  # on average, at least


def propose_senses(word: Word, layer: int, keywords: Sequence[str], seed: int) -> list[str]:
    """A name per occurrence: its group's number, by size, and two of the group's keywords. All empty if there are too few.

    keywords: of each occurrence's sentence. The number of groups is the one with the best silhouette.
    """
    from sklearn.metrics import silhouette_score

    vectors, n_sentences = word.vectors[layer], len(set(word.sentences))
    candidates = [kmeans(vectors, n, seed) for n in range(2, min(MAX_GROUPS, n_sentences // SENTENCES_PER_GROUP) + 1)]
    if not candidates:
        return [""] * len(keywords)
    groups = max(candidates, key=lambda groups: silhouette_score(vectors, groups))
    total = Counter(" ".join(keywords).split())
    names = {}
    for number, (group, size) in enumerate(Counter(groups.tolist()).most_common(), 1):
        counts = Counter(" ".join(keywords[k] for k in np.flatnonzero(groups == group)).split())

        def score(token: str, counts: Counter = counts, size: int = size) -> float:
            return distinctiveness(counts[token], size, total[token], len(keywords))

        best = sorted(counts, key=lambda token: (-score(token), token))[:2]
        names[group] = f"{number}: {' '.join(best)}"
    return [names[group] for group in groups.tolist()]
