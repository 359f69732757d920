"""The loops over tokens share the work; test_char_cnn.py compares what they compute with NumPy."""

import numpy as np

from elmo_core.kernels import cpu_char_cnn


def test_each_thread_gets_a_range_of_about_equal_length(monkeypatch):
    monkeypatch.setattr(cpu_char_cnn, "n_threads", lambda: 3)
    lengths = np.array([1, 1, 1, 3, 3, 3, 6])
    ranges = cpu_char_cnn._thread_ranges(lengths)
    assert [begin for begin, _ in ranges[1:]] == [end for _, end in ranges[:-1]]
    assert ranges[0][0] == 0 and ranges[-1][1] == len(lengths)
    assert [int(lengths[begin:end].sum()) for begin, end in ranges] == [6, 6, 6]


def test_there_may_be_more_threads_than_tokens(monkeypatch):
    monkeypatch.setattr(cpu_char_cnn, "n_threads", lambda: 3)
    assert cpu_char_cnn._thread_ranges(np.array([2]))[-1][1] == 1
