"""A run from its folder to its last message."""

import pytest

from elmo_core.messages import UserError
from elmo_core.training.ranks import Ranks
from elmo_tools.pretraining import session
from elmo_tools.pretraining.start import Origin


def test_one_run_at_a_time_has_a_folder(tmp_path):
    origin = Origin(save_dir=tmp_path / "run")
    with session.opened(origin, Ranks()) as start:
        assert start.checkpoint is None
        with (
            pytest.raises(UserError, match="another process"),
            session.opened(origin, Ranks()),
        ):
            pass
    with session.opened(origin, Ranks()):
        pass
