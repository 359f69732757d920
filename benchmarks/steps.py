"""Steps of an experiment: scripts that run as processes. Finished steps are kept, so the same command resumes after an
interruption.
"""

import hashlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))  # for the modules that import this one, too

from elmo_core.files import disk
from elmo_core.messages import UserError


@dataclass
class Step:
    """Python commands, and the file or folder that exists once they have run.

    scratch: a folder to remove at the end.
    """

    target: Path
    commands: list[list[str]]
    scratch: Path | None = None


def check_settings(folder: Path, settings: Mapping[str, str | None]) -> None:
    """Raise if the folder has results of other settings. A setting that is None may be given later."""
    path = folder / "settings.json"
    saved = disk.read_json(path, "settings of an experiment") if path.exists() else {}
    settings = {name: value for name, value in settings.items() if value is not None}
    for name, value in settings.items():
        if saved.get(name, value) != value:
            raise UserError(
                f"{folder} has results of another {name}: {saved[name]}, not {value}. Choose another --output."
            )
    disk.write_json(path, {**saved, **settings}, indent=1)


def digest(*paths: Path) -> str:
    """Names and checksums of files."""
    return ", ".join(f"{path.name} {hashlib.sha1(path.read_bytes()).hexdigest()[:12]}" for path in paths)


def results(folder: Path, name: str, suffix: str = ".json") -> dict[int, Path]:
    """The result files of the runs with this name, by seed."""
    paths = {int(path.stem.rpartition("-")[2]): path for path in folder.glob(f"{name}-[0-9]*{suffix}")}
    return dict(sorted(paths.items()))


def correct(result: Path) -> np.ndarray:
    """Whether each text was classified correctly, as 0 or 1. result: written by run_finetune.py."""
    texts = disk.read_json(result, "results of run_finetune.py")["reviews"]
    return np.equal(texts["label"], texts["prediction"]).astype(float)


def run(steps: Iterable[Step], jobs: int = 1) -> None:
    """Run the steps whose targets are missing, `jobs` at a time. With several jobs, only failures show their output."""
    running: set[subprocess.Popen] = set()
    exit_codes: list[int] = []  # once there is one, no further command starts

    def end(number: int, _) -> None:
        """Let the steps save. They receive Ctrl-C themselves. On SIGTERM, Paddle's launcher would leave processes behind."""
        exit_codes.append(128 + number)
        for process in [*running] if number == signal.SIGTERM else []:
            process.send_signal(signal.SIGINT)

    def execute(step: Step) -> None:
        if step.target.exists():
            return
        for command in step.commands:
            if exit_codes:
                sys.exit(exit_codes[0])
            print("$ python", *command, flush=True)
            command = [str(PROJECT / part) if part.endswith(".py") else part for part in command]
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True} if jobs > 1 else {}
            process = subprocess.Popen([sys.executable, *command], **streams)
            running.add(process)
            output, _ = process.communicate()
            running.remove(process)
            if code := process.returncode:
                exit_codes.append(code if code > 0 else 128 - code)
                print(output or "", "Not finished. Run the same command again to resume.", file=sys.stderr)
                sys.exit(exit_codes[0])
        if step.scratch:
            shutil.rmtree(step.scratch)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with ThreadPoolExecutor(jobs) as pool:
            for _ in pool.map(execute, steps):
                pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
