"""Whether the tests notice mistakes: each mutant of mutants.py is made in a copy of the checkout,
and its tests run there.

    .venv/bin/python tests/mutants/run.py                          # all
    .venv/bin/python tests/mutants/run.py crf-start crf-stop       # some, by name
    .venv/bin/python tests/mutants/run.py --sample 8 --seed 3      # some, at random

Prints which test noticed each. The exit code is 1 if none did, if a text is not exactly once in its
file, or if the tests do not pass without a mutant.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

from mutants import MUTANTS, Mutant

PROJECT = Path(__file__).resolve().parents[2]
LIMIT = 300  # seconds: a mutant may make a program wait for ever, which is noticed, too
FAILURE = re.compile(
    r"^(?:FAILED|ERROR) ([^\s[]+)", re.M
)  # of pytest's summary, without parameters
ALL_PASSED, SOME_FAILED = 0, 1  # of pytest's exit codes


class Verdict(NamedTuple):
    text: str
    is_killed: bool


def main() -> int:
    flags = parse()
    chosen = choose(flags)
    if wrong := [error for mutant in chosen if (error := text_error(mutant))]:
        print("\n".join(wrong))
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        copies = [copy_project(Path(scratch, f"copy{k}")) for k in range(flags.jobs)]
        print(f"{len(chosen)} mutants. Their tests without a mutant ...", flush=True)
        tests = list(dict.fromkeys(test for mutant in chosen for test in mutant.tests.split()))
        code, output = run_tests(copies[0], tests)
        if code != ALL_PASSED:
            print(output)
            return 1
        print(output.splitlines()[-1], flush=True)
        return judge_all(chosen, copies)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="of mutants (default: all)")
    parser.add_argument("--sample", type=int, metavar="N", help="choose N at random")
    parser.add_argument("--seed", type=int, default=0, help="of this choice")
    parser.add_argument(
        "-j", "--jobs", type=int, default=1, metavar="N", help="mutants at the same time"
    )
    return parser.parse_args()


def choose(flags: argparse.Namespace) -> list[Mutant]:
    known = {mutant.name: mutant for mutant in MUTANTS}
    if len(known) < len(MUTANTS):
        sys.exit("two mutants have the same name")
    if unknown := [name for name in flags.names if name not in known]:
        sys.exit(f"there is no mutant {', '.join(unknown)}")
    chosen = [known[name] for name in flags.names or known]
    if flags.sample:
        return random.Random(flags.seed).sample(chosen, min(flags.sample, len(chosen)))
    return chosen


def text_error(mutant: Mutant) -> str:
    """What is wrong with a mutant's text; empty if nothing is."""
    if not (PROJECT / mutant.file).is_file():
        return f"{mutant.name}: there is no {mutant.file}"
    found = (PROJECT / mutant.file).read_text(encoding="utf-8").count(mutant.old)
    return (
        ""
        if found == 1
        else f"{mutant.name}: {mutant.file} has {mutant.old!r} {found} times, expected once"
    )


def copy_project(folder: Path) -> Path:
    """Copy the files that git does not ignore, with a link to the virtual environment."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        if (PROJECT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, folder / name)
    (folder / ".venv").symlink_to((PROJECT / ".venv").resolve())
    return folder


def judge_all(mutants: Sequence[Mutant], copies: Sequence[Path]) -> int:
    """Print the verdict on each mutant. Returns the exit code."""
    free: Queue[Path] = Queue()
    for folder in copies:
        free.put(folder)

    def judged(mutant: Mutant) -> tuple[Mutant, Verdict, float]:
        folder = free.get()
        start = time.monotonic()
        verdict = judge(mutant, folder)
        free.put(folder)
        return mutant, verdict, time.monotonic() - start

    survivors = []
    width = max(len(mutant.name) for mutant in mutants)
    pool = ThreadPoolExecutor(len(copies))
    try:
        for mutant, verdict, seconds in pool.map(judged, mutants):
            print(f"{mutant.name:{width}}  {verdict.text}  {seconds:.0f} s", flush=True)
            if not verdict.is_killed:
                survivors.append(mutant.name)
    finally:
        pool.shutdown(cancel_futures=True)  # at Ctrl-C, only the tests that run come to their end
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants were noticed")
    if survivors:
        print(f"survivors: {' '.join(survivors)}")
    return bool(survivors)


def judge(mutant: Mutant, folder: Path) -> Verdict:
    """Make the mutant in a copy, run its tests, and restore the copy."""
    file = folder / mutant.file
    original = file.read_text(encoding="utf-8")
    file.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        code, output = run_tests(folder, mutant.tests.split())
    except subprocess.TimeoutExpired:
        return Verdict(f"killed by the limit of {LIMIT} s", is_killed=True)
    finally:
        file.write_text(original, encoding="utf-8")
    if code == ALL_PASSED:
        return Verdict(f"SURVIVED {mutant.tests}", is_killed=False)
    if code < 0:
        return Verdict(f"killed by {signal.Signals(-code).name} in {mutant.tests}", is_killed=True)
    found = FAILURE.search(output)
    if code != SOME_FAILED or not found:
        return Verdict(f"DOES NOT RUN: pytest ended with {code}\n{output}", is_killed=False)
    return Verdict(f"killed by {found[1]}", is_killed=True)


def run_tests(folder: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests in a copy until one fails.

    Returns the exit code, negative of a signal, and the output.
    """
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",  # a mutant has the time of the file that it replaces
        "PYTHONPATH": str(folder),  # before a project that is installed in .venv
        "XDG_CACHE_HOME": str(folder / ".cache"),  # where mutants of C are compiled
    }
    options = ["-o", "addopts=", "-p", "no:cacheprovider", "-q", "-x", "-r", "fE", "--tb=short"]
    process = subprocess.Popen(
        [folder / ".venv/bin/python", "-m", "pytest", *options, *tests],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LIMIT * len(tests))
        return process.returncode, output
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with what the tests have started
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
