"""Surprisal of every word of a sentence under a language model, in both directions.

Shapes: B sentences, T longest + 1, M predictions.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elmo_core.machine.runtime import run_in_parallel
from elmo_core.text.tokens import BOS, EOS
from elmo_core.text.vocabulary import SPECIAL_TOKENS, UNK_ID, Vocabulary

if TYPE_CHECKING:  # the --help of run_eval.py does not wait for Paddle
    from elmo_core.machine.runtime import paddle
    from elmo_core.network.lstmp import Packing
    from elmo_core.network.softmax import Softmax


class TokenSurprisal(NamedTuple):
    """A token's surprisal given the words before it (forward) and given those after it (backward).

    Entropy: of the prediction, the surprisal to be expected. Rank: 1 if the token is the likeliest word.
    in_vocabulary: if false, the token was predicted as `<UNK>`, whose probability is that of all unknown words together.
    """

    token: str
    forward: float
    backward: float
    forward_entropy: float
    backward_entropy: float
    forward_rank: int
    backward_rank: int
    in_vocabulary: bool


class Surprisals(list[TokenSurprisal]):
    """The tokens of a sentence, then its end: `</S>` forward, `<S>` backward."""

    def total(self, unknown: bool = True) -> tuple[float, float]:
        """Sums of the surprisals, forward and backward; without words outside the vocabulary if `unknown` is false."""
        chosen = [record for record in self if unknown or record.in_vocabulary]
        return sum(record.forward for record in chosen), sum(record.backward for record in chosen)


class Comparison(NamedTuple):
    """The surprisal of a worse sentence minus that of a better one, in bits: positive if the model prefers the better.

    in_vocabulary: whether all words of both are.
    """

    forward: float
    backward: float
    both: float
    in_vocabulary: bool


def difference(good: Surprisals, bad: Surprisals) -> Comparison:
    forward, backward = (
        worse - better for worse, better in zip(bad.total(), good.total(), strict=True)
    )
    known = all(record.in_vocabulary for record in [*good, *bad])
    return Comparison(forward, backward, forward + backward, known)


def surprisals(
    softmax: "Softmax",
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    outputs: Sequence["paddle.Tensor"],
    packing: "Packing",
) -> list[Surprisals]:
    """The surprisals of a batch in bits.

    outputs: the top layer's, forward and backward (M, P), packed. A row's step k predicts its word k + 1.
    """
    words = [vocabulary.ids(sentence) for sentence in sentences]
    targets = np.zeros((2, len(words), len(packing.batch_sizes)), np.int64)  # (2, B, T)
    begin, end = SPECIAL_TOKENS.index(BOS), SPECIAL_TOKENS.index(EOS)
    for row, ids in enumerate(words):
        targets[:, row, : len(ids) + 1] = [*ids, end], [*ids[::-1], begin]
    at = packing.row, packing.step
    values = np.zeros(
        (2, 3, *targets.shape[1:])
    )  # [direction, surprisal | entropy | rank, row, step]
    tasks = [
        partial(softmax.predictions, h, ids[at]) for h, ids in zip(outputs, targets, strict=True)
    ]
    for direction, found in zip(values, run_in_parallel(tasks), strict=True):
        direction[(slice(None), *at)] = found
    values[:, :2] /= math.log(2)
    result = []
    for row, (sentence, ids) in enumerate(zip(sentences, words, strict=True)):
        n = len(ids)
        backward_steps = [*range(n - 1, -1, -1), n]  # by position in the sentence
        forward, backward = (
            values[0, :, row, : n + 1],
            values[1, :, row][:, backward_steps],
        )  # (3, n + 1)
        columns = [
            column.tolist() for pair in zip(forward, backward, strict=True) for column in pair
        ]
        ranks = [list(map(int, column)) for column in columns[4:]]
        known = [*(ids != UNK_ID).tolist(), True]
        rows = zip([*sentence, EOS], *columns[:4], *ranks, known, strict=True)
        result.append(Surprisals(map(TokenSurprisal._make, rows)))
    return result
