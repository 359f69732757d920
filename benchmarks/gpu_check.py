"""Does everything work on this GPU, and how fast? In under three minutes and 4 GB, with the bundled sample.

    python benchmarks/gpu.py --check

A line per check: PASS, FAIL or, if it needs what this machine lacks, a dash; what was found; after a FAIL, what to do
about it. All of it is written to gpu-check.json. On a CPU it runs with what a CPU can check.
"""

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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
from elmo_core.training.ranks import Ranks
from elmo_tools.pretraining import streams

LIMITS = {
    "float32": 1e-4,
    "tf32": 1e-2,
    "bfloat16": 5e-2,
}  # of the gradients' differences, as a share of their norms
TREE = "1\tAnna\t_\tPROPN\t_\t_\t2\tnsubj\t_\t_\n2\tlives\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"  # in CoNLL-U
QUEUED_SECONDS = 0.3  # of products, before a step whose host time is measured
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
    """Run all checks and return the exit code. measure: a configuration, to the columns of the table of gpu.py."""
    device, ranks, report, speeds = paddle.get_device(), Ranks(), {}, []
    checks = {
        "environment": environment,
        "placement": placement,
        "agreement": agreement,
        "kernels": kernels,
    }
    checks |= {
        "no waits": no_waits,
        "tasks": tasks,
        "resume": resume,
        "embed": embed,
        "exchange": exchange,
    }
    checks["speed"] = lambda device, ranks: speed(args, ranks, measure, speeds)
    for name, check in checks.items():
        began = time.perf_counter()
        try:
            result, found, advice = "PASS", check(device, ranks), ""
        except Needs as missing:
            result, found, advice = "-", f"needs {missing}", ""
        except Failure as failure:
            result, found, advice = "FAIL", str(failure), failure.advice
        except Exception as error:  # each check must let the next one run
            found = f"{type(error).__name__}: {str(error).strip()[-300:]}"
            result, advice = "FAIL", "please send this line"
        report[name] = {
            "result": result,
            "found": found,
            "seconds": round(time.perf_counter() - began, 1),
        }
        if ranks.is_main:
            print(
                f"{name:12} {result:4} {found}" + f"\n{'':17} {advice}" * bool(advice), flush=True
            )
    if ranks.is_main:
        disk.write_json(Path("gpu-check.json"), {"checks": report, "speeds": speeds}, indent=1)
        print("wrote gpu-check.json. Please send it: CONTRIBUTING.md says where.")
    return int(any(check["result"] == "FAIL" for check in report.values()))


def environment(device: str, ranks: Ranks) -> str:
    if device == "cpu":
        return f"Paddle {paddle.__version__}, CPU, {runtime.n_threads()} threads"
    major, minor = paddle_compat.capability(paddle, device)
    memory = paddle.device.cuda.get_device_properties().total_memory / 2**30
    found = f"Paddle {paddle.__version__}, CUDA {paddle.version.cuda()}, cuDNN {paddle.version.cudnn()}, "
    found += f"{paddle.device.cuda.get_device_name()}, sm_{major}{minor}, {memory:.0f} GB"
    try:
        nvrtc.library()
    except OSError as error:
        raise Failure(found, str(error)) from error
    return f"{found}, NVRTC found"


def placement(device: str, ranks: Ranks) -> str:
    step, inputs = small_step()
    step(*inputs)
    place = "cpu" if device == "cpu" else "gpu"
    tensors = [*step.bilm.parameters(), *step.optimizer.state_dict().values()]
    elsewhere = [x.name for x in tensors if place not in str(x.place).lower()]
    if elsewhere:
        raise Failure(f"not on {device}: {', '.join(elsewhere)[:200]}", "please send this line")
    return f"{len(tensors)} weights and moments on {device}"


def agreement(device: str, ranks: Ranks) -> str:
    """Loss and gradients on this device, against Paddle's operators on the CPU in float32."""
    config, inputs = small_inputs()
    weights = {name: weight.numpy() for name, weight in elmo.BiLM(config).named_parameters()}

    def gradients(where: str, kind: str) -> list[np.ndarray]:
        name = "bfloat16" if kind == "bfloat16" else "float32"
        tf32 = kind != "float32" and paddle_compat.has_tf32(paddle, where)
        with runtime.on_device(where), precision.only(name, tf32):
            bilm = elmo.BiLM(config)
            for key, weight in bilm.named_parameters():
                weight.set_value(weights[key])
            losses, _ = bilm(inputs[0], bilm.zero_state(ROWS), inputs[1])
            (sum(losses) / 2 * STEPS).backward()
            rows = [row_gradient(weight) for weight in bilm.parameters()]
            dense = [
                w.grad if r is None else r.values
                for w, r in zip(bilm.parameters(), rows, strict=True)
            ]
            return [x.numpy() for x in (*losses, *dense)]

    with mock.patch.object(fused, "kernel", lambda: None):
        expected, found = gradients("cpu", "float32"), []
    for kind, limit in LIMITS.items():
        if kind != "float32" and matmul.bfloat16_problem(device):
            continue
        pairs = zip(gradients(device, kind), expected, strict=True)
        largest = max(float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in pairs)
        found.append(f"{kind} {largest:.0e} (limit {limit:.0e})")
        if not largest < limit:
            raise Failure(", ".join(found), OPERATORS if kind == "float32" else FULL_FLOAT32)
    return f"loss and {len(expected) - 2} gradients: {', '.join(found)}"


def kernels(device: str, ranks: Ranks) -> str:
    if device == "cpu":
        try:
            sizes = [
                len(nvrtc.compile(gpu_lstm.SOURCE.read_bytes(), f"sm_{arch}"))
                for arch in (75, 80, 86, 89)
            ]
        except OSError as error:
            raise Needs(f"a GPU. {error}") from error
        return f"compiled for four architectures, {sum(sizes):,} bytes; nothing to run them on"
    launch = gpu_lstm.kernels(device, equations)
    if launch is None:
        raise Failure("not used, see the message above", "training works without them, more slowly")
    return f"against Paddle's operators {gpu_lstm.difference(launch, equations):.0e}; clips active, ragged rows"


def no_waits(device: str, ranks: Ranks) -> str:
    """The host must be through with a step while the GPU still computes what was queued before."""
    if device == "cpu":
        raise Needs("a GPU")
    step, inputs = small_step()
    x = paddle.randn([4096, 4096])
    for _ in range(2):
        step(*inputs)
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
    step(*inputs)
    host = time.perf_counter() - began
    paddle.device.cuda.synchronize()
    found = f"queued {1e3 * QUEUED_SECONDS:.0f} ms of products: the host was through with a step after {1e3 * host:.0f} ms"
    if host > QUEUED_SECONDS / 2:
        raise Failure(
            f"{found} (limit {500 * QUEUED_SECONDS:.0f})", "training works; please send this line"
        )
    return found


def tasks(device: str, ranks: Ranks) -> str:
    """An epoch of each task, by its script."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        lines = [
            (text.strip(), label)
            for label in ("pos", "neg")
            for text in (PROJECT / f"data/polarity/rt-polarity.{label}")
            .read_text("latin-1")
            .splitlines()[:40]
        ]
        texts = Path(folder, "texts.tsv")
        texts.write_text("\n".join(["text\tlabel", *map("\t".join, lines)]), encoding="utf-8")
        lac, reading = PROJECT / "data/lac/dev.txt", PROJECT / "data/reading/dev.json"
        treebank = Path(folder, "treebank.conllu")
        treebank.write_text(TREE * 40, encoding="utf-8")
        for name, flags in {
            "tag": [
                f"--train_file={lac}",
                f"--dev_file={lac}",
                "--scheme=lac",
                "--init_from_ckpt=zh",
            ],
            "finetune": [f"--train_file={texts}", "--init_from_ckpt=en"],
            "read": [
                f"--train_file={reading}",
                f"--dev_file={reading}",
                "--lang=zh",
                "--init_from_ckpt=zh",
            ],
            "parse": [f"--train_file={treebank}", "--init_from_ckpt=en"],
        }.items():
            began, script = time.perf_counter(), f"run_{name}.py"
            command = [
                script,
                "train",
                *flags,
                "--epochs=1",
                f"--device={device}",
                f"--save_dir={folder}/{name}",
            ]
            start(command, f"python {script} train ... --device=cpu")
            found.append(f"{script} {time.perf_counter() - began:.0f} s")
    return ", ".join(found)


def resume(device: str, ranks: Ranks) -> str:
    """Five steps, then five more in a new process, against ten."""
    with tempfile.TemporaryDirectory() as folder:
        whole, half = Path(folder, "whole"), Path(folder, "half")
        flags = [
            f"--train_data_path={PROJECT}/data/train/*",
            f"--vocab_file={PROJECT}/data/vocabulary.txt",
        ]
        flags += [
            "--model_size=tiny",
            "--batch_size=16",
            "--max_steps=10",
            "--save_freq=5",
            f"--device={device}",
        ]
        for save_dir, more in ((whole, []), (half, [f"--init_from_ckpt={whole}/5"])):
            start(
                ["run_pretrain.py", *flags, *more, f"--save_dir={save_dir}"],
                "please send this line",
            )
        models = [elmo.load_bilm(path, softmax=True)[0].state_dict() for path in (whole, half)]
    pairs = [(models[0][name].numpy(), models[1][name].numpy()) for name in models[0]]
    largest = max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in pairs)
    if not largest < 1e-3:
        raise Failure(f"5 + 5 steps differ from 10 by {largest:.0e}", "please send this line")
    return (
        f"5 + 5 steps differ from 10 by {largest:.0e}"
        + " (sums in any order: not bit for bit)" * (device != "cpu")
    )


def embed(device: str, ranks: Ranks) -> str:
    sentences = [["the", "breakfast", "was", "good", "."], ["good"], ["a", "quiet", "room"]]
    found = [
        np.concatenate(
            [x.reshape(-1) for x in elmo.ELMoEmbedder("en", size, where).encode(sentences)]
        )
        for where, size in (("cpu", 2), (device, 2), (device, 1))
    ]
    largest = max(float(np.abs(x - found[0]).max()) for x in found[1:])
    if not largest < 1e-2 * np.abs(found[0]).max():
        raise Failure(
            f"vectors differ from the CPU's by {largest:.0e}", f"{FULL_FLOAT32}; {OPERATORS}"
        )
    return (
        f"vectors against the CPU's {largest:.0e} of {np.abs(found[0]).max():.1f}; two batch sizes"
    )


def exchange(device: str, ranks: Ranks) -> str:
    if ranks.size == 1:
        raise Needs(
            "several processes: python -m paddle.distributed.launch --gpus '0,1' benchmarks/gpu.py --check"
        )
    step, inputs = small_step(ranks)
    step(*inputs)
    sums = ranks.gather([float(weight.sum()) for weight in step.bilm.parameters()])
    if any(other != sums[0] for other in sums):
        raise Failure("the ranks' weights differ after a step", "please send this line")
    return f"{ranks.size} ranks have the same weights after a step"


def speed(args: argparse.Namespace, ranks: Ranks, measure: Callable, speeds: list[dict]) -> str:
    """A step of each size in each precision, and what limits it."""
    corpus, vocabulary = training_text(args.vocab_size)
    device = paddle.get_device()
    for size, kind in itertools.product(args.model_size, LIMITS):
        if kind != "float32" and matmul.bfloat16_problem(device):
            continue
        name = "bfloat16" if kind == "bfloat16" else "float32"
        tf32 = kind != "float32" and paddle_compat.has_tf32(paddle, device)
        with precision.only(name, tf32):
            config = ELMoConfig.preset(size, vocab_size=len(vocabulary))
            row = measure(args, ranks, config, corpus, vocabulary, args.rows[0])
        limit = "the host" if row["host ms"] > 0.9 * row["ms"] else "the GPU"
        speeds.append({"model": size, "products": kind, "limit": limit, **row})
        texts = f"{row['ms']:.1f} ms, host {row['host ms']:.1f} ms, {row['tokens/s']:,.0f} tokens/s"
        print(
            f"{'':17} {size}, {kind}: {texts}, {row['TFLOP/s']:.3g} TFLOP/s, {row['MB']:,.0f} MB; limit: {limit}"
        )
    return f"{len(speeds)} kinds of steps, above"


# Shared by the checks

ROWS = 16


def small_inputs() -> tuple[ELMoConfig, tuple]:
    """The configuration of a tiny model, and a batch and candidates for it."""
    corpus, vocabulary = training_text(1000)
    batch = next(streams.TrainStream(corpus, vocabulary, ROWS, STEPS))
    candidates = softmax.draw_candidates(len(vocabulary), 64, np.random.default_rng(0))
    return ELMoConfig.preset("tiny", vocab_size=len(vocabulary)), (batch, candidates)


def small_step(ranks: Ranks | None = None) -> tuple[TrainingStep, tuple]:
    config, inputs = small_inputs()
    paddle.seed(0)
    return TrainingStep(config, ROWS, ranks=ranks), inputs


def start(command: list[str], advice: str) -> None:
    """Run a script; its last line is what failed."""
    done = subprocess.run([sys.executable, *command], cwd=PROJECT, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [""]
        raise Failure(f"{command[0]}: {lines[-1][-200:]}", advice)
