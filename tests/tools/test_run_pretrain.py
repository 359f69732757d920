"""run_pretrain.py: flags that contradict each other, a checkpoint or the other ranks."""

from unittest import mock

import pytest

import run_pretrain
from elmo_core.messages import UserError

pytestmark = pytest.mark.usefixtures("no_fsync")


def test_ranks_with_other_flags_are_an_error():
    ranks = mock.Mock(gather=lambda settings: [settings, settings, {**settings, "lr": 0.2}])
    with pytest.raises(UserError, match=r"rank 2 .*lr was 0\.1, is 0\.2"):
        run_pretrain.check_ranks(ranks, {"lr": 0.1, "seed": 1})
