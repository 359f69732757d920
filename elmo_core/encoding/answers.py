"""What an `ELMoEmbedder` answers: vectors of raw texts, substitutes, surprisal, similar words.

Shapes: P projection size, V vocabulary size.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_core.checks import (
    check_number,
    check_option,
    check_sentence,
    check_sentences,
    check_texts,
    checked,
)
from elmo_core.encoding.cosines import nearest, unit
from elmo_core.encoding.encoder import run_sentences
from elmo_core.encoding.layers import EncodedBatch, EncodingRequest, LayerChoice
from elmo_core.encoding.pooling import pool_parts
from elmo_core.encoding.surprisal import (
    CONTEXTS,
    UNITS,
    VOCABULARIES,
    Comparison,
    Surprisals,
    difference,
    surprisals,
)
from elmo_core.kernels import precision
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError, bar, log
from elmo_core.network.softmax import log_uniform
from elmo_core.text.batches import restore_order
from elmo_core.text.language import AUTO, CHOICES, make_tokeniser
from elmo_core.text.offsets import token_offsets
from elmo_core.text.vocabulary import SPECIAL_TOKENS


class TextVectors(NamedTuple):
    """A text's tokens, their begins and ends in it (n, 2), in characters, and their vectors.

    If they are pooled, there is a single vector.
    """

    tokens: list[str]
    offsets: np.ndarray
    vectors: np.ndarray


def encode_texts(
    embedder,
    texts: Sequence[str],
    lang: str = AUTO,
    user_dict: str | Path | Sequence[str] | None = None,
) -> list[TextVectors]:
    """Split raw texts into sentences of tokens and encode these.

    lang: en, zh, characters, any, none (split at white space), or auto: recognised by the texts and
    the model's vocabulary. user_dict: words for jieba, a file or a list of its lines.
    """
    texts = check_texts(texts)
    check_option("lang", lang, CHOICES)
    tokeniser = make_tokeniser(lang, texts, embedder.words, user_dict)
    split = [tokeniser.sentences(text) or [[]] for text in texts]
    arrays = iter(embedder.encode(list(itertools.chain.from_iterable(split))))
    result = []
    for text, sentences in zip(texts, split, strict=True):
        tokens = list(itertools.chain.from_iterable(sentences))
        of_sentences = list(itertools.islice(arrays, len(sentences)))
        if embedder.pool:
            weights = [embedder.weight(sentence) or 1 for sentence in sentences]
            vectors = pool_parts(np.array(of_sentences), weights, embedder.pool)
            vectors = vectors.astype(embedder.dtype, copy=False)
        else:
            vectors = np.concatenate(of_sentences, axis=-2)
        result.append(TextVectors(tokens, token_offsets(tokens, text), vectors))
    return result


def substitutes(
    embedder, sentence: Sequence[str], position: int, k: int = 10
) -> list[tuple[str, float]]:
    """The k vocabulary words that best fit a position in a sentence, with scores, best first.

    position: from 0; the word there is not read. A score is the sum of two log-probabilities,
    given the words before it and given those after it, minus that of the word alone, which is in
    both. That one is estimated by the word's rank in the vocabulary.
    """
    sentence = check_sentence(sentence, 0)
    if not sentence:
        raise UserError("substitutes: the sentence is empty, and has no `position` to fill.")
    check_number("position", position, 0, len(sentence) - 1, integer=True)
    check_number("k", k, 1, integer=True)
    predictor = embedder.predictor()
    start = predictor.start
    with precision.inference(embedder.device, embedder.precision, tf32=False):
        embedder.token_table.refresh()
        vectors, index, lengths = embedder.token_table([sentence])
        layer = _one_layer(embedder.config.n_layers)
        encoded, _ = run_sentences(
            embedder.bilm,
            vectors,
            index=index,
            lengths=lengths,
            choice=layer,
            state=start.rows(1, vectors.dtype) if start else None,
        )
        forward, backward = encoded.layers[0]
        words_before = position
        words_after = len(sentence) - 1 - position
        h = paddle.stack([forward[words_before], backward[words_after]])  # (2, P)
        in_context = predictor.softmax.all_log_probabilities(h)  # (2, V)
    vocab_size = len(predictor.vocabulary)
    alone = np.log(log_uniform(np.arange(vocab_size), vocab_size))
    scores = in_context.sum(axis=0) - alone  # (V,)
    order = np.argsort(-scores, kind="stable").tolist()
    order = [word for word in order if word >= len(SPECIAL_TOKENS)]
    return [(predictor.vocabulary[word], float(scores[word])) for word in order[:k]]


def surprisal(
    embedder,
    sentences: Sequence[Sequence[str]],
    vocabulary: str | None = None,
    unit: str = "bits",
    context: str | None = None,
) -> list[Surprisals]:
    """Return, per sentence, a `TokenSurprisal` for each token and one for the end.

    A surprisal is minus the logarithm of a probability. A record's `in_vocabulary` is false for a
    word outside the vocabulary, which `total(unknown=False)` omits from a sentence's sum.
    vocabulary: open: such a word is spelled, and has a probability of its own; closed: it has that
    of `<UNK>`, which stands for all of them; default: open if the model has a speller.
    unit: bits or nats.
    context: sentence: each is read by itself, from the model's start state; zero: from a state of
    zeros, as `encode` reads it; carry: as one text, as in pretraining, whatever the batch size;
    default: carry if the embedder has carry_state=True, else sentence.
    """
    sentences = check_sentences(sentences)
    records = embedder.iter_surprisal(sentences, vocabulary, unit, context)
    return list(bar(records, embedder.progress, total=len(sentences), unit=" sentences"))


def iter_surprisal(
    embedder,
    sentences: Iterable[Sequence[str]],
    vocabulary: str | None = None,
    unit: str = "bits",
    context: str | None = None,
) -> Iterator[Surprisals]:
    """Like `surprisal`, but lazy, for corpora of any size."""
    check_option("unit", unit, tuple(UNITS))
    check_option("vocabulary", vocabulary, (None, *VOCABULARIES))
    check_option("context", context, (None, *CONTEXTS))
    predictor = embedder.predictor()
    is_open = predictor.is_open(vocabulary)
    carry = _carries_state(embedder, context)

    def results(batch: EncodedBatch, group: Sequence[Sequence[str]]) -> list[Surprisals]:
        return surprisals(
            predictor.softmax,
            predictor.vocabulary,
            sentences=group,
            outputs=batch.layers[0],
            packing=batch.packing,
            is_open=is_open,
            unit=unit,
        )

    request = EncodingRequest(
        choice=_one_layer(embedder.config.n_layers),
        results=results,
        carry_state=carry,
        start=None if context == "zero" else predictor.start,
        rows=1 if carry else 0,  # a single stream, whatever the batch size
        tf32=False,
    )
    batches = embedder.encode_batches(
        sentences=checked(sentences),
        request=request,
        table=embedder.token_table,
        device=embedder.device,
    )
    return restore_order(batches)


def _carries_state(embedder, context: str | None) -> bool:
    return embedder.carry_state if context is None else context == "carry"


def compare(
    embedder,
    good: Sequence[Sequence[str]],
    bad: Sequence[Sequence[str]],
    vocabulary: str | None = None,
    unit: str = "bits",
    context: str | None = None,
) -> list[Comparison]:
    """Compare sentences, each with a worse one: its surprisal minus that of the better.

    vocabulary, unit, context: see `surprisal`; the state is not carried.
    """
    if _carries_state(embedder, context):
        raise UserError(
            "compare reads each sentence by itself. Expected context='sentence' or 'zero'."
        )
    good = check_sentences(good)
    bad = check_sentences(bad)
    if len(good) != len(bad):
        raise UserError(
            f"compare: found {len(good):,} good and {len(bad):,} bad sentences, expected as many."
        )
    alternating = itertools.chain.from_iterable(zip(good, bad, strict=True))
    records = embedder.iter_surprisal(alternating, vocabulary, unit, context)
    pairs = zip(records, records, strict=True)  # each takes two: a good sentence's and a bad one's
    pairs = bar(pairs, embedder.progress, total=len(good), unit=" pairs")
    return [difference(better, worse) for better, worse in pairs]


def most_similar(
    embedder, word: str, topn: int = 10, words: Sequence[str] | None = None
) -> list[tuple[str, float]]:
    """The words nearest to a word by the cosine of their context-free vectors, nearest first.

    As in gensim. words: to choose from; default the model's vocabulary. Words outside it are
    compared by their characters; a model of words leaves them out.
    """
    check_number("topn", topn, 1, integer=True)
    words = embedder.words if words is None else words
    check_sentences([[word], words])
    if not len(words):
        raise UserError(
            "most_similar: no words to choose from, and no vocabulary of the model. "
            "Expected `words`."
        )
    if embedder.words and word not in set(embedder.words):
        if not embedder.config.reads_characters:
            raise UserError(
                f"most_similar: {word!r:.60} is not in the model's vocabulary, and has no vector."
            )
        log.warning(
            f"most_similar: {word!r:.60} is not in the model's vocabulary. "
            f"It is compared by its characters."
        )
    candidates = list(dict.fromkeys(words))
    if not embedder.config.reads_characters:
        candidates = [candidate for candidate in candidates if candidate in embedder.vocabulary]
    others = [candidate for candidate in candidates if candidate != word]
    compared = [word, *others]
    vectors = unit(embedder.encode_tokens(compared))
    is_other = np.arange(len(compared)) > 0
    found = nearest(vectors, query=vectors[0], allowed=is_other, n=topn)
    return [(compared[row], cosine) for row, cosine in found]


def _one_layer(layer: int) -> LayerChoice:
    return LayerChoice("each", [layer])
