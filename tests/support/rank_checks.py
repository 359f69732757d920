"""Checks of every method of Ranks, run by each of two ranks."""

import time

import numpy as np
from tiny import dense_gradient

from elmo_core.machine.messages import UserError
from elmo_core.machine.ranks import HEARTBEAT_SECONDS, Ranks
from elmo_core.machine.runtime import paddle
from elmo_core.network.row_gradients import gather_rows, row_gradient

ranks = Ranks()
rank = ranks.rank
assert ranks.size == 2 and ranks.is_main == (rank == 0)
assert ranks.sum([1 + rank, 1e-9]) == [3, 2e-9]
assert [ranks.any(flag) for flag in (False, rank == 1, True)] == [False, True, True]
assert ranks.gather({"rank": rank, "array": np.full(3, rank)})[1]["array"].tolist() == [1, 1, 1]

# rank 0 works, the other hears from it all the time, and both get the result or the error
heard, any_rank = [], ranks.any
ranks.any = lambda flag: heard.append(time.monotonic()) or any_rank(flag)
assert ranks.run_on_main(lambda: (time.sleep(3 * HEARTBEAT_SECONDS), rank, paddle.get_device())[1:]) == (0, "cpu")
assert len(heard) >= 3 and max(np.diff(heard)) < 10  # gloo gives up on who is silent for 30 seconds
try:
    ranks.run_on_main(lambda: int("words"))
except ValueError as error:
    main_failed = not isinstance(error, UserError)
    assert main_failed == ranks.is_main and "invalid literal for int() with base 10: 'words'" in str(error)
else:
    raise AssertionError("no error was raised")

# one weight with dense gradients, two tables: of other rows on each rank, and of another number of them, save two shared
paddle.seed(rank)
linear = paddle.nn.Linear(3, 2)
tables = [paddle.nn.Embedding(7, width) for width in (3, 1)]
weights = [*linear.parameters(), *(table.weight for table in tables)]
ranks.broadcast_weights(weights)
assert all(np.array_equal(*pair) for pair in zip(*ranks.gather([weight.numpy() for weight in weights]), strict=True))
for step in range(2):
    ids = np.array([4, 0, 1, 5] if ranks.is_main else [4, 0, 2 + step, 5, 6])
    first, second = (gather_rows(table.weight, ids, shared=2) for table in tables)
    (linear(first).sum() * (1 + rank) + (second**2).sum()).backward()
    per_rank = ranks.gather([dense_gradient(weight) for weight in weights])
    assert ranks.average_gradients(weights, flag=rank == step == 1) == (step == 1)
    for weight, *gradients in zip(weights, *per_rank, strict=True):
        np.testing.assert_allclose(dense_gradient(weight), np.mean(gradients, axis=0), rtol=1e-6)
    assert row_gradient(weights[-1]).ids.tolist() == [4, 0, 1, 2 + step, 5, 6]  # no others, which Adam would step on
    for weight in weights:
        weight.clear_gradient()
        weight.row_gradient = None
print("all checks passed")
