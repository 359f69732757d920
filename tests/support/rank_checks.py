"""Checks of every method of Ranks, run by each of two ranks."""

import sys
import time

import numpy as np

from elmo_core.kernels import precision
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.training.ranks import HEARTBEAT_SECONDS, Ranks

ranks = Ranks()
rank = ranks.rank
assert ranks.size == 2 and ranks.is_main == (rank == 0)
assert ranks.sum([1 + rank, 1e-9]) == [3, 2e-9]
assert [ranks.any(flag) for flag in (False, rank == 1, True)] == [False, True, True]
assert ranks.gather({"rank": rank, "array": np.full(3, rank)})[1]["array"].tolist() == [1, 1, 1]

# rank 0 works, the other hears from it all the time, and both get the result or the error
heard = []
any_rank = ranks.any


def heard_any(flag: bool) -> bool:
    heard.append(time.monotonic())
    return any_rank(flag)


def work_slowly() -> tuple[int, str]:
    time.sleep(3 * HEARTBEAT_SECONDS)
    return rank, paddle.get_device()


ranks.any = heard_any
assert ranks.run_on_main(work_slowly) == (0, "cpu")
with precision.temporarily("bfloat16"):
    assert ranks.run_on_all(precision.current) == ["bfloat16"] * 2
assert len(heard) >= 3 and max(np.diff(heard)) < 10  # gloo gives up on who is silent for 30 seconds
try:
    ranks.run_on_main(lambda: int("words"))
except ValueError as error:
    main_failed = not isinstance(error, UserError)
    assert (
        main_failed == ranks.is_main
        and "invalid literal for int() with base 10: 'words'" in str(error)
    )
else:
    raise AssertionError("no error was raised")

try:  # of which rank 0 dies; the other must not take it for a result
    ranks.run_on_main(lambda: sys.exit("no more"))
except (SystemExit, UserError) as error:
    assert isinstance(error, SystemExit) == ranks.is_main and "no more" in str(error)
else:
    raise AssertionError("no error was raised")

# of weights that differ; that gradients are averaged shows in rank_step.py
paddle.seed(rank)
weights = paddle.nn.Linear(3, 2).parameters()
ranks.broadcast_weights(weights)
own, others = ranks.gather([weight.numpy() for weight in weights])
for one, other in zip(own, others, strict=True):
    np.testing.assert_array_equal(one, other)

# gradients sent in bfloat16: rounded to 8 bits, and averages in float32
ranks.exchange = "bfloat16"
mean, other = ranks._means([paddle.to_tensor([1 + rank / 1024, 3.0 * rank]), paddle.full([1], 2.0)])
assert (
    mean.dtype == other.dtype == paddle.float32
    and mean.tolist() == [1, 1.5]
    and other.tolist() == [2]
)
print("all checks passed")
