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
import gensim.models  # noqa: F401

from elmo_core.machine.messages import UserError

MOST = 3 << 30  # bytes of a child, which fails rather than take the machine


def measured(name: str, folder: Path) -> dict:
    """Fork, read the files of a generator in the child, and return what it took."""
    read = amplifiers.make(name, folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    receiving, sending = os.pipe()
    if not os.fork():
        virtual, resident = (int(n) * resource.getpagesize() for n in Path("/proc/self/statm").read_text().split()[:2])
        resource.setrlimit(resource.RLIMIT_AS, (virtual + MOST,) * 2)
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


if __name__ == "__main__":
    for name in sys.argv[2:] or amplifiers.AMPLIFIERS:
        print(json.dumps(measured(name, Path(sys.argv[1]))), flush=True)
