"""The vectors of a vocabulary's words in a file that takes the place of the character CNN."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from elmo_core.files import token_vectors
from elmo_core.machine.messages import log
from elmo_core.text.tokens import UNK
from embedding import vector_file
from embedding.text_windows import progress

if TYPE_CHECKING:
    from elmo import ELMoEmbedder

WORDS_AT_ONCE = 2048


def embed(embedder: "ELMoEmbedder", words: Sequence[str], output: Path) -> None:
    """Write the vectors (V, P) of words without a context."""
    from elmo_core.network.token_tables import Unread  # here, for it imports Paddle

    width, unread = embedder.config.projection_dim, Unread(embedder.config, embedder.vocabulary)
    log.info(f"device        {embedder.device}")
    log.info(f"vectors       ({len(words):,}, {width}) float32, {vector_file.size(4 * len(words) * width)}")
    unread.count(words)
    if unread.oov_share:
        log.warning(f"{unread.oov_share:.1%} of the words are not in the model's vocabulary and have {UNK}'s vector.")
    vector_file.check_room(output, 4 * len(words) * width)
    token_vectors.write(output, words, width, _vectors(embedder, words))
    log.info(f"wrote         {output}")


def _vectors(embedder: "ELMoEmbedder", words: Sequence[str]) -> Iterator[np.ndarray]:
    with progress("embedding", " words", len(words)) as bar:
        for begin in range(0, len(words), WORDS_AT_ONCE):
            yield embedder.encode_tokens(words[begin : begin + WORDS_AT_ONCE])
            bar.update(WORDS_AT_ONCE)
