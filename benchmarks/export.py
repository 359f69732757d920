"""Speed of exported models against ELMoEmbedder: tokens/s on one thread, latency of a sentence, memory.

    python benchmarks/export.py --model_size small
    python benchmarks/export.py --model_size original --sentences 128 --batch_size 32

The same batches go to each in turn; weights are random. Times are CPU seconds, which other processes disturb less than wall
time. ONNX Runtime is measured if the packages onnx and onnxruntime are installed.
"""

import importlib
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import numpy as np
from bench import seconds_of

import args as arguments
from elmo import BiLM, ELMoConfig, ELMoEmbedder
from elmo_core.config import PRESETS
from elmo_core.machine import runtime
from elmo_core.network.layers import layer_choice
from elmo_core.text.text_files import read_sentences
from elmo_core.text.tokens import sentence_batches
from elmo_core.weights import checkpoint
from export import folder
from export.networks import EmbedderNetwork

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--model_size", choices=tuple(PRESETS), default="small")
    parser.add_argument("--text", type=Path, default=PROJECT / "data" / "train" / "train-00000-of-00004")
    parser.add_argument("--sentences", **arguments.COUNT, default=512)
    parser.add_argument("--batch_size", **arguments.COUNT, default=64)
    args = parser.parse_args()
    runtime.keep_freed_memory()
    sentences = random.Random(1).sample([words for words in read_sentences(args.text) if words], args.sentences)
    batches = [batch for _, batch in sentence_batches(sentences, args.batch_size, window=len(sentences))]
    bilm = BiLM(ELMoConfig.preset(args.model_size))
    with tempfile.TemporaryDirectory() as source:  # from a checkpoint: only then does it cache token vectors
        checkpoint.save_model(Path(source, "model"), bilm.config, bilm.state_dict(), None)
        embedder = ELMoEmbedder(Path(source, "model"), args.batch_size, device="cpu")

    def encode_uncached(batch):
        embedder.token_table.row_of.clear()
        return embedder.encode(batch)

    runners = {"ELMoEmbedder": embedder.encode, "without its cache": encode_uncached}
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary) / "exported"
        network = EmbedderNetwork(bilm, None, layer_choice("all", 3, ("each",)))
        folder.write(network, output, args.model_size, HAS_ONNX)
        sys.path.insert(0, str(output))
        examples = {"Paddle Inference": "run_paddle", **({"ONNX Runtime": "run_onnx"} if HAS_ONNX else {})}
        for name, example in examples.items():
            module = importlib.import_module(example)
            run, arrays = module.load(), importlib.import_module("model_io").arrays
            runners[name] = lambda batch, run=run, arrays=arrays: run(arrays(batch))
        measure(runners, batches)
        largest = max(batches, key=lambda batch: len(batch) * len(batch[0]))
        text = "\n".join(" ".join(sentence) for sentence in largest)
        for name, example in examples.items():
            code = f"from {example} import load; from model_io import arrays; import sys; "
            code += "load()(arrays([line.split() for line in sys.stdin])); "
            code += "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
            done = subprocess.run([sys.executable, "-c", code], cwd=output, input=text, capture_output=True, text=True)
            print(f"{name}: {int(done.stdout) / 1e6:.2f} GB for {len(largest)} sentences of {len(largest[0])} tokens")


def measure(runners: dict[str, Callable], batches: list[list[list[str]]]) -> None:
    seconds = {name: [] for name in runners}
    for run in runners.values():
        run(batches[-1])
    for batch in batches:
        for name, run in runners.items():
            seconds[name].append(seconds_of(run, batch, clock=time.process_time))
    tokens, first = np.array([sum(map(len, batch)) for batch in batches]), np.array(seconds["ELMoEmbedder"])
    sentence = min((sentence for batch in batches for sentence in batch), key=lambda sentence: abs(len(sentence) - 20))
    for name, run in runners.items():
        latencies = [seconds_of(run, [sentence], clock=time.process_time) for _ in range(7)]
        speed, ratio = tokens.sum() / sum(seconds[name]), np.median(first / seconds[name])
        print(
            f"{name:17} {speed:7,.0f} tokens/s, {ratio:.2f} of ELMoEmbedder's (median of the batches); "
            f"a sentence of {len(sentence)} tokens {1e3 * np.median(latencies):,.0f} ms"
        )


if __name__ == "__main__":
    main()
