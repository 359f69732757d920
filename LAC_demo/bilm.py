"""ELMo under the names of Paddle's published LAC demo: `from bilm import elmo_encoder, init_pretraining_params`.

    encoder = elmo_encoder(elmo_l2_coef=0.001, dropout=0.5)
    init_pretraining_params(encoder, "checkpoints/sample/final")
    vectors = encoder([["今天", "天气", "好"]])  # (B, T, 2P)

The layer is `elmo.ELMo`; `run_tag.py` trains the demo's tagger.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

import elmo
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.tokens import TokenBatch


class elmo_encoder(paddle.nn.Layer):
    """Maps words to the mixed layers of a frozen biLM, zero at padding.

    elmo_l2_coef: coefficient of the penalty on the mix weights, `l2_loss()`, which the task adds to its loss.
    dropout: on the vectors.
    """

    def __init__(self, elmo_l2_coef: float = 0.001, dropout: float = 0.5):
        super().__init__()
        self.l2_coef, self.dropout = elmo_l2_coef, dropout

    def map_words(self, sentences: Sequence[Sequence[str]]) -> TokenBatch:
        """Convert sentences to the input of `forward`: word ids or, for a character model, character ids."""
        return self._require_elmo().token_batch(sentences)

    def forward(self, words: Sequence[Sequence[str]] | TokenBatch) -> paddle.Tensor:
        """Vectors (B, T, 2P) of sentences, as words or as returned by `map_words`."""
        (vectors,), _ = self._require_elmo()(words)
        return vectors

    def l2_loss(self) -> paddle.Tensor:
        return self._require_elmo().l2_loss()

    def _require_elmo(self) -> elmo.ELMo:
        if "elmo" not in self._sub_layers:
            raise UserError("elmo_encoder has no biLM yet: call init_pretraining_params(encoder, checkpoint) first.")
        return self.elmo


def init_pretraining_params(encoder: elmo_encoder, pretraining_params_path: str | Path) -> None:
    """Load the biLM of a checkpoint, given by its prefix, file or folder, into the encoder."""
    encoder.elmo = elmo.ELMo(pretraining_params_path, dropout=encoder.dropout, l2_coef=encoder.l2_coef)
