"""The settings of a parser."""

import pytest

from elmo_core.config import MAX_SIZE
from elmo_core.messages import UserError
from elmo_tasks.parsing.settings import ParserSettings


@pytest.mark.parametrize("name", ["hidden_dim", "n_layers", "arc_dim", "label_dim"])
@pytest.mark.parametrize("value", [0, MAX_SIZE])
def test_sizes_that_no_network_has_are_an_error(name, value):
    with pytest.raises(UserError, match=name):
        ParserSettings(**{name: value})
