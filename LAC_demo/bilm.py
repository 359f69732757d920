"""ELMo under the name of Paddle's published LAC demo.

`elmo_encoder(params)(sentences)` is (B, T, 2P), zero at padding.
"""

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

import elmo
from elmo_core.machine.runtime import paddle


class elmo_encoder(paddle.nn.Layer):
    """The mixed layers of a frozen biLM.

    `l2_loss()`, a penalty on the mix weights, is added to the task's loss.
    """

    def __init__(self, params: str, elmo_l2_coef: float = 0.001, dropout: float = 0.5):
        super().__init__()
        self.elmo = elmo.ELMo(params, dropout=dropout, l2_coef=elmo_l2_coef)
        self.l2_loss = self.elmo.l2_loss

    def forward(self, sentences: list[list[str]]) -> paddle.Tensor:
        mixes, _ = self.elmo(sentences)
        return mixes[0]
