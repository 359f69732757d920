"""The cost of a training step: counted from the code, and measured on this machine's GPUs.

    python benchmarks/gpu.py                             # all measurements; on a CPU with small sizes, in seconds
    python benchmarks/gpu.py --expect                    # no measurement: the counted cost, and estimates from it
    python -m paddle.distributed.launch --gpus '0,1,2,3,4,5,6,7' benchmarks/gpu.py

docs/scale.md explains the columns.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import STEPS, Clock, TrainingStep, count_operators, training_text

import args as arguments
import dataset
import script
from elmo_core.config import PRESETS, ELMoConfig
from elmo_core.machine import products, runtime
from elmo_core.machine.ranks import Ranks
from elmo_core.machine.runtime import paddle
from elmo_core.network import softmax
from pretraining.meter import memory_in_use

PRODUCTS = "float32", "tf32", "bfloat16"
DISTINCT_TOKENS = {64: 1_030, 128: 1_780, 512: 5_000, 2048: 12_900}  # by rows, 1 Billion Word Benchmark
# by rows, targets that are no candidates
EXTRA_TARGETS = {64: 410, 128: 800, 512: 2_900, 1024: 5_200, 2048: 9_200, 4096: 15_000}
WINDOWS = 13.3  # filter windows per token, with tokens of similar lengths encoded together
PUBLISHED = 10 * (768_648_884 + 30_301_028)  # tokens of ten epochs, ends of sentences included


@dataclass
class Cost:
    """Cost of one step on one GPU."""

    flop: dict[str, float]  # matrix products, forward and backward, by part
    bytes: dict[str, float]  # read and written by all operators, by part, without caches
    exchanged: float  # bytes sent in the exchange of gradients


def cost(config: ELMoConfig, rows: int, candidates: int, distinct: float, ranks: int = 1) -> Cost:
    """Count the operators that char_cnn.py, lstmp.py, softmax.py and the optimizer run without the C loops."""
    p, h, tokens = config.projection_dim, config.cell_dim, rows * STEPS
    lstms = 2 * config.n_layers
    filters = config.n_filters
    window = max(width for width, _ in config.filters) * config.character_dim
    dense = dense_weights(config)
    table_rows = candidates + interpolated(EXTRA_TARGETS, rows)
    table_rows_of_all = candidates + interpolated(EXTRA_TARGETS, rows * ranks)
    flop = {
        "characters": 3 * 2 * distinct * (WINDOWS * window * filters + config.n_highway * 2 * filters**2 + filters * p),
        "LSTM": 3 * 2 * lstms * tokens * 9 * h * p,
        "softmax": 3 * 2 * 2 * tokens * p * candidates,
    }
    floats = {  # factors: how often the operators read or write such a tensor
        "characters": distinct * (WINDOWS * (6 * window + 8 * filters) + config.n_highway * 50 * filters),
        "LSTM": lstms * (STEPS * (193 * rows * h + 2 * 5 * h * p) + 8 * 9 * h * p),
        "softmax": 14 * 2 * tokens * candidates + 18 * (table_rows + 2 * tokens) * p,
        "update": 8 * dense,
    }
    exchanged = 2 * (ranks - 1) / ranks * (dense + table_rows_of_all * (p + 1))  # ring all-reduce
    return Cost(flop, {part: 4 * count for part, count in floats.items()}, 4 * exchanged)


def dense_weights(config: ELMoConfig) -> int:
    """Number of a character model's weights with dense gradients: all but the tables."""
    p, h, filters = config.projection_dim, config.cell_dim, config.n_filters
    convolutions = sum((width * config.character_dim + 1) * number for width, number in config.filters)
    highways = config.n_highway * 2 * filters * (filters + 1)
    projection = (filters + 1) * p if filters != p else 0
    return 2 * config.n_layers * (9 * h * p + 4 * h) + convolutions + highways + projection


@dataclass
class GPU:
    """Data sheet: TFLOP/s of dense products, TB/s of memory, GB/s per direction to other GPUs. price: guessed rent, dollars
    per hour.
    """

    name: str
    float32: float
    tf32: float
    memory: float
    link: float
    price: tuple[float, float]


GPUS = (
    GPU("A100 80 GB", 19.5, 156, 2.0, 300, (1.3, 4.0)),
    GPU("H100 SXM", 67, 494, 3.35, 450, (2.0, 6.0)),
)
LAUNCH = 5e-6, 12e-6  # best and worst: seconds per operator in Python, Paddle and driver
SHARE_OF_PRODUCTS = {"float32": (0.8, 0.5), "tf32": (0.5, 0.2)}  # of peak, as the next two
SHARE_OF_MEMORY = 0.85, 0.5
SHARE_OF_LINK = 0.7, 0.3


def expected_seconds(cost: Cost, launches: int, gpu: GPU, precision: str, case: int) -> dict[str, float]:
    """Estimate a step's time with the best (case 0) or worst (case 1) assumptions. The host works ahead of the device, so
    the slower of the two counts.
    """
    products = sum(cost.flop.values()) / (getattr(gpu, precision) * 1e12 * SHARE_OF_PRODUCTS[precision][case])
    memory = sum(cost.bytes.values()) / (gpu.memory * 1e12 * SHARE_OF_MEMORY[case])
    exchange = cost.exchanged / (gpu.link * 1e9 * SHARE_OF_LINK[case])
    host = launches * LAUNCH[case]
    return {"host": host, "products": products, "memory": memory, "step": max(host, products + memory) + exchange}


def bottleneck(seconds: dict[str, float]) -> str:
    """The slowest part of an estimated step."""
    device = max(("products", "memory"), key=seconds.get)
    return "host" if seconds["host"] > seconds["products"] + seconds["memory"] else device


def print_estimates(args: argparse.Namespace) -> None:
    """Print the tables of docs/scale.md."""
    table = []
    for size, rows in itertools.product(args.model_size, args.rows):
        config, distinct = ELMoConfig.preset(size), interpolated(DISTINCT_TOKENS, rows)
        one, eight = (cost(config, rows, args.candidates, distinct, ranks) for ranks in (1, 8))
        flop, traffic = ([*part.values(), sum(part.values())] for part in (one.flop, one.bytes))
        cells = [*(f"{x / 1e9:,.0f}" for x in flop), *(f"{x / 1e9:.1f}" for x in traffic)]
        table.append([size, rows, *cells, f"{eight.exchanged / 1e6:,.0f}"])
    parts = ["characters", "LSTM", "softmax"]
    header = [f"{part}, GFLOP" for part in [*parts, "all"]] + [f"{part}, GB" for part in [*parts, "update", "all"]]
    show(["model", "rows", *header, "8 GPUs exchange, MB"], table)
    table = []
    for size, rows, gpu, precision in itertools.product(args.model_size, args.rows, GPUS, SHARE_OF_PRODUCTS):
        cells = []
        for n in (1, 8):
            one = cost(ELMoConfig.preset(size), rows, args.candidates, interpolated(DISTINCT_TOKENS, rows), n)
            cases = [expected_seconds(one, args.launches, gpu, precision, case) for case in (0, 1)]
            bounds = [bottleneck(case) for case in cases]
            rates = [n * rows * STEPS / case["step"] for case in cases]
            days = [PUBLISHED / rate / 86400 for rate in rates]
            dollars = [n * 24 * d * price for d, price in zip(days, gpu.price, strict=True)]
            if n == 1:
                cells += [span(1e3 * case["step"] for case in cases), " or ".join(dict.fromkeys(bounds))]
            cells += [span(rates[::-1]), span(days)]
        table.append([size, rows, gpu.name, precision, *cells, span(dollars)])
    columns = ["ms", "bound by", "tokens/s", "days", "8 GPUs: tokens/s", "days", "dollars"]
    show(["model", "rows", "GPU", "products", *columns], table)


def interpolated(known: dict[int, int], rows: int) -> float:
    """The count for this number of rows, interpolated."""
    return float(np.exp(np.interp(np.log(rows), *np.log(list(known.items())).T)))


def measure(args: argparse.Namespace, ranks: Ranks) -> None:
    device, on_gpu = paddle.get_device(), paddle.get_device().startswith("gpu")
    name = paddle.device.cuda.get_device_name() if on_gpu else "CPU"
    if ranks.is_main:
        print(f"{device} ({name}), {ranks.size} processes, Paddle {paddle.__version__}")
    show(["the machine", "measured"], machine(args, ranks, on_gpu), ranks)
    parts = ["forward", "backward", "exchange", "update"]
    columns = ["tokens/s", "ms", "host ms", "launches", "TFLOP/s", *(f"{part} ms" for part in parts), "MB", "distinct"]
    show(["model", "rows", "products", *columns], trainings(args, ranks), ranks)


def trainings(args: argparse.Namespace, ranks: Ranks) -> Iterator[list]:
    """Yield the rows of the table of training steps."""
    corpus, vocabulary = training_text(args.vocab_size)
    for size, rows, precision in itertools.product(args.model_size, args.rows, possible_products()):
        choose_products(precision)
        config = ELMoConfig.preset(size, vocab_size=len(vocabulary))
        try:
            measured = training(args, ranks, config, corpus, vocabulary, rows)
        except (MemoryError, OSError) as error:  # OSError: out of memory in a backward pass
            measured = ["out of memory?", " ".join(str(error).split())[-200:]]
        yield [size, rows, precision, *measured]
    choose_products("float32")


def possible_products() -> Sequence[str]:
    return PRODUCTS if products.supports_bfloat16() else PRODUCTS[:2]


def choose_products(precision: str) -> None:
    """Compute products as run_pretrain.py does by default, with --tf32 or with --amp."""
    products.use_tf32(precision == "tf32")
    products.use_bfloat16(precision == "bfloat16")


def machine(args: argparse.Namespace, ranks: Ranks, on_gpu: bool) -> list[list[str]]:
    """Rates of products, memory, launches and links."""
    size, elements = (8192, 2**28) if on_gpu else (256, 2**20)
    found = []

    def product(m: int, k: int, n: int) -> None:
        a, b = (products.amp_operand(paddle.randn(shape)) for shape in ([m, k], [k, n]))
        seconds = timed(lambda: paddle.matmul(a, b), 10)
        rate = f"{2 * m * k * n / seconds / 1e12:.3g} TFLOP/s, {1e6 * seconds:.0f} us"
        found.append([f"{m} x {k} x {n}, {precision}", rate])

    for precision in possible_products():
        choose_products(precision)
        product(size, size, size)
        for preset in args.model_size:
            config = ELMoConfig.preset(preset)
            for rows in args.rows:
                product(rows, config.projection_dim, 4 * config.cell_dim)
    choose_products("float32")
    x, one = paddle.ones([elements]), paddle.ones([1])
    seconds = timed(lambda: x * 2.0, 5)
    found.append(["memory, read and written", f"{2 * 4 * elements / seconds / 1e9:,.0f} GB/s"])
    calls = 1000 if on_gpu else 100
    seconds = timed(lambda: [one.add_(one) for _ in range(calls)], 3) / calls
    found.append(["an operator on one number", f"{1e6 * seconds:.1f} us"])
    if ranks.size > 1:
        seconds = timed(lambda: paddle.distributed.all_reduce(x), 5)
        found.append([f"all-reduce of {4 * elements / 1e6:,.0f} MB", f"{1e3 * seconds:.1f} ms"])
    return found


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
    flop = sum(cost(config, rows, len(inputs[0][1].ids), distinct).flop.values())
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


def timed(work: Callable[[], object], times: int) -> float:
    """Seconds per call, the device's work included."""
    work()
    synchronise()
    began = time.perf_counter()
    for _ in range(times):
        work()
    synchronise()
    return (time.perf_counter() - began) / times


def span(values: Iterable[float]) -> str:
    """Format a range with two digits: 12-34."""
    low, high = (f"{float(f'{value:.2g}'):,.10g}" for value in values)
    return low if low == high else f"{low}-{high}"


def show(header: Sequence[str], table: Iterable[Sequence], ranks: Ranks | None = None) -> None:
    """Print a Markdown table on rank 0, each row as soon as it is computed."""
    for line in itertools.chain([header, ["---"] * len(header)], table, [None]):
        if ranks is None or ranks.is_main:
            print(f"| {' | '.join(map(str, line))} |" if line else "", flush=True)


def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add(parser, "device")
    parser.add_argument(
        "--model_size", nargs="+", choices=tuple(PRESETS), help="presets (default: small and original; on a CPU tiny)"
    )
    rows = "batch sizes per GPU (default: 128, 512 and 2048; on a CPU 4 and 8)"
    parser.add_argument("--rows", nargs="+", **arguments.COUNT, help=rows)
    parser.add_argument("--vocab_size", **arguments.COUNT, help="vocabulary size (default: 800,000; on a CPU 1,000)")
    parser.add_argument(
        "--candidates", **arguments.COUNT, help="sampled-softmax candidates (default: 8,192; on a CPU 64)"
    )
    parser.add_argument("--steps", **arguments.COUNT, help="steps per measurement (default: 20; on a CPU 2)")
    parser.add_argument("--expect", action="store_true", help="measure nothing: print the counted cost and estimates")
    parser.add_argument("--launches", **arguments.COUNT, default=1_800, help="--expect: operators per step")
    args = parser.parse_args()
    if args.expect and not all(min(DISTINCT_TOKENS) <= rows <= max(DISTINCT_TOKENS) for rows in args.rows or ()):
        parser.error(f"--expect: --rows must be {min(DISTINCT_TOKENS)} to {max(DISTINCT_TOKENS)}, the counted range")
    on_gpu = args.expect or runtime.set_device(args.device).startswith("gpu")
    args.model_size = args.model_size or (["small", "original"] if on_gpu else ["tiny"])
    args.rows = args.rows or ([128, 512] if args.expect else [128, 512, 2048] if on_gpu else [4, 8])
    args.vocab_size = args.vocab_size or (800_000 if on_gpu else 1_000)
    args.candidates = args.candidates or (8192 if on_gpu else 64)
    args.steps = args.steps or (20 if on_gpu else 2)
    print_estimates(args) if args.expect else measure(args, Ranks())


if __name__ == "__main__":
    script.run(main)
