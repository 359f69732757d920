"""How a script runs and ends: its messages, its signals, its exit code, its seeds."""

import json
import logging
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

from elmo_core.machine import disk, messages, runtime
from elmo_core.machine.runtime import import_paddle

OUT_OF_MEMORY = "Where there is a --batch_size, halve it; docs/performance.md has more."


def run(main: Callable[[], None]) -> None:
    """Run a script's main(): the user's mistakes become one message and exit code 2, not a traceback."""
    runtime.owns_process = True
    runtime.keep_freed_memory()
    if "paddle" in sys.modules:  # whose handlers would print a C++ trace when the script is told to end
        sys.modules["paddle"].disable_signal_handler()
    _open_streams()
    _log_to_stderr()
    for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):  # nohup has other wishes
            signal.signal(number, _end)
    try:
        try:
            main()
        except Exception:
            if _signals:  # Paddle turns what a handler raises during a backward pass into an error of its own
                _end(_signals[0])
            raise
        finally:
            sys.stdout.flush()  # here, where it may fail
    except BrokenPipeError:  # `script | head`
        _drop_output()
        sys.exit(141)
    except (messages.UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        _drop_output()
        sys.exit(2)
    except MemoryError as error:
        print(f"error: out of memory. {OUT_OF_MEMORY} ({str(error).strip()[-200:]})", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def _open_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # None where the shell has closed it
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    sys.stdout.reconfigure(errors="backslashreplace")  # what a terminal's encoding lacks


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    messages.log.addHandler(handler)
    messages.log.setLevel(logging.INFO)
    messages.log.propagate = False  # Paddle and others give the root logger handlers of their own


_signals: list[int] = []  # that have told this process to end


def _end(number: int, frame: object = None) -> NoReturn:
    """End as after the signal, but with everything tidied up on the way."""
    _signals.append(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def _drop_output() -> None:
    """Let the interpreter's last flush of what could not be written succeed."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and Paddle."""
    import numpy as np

    random.seed(seed)
    np.random.seed(seed % 2**32)
    import_paddle().seed(seed)


@contextmanager
def output(path: Path | None, *inputs: Path | None) -> Iterator[IO]:
    """Open --output, whose file appears once all is written; without one, standard output, as UTF-8."""
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        yield sys.stdout
        return
    disk.check_output("--output", path, *inputs)
    with disk.atomic_write(path) as file:
        yield file


def write_json(path: Path | None, values: dict) -> None:
    """Write the scores of a run, if a file was given for them."""
    if path:
        with disk.atomic_write(path) as file:
            file.write(json.dumps(values, ensure_ascii=False, indent=1) + "\n")
