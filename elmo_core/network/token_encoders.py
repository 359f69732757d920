"""Token encoders, by the name of a model's `input`.

sparse: word tables collect row gradients instead of dense ones.

To add one: a class here, a line in TOKEN_ENCODERS, and its name, which says what it reads, in
INPUTS of config.py.
"""

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.kernels.row_gradients import embedding_lookup
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.network.char_cnn import CharCNN
from elmo_core.text.lexicon import Tokens

nn = paddle.nn


class WordTable(nn.Layer):
    """An embedding table of the vocabulary's words."""

    word_tables = ("embedding.weight",)

    def __init__(self, config: ELMoConfig, sparse: bool):
        super().__init__()
        self.sparse = sparse
        self.embedding = _word_table(config.vocab_size, config.projection_dim)

    def forward(self, tokens: Tokens) -> paddle.Tensor:
        """Return vectors (N, P) of the distinct tokens, from their word ids (N,)."""
        return _vectors(self.embedding, tokens.words, self.sparse)


class CharWord(CharCNN):
    """A word's vector concatenated with its character CNN features, then projected.

    As in ELMoForManyLangs.
    """

    word_tables = ("words.weight",)

    def __init__(self, config: ELMoConfig, sparse: bool):
        super().__init__(config)
        width = config.word_dim + config.n_filters
        self.sparse = sparse
        self.words = _word_table(config.vocab_size, config.word_dim)
        normal = nn.initializer.Normal(std=width**-0.5)
        self.projection = nn.Linear(width, config.projection_dim, weight_attr=normal)

    def forward(self, tokens: Tokens) -> paddle.Tensor:
        """Return vectors (N, P) of distinct tokens, which are sorted by number of characters."""
        words = _vectors(self.words, tokens.words, self.sparse)
        features = self.highway_features(tokens)
        return self.projection(paddle.concat([words, features], axis=1))


def _word_table(vocab_size: int, width: int) -> nn.Embedding:
    return nn.Embedding(vocab_size, width, weight_attr=nn.initializer.Normal(std=width**-0.5))


def _vectors(table: nn.Embedding, words: np.ndarray, sparse: bool) -> paddle.Tensor:
    """Return the rows (N, width) of words (N,)."""
    return embedding_lookup(table.weight, words) if sparse else table(to_tensor(words))


TOKEN_ENCODERS = {"char": CharCNN, "word": WordTable, "char+word": CharWord}
