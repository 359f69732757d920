"""Several machines, as two network namespaces joined by a virtual cable."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import runs

from elmo_core.weights import checkpoint

pytestmark = pytest.mark.ranks
ADDRESSES = "10.77.0.1", "10.77.0.2"  # inside the namespaces


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


class Machine:
    """A network namespace with one interface."""

    def __init__(self, k: int):
        self.address = ADDRESSES[k]
        self.name = f"elmo{os.getpid()}-{k}"
        self.interface = f"v{os.getpid()}-{k}"
        ip("netns", "add", self.name)
        ip("-n", self.name, "link", "set", "lo", "up")

    def connect(self) -> None:
        ip("-n", self.name, "address", "add", f"{self.address}/24", "dev", self.interface)
        ip("-n", self.name, "link", "set", self.interface, "up")

    def launch(self, folder: Path, argv: list[str]) -> subprocess.Popen:
        """Start run_pretrain.py with Paddle's launcher, as one of two machines.

        The output is FOLDER/workerlog.0.
        """
        launcher = ["-m", "paddle.distributed.launch", "--nnodes", "2", "--nproc_per_node", "1"]
        launcher += ["--master", f"{ADDRESSES[0]}:8200"]
        options = ["--host", self.address, "--log_dir", str(folder)]
        folder.mkdir()
        with (folder / "launcher").open("w", encoding="utf-8") as file:
            on_machine = ["ip", "netns", "exec", self.name, sys.executable]
            process = subprocess.Popen(
                [*on_machine, *launcher, *options, "run_pretrain.py", *argv],
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=runs.PROJECT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": self.interface},
            )
        runs.STARTED.append(process)
        return process

    def kill(self) -> None:
        """Kill everything that runs on it, like a power failure."""
        for process in ip("netns", "pids", self.name).split():
            os.kill(int(process), signal.SIGKILL)


@pytest.fixture
def machines():
    """Two machines and a cable."""
    if not shutil.which("ip"):
        pytest.skip("no `ip` (iproute2)")
    machines: list[Machine] = []
    try:
        try:
            machines.extend(Machine(k) for k in range(2))
            first, second = machines
            peer = f"type veth peer {second.interface} netns {second.name}"
            ip(*f"link add {first.interface} netns {first.name} {peer}".split())
            first.connect()
            second.connect()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces: {error.stderr.strip()}")
        yield machines
    finally:
        for machine in machines:
            machine.kill()
            ip("netns", "delete", machine.name)


def test_a_run_survives_the_loss_of_a_machine(machines, tmp_path):
    """Two machines train, one is lost, the other continues alone."""
    other = machines[1]
    corpus, save_dir = runs.write_corpus(tmp_path / "corpus"), tmp_path / "run"
    changes = {"dev_data_path": None, "max_steps": None, "save_freq": 10, "log_freq": 1}

    def flags(**more) -> list[str]:
        return runs.flags(corpus, save_dir, epochs=10_000, **changes, **more)

    def epochs() -> list[float]:
        return [line["epoch"] for line in runs.log_lines(save_dir, "training")]

    started = [
        machine.launch(tmp_path / f"first{k}", flags()) for k, machine in enumerate(machines)
    ]
    runs.wait_until((save_dir / "10").exists, started[0])
    other.kill()
    assert started[0].wait(timeout=60) == 2
    output = (tmp_path / "first0" / "workerlog.0").read_text(encoding="utf-8")
    assert re.search(r"^error: .* rank was lost", output, re.M), output
    assert "Traceback" not in output

    saved = checkpoint.steps(save_dir)[-1]
    runs.pretrain(flags(init_from_ckpt=save_dir, allow_changes=True), stop_at=saved + 10)
    lost = epochs()[saved - 1]
    # a step of one machine reads half as much
    assert epochs()[-1] == pytest.approx(int(lost) + 10 / 2 * lost / saved, rel=0.02)


@pytest.mark.slow
def test_a_network_that_breaks_ends_the_run(machines, tmp_path):
    """Unlike a process that dies, a pulled cable closes no connection: there is just no answer."""
    corpus, output = runs.write_corpus(tmp_path / "corpus"), tmp_path / "log0" / "workerlog.0"
    argv = runs.flags(corpus, tmp_path / "run", dev_data_path=None, max_steps=1_000_000, log_freq=1)
    started = [machine.launch(tmp_path / f"log{k}", argv) for k, machine in enumerate(machines)]
    runs.wait_until(output.exists, started[0])
    runs.wait_for_step(3, started[0], output)
    ip("-n", machines[1].name, "link", "set", machines[1].interface, "down")
    assert started[0].wait(timeout=120) == 2
    text = output.read_text(encoding="utf-8")
    assert re.search(r"^error: .* rank was lost", text, re.M) and "Traceback" not in text
