"""The network of the parser."""

import numpy as np

from elmo_core.machine.runtime import paddle
from elmo_tasks.parsing.network import Biaffine, with_one


def test_biaffine_scores_are_their_definition():
    random = np.random.default_rng(2)
    layer, x, y = Biaffine(3, 2), *random.standard_normal((2, 1, 4, 3)).astype(np.float32)
    x, y = x[None, 0], y[None, 0]
    u = np.concatenate([layer.map.weight.numpy(), layer.map.bias.numpy()[None]]).reshape(4, 2, 4)
    one = np.ones((1, 4, 1))
    expected = np.einsum(
        "bti,inj,btj->btn", np.concatenate([x, one], -1), u, np.concatenate([y, one], -1)
    )
    product = paddle.matmul(
        layer(paddle.to_tensor(x)), with_one(paddle.to_tensor(y)).unsqueeze(-1)
    ).squeeze(-1)
    np.testing.assert_allclose(product.numpy(), expected, rtol=1e-5)
