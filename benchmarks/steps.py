"""The steps of an experiment: scripts that run as processes. What they have made is kept, so that the same command goes on
after an interruption.
"""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError

PROJECT = Path(__file__).resolve().parent.parent


@dataclass
class Step:
    """Commands for Python, and what is there once they have run.

    checkpoints: the folder of a pretraining, which is resumed. scratch: a folder that is removed at the end.
    """

    makes: Path
    commands: list[list[str]]
    checkpoints: Path | None = None
    scratch: Path | None = None


def check_settings(folder: Path, settings: Mapping[str, str | None]) -> None:
    """Refuse a folder that has results of other settings. One that is None now may be given later."""
    path = folder / "settings.json"
    kept = disk.read_json(path, "settings of an experiment") if path.exists() else {}
    given = {name: value for name, value in settings.items() if value is not None}
    for name, value in given.items():
        if kept.get(name, value) != value:
            raise UserError(
                f"{folder} has results of another {name}: {kept[name]}, not {value}. Name another --output."
            )
    with disk.atomic_write(path) as file:
        file.write(json.dumps({**kept, **given}, indent=1) + "\n")


def digest(*paths: Path) -> str:
    """Names and content of files."""
    return ", ".join(f"{path.name} {hashlib.sha1(path.read_bytes()).hexdigest()[:12]}" for path in paths)


def results(folder: Path, name: str, suffix: str = ".json") -> dict[int, Path]:
    """The results of the runs of a name, by seed."""
    paths = {int(path.stem.rpartition("-")[2]): path for path in folder.glob(f"{name}-[0-9]*{suffix}")}
    return dict(sorted(paths.items()))


def right(result: Path) -> np.ndarray:
    """Whether each text was classified rightly, as 0 or 1, in results of run_finetune.py."""
    texts = disk.read_json(result, "results of run_finetune.py")["reviews"]
    return np.equal(texts["label"], texts["prediction"]).astype(float)


def run(steps: Iterable[Step], jobs: int = 1) -> None:
    """Run the steps whose results are missing, `jobs` at a time; with several, only failures show their output."""
    running: set[subprocess.Popen] = set()
    ends: list[int] = []  # exit codes; where there is one, nothing more begins

    def end(number: int, _) -> None:
        """Let the steps save. Ctrl-C has reached them too. At SIGTERM, Paddle's launcher would leave processes behind."""
        ends.append(128 + number)
        for process in [*running] if number == signal.SIGTERM else []:
            process.send_signal(signal.SIGINT)

    def execute(step: Step) -> None:
        if step.makes.exists():
            return
        for command in step.commands:
            if ends:
                sys.exit(ends[0])
            command = resumed(step, command)
            print("$ python", *command, flush=True)
            command = [str(PROJECT / part) if part.endswith(".py") else part for part in command]
            output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True} if jobs > 1 else {}
            process = subprocess.Popen([sys.executable, *command], **output)
            running.add(process)
            shown, _ = process.communicate()
            running.remove(process)
            if code := process.returncode:
                ends.append(code if code > 0 else 128 - code)
                print(shown or "", "Not finished. What is done is kept: run this again to go on.", file=sys.stderr)
                sys.exit(ends[0])
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


def resumed(step: Step, command: list[str]) -> list[str]:
    """The command that goes on from the last checkpoint of an interrupted pretraining."""
    if not step.checkpoints or not any(step.checkpoints.glob("*.pdparams")):
        return command
    command = [part for part in command if not part.startswith("--finetune_from=")]
    return [*command, f"--init_from_ckpt={step.checkpoints}"]
