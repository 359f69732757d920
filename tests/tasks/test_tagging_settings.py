"""The settings of a tagger."""

import pytest

from elmo_core.messages import UserError
from elmo_tasks.tagging.scheme import SCHEMES
from elmo_tasks.tagging.settings import TaggerSettings


def test_every_scheme_is_a_choice():
    for scheme in SCHEMES:
        assert TaggerSettings(scheme=scheme).scheme == scheme


def test_a_unit_needs_something_that_looks_it_up():
    with pytest.raises(UserError, match="unit"):
        TaggerSettings(elmo=None, unit="jieba")
    assert TaggerSettings(elmo=None, unit="jieba", word_vectors="vectors.txt").unit == "jieba"
