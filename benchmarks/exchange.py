"""What data-parallel training costs on top of the arithmetic: bytes that a rank exchanges, seconds in exchange and update.

    python benchmarks/exchange.py                                       (1, 2, 4 and 8 gloo processes, V 50,000 and 800,000)
    python benchmarks/exchange.py --ranks 1 2 --vocab_sizes 5000 --candidates 500 --batch_size 8         (a short trial)

Bytes are of the tensors that a rank receives in a step: an all-reduce counts its tensor once. Words are drawn
log-uniformly, as in text; the token encoder is a word table or, with --input=char, characters. Each process has one
thread. The steps' median over the processes is printed.
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
    parser.add_argument("--batch_size", **arguments.COUNT, default=32, help="rows of 20 tokens on each process")
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
            found = run(size, [*sys.argv[1:], "--vocab_sizes", str(vocab_size)])
            print(f"{vocab_size:9,} {size:5} {found[0] / 1e6:13.2f} {found[1]:12.4f} {found[2]:10.4f}", flush=True)


def run(size: int, argv: list[str]) -> np.ndarray:
    """The median over so many processes of bytes, seconds of exchange and seconds of update."""
    with ExitStack() as servers:  # all are held until each is another
        ports = [servers.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(size)]
    endpoints = [f"127.0.0.1:{port}" for port in ports]
    common = {"PADDLE_TRAINERS_NUM": str(size), "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints)}
    common |= {"PADDLE_DISTRI_BACKEND": "gloo", "OMP_NUM_THREADS": "1"}
    processes = []
    for rank, endpoint in enumerate(endpoints):
        own = {"PADDLE_TRAINER_ID": str(rank), "PADDLE_CURRENT_ENDPOINT": endpoint}
        command = [sys.executable, str(Path(__file__).resolve()), *argv]
        environment = {**os.environ, **common, **own}
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    outputs = [process.communicate()[0].splitlines()[-1:] for process in processes]
    if not all(outputs):
        raise SystemExit(f"one of {size} processes failed: run it alone to see why")
    return np.median([json.loads(output[0]) for output in outputs], axis=0)


def measure(args: argparse.Namespace) -> list[float]:
    """This rank's bytes exchanged in a step, and medians of the seconds in exchange and in update."""
    from bench import STEPS, Training

    from elmo_core.config import ELMoConfig
    from elmo_core.machine.ranks import Ranks
    from elmo_core.machine.runtime import paddle
    from elmo_core.network.softmax import draw_candidates
    from elmo_core.text.tokens import LMBatch, Tokens

    (vocab_size,) = args.vocab_sizes
    paddle.set_device("cpu")
    ranks = Ranks()
    small = {"cell_dim": 64, "n_layers": 1, "filters": ((1, 8), (2, 8))}  # the arithmetic is not what is measured
    config = ELMoConfig(vocab_size=vocab_size, projection_dim=args.projection_dim, input=args.input, **small)
    training = Training(config, args.batch_size, args.optimizer, ranks)
    random, received, ends, times = np.random.default_rng(ranks.rank), watch(paddle), {}, []

    def after(part: str) -> None:
        if part == "backward":
            ranks.any(False)  # all are here
            received[0] = 0
        ends[part] = time.perf_counter()

    for step in range(args.steps + 1):
        words = np.exp(random.random((args.batch_size, STEPS)) * np.log(vocab_size)).astype(np.int64)
        distinct, index = np.unique(words, return_inverse=True)
        characters = np.full((len(distinct), 50), 261, np.int32)
        characters[:, 1:7] = 1 + random.integers(97, 122, (len(distinct), 6))
        characters[:, 0], characters[:, 7] = 259, 260
        tokens, index = Tokens(characters, np.full(len(distinct), 8, np.int32), distinct), index.reshape(words.shape)
        backward, lengths = (index[:, ::-1].copy(), words[:, ::-1].copy()), np.full(args.batch_size, STEPS)
        batch = LMBatch(tokens, index, backward[0], words, backward[1], lengths)
        training.step(batch, draw_candidates(vocab_size, args.candidates, np.random.default_rng([1, step])), after)
        times.append((received[0], ends["exchange"] - ends["backward"], ends["update"] - ends["exchange"]))
    return np.median(times[1:], axis=0).tolist()


def watch(paddle) -> list[int]:
    """Counts, in a list of one number, the bytes that the all-reduces bring in."""
    received, all_reduce = [0], paddle.distributed.all_reduce

    def counted(tensor, *rest, **options):
        received[0] += tensor.size * tensor.element_size()
        return all_reduce(tensor, *rest, **options)

    paddle.distributed.all_reduce = counted
    return received


if __name__ == "__main__":
    main()
