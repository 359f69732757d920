"""ELMo's layer as Paddle's published LAC demo has it: `from bilm import elmo_encoder, init_pretraining_params`.

    encoder = elmo_encoder(elmo_l2_coef=0.001, dropout=0.5)
    init_pretraining_params(encoder, "checkpoints/sample/final")
    vectors = encoder([["今天", "天气", "好"]])  # (B, T, 2P)

It is `elmo.ELMo` under the published names; `run_tag.py` trains the demo's tagger.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

import elmo
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import TokenBatch


class elmo_encoder(paddle.nn.Layer):
    """The biLM's layers mixed by trained weights, zero beyond a sentence's end. The biLM is frozen.

    elmo_l2_coef: of the penalty on the mix's weights, `l2_loss()`, which the task adds to its loss.
    dropout: on the vectors.
    """

    def __init__(self, elmo_l2_coef: float = 0.001, dropout: float = 0.5):
        super().__init__()
        self.l2_coef, self.dropout = elmo_l2_coef, dropout

    def map_words(self, sentences: Sequence[Sequence[str]]) -> TokenBatch:
        """What `forward` takes: the words' ids in ELMo's vocabulary or, for a character model, their characters."""
        return self._loaded().token_batch(sentences)

    def forward(self, words: Sequence[Sequence[str]] | TokenBatch) -> paddle.Tensor:
        """Vectors (B, T, 2P) of sentences of words, or of what `map_words` has made of them."""
        (vectors,), _ = self._loaded()(words)
        return vectors

    def l2_loss(self) -> paddle.Tensor:
        return self._loaded().l2_loss()

    def _loaded(self) -> elmo.ELMo:
        if "elmo" not in self._sub_layers:
            raise UserError("elmo_encoder has no biLM yet: call init_pretraining_params(encoder, checkpoint) first.")
        return self.elmo


def init_pretraining_params(encoder: elmo_encoder, pretraining_params_path: str | Path) -> None:
    """Give the encoder the biLM of a checkpoint: its prefix, a file of it, or its folder. config.json has its dimensions."""
    encoder.elmo = elmo.ELMo(pretraining_params_path, dropout=encoder.dropout, l2_coef=encoder.l2_coef)
