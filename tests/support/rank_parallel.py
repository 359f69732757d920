"""Training by paddle.DataParallel on each of two ranks, beside one network with all rows.

Prints the names of the weights whose gradients differ, then the number that were compared.
"""

import numpy as np
import tiny

from elmo import ELMo, Vocabulary
from elmo_core.machine.runtime import paddle

KINDS = {"char": {}, "word": {"input": "word"}, "char+word": {"input": "char+word", "word_dim": 3}}
SENTENCES = [["the", "river", "bank"], [], ["苹果", "很", "unknown"], ["a"]]
LABELS = paddle.to_tensor([0, 1, 2, 1])


class Network(paddle.nn.Layer):
    def __init__(self, kind: str, trainable: bool):
        super().__init__()
        bilm = tiny.random_bilm(**KINDS[kind], scale=1.0)
        self.elmo = ELMo(
            (bilm, Vocabulary(tiny.WORDS)), trainable=trainable, pool="mean", dropout=0.0
        )
        paddle.seed(2)
        self.output = paddle.nn.Linear(self.elmo.dim, 3)

    def forward(self, inputs: dict[str, paddle.Tensor]) -> paddle.Tensor:
        (vectors,), _ = self.elmo(inputs)
        return self.output(vectors)


paddle.set_device("cpu")
paddle.distributed.init_parallel_env()
rank = paddle.distributed.get_rank()
rows = slice(2 * rank, 2 * rank + 2)
compared = 0
for name in KINDS:
    for is_trained in (False, True):
        alone = Network(name, is_trained)
        shared = Network(name, is_trained)
        parallel = paddle.DataParallel(shared)
        for network, forward, part in ((alone, alone, slice(4)), (shared, parallel, rows)):
            logits = forward(network.elmo.inputs(SENTENCES[part]))
            paddle.nn.functional.cross_entropy(logits, LABELS[part]).backward()
        for (weight_name, weight), other in zip(
            alone.named_parameters(), shared.parameters(), strict=True
        ):
            assert (weight.grad is None) == (other.grad is None), weight_name
            if weight.grad is None:
                continue
            compared += 1
            gradient = weight.grad.numpy()
            error = np.abs(other.grad.numpy() - gradient).max()
            if error > 1e-5 * max(1e-2, np.abs(gradient).max()):
                print(name, weight_name, error)
print(f"compared: {compared}")
