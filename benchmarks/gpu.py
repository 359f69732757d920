"""The cost of a training step, measured on this machine's GPUs.

    python benchmarks/gpu.py --check
    python benchmarks/gpu.py
    python -m paddle.distributed.launch --gpus '0,1,2,3,4,5,6,7' benchmarks/gpu.py

--check: does everything work, and how fast? Three minutes. Without it, all measurements; on a CPU
with small sizes, in seconds. docs/scale.md explains the columns.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from functools import partial

import gpu_check
import numpy as np
from bench import STEPS, Clock, TrainingStep, count_operators, lstm_flop, training_text

import args as arguments
import script
from elmo_core.config import PRESETS, ELMoConfig
from elmo_core.kernels import matmul
from elmo_core.machine import runtime
from elmo_core.machine.runtime import paddle
from elmo_core.network import softmax
from elmo_core.training.ranks import Ranks
from elmo_tools.pretraining import streams
from elmo_tools.pretraining.meter import memory_in_use

# Of run_pretrain.py: with --tf32=off, by default, with --precision=bfloat16.
PRECISIONS = ("float32", "tf32", "bfloat16")
SIZES = {  # of what is measured on a GPU, and on a CPU
    "model_size": (["small", "original"], ["tiny"], "presets"),
    "rows": ([128, 512, 2048], [4, 8], "batch sizes per GPU"),
    "vocab_size": (800_000, 1_000, "vocabulary size"),
    "candidates": (8192, 64, "sampled-softmax candidates"),
    "steps": (20, 2, "steps per measurement"),
}
CHECK = {"rows": [128], "vocab_size": 50_000, "steps": 5}  # of --check, on a GPU
LARGE_CARD = 48 * 2**30  # bytes that 2,048 rows of `original` need
PARTS = ("forward", "backward", "exchange", "update")
WINDOWS = 13.3  # filter windows per token, with tokens of similar lengths encoded together


def products_flop(config: ELMoConfig, rows: int, candidates: int, distinct: float) -> float:
    """FLOP of a step's matrix products, forward and backward.

    distinct: tokens, each of which is encoded once.
    """
    F = config.n_filters
    window = max(width for width, _ in config.filters) * config.character_dim
    convolutions = WINDOWS * window * F
    highways = config.n_highway * 2 * F**2
    projection = F * config.projection_dim
    per_token = 2 * (convolutions + highways + projection)
    softmax = 2 * 2 * config.projection_dim * candidates
    per_step = softmax + lstm_flop(config)
    return 3 * (distinct * per_token + rows * STEPS * per_step)


def measure(args: argparse.Namespace, ranks: Ranks) -> None:
    """Print a Markdown table of training steps, each row as soon as it is measured."""
    device = paddle.get_device()
    is_gpu = device.startswith("gpu")
    name = paddle.device.cuda.get_device_name() if is_gpu else "CPU"

    def show(cells: Sequence) -> None:
        if ranks.is_main:
            row = " | ".join(str(cell) for cell in cells)
            print(f"| {row} |", flush=True)

    if ranks.is_main:
        print(f"{device} ({name}), {ranks.size} processes, Paddle {paddle.__version__}")
    parts = [f"{part} ms" for part in PARTS]
    columns = ["tokens/s", "ms", "host ms", "launches", "TFLOP/s", *parts, "MB", "distinct"]
    header = ["model", "rows", "products", *columns]
    show(header)
    show(["---"] * len(header))
    corpus, vocabulary = training_text(args.vocab_size)
    possible = PRECISIONS[:2] if matmul.bfloat16_problem(device) else PRECISIONS
    for size, rows, kind in itertools.product(args.model_size, args.rows, possible):
        config = ELMoConfig.preset(size, vocab_size=len(vocabulary))
        try:
            with gpu_check.only_precision(kind, device):
                row = training(args, ranks, config, corpus, vocabulary, rows)
            measured = [significant(value) for value in row.values()]
        # These are Paddle's, in the forward and in the backward pass.
        except (MemoryError, OSError, SystemError) as error:
            if "out of memory" not in str(error).lower():
                raise
            measured = ["out of memory"]
        show([size, rows, kind, *measured])
        if is_gpu:
            paddle.device.cuda.empty_cache()


def significant(value: float) -> str:
    """A number with at least three significant digits."""
    return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"


def training(
    args, ranks: Ranks, config: ELMoConfig, corpus, vocabulary, rows: int
) -> dict[str, float]:
    """Measure one configuration: columns of the table that `measure` prints."""
    # Paddle 2 lacks it; there, the memory is the most so far.
    reset = getattr(paddle.device.cuda, "reset_max_memory_allocated", None)
    if reset and paddle.get_device() != "cpu":
        reset()
    training_step = TrainingStep(config, rows, ranks=ranks)
    stream = streams.TrainStream(
        corpus,
        vocabulary,
        batch_size=rows,
        unroll_steps=STEPS,
        input=config.input,
        seed=0,
        rank=ranks.rank,
        world_size=ranks.size,
    )
    random = np.random.default_rng(0)
    inputs = []
    for _ in range(args.steps):
        candidates = softmax.draw_candidates(len(vocabulary), args.candidates, random)
        inputs.append((next(stream), candidates))
    first_batch, first_candidates = inputs[0]
    training_step(first_batch, first_candidates)
    launches = count_operators(partial(training_step, first_batch, first_candidates))["launches"]
    synchronise()
    began = time.perf_counter()
    for batch, candidates in inputs:
        training_step(batch, candidates)
    host = time.perf_counter() - began
    synchronise()
    seconds = (time.perf_counter() - began) / args.steps
    clock = Clock()

    def on_phase(phase: str) -> None:
        synchronise()
        clock.lap(phase)

    for batch, candidates in inputs:
        training_step(batch, candidates, on_phase)
    distinct = float(np.mean([len(batch.tokens.lengths) for batch, _ in inputs]))
    n_candidates = len(first_candidates.ids)
    flop = products_flop(config, rows, n_candidates, distinct)
    parts = {f"{part} ms": 1e3 * clock.seconds[part] / args.steps for part in PARTS}
    return {
        "tokens/s": ranks.size * rows * STEPS / seconds,
        "ms": 1e3 * seconds,
        "host ms": 1e3 * host / args.steps,
        "launches": launches,
        "TFLOP/s": flop / seconds / 1e12,
        **parts,
        "MB": memory_in_use() / 2**20,
        "distinct": distinct,
    }


def synchronise() -> None:
    if paddle.get_device().startswith("gpu"):
        paddle.device.cuda.synchronize()


def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add(parser, "device")
    for name, (on_gpu, on_cpu, text) in SIZES.items():
        kind = {"choices": tuple(PRESETS)} if name == "model_size" else arguments.COUNT
        several = {"nargs": "+"} if isinstance(on_gpu, list) else {}
        parser.add_argument(
            f"--{name}", **kind, **several, help=f"{text} (default: {on_gpu}; on a CPU {on_cpu})"
        )
    parser.add_argument(
        "--check", action="store_true", help="check everything, in three minutes and 4 GB"
    )
    args = parser.parse_args()
    is_gpu = runtime.set_device(args.device).startswith("gpu")
    for name, (on_gpu, on_cpu, _) in SIZES.items():
        parser.set_defaults(**{name: on_gpu if is_gpu else on_cpu})
    if is_gpu and paddle.device.cuda.get_device_properties().total_memory < LARGE_CARD:
        parser.set_defaults(rows=[128, 512])
    if is_gpu and args.check:
        parser.set_defaults(**CHECK)
    args = parser.parse_args()
    if args.check:
        sys.exit(gpu_check.run(args, training))
    measure(args, Ranks())


if __name__ == "__main__":
    script.run(main)
