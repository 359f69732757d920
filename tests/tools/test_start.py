"""Where a run starts: ranks that differ."""

from unittest import mock

import pytest

from elmo_core.messages import UserError
from elmo_tools.pretraining.start import check_ranks


def test_ranks_with_other_flags_are_an_error():
    ranks = mock.Mock(gather=lambda settings: [settings, settings, {**settings, "lr": 0.2}])
    with pytest.raises(UserError, match=r"rank 2 .*lr was 0\.1, is 0\.2"):
        check_ranks(ranks, {"lr": 0.1, "seed": 1})
