"""Efficiency against the machine's peak: embedding, training, data loading.

    python benchmarks/bench.py encode --model_size small
    python benchmarks/bench.py train --model_size original
    OMP_NUM_THREADS=1 python benchmarks/bench.py parts
    python benchmarks/bench.py data
    python benchmarks/bench.py latency

`parts` says where the processor time of a training step goes. `data` is the work of the thread that
reads ahead in training: text, unknown words, misprints, shuffling, character ids, candidates.

The peak R is the rate of a 2048 x 2048 float32 product in Paddle, measured before and after every
run. The useful work per token is the LSTM's alone: F = 2 * layers * 2 * (2 * P * 4H + H * P) FLOP;
in training 3 * (F + 2 * 2 * P * candidates). efficiency = real tokens/s * F / R: padding, character
CNN and Python count against us.
"""

import argparse
import math
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import args as arguments
import elmo
import script
from elmo_core.config import PRESETS
from elmo_core.encoding.token_tables import TokenTable
from elmo_core.kernels import cpu_char_cnn, cpu_lstm, fused, precision, row_gradients
from elmo_core.kernels.matmul import chosen_precision, freeze
from elmo_core.machine import runtime
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.network import softmax
from elmo_core.text.corpus import Corpus
from elmo_core.text.lexicon import LMBatch
from elmo_core.text.text_files import read_sentences
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_core.training.optimizer import Adagrad
from elmo_core.training.ranks import Ranks
from elmo_core.weights import checkpoint
from elmo_tools.pretraining import streams
from elmo_tools.pretraining.prefetch import prefetched

SHARED = PROJECT.parent / "shared" / "data"
SAMPLE = PROJECT / "data" / "train"
# Candidates for the text; if none is there, the sample is used.
REVIEWS = (PROJECT / "sentence-polarity-dataset-v1", SHARED / "rt-polarity")
NEWS = (SHARED / "lm1b", PROJECT / "1-billion-word" / "heldout-tokenized-shuffled")
STEPS = 20  # per row and batch: --unroll_steps of run_pretrain.py


def main() -> None:
    parser = arguments.parser(__doc__)
    measurements = {measure.__name__: measure for measure in (encode, train, parts, data, latency)}
    parser.add_argument("what", choices=tuple(measurements))
    parser.add_argument("--model_size", choices=tuple(PRESETS), default="small")
    parser.add_argument("--batch_size", **arguments.COUNT, default=128)
    parser.add_argument(
        "--vocab_size", **arguments.COUNT, default=150_000, help="train, data: vocabulary size"
    )
    parser.add_argument(
        "--candidates",
        **arguments.COUNT,
        default=8192,
        help="train, data: sampled-softmax candidates",
    )
    parser.add_argument(
        "--sentences", **arguments.COUNT, help="encode: number of sentences (default: all)"
    )
    parser.add_argument(
        "--runs", **arguments.COUNT, default=3, help="number of runs; the median is reported"
    )
    parser.add_argument("--steps", **arguments.COUNT, default=10, help="train: steps per run")
    arguments.add(parser, "precision")
    args = parser.parse_args()
    runtime.set_device("cpu")
    paddle.seed(0)
    for name, value in measurements[args.what](args).items():
        text = f"{value:,.4g}" if isinstance(value, float | int) else value
        print(f"{name:32} {text}")


# Measurements


def encode(args: argparse.Namespace) -> dict:
    """`ELMoEmbedder.encode` over real sentences in random order, all layers, random weights."""
    sentences = polarity_sentences()[: args.sentences]
    embedder = random_embedder(args.model_size, args.batch_size, args.precision)
    embedder.encode(sentences[:200])
    n_tokens = sum(len(sentence) for sentence in sentences)
    flop_per_token = lstm_flop(embedder.config)

    def run() -> tuple[int, float]:
        # an empty cache
        embedder.token_table = TokenTable(embedder.bilm.token_encoder, embedder.config, None)
        return n_tokens, seconds_of(embedder.encode, sentences)

    text = {"text": str(first_existing(REVIEWS)), "sentences": len(sentences), "tokens": n_tokens}
    return text | measured(run, args.runs, flop_per_token, embedder.config)


def train(args: argparse.Namespace) -> dict:
    """Whole training steps in the steady state: data, forward, backward, clip and Adagrad."""
    precision.use(chosen_precision(args.precision, "cpu"))
    corpus, vocabulary = training_text(args.vocab_size)
    config = elmo.ELMoConfig.preset(args.model_size, vocab_size=len(vocabulary))
    training_step = TrainingStep(config, args.batch_size)
    random = np.random.default_rng(0)
    clock = Clock()
    flop_per_token = 3 * (lstm_flop(config) + 2 * 2 * config.projection_dim * args.candidates)

    def run(steps: int = args.steps) -> tuple[int, float]:
        clock.seconds.clear()
        began = time.perf_counter()
        clock.last = began
        for _ in range(steps):
            batch = next(batches)
            candidates = softmax.draw_candidates(len(vocabulary), args.candidates, random)
            clock.lap("data")
            training_step(batch, candidates, clock.lap)
        return steps * args.batch_size * STEPS, clock.last - began

    with prefetched(streams.TrainStream(corpus, vocabulary, args.batch_size, STEPS)) as batches:
        run(3)
        result = measured(run, args.runs, flop_per_token, config)
    text = {
        "text": str(first_existing(NEWS)),
        "vocabulary": len(vocabulary),
        "candidates": args.candidates,
    }
    last_run = sum(clock.seconds.values())
    shares = {phase: f"{seconds / last_run:.1%}" for phase, seconds in clock.seconds.items()}
    return text | result | shares


def parts(args: argparse.Namespace) -> dict:
    """Processor time of the parts of training steps, as `train` runs them, on one thread."""
    if runtime.n_threads() > 1:
        raise UserError("the parts are measured on one thread: set OMP_NUM_THREADS=1.")
    corpus, vocabulary = training_text(args.vocab_size)
    config = elmo.ELMoConfig.preset(args.model_size, vocab_size=len(vocabulary))
    training_step = TrainingStep(config, args.batch_size)
    kernel = fused.kernel()
    seconds: Counter[str] = Counter()

    def measure(owner: object, function: str, part: str) -> None:
        """Add the processor time of a function's calls to that of a part."""
        work = getattr(owner, function)

        def measured_work(*arguments, **options):
            began = time.process_time()
            result = work(*arguments, **options)
            seconds[part] += time.process_time() - began
            return result

        setattr(owner, function, measured_work)

    measure(cpu_char_cnn, "amp_matmul", "highway layers, products")
    measure(kernel, "gate_forward", "highway layers, gates")
    measure(kernel, "gate_backward", "highway layers, gates")
    measure(kernel, "cnn_forward", "convolutions, forward")
    measure(kernel, "cnn_backward", "convolutions, backward")
    measure(kernel, "lstmp_forward", "LSTMs, forward")
    measure(kernel, "lstmp_backward", "LSTMs, backward")
    measure(cpu_lstm, "amp_matmul", "LSTMs, gradients of the weights")
    measure(kernel, "softmax_loss", "sampled softmax, both passes")
    measure(row_gradients.paddle, "gather", "gathering rows")
    measure(training_step.optimizer, "step", "clipping and update")

    random = np.random.default_rng(0)
    stream = streams.TrainStream(corpus, vocabulary, args.batch_size, STEPS)
    total = 0.0
    distinct_tokens = []
    for step in range(2 + args.steps):
        batch = next(stream)
        candidates = softmax.draw_candidates(len(vocabulary), args.candidates, random)
        if step == 2:  # the first ones prepare memory
            seconds.clear()
            total = 0.0
        began = time.process_time()
        training_step(batch, candidates)
        total += time.process_time() - began
        distinct_tokens.append(len(batch.tokens.lengths))
    seconds["everything else"] = total - seconds.total()
    shares = {
        part: f"{1000 * spent / args.steps:.0f} ms, {spent / total:.1%}"
        for part, spent in seconds.most_common()
    }
    return {
        "distinct tokens a step": statistics.mean(distinct_tokens[2:]),
        "a step, ms": 1000 * total / args.steps,
        "R, GFLOP/s": matrix_rate() / 1e9,
    } | shares


def data(args: argparse.Namespace) -> dict:
    """Tokens/s that the thread reading ahead prepares, in seconds of its processor time.

    Steps as in training, with candidates, without and with misprints.
    """
    corpus, vocabulary = training_text(args.vocab_size)
    result = {"text": str(first_existing(NEWS)), "vocabulary": len(vocabulary)}
    for kind, noise in (("char", 0.0), ("char", 0.1), ("word", 0.0)):
        stream = streams.TrainStream(
            corpus, vocabulary, args.batch_size, STEPS, input=kind, noise=noise
        )
        rates = [
            prepared_per_second(stream, len(vocabulary), args.candidates) for _ in range(args.runs)
        ]
        result[f"{kind} input, noise {noise}, tokens/s"] = statistics.median(rates)
    result["peak memory, MB"] = peak_memory() / 2**20
    return result


def prepared_per_second(
    stream: streams.TrainStream, vocab_size: int, candidates: int, n_tokens: int = 2_000_000
) -> float:
    """The rate of preparing about n_tokens."""
    n_steps = math.ceil(n_tokens / stream.tokens_per_step)
    began = time.thread_time()
    for step in range(n_steps):
        next(stream)
        softmax.draw_candidates(vocab_size, candidates, np.random.default_rng(step))
    return n_steps * stream.tokens_per_step / (time.thread_time() - began)


def latency(args: argparse.Namespace) -> dict:
    """One sentence of 20 tokens, and loading a checkpoint."""
    embedder = random_embedder(args.model_size, args.batch_size, args.precision)
    sentences = [sentence for sentence in polarity_sentences() if len(sentence) == 20]
    times = [seconds_of(embedder.encode, [sentence]) for sentence in sentences[:100]]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model")
        checkpoint.save_model(model, embedder.config, embedder.bilm.state_dict(), None)
        load = seconds_of(elmo.ELMoEmbedder, model)
    return {"one sentence, ms": 1000 * statistics.median(times[10:]), "load, s": load}


# Shared with the other benchmarks


class TrainingStep:
    """Training steps of a random model.

    Forward, backward, exchange of gradients, clipping and update.
    """

    def __init__(self, config: elmo.ELMoConfig, rows: int, ranks: Ranks | None = None):
        self.bilm = elmo.BiLM(config)
        self.ranks = ranks
        self.optimizer = Adagrad(self.bilm.named_parameters(), 0.2, max_grad_norm=10.0)
        self.state = self.bilm.zero_state(rows)

    def __call__(
        self, batch: LMBatch, candidates, on_phase: Callable[[str], None] = lambda phase: None
    ) -> None:
        """Run a step. on_phase: called at the end of each phase, with its name."""
        losses, self.state = self.bilm(batch, self.state, candidates, dropout=0.1)
        on_phase("forward")
        (sum(losses) / 2 * STEPS).backward()
        on_phase("backward")
        if self.ranks:
            self.ranks.average_gradients(self.bilm.parameters())
        on_phase("exchange")
        self.optimizer.step()
        self.optimizer.clear_grad()
        on_phase("update")


def same_step(config: elmo.ELMoConfig, corpus, vocabulary: Vocabulary, candidates: int) -> Callable:
    """A function that repeats a training step with the same batch of 64 rows.

    It has already been called once.
    """
    training_step = TrainingStep(config, 64)
    batch = next(streams.TrainStream(corpus, vocabulary, 64, STEPS))
    drawn = softmax.draw_candidates(len(vocabulary), candidates, np.random.default_rng(0))
    training_step(batch, drawn)
    return lambda: training_step(batch, drawn)


def count_operators(work: Callable[[], object]) -> dict[str, int]:
    """Count the operators that Paddle runs, forward and backward, and the kernels it launches."""
    profiler = paddle.profiler.Profiler(
        targets=[paddle.profiler.ProfilerTarget.CPU], on_trace_ready=lambda _: None
    )
    profiler.start()
    work()
    profiler.stop()
    nodes = list(profiler.profiler_result.get_data().values())
    kinds = Counter()
    while nodes:
        node = nodes.pop()
        # as Paddle 3 and 2.6 call it
        is_kernel = node.name.endswith((" kernel launch", " compute"))
        kinds["Kernel" if is_kernel else str(node.type).rpartition(".")[2]] += 1
        nodes.extend(node.children_node)
    return {"operators": kinds["Operator"], "launches": kinds["Kernel"]}


class Clock:
    """Seconds spent in the parts of a run."""

    def __init__(self):
        self.seconds: dict[str, float] = defaultdict(float)
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Add the time since the last lap to a part."""
        now = time.perf_counter()
        self.seconds[name] += now - self.last
        self.last = now


def measured(run, runs: int, flop_per_token: float, config: elmo.ELMoConfig) -> dict:
    """Rates of several runs, each between two measurements of R: those of the median run."""
    results = []
    before = matrix_rate()
    for _ in range(runs):
        n_tokens, seconds = run()
        after = matrix_rate()
        peak = (before + after) / 2
        speed = n_tokens / seconds
        results.append((speed * flop_per_token / peak, speed, peak))
        before = after
    efficiency, speed, peak = sorted(results)[len(results) // 2]
    return {
        "model": f"P {config.projection_dim}, H {config.cell_dim}, {config.n_layers} layers",
        "R, GFLOP/s": peak / 1e9,
        "tokens/s": speed,
        "efficiency": efficiency,
        "efficiencies": " ".join(f"{efficiency:.3f}" for efficiency, _, _ in results),
        "peak memory, MB": peak_memory() / 2**20,
    }


def matrix_rate() -> float:
    """FLOP/s of a square product, median of seven."""
    a = paddle.randn([2048, 2048])
    times = [seconds_of(paddle.matmul, a, a) for _ in range(8)]
    return 2 * 2048**3 / statistics.median(times[1:])


def seconds_of(work: Callable, *arguments, clock: Callable[[], float] = time.perf_counter) -> float:
    began = clock()
    work(*arguments)
    return clock() - began


def lstm_flop(config: elmo.ELMoConfig) -> float:
    P = config.projection_dim
    H = config.cell_dim
    return 2 * config.n_layers * 2 * (2 * P * 4 * H + H * P)


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def random_embedder(
    model_size: str, batch_size: int, precision: str = "float32"
) -> elmo.ELMoEmbedder:
    bilm = elmo.BiLM(elmo.ELMoConfig.preset(model_size), softmax=False)
    freeze(bilm.parameters())  # as those of a checkpoint
    return elmo.ELMoEmbedder((bilm, None), batch_size=batch_size, device="cpu", precision=precision)


def first_existing(folders: Sequence[Path]) -> Path:
    """The first existing folder, or the sample."""
    for folder in folders:
        if folder.is_dir():
            return folder
    return SAMPLE


def polarity_sentences() -> list[list[str]]:
    """The sentences of rt-polarity, or of the sample if that is missing, in random order."""
    sentences: list[list[str]] = []
    files = sorted(first_existing(REVIEWS).glob("rt-polarity.*"))
    for path in files:
        lines = path.read_text(encoding="latin-1").split("\n")
        sentences.extend(line.split() for line in lines)
    if not files:
        for path in sorted(SAMPLE.iterdir()):
            sentences.extend(read_sentences(path))
    sentences = [sentence for sentence in sentences if sentence]
    order = np.random.RandomState(0).permutation(len(sentences))
    return [sentences[k] for k in order]


def training_text(vocab_size: int) -> tuple[Corpus, Vocabulary]:
    """The 1 Billion Word sample, or ours, and a vocabulary of its words, filled up to this size."""
    n_words = vocab_size - len(SPECIAL_TOKENS)
    corpus = Corpus(first_existing(NEWS))
    counts: Counter[str] = Counter()
    for path in corpus.paths:
        for sentence in read_sentences(path):
            counts.update(sentence)
    words = sorted(counts, key=lambda word: (-counts[word], word))[:n_words]
    filler = [f"word-{k}" for k in range(n_words - len(words))]
    return corpus, Vocabulary(SPECIAL_TOKENS + words + filler)


if __name__ == "__main__":
    script.run(main)
