"""The settings of a reader."""

import pytest

from elmo_core.messages import UserError
from elmo_tasks.reading.settings import ReaderSettings


def test_windows_leave_no_gaps():
    assert ReaderSettings(max_seq_len=8, doc_stride=8).doc_stride == 8
    with pytest.raises(UserError, match="doc_stride"):
        ReaderSettings(max_seq_len=8, doc_stride=9)
