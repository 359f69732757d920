"""How near the machine's limit the work comes: embedding, training, reading.

    python benchmarks/bench.py encode --model_size small
    python benchmarks/bench.py train --model_size original
    python benchmarks/bench.py data
    python benchmarks/bench.py operators      (of a training step of `small`, 64 x 20, without the compiled loops)

The limit is R, the rate of a 2048 x 2048 float32 product in Paddle, measured around every run. The useful work of a token
is counted once, from the LSTM alone: F = 2 * layers * 2 * (2 * P * 4H + H * P) FLOP; training counts
3 * (F + 2 * 2 * P * candidates). efficiency = real tokens/s * F / R: padding, character CNN and Python count against us.
"""

import argparse
import contextlib
import copy
import ctypes
import json
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import bench_data

import args as arguments
import dataset
import elmo
import script
from elmo_core.config import PRESETS
from elmo_core.machine import messages, runtime
from elmo_core.machine.runtime import paddle
from elmo_core.network import fused, lstmp, softmax
from elmo_core.network.char_cnn import CharCNN
from elmo_core.network.token_tables import token_table
from elmo_core.text.corpus import Corpus
from elmo_core.text.text_files import read_sentences
from elmo_core.text.tokens import MARKERS, Vocabulary
from pretraining.adagrad import Adagrad
from pretraining.prefetch import Prefetcher

SHARED = PROJECT.parent / "shared" / "data"
SAMPLE = PROJECT / "data" / "train"
REVIEWS = (PROJECT / "sentence-polarity-dataset-v1", SHARED / "rt-polarity")  # where they may be, or else the sample
NEWS = (SHARED / "lm1b", PROJECT / "1-billion-word" / "heldout-tokenized-shuffled")


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("what", choices=("encode", "train", "data", "latency", "operators"))
    parser.add_argument("--model_size", choices=tuple(PRESETS), default="small")
    parser.add_argument("--batch_size", type=arguments.positive_int, default=128)
    parser.add_argument("--vocab_size", type=arguments.positive_int, default=150_000, help="train: words to predict")
    parser.add_argument("--candidates", type=arguments.positive_int, default=8192, help="train: of the sampled softmax")
    parser.add_argument("--sentences", type=arguments.positive_int, help="encode: only so many, in place of all")
    parser.add_argument("--runs", type=arguments.positive_int, default=3, help="the median of so many is reported")
    parser.add_argument("--steps", type=arguments.positive_int, default=10, help="train: steps of a run")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    runtime.set_device("cpu")
    script.seed_everything(0)
    functions = {"encode": encode, "train": train, "data": data, "latency": latency, "operators": operators}
    result = functions[args.what](args)
    if args.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        shown = ", ".join(f"{key} {part:.1%}" for key, part in value.items()) if isinstance(value, dict) else value
        print(f"{name:22} {shown:,.4g}" if isinstance(shown, float | int) else f"{name:22} {shown}")


# What is measured


def encode(args: argparse.Namespace) -> dict:
    """`ELMoEmbedder.encode` over real sentences in random order, all layers, random weights."""
    sentences = polarity_sentences()[: args.sentences]
    embedder = embedder_of(args.model_size, args.batch_size)
    embedder.encode(sentences[:200])
    tokens = sum(map(len, sentences))
    work = lstm_flop(embedder.config)

    def run(clock: "Clock") -> tuple[int, float]:
        embedder.vectors = token_table(
            embedder.bilm.token_encoder, embedder.config, None
        )  # nothing remembered from the last run
        with (
            clock.watching(CharCNN, "forward", "token encoder"),
            clock.watching(elmo, "run_layer", "LSTM"),
            clock.watching_products(),
        ):
            began = time.perf_counter()
            embedder.encode(sentences)
            return tokens, time.perf_counter() - began

    where = {"text": str(first_there(REVIEWS)), "sentences": len(sentences), "tokens": tokens}
    return {**where, **measured(run, args.runs, work, embedder.config)}


def train(args: argparse.Namespace) -> dict:
    """Whole training steps in the steady state: data, forward, backward, clip and Adagrad."""
    corpus, vocabulary = training_text(args.vocab_size)
    config = elmo.ELMoConfig.preset(args.model_size, vocab_size=len(vocabulary))
    bilm = elmo.BiLM(config)
    optimizer = Adagrad(0.2, bilm.parameters(), max_grad_norm=10.0)
    batches = Prefetcher(dataset.TrainStream(corpus, vocabulary, args.batch_size, 20))
    random = np.random.default_rng(0)
    state = bilm.zero_state(args.batch_size)

    def step(clock: "Clock") -> None:
        nonlocal state
        with clock.part("data"):
            batch = next(batches)
            candidates = softmax.draw_candidates(len(vocabulary), args.candidates, random)
        losses, state = bilm(batch, state, candidates, dropout=0.1)
        with clock.part("backward"):
            (sum(losses) / 2 * 20).backward()
        with clock.part("optimizer"):
            optimizer.step()
            optimizer.clear_grad()

    for _ in range(3):
        step(Clock())
    work = 3 * (lstm_flop(config) + 2 * 2 * config.projection_dim * args.candidates)

    def run(clock: "Clock") -> tuple[int, float]:
        with (
            clock.watching(CharCNN, "forward", "token encoder"),
            clock.watching(elmo, "run_layer", "LSTM"),
            clock.watching(lstmp._LayerFunction, "backward", "LSTM backward"),
            clock.watching(softmax.Softmax, "losses", "softmax"),
            clock.watching(softmax._SampledLoss, "backward", "softmax backward"),
            clock.watching_products(),
        ):
            began = time.perf_counter()
            for _ in range(args.steps):
                step(clock)
            seconds = time.perf_counter() - began
        # what of the backward pass is neither of the two is the token encoder's
        clock.seconds["token encoder"] += clock.seconds.pop("backward") - clock.seconds["LSTM backward"]
        clock.seconds["token encoder"] -= clock.seconds["softmax backward"]
        clock.seconds["LSTM"] += clock.seconds.pop("LSTM backward")
        clock.seconds["softmax"] += clock.seconds.pop("softmax backward")
        return args.steps * args.batch_size * 20, seconds

    result = measured(run, args.runs, work, config)
    batches.close()
    where = {"text": str(first_there(NEWS)), "vocabulary": len(vocabulary), "candidates": args.candidates}
    return {**where, **result}


def data(args: argparse.Namespace) -> dict:
    """Tokens/s out of the training stream, one thread."""
    corpus, vocabulary = training_text(args.vocab_size)
    rates = bench_data.measure(corpus, vocabulary, args.batch_size, 20, "char", args.runs, 3.0)
    return {"text": str(first_there(NEWS)), "tokens/s": statistics.median(rates)}


def latency(args: argparse.Namespace) -> dict:
    """One sentence of 20 tokens, and loading a checkpoint."""
    import tempfile

    from elmo_core.files import checkpoint

    embedder = embedder_of(args.model_size, args.batch_size)
    sentences = [sentence for sentence in polarity_sentences() if len(sentence) == 20]
    times = []
    for sentence in sentences[:100]:
        began = time.perf_counter()
        embedder.encode([sentence])
        times.append(time.perf_counter() - began)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save_config(folder, {"model": embedder.config.to_dict()})
        weights = {name: weight.numpy() for name, weight in embedder.bilm.state_dict().items()}
        checkpoint.save(Path(folder) / "1", weights)
        began = time.perf_counter()
        elmo.ELMoEmbedder(folder)
        load = time.perf_counter() - began
    return {"one sentence, ms": 1000 * statistics.median(times[10:]), "load, s": load}


def operators(args: argparse.Namespace) -> dict:
    """How many operators Paddle runs for a training step, each a launch or two on a GPU, and what they take by themselves.

    The time is that of a model so small that there is almost no arithmetic: the least of many steps, on one thread of a
    machine that does nothing else.
    """
    fused.kernel = lambda: None
    corpus, vocabulary = training_text(args.vocab_size)
    config = elmo.ELMoConfig.preset("small", vocab_size=len(vocabulary))
    step = training_step(config, corpus, vocabulary, args.candidates)
    step()
    counts = count_operators(step)
    least = {"projection_dim": 8, "cell_dim": 16, "character_dim": 4, "filters": [(width, 2) for width in range(1, 8)]}
    step = training_step(replace(config, **least), corpus, vocabulary, candidates=64)
    times = []
    for _ in range(20 * args.runs):
        began = time.perf_counter()
        step()
        times.append(1000 * (time.perf_counter() - began))
    return {**counts, "at P 8, H 16, ms": min(times), "their median, ms": statistics.median(times)}


def training_step(config: elmo.ELMoConfig, corpus, vocabulary: Vocabulary, candidates: int, rows: int = 64):
    """A function that makes the same step of training again and again: forward, backward, clip and Adagrad."""
    bilm = elmo.BiLM(config)
    optimizer = Adagrad(0.2, bilm.parameters(), max_grad_norm=10.0)
    batch = next(iter(dataset.TrainStream(corpus, vocabulary, rows, 20)))
    drawn = softmax.draw_candidates(len(vocabulary), candidates, np.random.default_rng(0))
    state = bilm.zero_state(rows)

    def step() -> None:
        losses, _ = bilm(batch, state, drawn, dropout=0.1)
        (sum(losses) / 2 * 20).backward()
        optimizer.step()
        optimizer.clear_grad()

    return step


def count_operators(work: Callable[[], object]) -> dict[str, int]:
    """Operators that Paddle runs for the work, forward and backward, and the kernels that it starts for them."""
    profiler = paddle.profiler.Profiler(targets=[paddle.profiler.ProfilerTarget.CPU], on_trace_ready=lambda _: None)
    profiler.start()
    work()
    profiler.stop()
    nodes, kinds = list(profiler.profiler_result.get_data().values()), Counter()
    while nodes:
        node = nodes.pop()
        is_kernel = node.name.endswith((" kernel launch", " compute"))  # as Paddle 3 and 2.6 call it
        kinds["Kernel" if is_kernel else str(node.type).rpartition(".")[2]] += 1
        nodes.extend(node.children_node)
    return {"operators": kinds["Operator"], "launches": kinds["Kernel"]}


# What they share


class Clock:
    """Seconds that the parts of a run took."""

    def __init__(self):
        self.seconds: dict[str, float] = defaultdict(float)
        self.products: list[float] = []  # seconds of each product of the LSTM, in whichever thread

    @contextlib.contextmanager
    def part(self, name: str):
        began = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - began

    @contextlib.contextmanager
    def watching(self, owner, attribute: str, name: str):
        """Time every call of an attribute of a module or class while inside."""
        original = getattr(owner, attribute)

        def timed(*arguments, **options):
            with self.part(name):
                return original(*arguments, **options)

        setattr(owner, attribute, staticmethod(timed) if _is_static(owner, attribute) else timed)
        yield
        setattr(owner, attribute, staticmethod(original) if _is_static(owner, attribute) else original)

    @contextlib.contextmanager
    def watching_products(self):
        """Time the LSTM's products: those that lstmp.py asks for, and those inside the compiled loops."""

        def timed(function):
            def call(*arguments, **options):
                began = time.perf_counter()
                result = function(*arguments, **options)
                self.products.append(time.perf_counter() - began)
                return result

            return call

        product, kernel = lstmp.product, fused.kernel()
        lstmp.product = timed(product)
        with contextlib.ExitStack() as loops:
            if kernel is not None:
                functions = [kind(timed(kind(kernel.products[k]))) for k, kind in MKL_FUNCTIONS.items()]
                addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
                changed = dict(zip(MKL_FUNCTIONS, addresses, strict=True))
                watched = copy.copy(kernel)  # for the LSTM's loops alone: others multiply by the same functions
                watched.products = type(kernel.products)(*(changed.get(k, p) for k, p in enumerate(kernel.products)))
                for name in ("lstmp_forward", "lstmp_backward"):
                    setattr(kernel, name, getattr(watched, name))
                    loops.callback(delattr, kernel, name)
            yield
        lstmp.product = product

    def split_lstm(self) -> None:
        """The LSTM's time in products and in everything else; the two directions' threads run side by side."""
        threads = 2 if runtime.n_cores() > 1 else 1
        products = min(self.seconds["LSTM"], sum(self.products) / threads)
        self.seconds["LSTM products"] = products
        self.seconds["LSTM elementwise"] = self.seconds.pop("LSTM") - products


_int, _pointer, _float = ctypes.c_int, ctypes.c_void_p, ctypes.c_float
MKL_FUNCTIONS = {  # by their place in a Kernel's table: sgemm, sgemm_pack, sgemm_compute
    0: ctypes.CFUNCTYPE(None, *[_int] * 6, _float, _pointer, _int, _pointer, _int, _float, _pointer, _int),
    2: ctypes.CFUNCTYPE(None, *[_int] * 6, _float, _pointer, _int, _pointer),
    3: ctypes.CFUNCTYPE(None, *[_int] * 6, _pointer, _int, _pointer, _int, _float, _pointer, _int),
}


def _is_static(owner, attribute: str) -> bool:
    return isinstance(owner, type) and isinstance(owner.__dict__.get(attribute), staticmethod)


def measured(run, runs: int, work: float, config: elmo.ELMoConfig) -> dict:
    """Rates of several runs, each between two measurements of R, and where the time of the median run went."""
    results = []
    rate = matrix_rate()
    for _ in range(runs):
        clock = Clock()
        tokens, seconds = run(clock)
        clock.split_lstm()
        before, rate = rate, matrix_rate()
        limit = (before + rate) / 2
        results.append((tokens / seconds * work / limit, tokens / seconds, limit, seconds, clock.seconds))
    efficiency, speed, limit, seconds, parts = sorted(results, key=lambda result: result[0])[len(results) // 2]
    shares = {name: part / seconds for name, part in parts.items()}
    shares["rest"] = 1 - sum(shares.values())
    return {
        "model": f"P {config.projection_dim}, H {config.cell_dim}, {config.n_layers} layers",
        "R, GFLOP/s": limit / 1e9,
        "tokens/s": speed,
        "efficiency": efficiency,
        "efficiencies": " ".join(f"{result[0]:.3f}" for result in results),
        "peak memory, MB": peak_memory() / 2**20,
        "time": shares,
    }


def matrix_rate(size: int = 2048) -> float:
    """FLOP/s of a square product, the median of seven."""
    a = paddle.randn([size, size])
    times = []
    for _ in range(8):
        began = time.perf_counter()
        paddle.matmul(a, a)
        times.append(time.perf_counter() - began)
    return 2 * size**3 / statistics.median(times[1:])


def lstm_flop(config: elmo.ELMoConfig) -> float:
    p, h = config.projection_dim, config.cell_dim
    return 2 * config.n_layers * 2 * (2 * p * 4 * h + h * p)


def peak_memory() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def embedder_of(model_size: str, batch_size: int) -> elmo.ELMoEmbedder:
    """An embedder of random weights."""
    bilm = elmo.BiLM(elmo.ELMoConfig.preset(model_size))
    return elmo.ELMoEmbedder((bilm, None), batch_size=batch_size, device="cpu")


def first_there(folders: Sequence[Path]) -> Path:
    """The first of the folders that there is, or the sample."""
    return next((folder for folder in folders if folder.is_dir()), SAMPLE)


def polarity_sentences() -> list[list[str]]:
    """rt-polarity's sentences in random order, or the sample's where it is absent."""
    files = sorted(first_there(REVIEWS).glob("rt-polarity.*"))
    if files:
        lines = [line.split() for path in files for line in path.read_text(encoding="latin-1").split("\n")]
    else:
        lines = [sentence for path in sorted(SAMPLE.iterdir()) for sentence in read_sentences(path)]
    lines = [line for line in lines if line]
    return [lines[k] for k in np.random.RandomState(0).permutation(len(lines))]


def training_text(vocab_size: int) -> tuple[Corpus, Vocabulary]:
    """The 1 Billion Word sample, or ours, and a vocabulary of its words, filled up to the wished size."""
    n_words = vocab_size - len(MARKERS)
    if n_words < 1:
        raise messages.UserError(f"--vocab_size {vocab_size}: expected {len(MARKERS) + 1} or more, markers included.")
    corpus = Corpus(first_there(NEWS))
    counts: dict[str, int] = defaultdict(int)
    for path in corpus.paths:
        for sentence in read_sentences(path):
            for token in sentence:
                counts[token] += 1
    words = sorted(counts, key=lambda word: (-counts[word], word))[:n_words]
    filler = [f"word-{k}" for k in range(n_words - len(words))]
    return corpus, Vocabulary([*MARKERS, *words, *filler])


if __name__ == "__main__":
    script.run(main)
