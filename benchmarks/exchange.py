"""The overhead of data-parallel training: bytes that a rank exchanges, seconds in exchange and update.

    python benchmarks/exchange.py                                       (1, 2, 4 and 8 gloo processes, V 50,000 and 800,000)
    python benchmarks/exchange.py --ranks 1 2 --vocab_sizes 5000 --candidates 500 --batch_size 8         (a short trial)

The bytes are those of the tensors that a rank receives per step; an all-reduce counts its tensor once. Words are drawn
log-uniformly, similar to text; the token encoder is a word table or, with --input=char, a character CNN. Each process has
one thread. Prints the median over steps and processes.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import args as arguments


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--ranks", **arguments.COUNT, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--vocab_sizes", **arguments.COUNT, nargs="+", default=[50_000, 800_000])
    parser.add_argument("--candidates", **arguments.COUNT, default=8192)
    parser.add_argument("--batch_size", **arguments.COUNT, default=32, help="rows of 20 tokens per process")
    parser.add_argument("--projection_dim", **arguments.COUNT, default=128)
    parser.add_argument("--input", choices=("word", "char"), default="word")
    parser.add_argument("--optimizer", choices=("adagrad", "adam"), default="adagrad")
    parser.add_argument("--steps", **arguments.COUNT, default=3)
    args = parser.parse_args()
    if "PADDLE_TRAINER_ID" in os.environ:
        print(json.dumps(measure(args)))
        return
    print(f"{'V':>9} {'ranks':>5} {'MB exchanged':>13} {'exchange, s':>12} {'update, s':>10}")
    for vocab_size in args.vocab_sizes:
        for size in args.ranks:
            received, exchange, update = run(size, [*sys.argv[1:], "--vocab_sizes", str(vocab_size)])
            print(f"{vocab_size:9,} {size:5} {received / 1e6:13.2f} {exchange:12.4f} {update:10.4f}", flush=True)


def run(size: int, argv: list[str]) -> np.ndarray:
    """Medians over the processes: bytes, seconds of exchange, seconds of update."""
    with ExitStack() as servers:  # held together, so that no port is drawn twice
        ports = [servers.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(size)]
    endpoints = [f"127.0.0.1:{port}" for port in ports]
    common = {"PADDLE_TRAINERS_NUM": str(size), "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints)}
    common |= {"PADDLE_DISTRI_BACKEND": "gloo", "OMP_NUM_THREADS": "1"}
    processes = []
    for rank, endpoint in enumerate(endpoints):
        of_rank = {"PADDLE_TRAINER_ID": str(rank), "PADDLE_CURRENT_ENDPOINT": endpoint}
        command = [sys.executable, str(Path(__file__).resolve()), *argv]
        environment = {**os.environ, **common, **of_rank}
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    outputs = [process.communicate()[0].splitlines()[-1:] for process in processes]
    if not all(outputs):
        raise SystemExit(f"one of {size} processes failed: run it alone to see why")
    return np.median([json.loads(output[0]) for output in outputs], axis=0)


def measure(args: argparse.Namespace) -> list[float]:
    """This rank's medians over steps: bytes received, seconds of exchange, seconds of update."""
    from bench import STEPS, TrainingStep

    from elmo_core.config import ELMoConfig
    from elmo_core.machine.ranks import Ranks
    from elmo_core.machine.runtime import paddle
    from elmo_core.network.softmax import draw_candidates
    from elmo_core.text.tokens import LMBatch, Tokens

    (vocab_size,) = args.vocab_sizes
    paddle.set_device("cpu")
    ranks = Ranks()
    small = {"cell_dim": 64, "n_layers": 1, "filters": ((1, 8), (2, 8))}  # little arithmetic
    config = ELMoConfig(vocab_size=vocab_size, projection_dim=args.projection_dim, input=args.input, **small)
    training_step = TrainingStep(config, args.batch_size, args.optimizer, ranks)
    random, received, ends, times = np.random.default_rng(ranks.rank), count_received_bytes(paddle), {}, []

    def on_phase(phase: str) -> None:
        if phase == "backward":
            ranks.any(False)  # wait for all ranks
            received[0] = 0
        ends[phase] = time.perf_counter()

    for step in range(args.steps + 1):
        words = np.exp(random.random((args.batch_size, STEPS)) * np.log(vocab_size)).astype(np.int64)
        distinct, index = np.unique(words, return_inverse=True)
        characters = np.full((len(distinct), 50), 261, np.int32)
        characters[:, 1:7] = 1 + random.integers(97, 122, (len(distinct), 6))
        characters[:, 0], characters[:, 7] = 259, 260
        tokens, index = Tokens(characters, np.full(len(distinct), 8, np.int32), distinct), index.reshape(words.shape)
        backward, lengths = (index[:, ::-1].copy(), words[:, ::-1].copy()), np.full(args.batch_size, STEPS)
        batch = LMBatch(tokens, index, backward[0], words, backward[1], lengths)
        candidates = draw_candidates(vocab_size, args.candidates, np.random.default_rng([1, step]))
        training_step(batch, candidates, on_phase)
        times.append((received[0], ends["exchange"] - ends["backward"], ends["update"] - ends["exchange"]))
    return np.median(times[1:], axis=0).tolist()


def count_received_bytes(paddle) -> list[int]:
    """Count the bytes that all-reduces receive, in a list of one number."""
    received, all_reduce = [0], paddle.distributed.all_reduce

    def counted(tensor, *rest, **options):
        received[0] += tensor.size * tensor.element_size()
        return all_reduce(tensor, *rest, **options)

    paddle.distributed.all_reduce = counted
    return received


if __name__ == "__main__":
    main()
