"""Threads, devices and signals, in a fresh Python if importing Paddle matters."""

import os
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from runs import PROJECT, fresh_python

from elmo_core.machine import runtime
from elmo_core.machine.runtime import paddle, run_in_parallel
from elmo_core.messages import UserError


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max", 8), ("250000", 2), ("20000", 1), ("", 8), ("v1: 250000", 2), ("v1: -1", 8)],
)
def test_a_containers_share_of_the_processor_counts(tmp_path, monkeypatch, quota, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    monkeypatch.setattr(runtime, "CGROUPS", tmp_path)
    if quota.startswith("v1"):
        (tmp_path / "cpu").mkdir()
        (tmp_path / "cpu/cpu.cfs_quota_us").write_text(quota.split()[1] + "\n", encoding="ascii")
        (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n", encoding="ascii")
    else:
        (tmp_path / "cpu.max").write_text(f"{quota} 100000", encoding="ascii")
    assert runtime.n_cores() == cores


def test_paddle_takes_all_cores_silently():
    done = fresh_python(
        "from elmo_core.machine.runtime import paddle\n"
        "import os\n"
        "print(os.environ['OMP_NUM_THREADS'])"
    )
    assert done.stdout.strip() == str(runtime.n_cores())
    assert done.stderr == ""


def test_the_users_own_logging_works_and_other_libraries_stay_quiet():
    """Paddle gives the root logger a handler and level, which would show gensim's messages, too."""
    ours = "logging.warning('mine'); logging.getLogger('elmo').warning('ours')"
    done = fresh_python(
        f"import elmo, logging; {ours}; logging.getLogger('gensim').info('chatter')"
    )
    assert "mine" in done.stderr and "ours" in done.stderr and "chatter" not in done.stderr


ALONE = "127.0.0.1:6000"
PORTS = range(6000, 6000 + runtime.n_cores())
# two machines with a rank for each core
CROWD = ",".join([f"10.0.0.1:{port}" for port in PORTS] + [f"10.0.0.2:{port}" for port in PORTS])


@pytest.mark.parametrize(
    ("environment", "threads"),
    [
        ({"OMP_NUM_THREADS": "1"}, 1),  # the user's choice
        # Nobody's choice: the launcher imports Paddle, which sets OMP_NUM_THREADS=1 for all that
        # it starts.
        (
            {
                "OMP_NUM_THREADS": "1",
                "PADDLE_TRAINER_ENDPOINTS": ALONE,
                "PADDLE_CURRENT_ENDPOINT": ALONE,
            },
            runtime.n_cores(),
        ),
        ({"PADDLE_TRAINER_ENDPOINTS": CROWD, "PADDLE_CURRENT_ENDPOINT": "10.0.0.2:6000"}, 1),
    ],
    ids=["user", "launcher", "ranks"],
)
def test_threads_of_a_process(environment, threads):
    program = "from elmo_core.machine import runtime; import os; runtime.prepare_environment()"
    done = fresh_python(f"{program}; print(os.environ['OMP_NUM_THREADS'])", **environment)
    assert done.stdout.strip() == str(threads)


@pytest.mark.parametrize(
    ("variable", "threads"), [("3", 3), ("4,2", 4), ("0", 1), ("many", 1), ("", 1)]
)
def test_there_is_always_a_thread(monkeypatch, variable, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert runtime.n_threads() == threads


def test_paddle_imported_too_early_is_logged_once():
    program = (
        "import paddle\n"
        "from elmo_core.machine import runtime\n"
        "runtime.n_cores = lambda: 2\n"
        "import elmo"
    )
    done = fresh_python(program, OMP_NUM_THREADS="")
    assert done.stderr.count("paddle was imported before elmo") == 1


def test_preparing_text_does_not_need_paddle():
    done = fresh_python(
        "import args, dataset, preprocess, sys; print({'paddle', 'elmo'} & set(sys.modules))"
    )
    assert done.stdout.strip() == "set()", done.stderr


def test_an_import_leaves_the_users_process_alone():
    """`import elmo` changes malloc no more than Paddle does."""
    program = (
        "import re, pathlib, {module}, numpy\n"
        "def status(name):\n"
        "    text = pathlib.Path('/proc/self/status').read_text()\n"
        "    return re.search(name + r':\\s*(\\w+)', text)[1]\n"
        "before = int(status('VmRSS'))\n"
        "numpy.ones(2**24).sum()\n"  # 128 MB, which the C library hands back when it is left alone
        "print(int(status('VmRSS')) - before < 64 * 1024)"
    )
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc on this system")
    alone = fresh_python(program.replace("{module}", "paddle")).stdout
    ours = fresh_python(program.replace("{module}", "elmo")).stdout
    assert ours == alone and "True" in ours


HANDLE = "signal.signal(signal.SIGTERM, lambda *_: print('mine'))"
IGNORE = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
PADDLE = "import zlib, paddle"  # in this order: Paddle 2.6 brings another zlib


@pytest.mark.parametrize(
    ("steps", "output"),
    [
        ([HANDLE, "import elmo"], "mine\nalive\n"),
        ([HANDLE, PADDLE, "import elmo"], "mine\nalive\n"),
        ([PADDLE, "import elmo", HANDLE], "mine\nalive\n"),
        ([IGNORE, "import elmo"], "alive\n"),
    ],
)
def test_signals_reach_the_programs_own_handler(steps, output):
    end = "signal.raise_signal(signal.SIGTERM)\nprint('alive')"
    program = "\n".join(["import signal", *steps, end])
    assert fresh_python(program, PYTHONWARNINGS="ignore").stdout == output


@pytest.mark.parametrize("imports", ["elmo", "zlib, paddle, elmo"])
def test_worker_processes_end_without_a_crash_report(imports):
    """As those of multiprocessing.Pool, which ends them with SIGTERM."""
    program = (
        f"import multiprocessing, time, {imports}\n"
        "worker = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,))\n"
        "worker.start(); time.sleep(0.2); worker.terminate(); worker.join(); print(worker.exitcode)"
    )
    done = fresh_python(program, PYTHONWARNINGS="ignore")
    assert (done.stdout, done.stderr) == ("-15\n", "")


SERVER = """
import http.server, signal, socketserver, threading

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("asked", flush=True)
        assert stopping.wait(60)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(elmo.ELMoEmbedder("en").encode([["a", "film"]])[0].shape).encode())

stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
import elmo  # a server loads its application last
server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever).start()
print(server.server_address[1], flush=True)
stopping.wait()
server.shutdown()
server.server_close()  # waits for the answers
"""


def test_a_server_that_is_stopped_finishes_its_answer():
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        address = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(lambda: urllib.request.urlopen(address, timeout=60).read())
            assert server.stdout.readline() == "asked\n"
            server.terminate()
            assert answer.result() == b"(3, 2, 256)"
        assert server.wait(60) == 0 and "FatalError" not in server.stderr.read()


@pytest.mark.parametrize("device", ["gpu", "gpu:0"])
def test_a_missing_gpu_is_a_clear_error(device):
    if paddle.is_compiled_with_cuda() and paddle.device.cuda.device_count():
        pytest.skip("this machine has a GPU")
    with pytest.raises(UserError, match=f"device {device}: .*cpu as the device"):
        runtime.set_device(device)


@pytest.mark.parametrize("device", ["tpu", "gpu:", "gpu:x", "cpu:0", ""])
def test_an_unknown_device_is_a_clear_error(device):
    with pytest.raises(UserError, match="expected auto, cpu, gpu or gpu:N"):
        runtime.set_device(device)


def test_parallel_results_keep_their_order_and_errors_come_through():
    assert run_in_parallel([lambda k=k: float(paddle.to_tensor(float(k))) for k in range(2)]) == [
        0.0,
        1.0,
    ]
    for position in range(2):
        tasks = [lambda: 1, lambda: 2]
        tasks[position] = lambda: 1 / 0
        with pytest.raises(ZeroDivisionError):
            run_in_parallel(tasks)


def test_gradients_are_on_after_parallel_work_without_them():
    def work():
        with paddle.no_grad():
            return paddle.ones([2]).sum()

    for _ in range(20):
        run_in_parallel([work, work])
    assert paddle.is_grad_enabled()


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
def test_arrays_go_to_a_gpu_by_way_of_the_host(monkeypatch, dtype):
    monkeypatch.setattr(paddle, "get_device", lambda: "gpu:0")
    monkeypatch.setattr(
        paddle.Tensor, "cuda", lambda tensor, blocking: tensor if not blocking else None
    )
    for shape in ((0,), (1,), (2, 3)):
        array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        tensor = runtime.to_tensor(array)
        assert tensor.stop_gradient and tensor.dtype == paddle.to_tensor(array).dtype
        np.testing.assert_array_equal(tensor.numpy(), array)
