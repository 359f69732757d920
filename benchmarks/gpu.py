"""The cost of a training step, measured on this machine's GPUs.

    python benchmarks/gpu.py                             # all measurements; on a CPU with small sizes, in seconds
    python -m paddle.distributed.launch --gpus '0,1,2,3,4,5,6,7' benchmarks/gpu.py

docs/scale.md explains the columns.
"""

import argparse
import itertools
import time
from collections.abc import Sequence

import numpy as np
from bench import STEPS, Clock, TrainingStep, count_operators, lstm_flop, training_text

import args as arguments
import dataset
import script
from elmo_core.config import PRESETS, ELMoConfig
from elmo_core.machine import products, runtime, versions
from elmo_core.machine.ranks import Ranks
from elmo_core.machine.runtime import paddle
from elmo_core.network import matmul, softmax
from pretraining.meter import memory_in_use

PRODUCTS = "float32", "tf32", "bfloat16"  # of run_pretrain.py, by default, with --tf32, with --precision=bfloat16
SIZES = {  # of what is measured on a GPU, and on a CPU
    "model_size": (["small", "original"], ["tiny"], "presets"),
    "rows": ([128, 512, 2048], [4, 8], "batch sizes per GPU"),
    "vocab_size": (800_000, 1_000, "vocabulary size"),
    "candidates": (8192, 64, "sampled-softmax candidates"),
    "steps": (20, 2, "steps per measurement"),
}
WINDOWS = 13.3  # filter windows per token, with tokens of similar lengths encoded together


def products_flop(config: ELMoConfig, rows: int, candidates: int, distinct: float) -> float:
    """FLOP of a step's matrix products, forward and backward. distinct: tokens, each of which is encoded once."""
    filters, window = config.n_filters, max(width for width, _ in config.filters) * config.character_dim
    per_token = WINDOWS * window * filters + config.n_highway * 2 * filters**2 + filters * config.projection_dim
    softmax_and_lstm = 2 * 2 * config.projection_dim * candidates + lstm_flop(config)
    return 3 * (2 * distinct * per_token + rows * STEPS * softmax_and_lstm)


def measure(args: argparse.Namespace, ranks: Ranks) -> None:
    """Print a Markdown table of training steps, each row as soon as it is measured."""
    device = paddle.get_device()
    name = paddle.device.cuda.get_device_name() if device.startswith("gpu") else "CPU"

    def show(cells: Sequence) -> None:
        if ranks.is_main:
            print(f"| {' | '.join(map(str, cells))} |", flush=True)

    if ranks.is_main:
        print(f"{device} ({name}), {ranks.size} processes, Paddle {paddle.__version__}")
    parts = ["forward", "backward", "exchange", "update"]
    columns = ["tokens/s", "ms", "host ms", "launches", "TFLOP/s", *(f"{part} ms" for part in parts), "MB", "distinct"]
    header = ["model", "rows", "products", *columns]
    show(header)
    show(["---"] * len(header))
    corpus, vocabulary = training_text(args.vocab_size)
    possible = PRODUCTS[:2] if matmul.bfloat16_problem(device) else PRODUCTS
    for size, rows, precision in itertools.product(args.model_size, args.rows, possible):
        versions.allow_tf32(paddle, precision == "tf32")
        products.use("bfloat16" if precision == "bfloat16" else "float32")
        config = ELMoConfig.preset(size, vocab_size=len(vocabulary))
        try:
            measured = training(args, ranks, config, corpus, vocabulary, rows)
        except (MemoryError, OSError) as error:  # OSError: out of memory in a backward pass
            measured = ["out of memory?", " ".join(str(error).split())[-200:]]
        show([size, rows, precision, *measured])


def training(args, ranks: Ranks, config: ELMoConfig, corpus, vocabulary, rows: int) -> list[str]:
    """Measure one configuration: columns of the table that `measure` prints."""
    if paddle.get_device().startswith("gpu"):
        paddle.device.cuda.reset_max_memory_allocated()
    training_step = TrainingStep(config, rows, ranks=ranks)
    stream = dataset.TrainStream(corpus, vocabulary, rows, STEPS, config.input, 0, ranks.rank, ranks.size)
    random, batches = np.random.default_rng(0), [next(stream) for _ in range(args.steps)]
    inputs = [(batch, softmax.draw_candidates(len(vocabulary), args.candidates, random)) for batch in batches]
    training_step(*inputs[0])
    launches = count_operators(lambda: training_step(*inputs[0]))["launches"]
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
    distinct = float(np.mean([len(batch.tokens.lengths) for batch in batches]))
    flop = products_flop(config, rows, len(inputs[0][1].ids), distinct)
    return [
        f"{ranks.size * rows * STEPS / seconds:,.0f}",
        f"{1e3 * seconds:.1f}",
        f"{1e3 * host / args.steps:.1f}",
        f"{launches:,}",
        f"{flop / seconds / 1e12:.3g}",
        *(f"{1e3 * part / args.steps:.1f}" for part in clock.seconds.values()),
        f"{memory_in_use() / 2**20:,.0f}",
        f"{distinct:,.0f}",
    ]


def synchronise() -> None:
    if paddle.get_device().startswith("gpu"):
        paddle.device.cuda.synchronize()


def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add(parser, "device")
    for name, (on_gpu, on_cpu, text) in SIZES.items():
        kind = {"choices": tuple(PRESETS)} if name == "model_size" else arguments.COUNT
        several = {"nargs": "+"} if isinstance(on_gpu, list) else {}
        parser.add_argument(f"--{name}", **kind, **several, help=f"{text} (default: {on_gpu}; on a CPU {on_cpu})")
    args = parser.parse_args()
    is_gpu = runtime.set_device(args.device).startswith("gpu")
    parser.set_defaults(**{name: on_gpu if is_gpu else on_cpu for name, (on_gpu, on_cpu, _) in SIZES.items()})
    measure(parser.parse_args(), Ranks())


if __name__ == "__main__":
    script.run(main)
