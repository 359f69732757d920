"""The vocabulary of a corpus, and what is said of it."""

import pytest

from elmo_core.messages import UserError
from elmo_tools.preprocessing.counting import count_vocabulary


def test_frequent_tokens_are_chosen_and_their_coverage_is_told(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a a b\nb a c\n", encoding="utf-8")
    vocabulary, said = count_vocabulary([path], min_count=2, max_size=None)
    assert vocabulary.words == ["a", "b"]
    assert "2 of 3 distinct tokens" in said and "83.33%" in said
    with pytest.raises(UserError, match="a lower `min_count`"):
        count_vocabulary([path], min_count=4, max_size=None)
