"""Run generators of hostile files, each read in a child process, and print what reading them took.

    python tests/hostile/measure.py FOLDER [NAME ...]

One line of JSON per generator: name, bytes of its files, peak memory beyond that before (bytes), seconds, outcome.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1] / "support")]

import amplifiers
import fields
import gensim.models  # noqa: F401

from elmo_core.messages import UserError

MOST = 3 << 30  # bytes of a child, which fails rather than take the machine


def measured(name: str, folder: Path) -> dict:
    """Fork, read the files of a generator in the child, and return what it took."""
    read = amplifiers.make(name, folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    receiving, sending = os.pipe()
    if not os.fork():
        resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
        limit_memory()
        began = time.monotonic()
        try:
            read()
            outcome = "accepted"
        except UserError as error:
            outcome = f"UserError {error}"
        except BaseException as error:
            outcome = f"{type(error).__name__} {error}"
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
        result = {
            "name": name,
            "size": size,
            "peak": peak,
            "seconds": time.monotonic() - began,
            "outcome": outcome[:500],
        }
        os.write(sending, json.dumps(result).encode())
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as pipe:
        text = pipe.read()
    os.wait()
    return json.loads(text)


def limit_memory() -> None:
    """Let this process take at most MOST more than it has."""
    virtual = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (virtual + MOST,) * 2)


if __name__ == "__main__":
    what, folder, *names = sys.argv[1:]
    if what == "fields":
        limit_memory()
        results = fields.check(Path(folder))
    else:
        results = (measured(name, Path(folder)) for name in names or amplifiers.AMPLIFIERS)
    for result in results:
        print(json.dumps(result), flush=True)
