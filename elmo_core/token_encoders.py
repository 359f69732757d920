"""How tokens become vectors: the encoders that a model can have, by the name that its configuration has for them."""

from elmo_core.char_cnn import CharCNN
from elmo_core.config import ELMoConfig
from elmo_core.runtime import paddle
from elmo_core.tokens import Tokens

nn = paddle.nn


class WordTable(nn.Layer):
    """Tokens from a table of the vocabulary's words."""

    def __init__(self, config: ELMoConfig, sparse: bool):
        super().__init__()
        normal = nn.initializer.Normal(std=config.projection_dim**-0.5)
        self.embedding = nn.Embedding(config.vocab_size, config.projection_dim, sparse=sparse, weight_attr=normal)

    def forward(self, tokens: Tokens) -> paddle.Tensor:
        """Vectors (N, P) of the distinct tokens, given by their vocabulary ids (N,)."""
        return self.embedding(paddle.to_tensor(tokens.ids))


ENCODERS = {"char": lambda config, sparse: CharCNN(config), "word": WordTable}


def token_encoder(config: ELMoConfig, sparse: bool) -> nn.Layer:
    """The encoder of a model. sparse: whether the gradients of its tables are to be rows."""
    return ENCODERS[config.input](config, sparse)
