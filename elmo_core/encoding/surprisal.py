"""Surprisal of every word of a sentence under a language model, in both directions.

In a closed vocabulary a word outside it has the probability of `<UNK>`, which stands for all such
words. In an open one it is spelled (elmo_core/text/speller.py), and has a probability of its own.

Shapes: B sentences, T longest + 1, M predictions.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elmo_core.command import command_line
from elmo_core.machine.runtime import run_in_parallel
from elmo_core.messages import UserError, log
from elmo_core.text.characters import BOS, EOS
from elmo_core.text.vocabulary import SPECIAL_TOKENS, UNK, UNK_ID, Vocabulary

UNITS = {"bits": math.log(2), "nats": 1.0}  # their size in nats
VOCABULARIES = ("open", "closed")
CONTEXTS = ("sentence", "zero", "carry")

if TYPE_CHECKING:  # the --help of run_eval.py does not wait for Paddle
    from elmo_core.machine.runtime import paddle
    from elmo_core.network.lstmp import Packing
    from elmo_core.network.softmax import Softmax
    from elmo_core.network.start_state import StartState


class Predictor(NamedTuple):
    """The parts of a language model that predict words, beside the biLM.

    start: the state from which a sentence is read; None: zeros. source: of the model, for messages.
    """

    softmax: "Softmax"
    vocabulary: Vocabulary
    start: "StartState | None"
    source: str

    def is_open(self, choice: str | None) -> bool:
        """Whether the vocabulary is open: unknown words are spelled.

        choice: of VOCABULARIES, or None: open if there is a speller. Raises if there is none for an
        open one.
        """
        if choice == "closed":
            return False
        if self.vocabulary.has_speller:
            return True
        command = command_line("convert.py speller")
        found = f"{self.source} has no speller: its vocabulary is closed"
        advice = f"`{command} CKPT --corpus CORPUS --output DIR` adds one"
        if choice == "open":
            raise UserError(f"{found}. {advice}.")
        log.info(f"{found}, and unknown words have the surprisal of {UNK}. {advice}.")
        return False


class TokenSurprisal(NamedTuple):
    """A token's surprisal given the words before it (forward) and given those after it (backward).

    Entropy: of the prediction, the surprisal to be expected. Rank: 1 if the token is the likeliest
    word. Both take all unknown words as one, `<UNK>`. in_vocabulary: if false, the token was
    predicted as `<UNK>`, and spelled if the vocabulary is open.
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
        """Sums of the surprisals, forward and backward.

        If `unknown` is false, words outside the vocabulary are left out.
        """
        chosen = [record for record in self if unknown or record.in_vocabulary]
        return sum(record.forward for record in chosen), sum(record.backward for record in chosen)


class Comparison(NamedTuple):
    """The surprisal of a worse sentence minus that of a better one.

    It is positive if the model prefers the better one.
    in_vocabulary: whether all words of both are.
    """

    forward: float
    backward: float
    both: float
    in_vocabulary: bool


def difference(good: Surprisals, bad: Surprisals, length_power: float = 0) -> Comparison:
    """Compare two sentences' sums of surprisal, divided by a power of the number of surprisals."""
    good_forward, good_backward = good.total()
    bad_forward, bad_backward = bad.total()
    good_divisor = len(good) ** length_power
    bad_divisor = len(bad) ** length_power
    forward = bad_forward / bad_divisor - good_forward / good_divisor
    backward = bad_backward / bad_divisor - good_backward / good_divisor
    return Comparison(
        forward=forward,
        backward=backward,
        both=forward + backward,
        in_vocabulary=all(record.in_vocabulary for record in good + bad),
    )


def surprisals(
    softmax: "Softmax",
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    outputs: Sequence["paddle.Tensor"],
    packing: "Packing",
    is_open: bool = False,
    unit: str = "bits",
) -> list[Surprisals]:
    """The surprisals of a batch.

    outputs: the top layer's, forward and backward (M, P), packed. A row's step k predicts its word
    k + 1, counted from where the direction starts. is_open: unknown words are spelled. unit: see
    UNITS.
    """
    word_ids = [vocabulary.ids(sentence) for sentence in sentences]
    n_rows = len(sentences)
    n_steps = len(packing.batch_sizes)
    targets = np.zeros((2, n_rows, n_steps), np.int64)  # (2, B, T)
    for row, ids in enumerate(word_ids):
        n = len(ids)
        targets[0, row, :n] = ids
        targets[0, row, n] = SPECIAL_TOKENS.index(EOS)
        targets[1, row, :n] = ids[::-1]
        targets[1, row, n] = SPECIAL_TOKENS.index(BOS)
    tasks = [
        partial(softmax.predictions, h, ids[packing.row, packing.step])
        for h, ids in zip(outputs, targets, strict=True)
    ]
    values = np.zeros((2, 3, n_rows, n_steps))  # [direction, surprisal | entropy | rank, row, step]
    for direction, found in zip(values, run_in_parallel(tasks), strict=True):
        direction[:, packing.row, packing.step] = found
    result = []
    for row, (sentence, ids) in enumerate(zip(sentences, word_ids, strict=True)):
        n = len(ids)
        backward_steps = np.append(np.arange(n)[::-1], n)  # by position in the sentence
        forward = values[0, :, row, : n + 1]
        backward = values[1, :, row][:, backward_steps]
        is_unknown = np.append(ids == UNK_ID, False)
        if is_open and is_unknown.any():
            unknown_words = [sentence[k] for k in np.flatnonzero(is_unknown)]
            spelling = vocabulary.speller.surprisals(unknown_words)
            forward[0, is_unknown] += spelling
            backward[0, is_unknown] += spelling
        forward[:2] /= UNITS[unit]
        backward[:2] /= UNITS[unit]
        result.append(
            _records(
                tokens=[*sentence, EOS],
                forward=forward,
                backward=backward,
                in_vocabulary=~is_unknown,
            )
        )
    return result


def _records(
    tokens: list[str], forward: np.ndarray, backward: np.ndarray, in_vocabulary: np.ndarray
) -> Surprisals:
    """Return the records of a sentence's n tokens and its end.

    forward, backward: surprisals, entropies and ranks (3, n + 1). in_vocabulary: (n + 1,).
    """
    forward_surprisals, forward_entropies, forward_ranks = forward.tolist()
    backward_surprisals, backward_entropies, backward_ranks = backward.tolist()
    known = in_vocabulary.tolist()
    return Surprisals(
        TokenSurprisal(
            token=token,
            forward=forward_surprisals[k],
            backward=backward_surprisals[k],
            forward_entropy=forward_entropies[k],
            backward_entropy=backward_entropies[k],
            forward_rank=int(forward_ranks[k]),
            backward_rank=int(backward_ranks[k]),
            in_vocabulary=known[k],
        )
        for k, token in enumerate(tokens)
    )
