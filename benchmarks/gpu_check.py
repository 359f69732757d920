"""Does everything work on this GPU, and how fast?

    python benchmarks/gpu.py --check

It takes under three minutes and 4 GB, with the bundled sample. A line per check: PASS, FAIL or, if
it needs what this machine lacks, a dash; what was found; after a FAIL, what to do about it. All of
it is written to gpu-check.json. On a CPU it runs with what a CPU can check.
"""

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import numpy as np
from bench import PROJECT, STEPS, TrainingStep, training_text

import elmo
from elmo_core.config import ELMoConfig
from elmo_core.files import disk
from elmo_core.kernels import fused, gpu_lstm, matmul, nvrtc, precision
from elmo_core.kernels.row_gradients import row_gradient
from elmo_core.machine import paddle_compat, runtime
from elmo_core.machine.runtime import paddle
from elmo_core.network import softmax
from elmo_core.network.lstmp import equations
from elmo_core.text.lexicon import LMBatch
from elmo_core.training.ranks import Ranks
from elmo_tools.pretraining import streams

# Of the gradients' differences, as a share of their norms.
LIMITS = {"float32": 1e-4, "tf32": 1e-2, "bfloat16": 5e-2}
TREE = """\
1	Anna	_	PROPN	_	_	2	nsubj	_	_
2	lives	_	VERB	_	_	0	root	_	_

"""  # in CoNLL-U
QUEUED_SECONDS = 0.3  # of products, before a step whose host time is measured
SEND = "please send this line"
FULL_FLOAT32 = "NVIDIA_TF32_OVERRIDE=0 in the environment gives full float32"
OPERATORS = "ELMO_FUSED=0 in the environment runs Paddle's operators instead"


class Needs(Exception):
    """The check needs something that this machine lacks."""


class Failure(Exception):
    """A finding, with what to do about it."""

    def __init__(self, found: str, advice: str):
        super().__init__(found)
        self.advice = advice


def run(args: argparse.Namespace, measure: Callable) -> int:
    """Run all checks and return the exit code.

    measure: a configuration, to the columns of the table of gpu.py.
    """
    device = paddle.get_device()
    ranks = Ranks()
    speeds: list[dict] = []
    checks: dict[str, Callable[[], str]] = {
        "environment": lambda: environment(device),
        "placement": lambda: placement(device),
        "agreement": lambda: agreement(device),
        "kernels": lambda: kernels(device),
        "no waits": lambda: no_waits(device),
        "tasks": lambda: tasks(device),
        "resume": lambda: resume(device),
        "embed": lambda: embed(device),
        "exchange": lambda: exchange(ranks),
        "speed": lambda: speed(args, ranks, measure, speeds),
    }
    report = {}
    for name, check in checks.items():
        began = time.perf_counter()
        result, found, advice = outcome(check)
        seconds = round(time.perf_counter() - began, 1)
        report[name] = {"result": result, "found": found, "seconds": seconds}
        if ranks.is_main:
            print(f"{name:12} {result:4} {found}", flush=True)
            if advice:
                print(f"{'':17} {advice}", flush=True)
    if ranks.is_main:
        disk.write_json(Path("gpu-check.json"), {"checks": report, "speeds": speeds}, indent=1)
        print("wrote gpu-check.json. Please send it: CONTRIBUTING.md says where.")
    has_failed = any(check["result"] == "FAIL" for check in report.values())
    return int(has_failed)


def outcome(check: Callable[[], str]) -> tuple[str, str, str]:
    """Run a check: its result, what was found, and what to do about it."""
    try:
        return "PASS", check(), ""
    except Needs as missing:
        return "-", f"needs {missing}", ""
    except Failure as failure:
        return "FAIL", str(failure), failure.advice
    except Exception as error:  # each check must let the next one run
        return "FAIL", f"{type(error).__name__}: {str(error).strip()[-300:]}", SEND


def environment(device: str) -> str:
    if device == "cpu":
        return f"Paddle {paddle.__version__}, CPU, {runtime.n_threads()} threads"
    major, minor = paddle_compat.capability(paddle, device)
    memory = paddle.device.cuda.get_device_properties().total_memory / 2**30
    found = (
        f"Paddle {paddle.__version__}, CUDA {paddle.version.cuda()}, "
        f"cuDNN {paddle.version.cudnn()}, {paddle.device.cuda.get_device_name()}, "
        f"sm_{major}{minor}, {memory:.0f} GB"
    )
    try:
        nvrtc.library()
    except OSError as error:
        raise Failure(found, str(error)) from error
    return f"{found}, NVRTC found"


def placement(device: str) -> str:
    step, batch, candidates = small_step()
    step(batch, candidates)
    place = "cpu" if device == "cpu" else "gpu"
    tensors = step.bilm.parameters() + list(step.optimizer.state_dict().values())
    elsewhere = [x.name for x in tensors if place not in str(x.place).lower()]
    if elsewhere:
        raise Failure(f"not on {device}: {', '.join(elsewhere)[:200]}", SEND)
    return f"{len(tensors)} weights and moments on {device}"


def agreement(device: str) -> str:
    """Loss and gradients on this device, against Paddle's operators on the CPU in float32."""
    config, batch, candidates = small_inputs()
    weights = {name: weight.numpy() for name, weight in elmo.BiLM(config).named_parameters()}

    def gradients(where: str, kind: str) -> list[np.ndarray]:
        with runtime.on_device(where), only_precision(kind, where):
            bilm = elmo.BiLM(config)
            for name, weight in bilm.named_parameters():
                weight.set_value(weights[name])
            losses, _ = bilm(batch, bilm.zero_state(ROWS), candidates)
            (sum(losses) / 2 * STEPS).backward()
            values = list(losses)
            for weight in bilm.parameters():
                rows = row_gradient(weight)
                values.append(weight.grad if rows is None else rows.values)
            return [value.numpy() for value in values]

    with mock.patch.object(fused, "kernel", lambda: None):
        expected = gradients("cpu", "float32")
    found = []
    for kind, limit in LIMITS.items():
        if kind != "float32" and matmul.bfloat16_problem(device):
            continue
        differences = [
            float(np.linalg.norm(value - exact) / np.linalg.norm(exact))
            for value, exact in zip(gradients(device, kind), expected, strict=True)
        ]
        largest = max(differences)
        found.append(f"{kind} {largest:.0e} (limit {limit:.0e})")
        if not largest < limit:
            raise Failure(", ".join(found), OPERATORS if kind == "float32" else FULL_FLOAT32)
    return f"loss and {len(expected) - 2} gradients: {', '.join(found)}"


def kernels(device: str) -> str:
    if device == "cpu":
        try:
            source = gpu_lstm.SOURCE.read_bytes()
            programs = [nvrtc.compile(source, f"sm_{arch}") for arch in (75, 80, 86, 89)]
        except OSError as error:
            raise Needs(f"a GPU. {error}") from error
        size = sum(len(program) for program in programs)
        return f"compiled for four architectures, {size:,} bytes; nothing to run them on"
    launch = gpu_lstm.kernels(device, equations)
    if launch is None:
        raise Failure("not used, see the message above", "training works without them, more slowly")
    largest = gpu_lstm.difference(launch, equations)
    return f"against Paddle's operators {largest:.0e}; clips active, ragged rows"


def no_waits(device: str) -> str:
    """The host must be through with a step while the GPU still computes what was queued before."""
    if device == "cpu":
        raise Needs("a GPU")
    step, batch, candidates = small_step()
    x = paddle.randn([4096, 4096])
    for _ in range(2):
        step(batch, candidates)
        x.matmul(x)
    paddle.device.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(10):
        x.matmul(x)
    paddle.device.cuda.synchronize()
    repeats = int(10 * QUEUED_SECONDS / (time.perf_counter() - began)) + 1
    for _ in range(repeats):
        x.matmul(x)
    began = time.perf_counter()
    step(batch, candidates)
    host = time.perf_counter() - began
    paddle.device.cuda.synchronize()
    limit = QUEUED_SECONDS / 2
    found = (
        f"queued {1e3 * QUEUED_SECONDS:.0f} ms of products: "
        f"the host was through with a step after {1e3 * host:.0f} ms"
    )
    if host > limit:
        raise Failure(f"{found} (limit {1e3 * limit:.0f})", f"training works; {SEND}")
    return found


def tasks(device: str) -> str:
    """An epoch of each task, by its script."""
    lac = PROJECT / "data/lac/dev.txt"
    reading = PROJECT / "data/reading/dev.json"
    found = []
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder, "texts.tsv")
        texts.write_text(labelled_reviews(40), encoding="utf-8")
        treebank = Path(folder, "treebank.conllu")
        treebank.write_text(TREE * 40, encoding="utf-8")
        flags_of = {
            "run_tag.py": [
                f"--train_file={lac}",
                f"--dev_file={lac}",
                "--scheme=lac",
                "--init_from_ckpt=zh",
            ],
            "run_finetune.py": [
                f"--train_file={texts}",
                "--head=lstm",
                "--init_from_ckpt=en",
            ],
            "run_read.py": [
                f"--train_file={reading}",
                f"--dev_file={reading}",
                "--lang=zh",
                "--init_from_ckpt=zh",
            ],
            "run_parse.py": [f"--train_file={treebank}", "--init_from_ckpt=en"],
        }
        for script, flags in flags_of.items():
            began = time.perf_counter()
            where = [f"--device={device}", f"--save_dir={folder}/{Path(script).stem}"]
            command = [script, "train", *flags, "--epochs=1", *where]
            start(command, f"python {script} train ... --device=cpu")
            found.append(f"{script} {time.perf_counter() - began:.0f} s")
    return ", ".join(found)


def labelled_reviews(n: int) -> str:
    """A table of n reviews of each label of the sample."""
    rows = ["text\tlabel"]
    for label in ("pos", "neg"):
        path = PROJECT / f"data/polarity/rt-polarity.{label}"
        for text in path.read_text("latin-1").splitlines()[:n]:
            rows.append(f"{text.strip()}\t{label}")
    return "\n".join(rows)


def resume(device: str) -> str:
    """Five steps, then five more in a new process, against ten."""
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "whole")
        half = Path(folder, "half")
        command = [
            "run_pretrain.py",
            f"--train_data_path={PROJECT}/data/train/*",
            f"--vocab_file={PROJECT}/data/vocabulary.txt",
            "--model_size=tiny",
            "--batch_size=16",
            "--max_steps=10",
            "--save_freq=5",
            f"--device={device}",
        ]
        start([*command, f"--save_dir={whole}"], SEND)
        start([*command, f"--init_from_ckpt={whole}/5", f"--save_dir={half}"], SEND)
        expected = elmo.load_bilm(whole, softmax=True)[0].state_dict()
        found = elmo.load_bilm(half, softmax=True)[0].state_dict()
    differences = []
    for name, value in expected.items():
        exact = value.numpy()
        differences.append(np.abs(found[name].numpy() - exact).max() / np.abs(exact).max())
    largest = float(max(differences))
    text = f"5 + 5 steps differ from 10 by {largest:.0e}"
    if not largest < 1e-3:
        raise Failure(text, SEND)
    if device == "cpu":
        return text
    return f"{text} (sums in any order: not bit for bit)"


def embed(device: str) -> str:
    """Vectors on this device in batches of two sizes, against those of the CPU."""
    sentences = [["the", "breakfast", "was", "good", "."], ["good"], ["a", "quiet", "room"]]

    def vectors(where: str, batch_size: int) -> np.ndarray:
        embedder = elmo.ELMoEmbedder("en", batch_size=batch_size, device=where)
        return np.concatenate([array.reshape(-1) for array in embedder.encode(sentences)])

    expected = vectors("cpu", 2)
    scale = np.abs(expected).max()
    differences = [np.abs(vectors(device, size) - expected).max() for size in (2, 1)]
    largest = float(max(differences))
    if not largest < 1e-2 * scale:
        raise Failure(
            f"vectors differ from the CPU's by {largest:.0e}", f"{FULL_FLOAT32}; {OPERATORS}"
        )
    return f"vectors against the CPU's {largest:.0e} of {scale:.1f}; two batch sizes"


def exchange(ranks: Ranks) -> str:
    if ranks.size == 1:
        raise Needs(
            "several processes: python -m paddle.distributed.launch --gpus '0,1' "
            "benchmarks/gpu.py --check"
        )
    step, batch, candidates = small_step(ranks)
    step(batch, candidates)
    sums = ranks.gather([float(weight.sum()) for weight in step.bilm.parameters()])
    if any(other != sums[0] for other in sums):
        raise Failure("the ranks' weights differ after a step", SEND)
    return f"{ranks.size} ranks have the same weights after a step"


def speed(args: argparse.Namespace, ranks: Ranks, measure: Callable, speeds: list[dict]) -> str:
    """A step of each size in each precision, and what limits it."""
    corpus, vocabulary = training_text(args.vocab_size)
    device = paddle.get_device()
    for size, kind in itertools.product(args.model_size, LIMITS):
        if kind != "float32" and matmul.bfloat16_problem(device):
            continue
        config = ELMoConfig.preset(size, vocab_size=len(vocabulary))
        with only_precision(kind, device):
            row = measure(args, ranks, config, corpus, vocabulary, args.rows[0])
        limit = "the host" if row["host ms"] > 0.9 * row["ms"] else "the GPU"
        speeds.append({"model": size, "products": kind, "limit": limit, **row})
        print(
            f"{'':17} {size}, {kind}: {row['ms']:.1f} ms, host {row['host ms']:.1f} ms, "
            f"{row['tokens/s']:,.0f} tokens/s, {row['TFLOP/s']:.3g} TFLOP/s, "
            f"{row['MB']:,.0f} MB; limit: {limit}"
        )
    return f"{len(speeds)} kinds of steps, above"


# Shared by the checks

ROWS = 16


def small_inputs() -> tuple[ELMoConfig, LMBatch, softmax.Candidates]:
    """The configuration of a tiny model, and a batch and candidates for it."""
    corpus, vocabulary = training_text(1000)
    batch = next(streams.TrainStream(corpus, vocabulary, ROWS, STEPS))
    candidates = softmax.draw_candidates(len(vocabulary), 64, np.random.default_rng(0))
    return ELMoConfig.preset("tiny", vocab_size=len(vocabulary)), batch, candidates


def small_step(
    ranks: Ranks | None = None,
) -> tuple[TrainingStep, LMBatch, softmax.Candidates]:
    """A step of a tiny model, and what it is called with."""
    config, batch, candidates = small_inputs()
    paddle.seed(0)
    return TrainingStep(config, ROWS, ranks=ranks), batch, candidates


def only_precision(kind: str, device: str) -> AbstractContextManager:
    """Compute products in one of LIMITS' kinds."""
    name = "bfloat16" if kind == "bfloat16" else "float32"
    tf32 = kind != "float32" and paddle_compat.has_tf32(paddle, device)
    return precision.only(name, tf32)


def start(command: list[str], advice: str) -> None:
    """Run a script; its last line is what failed."""
    done = subprocess.run([sys.executable, *command], cwd=PROJECT, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [""]
        raise Failure(f"{command[0]}: {lines[-1][-200:]}", advice)
