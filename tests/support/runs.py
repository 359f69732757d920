"""A small structured corpus, and pretraining runs on it: in this process, in a new one, or on
several ranks.
"""

import json
import math
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from unittest import mock

import numpy as np
from project import PROJECT

import run_pretrain
from elmo_core.machine import runtime
from elmo_core.weights import checkpoint
from elmo_tools.pretraining.meter import Meter

STARTED: list[
    subprocess.Popen
] = []  # processes that a test has started; conftest.py ends those that are left
WORDS = [f"{'bcdfg'[k % 5]}{'aeiou'[k % 7 % 5] * (1 + k % 3)}{k}" for k in range(40)]


def sentences(n: int, seed: int) -> list[str]:
    """Random sentences in which each word has three possible successors."""
    generator = random.Random(seed)
    return [" ".join(_walk(generator)) for _ in range(n)]


def _walk(generator: random.Random) -> list[str]:
    k, words = generator.randrange(8), []
    for _ in range(generator.randrange(1, 12)):
        words.append(WORDS[k])
        k = (3 * k + generator.randrange(3)) % len(WORDS)
    return words


def surprise(sentence: list[str]) -> float:
    """Negative log-probability of a sentence under its source: first word, length, other words."""
    return math.log(8) + math.log(11) + (len(sentence) - 1) * math.log(3)


def write_corpus(folder: Path, files: int = 3, size: int = 40) -> Path:
    """Write train/*.txt, dev.txt and vocab.txt, which lacks three of the words."""
    (folder / "train").mkdir(parents=True)
    for k in range(files):
        text = "\n".join(sentences(size, seed=k)) + "\n"
        (folder / "train" / f"{k}.txt").write_text(text, encoding="utf-8")
    (folder / "dev.txt").write_text("\n".join(sentences(10, seed=99)) + "\n", encoding="utf-8")
    tokens = ["<S>", "</S>", "<UNK>", *WORDS[:-3]]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return folder


def flags(corpus: Path, save_dir: Path, **changes) -> list[str]:
    """Flags of a run of 30 steps with distinct dimensions.

    None omits a flag, True gives it without a value.
    """
    values = {
        "train_data_path": corpus / "train",
        "dev_data_path": corpus / "dev.txt",
        "vocab_file": corpus / "vocab.txt",
        "save_dir": save_dir,
        "device": "cpu",
        "batch_size": 5,
        "unroll_steps": 7,
        "model_size": "tiny",
        "cell_dim": 13,
        "projection_dim": 6,
        "filters": "1:4,2:7",
        "n_negative_samples": 11,
        "max_steps": 30,
        "log_freq": 5,
        "eval_freq": 12,
        **changes,
    }
    given = {name: value for name, value in values.items() if value is not None}
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items()]


def pretrain(argv: list[str], stop_at: int | None = None) -> None:
    """Pretrain in this process, with a SIGTERM during step `stop_at`."""
    add = Meter.add

    def add_and_stop(meter, step, *rest):
        if step == stop_at:
            signal.raise_signal(signal.SIGTERM)
        add(meter, step, *rest)

    with mock.patch.object(Meter, "add", add_and_stop), suppress(SystemExit if stop_at else ()):
        run_pretrain.main(argv)


def start(
    script: str,
    argv: list[str],
    output: Path,
    launch: int = 0,
    log_dir: Path | None = None,
    **environment: str,
) -> subprocess.Popen:
    """Start a script in a new process, or several with Paddle's launcher, with output to a file."""
    launcher = [
        "-m",
        "paddle.distributed.launch",
        "--nproc_per_node",
        str(launch),
        "--backend",
        "gloo",
    ]
    before = [*launcher, "--log_dir", str(log_dir)] if launch else []
    inherited = {
        name: value for name, value in os.environ.items() if name not in runtime.THREAD_VARIABLES
    }
    environment = {
        **inherited,
        "PYTHONPATH": f"{PROJECT}:{PROJECT / 'tests' / 'support'}",
        **environment,
    }
    with output.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [sys.executable, *before, str(PROJECT / script), *argv],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    STARTED.append(process)
    return process


def peak_memory(process: subprocess.Popen, output: Path) -> float:
    """Wait for a process, which must succeed. Returns its peak memory in megabytes."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, output.read_text(encoding="utf-8")
    return usage.ru_maxrss / 1024


def wait_until(
    condition: Callable[[], bool], process: subprocess.Popen, output: Path | None = None
) -> None:
    """Wait for a condition. Fails with the process's output if the process ends before."""
    until = time.monotonic() + 120
    while not condition():
        over = process.poll() is not None or time.monotonic() > until
        assert not over, output and output.read_text(encoding="utf-8")
        time.sleep(0.002)


def fresh_python(program: str, **environment: str) -> subprocess.CompletedProcess:
    """Run a program in a new Python that can import the project, without a number of threads in the
    environment.
    """
    clean = {
        name: value for name, value in os.environ.items() if name not in runtime.THREAD_VARIABLES
    }
    environment = {**clean, "PYTHONPATH": str(PROJECT), **environment}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def wait_for_step(step: int, process: subprocess.Popen, output: Path) -> None:
    """Wait until the process has printed the progress line of this step or a later one."""

    def reached() -> bool:
        steps = re.findall(r"^step (\d+)/", output.read_text(encoding="utf-8"), re.M)
        return max(map(int, steps), default=0) >= step

    wait_until(reached, process, output)


def start_ranks(
    script: str, argv: list[str], folder: Path, n: int = 2, **environment: str
) -> list[subprocess.Popen]:
    """Start a script on gloo ranks, without the launcher.

    Their outputs are FOLDER/rank0, FOLDER/rank1 ...
    """
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(n)]
    common = {
        **environment,
        "PADDLE_TRAINERS_NUM": str(n),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_DISTRI_BACKEND": "gloo",
    }
    return [
        start(
            script,
            argv,
            folder / f"rank{k}",
            PADDLE_TRAINER_ID=str(k),
            PADDLE_CURRENT_ENDPOINT=endpoints[k],
            **common,
        )
        for k in range(n)
    ]


def free_ports(n: int) -> list[int]:
    with ExitStack() as servers:  # all are held until each is another
        found = [servers.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(n)]
        return [server.getsockname()[1] for server in found]


def assert_same(one: Path, other: Path, *loads) -> None:
    """Check that two checkpoints have bitwise equal weights and, by default, optimizers."""
    for load in loads or (
        checkpoint.load_params,
        lambda folder: checkpoint.load_training(folder)[0],
    ):
        found, expected = (load(checkpoint.resolve(folder)) for folder in (one, other))
        assert found.keys() == expected.keys()
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name], err_msg=name, strict=True)


def log_lines(folder: Path, event: str) -> list[dict]:
    """The lines of log.jsonl of an event, without timings and memory."""
    lines = map(json.loads, (folder / "log.jsonl").read_text(encoding="utf-8").splitlines())
    clock = ("tokens_per_second", "seconds_left", "memory_mb")
    return [
        {k: v for k, v in line.items() if k not in clock}
        for line in lines
        if line["event"] == event
    ]
