"""The softmax on a CPU, by the compiled loops of fused.c. Letters: as in network/softmax.py."""

import numpy as np

from elmo_core.kernels import fused
from elmo_core.machine.runtime import paddle


def candidate_loss(
    h: paddle.Tensor,
    target_logits: paddle.Tensor,
    table: paddle.Tensor,
    bias: paddle.Tensor,
    hit_rows: np.ndarray,
    hit_candidates: np.ndarray,
) -> tuple[paddle.Tensor, ...]:
    """Compute what `candidate_loss` of network/softmax.py does."""
    loss = paddle.empty([], h.dtype)
    d_h = paddle.empty_like(h)
    d_target_logits = paddle.empty_like(target_logits)
    d_table = paddle.empty_like(table)
    d_bias = paddle.empty_like(bias)
    n_candidates, width = table.shape
    fused.kernel().softmax_loss(
        M=len(h),
        S=n_candidates,
        P=width,
        h=h.contiguous(),
        table=table,
        bias=bias,
        target_logits=target_logits,
        n_hits=len(hit_rows),
        hit_rows=hit_rows,
        hit_candidates=hit_candidates,
        loss=loss,
        d_h=d_h,
        d_table=d_table,
        d_bias=d_bias,
        d_target=d_target_logits,
    )
    return loss, d_h, d_target_logits, d_table, d_bias


def score_predictions(
    logits: paddle.Tensor, bias: paddle.Tensor, targets: paddle.Tensor
) -> np.ndarray:
    """Return surprisal, entropy and rank (3, M) of targets (M,). Overwrites the logits (M, V)."""
    results = np.empty((3, len(logits)), np.float32)
    surprisal, entropy, rank = results
    n, vocab_size = logits.shape
    fused.kernel().score_predictions(
        n=n,
        V=vocab_size,
        logits=logits,
        bias=bias,
        targets=targets,
        surprisal=surprisal,
        entropy=entropy,
        rank=rank,
    )
    return results
