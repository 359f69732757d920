"""Running a script: messages, signals, exit code, output."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

from args import with_flags
from elmo_core import messages
from elmo_core.files import disk
from elmo_core.machine import runtime


def run(main: Callable[[], None]) -> None:
    """Run a script's main(). A user's mistake is one message and exit code 2, not a traceback."""
    runtime.keep_freed_memory()
    _open_streams()
    _log_to_stderr()
    _handle_signals()
    try:
        _run(main)
    except BrokenPipeError:  # `script | head`
        _drop_output()
        sys.exit(141)
    except (messages.UserError, OSError) as error:
        print(f"error: {with_flags(str(error))}", file=sys.stderr)
        _drop_output()
        sys.exit(2)
    except MemoryError as error:
        details = str(error).strip()[-200:]
        advice = "Halve --batch_size if there is one."
        print(f"error: out of memory. {advice} ({details})", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def _run(main: Callable[[], None]) -> None:
    try:
        main()
    except Exception:
        # during a backward pass Paddle replaces what a handler raises by its own error
        if _signals:
            _exit_on_signal(_signals[0])
        raise
    finally:
        sys.stdout.flush()  # a failure here is reported


def _open_streams() -> None:
    """Replace output and errors that are closed, by `>&-`, and let output print any character."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    # for characters that the terminal cannot encode
    sys.stdout.reconfigure(errors="backslashreplace")


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.format = lambda record: with_flags(record.getMessage())
    messages.log.addHandler(handler)
    messages.log.setLevel(logging.INFO)
    messages.log.propagate = False  # Paddle and others add handlers to the root logger


def _handle_signals() -> None:
    """Clean up when a signal ends the process, unless it is ignored: nohup ignores SIGHUP."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP"):  # not on Windows
        numbers.append(signal.SIGHUP)
    for number in numbers:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _exit_on_signal)


_signals: list[int] = []  # received so far, which end this process


def _exit_on_signal(number: int, frame: object = None) -> NoReturn:
    """Exit with the signal's code, but clean up first."""
    _signals.append(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def _drop_output() -> None:
    """Discard output that could not be written, so that the interpreter's last flush succeeds."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def output(path: Path | None, *inputs: Path | None) -> Iterator[IO]:
    """Open --output, a file that appears when complete, or standard output, as UTF-8.

    path: None for standard output.
    inputs: the files that are read, which it must not replace.
    """
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        yield sys.stdout
        return
    disk.check_output("--output", path, *inputs)
    with disk.atomic_write(path) as file:
        yield file
