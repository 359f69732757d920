"""Vectors of raw texts: an `ELMoEmbedder` splits them into sentences of tokens."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_core.checks import check_option, check_texts
from elmo_core.text.language import AUTO, CHOICES, make_tokeniser
from elmo_core.text.offsets import token_offsets


class TextVectors(NamedTuple):
    """A text's tokens, their begins and ends in it (n, 2), in characters, and their vectors; or a single one, if pooled."""

    tokens: list[str]
    offsets: np.ndarray
    vectors: np.ndarray


def encode_texts(
    embedder, texts: Sequence[str], lang: str = AUTO, user_dict: str | Path | Sequence[str] | None = None
) -> list[TextVectors]:
    """Split raw texts into sentences of tokens and encode these.

    lang: en, zh, characters, any, none (split at white space), or auto: recognised by the texts and the model's
    vocabulary. user_dict: words for jieba, a file or a list of its lines.
    """
    texts = check_texts(texts)
    check_option("lang", lang, CHOICES)
    tokeniser = make_tokeniser(lang, texts, embedder.words, user_dict)
    split = [tokeniser.sentences(text) or [[]] for text in texts]
    arrays, result = iter(embedder.encode(list(itertools.chain.from_iterable(split)))), []
    for text, sentences in zip(texts, split, strict=True):
        tokens = list(itertools.chain.from_iterable(sentences))
        vectors = list(itertools.islice(arrays, len(sentences)))
        if embedder.pool == "mean":
            vectors = np.average(vectors, 0, [max(1, len(sentence)) for sentence in sentences]).astype(embedder.dtype)
        else:
            vectors = np.max(vectors, 0) if embedder.pool else np.concatenate(vectors, -2)
        result.append(TextVectors(tokens, token_offsets(tokens, text), vectors))
    return result
