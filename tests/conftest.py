"""What several test files share."""

import signal

import pytest

import fused

# A shell's background job ignores Ctrl-C, and so would every script that it starts: the tests would try nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["fused", "Paddle's operators"])
def implementation(request, monkeypatch):
    """Runs a test on the compiled loops, and on Paddle's operators, which take over where there is no compiler."""
    if request.param != "fused":
        monkeypatch.setattr(fused, "kernel", lambda: None)
    elif fused.kernel() is None:
        pytest.skip("no C compiler, or a Paddle without MKL")
    return request.param
