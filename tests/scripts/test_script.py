"""Scripts: how they end, after mistakes, signals and full disks."""

import os
import shlex
import subprocess
import sys

import pytest
from runs import PROJECT, fresh_python

OUT_OF_MEMORY = "error: out of memory. Halve --batch_size"


@pytest.mark.parametrize(
    ("statement", "code", "message"),
    [
        ("raise messages.UserError('what to do')", 2, "error: what to do"),
        ("open('/no/such/file')", 2, "error: [Errno 2] No such file or directory: '/no/such/file'"),
        ("raise KeyboardInterrupt", 130, "interrupted"),
        ("messages.log.info('hello')", 0, "hello"),
        ("raise MemoryError('(300 GB)')", 2, OUT_OF_MEMORY),
        ("import numpy; numpy.ones(10**16)", 2, OUT_OF_MEMORY),
    ],
)
def test_a_users_mistake_is_one_line(statement, code, message):
    program = (
        f"import script\nfrom elmo_core import messages\ndef main(): {statement}\nscript.run(main)"
    )
    done = fresh_python(program)
    assert (
        done.returncode == code
        and done.stderr.startswith(message)
        and "Traceback" not in done.stderr
    )


PRINTS = f"""
import sys
sys.path.insert(0, {str(PROJECT)!r})
import script
script.run(lambda: print('x'))
"""


@pytest.mark.parametrize(
    ("shell", "code", "message"),
    [
        ("| true", 141, ""),
        (">&-", 0, ""),
        ("> /dev/full", 2, "error: [Errno 28] No space left on device\n"),
    ],
)
def test_output_that_cannot_be_written(shell, code, message):
    """Python's final flush must not fail again."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = f'{shlex.quote(sys.executable)} -c "$0" {shell}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", command, PRINTS],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, message)


@pytest.mark.parametrize(
    ("number", "code", "message"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "")]
)
def test_a_signal_in_a_backward_pass_ends_the_script_like_any_other(number, code, message):
    """Paddle replaces exceptions raised there by its own."""
    program = (
        "import signal; from script import run; from elmo_core.machine.runtime import paddle\n"
        "class Same(paddle.autograd.PyLayer):\n"
        "    forward = staticmethod(lambda context, x: x * 1)\n"
        "    @staticmethod\n"
        "    def backward(context, g):\n"
        f"        signal.raise_signal(signal.{number})\n"
        "        return g\n"
        "def main():\n"
        "    x = paddle.to_tensor([1.0], stop_gradient=False)\n"
        "    try: Same.apply(x).backward()\n"
        "    finally: print('tidied up')\n"
        "run(main)"
    )
    done = fresh_python(program)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (code, "tidied up\n", message)
