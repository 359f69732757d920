"""What runtime.py does for the rate of matrix products: Paddle imported plainly against Paddle taken from runtime.

    python benchmarks/bench_runtime.py

Each rate is measured in a Python of its own, the two in turns, and the median ratio is what counts: absolute rates vary.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
RATE = """
import statistics, sys, time
{start}
a = paddle.randn([2048, 2048])
times = []
for _ in range(8):
    began = time.perf_counter()
    paddle.matmul(a, a)
    times.append(time.perf_counter() - began)
print(2 * 2048**3 / statistics.median(times[1:]) / 1e9)
"""
STARTS = {"plain": "import paddle", "runtime": "from elmo_core.machine.runtime import paddle"}
UNSET = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_DEBUG_CPU_TYPE", "KMP_BLOCKTIME")


def rate(start: str) -> float:
    """GFLOP/s in a fresh Python that imports Paddle in one of the two ways."""
    environment = {name: value for name, value in os.environ.items() if name not in UNSET}
    command = [sys.executable, "-W", "ignore", "-c", RATE.format(start=STARTS[start])]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    pairs = [(rate("plain"), rate("runtime")) for _ in range(3)]
    for name, rates in zip(STARTS, zip(*pairs, strict=True), strict=True):
        print(f"{name:8} {statistics.median(rates):7.1f} GFLOP/s")
    print(f"ratio    {statistics.median(tuned / plain for plain, tuned in pairs):7.2f}")


if __name__ == "__main__":
    main()
