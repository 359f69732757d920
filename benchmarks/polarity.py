"""The table of docs/polarity.md from raw text, over several pretraining runs.

    python benchmarks/polarity.py --text=aclImdb/unsup.txt --data_dir=sentence-polarity-dataset-v1 --output=runs/polarity
    python benchmarks/polarity.py ... --seeds 1 2 3 --models word2vec b       (some of it)
    python benchmarks/polarity.py ... --table                                 (prints what is there)

Each step is a command of docs/polarity.md. Finished steps are skipped and an interrupted pretraining run is
resumed, so the command is repeated until the table is complete. A pretraining run takes one to four hours on one core, a
frozen row minutes, a fine-tuned one half an hour in two processes. The folds are those of seed 2020 throughout; what
changes is the seed of word2vec and of the pretraining (weights, order of the text, dropout, candidates).
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import steps

import args as arguments
import script
from elmo_core.machine import disk
from elmo_tasks.significance import crossed_difference, mean_and_std

PRETRAINING = ["--batch_size=64", "--n_negative_samples=2048", "--optimizer=adam", "--epochs=1"]
SHAPE = ["--model_size=small", "--projection_dim=300", "--cell_dim=512", "--pretrained_word_embeddings={vectors}"]
FIRST = [*SHAPE, "--lr=0.002", "--warmup_steps=500", "--seed={seed}"]
AGAIN = ["--lr=0.001", "--warmup_steps=200", "--dropout=0", "--seed={seed}1"]  # so in another order
MODELS = {  # flags of their own
    "a": [*FIRST, "--filters=1:32,2:32,3:64,4:128,5:256", "--dropout=0"],
    "a2": [*AGAIN, "--finetune_from={a}"],  # a second time over the text
    "b": [*FIRST, "--input=word"],
    "b2": [*AGAIN, "--finetune_from={b}"],
}
ROWS = {  # name: the model, the flags of its frozen row, whether it has a fine-tuned row too
    "word2vec": ("word2vec", [], True),
    "a": ("a", [], True),
    "a2": ("a2", [], True),
    "b": ("b", [], True),
    "b-layer0": ("b", ["--layers=0"], False),
    "b-random": ("b", ["--random_weights=lstm"], False),
    "b-word2vec": ("b", ["--word_vectors={vectors}"], False),
    "b2": ("b2", [], True),
}


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--text", type=Path, help="raw reviews, one a line")
    parser.add_argument("--data_dir", type=Path, required=True, help="the sentence polarity dataset v1")
    parser.add_argument("--output", type=Path, required=True, help="folder of everything that is made")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5], help="one pretraining each")
    parser.add_argument("--models", nargs="+", choices=("word2vec", *MODELS), default=["word2vec", *MODELS])
    parser.add_argument("--processes", type=int, default=2, help="of a fine-tuned row")
    parser.add_argument("--table", action="store_true", help="print the table of what is there, and run nothing")
    args = parser.parse_args()
    if not args.table:
        if not args.text:
            parser.error("--text is missing; --table prints what is there without it")
        reviews = steps.digest(*sorted(args.data_dir.rglob("rt-polarity.*")))
        steps.check_settings(args.output, {"text": steps.digest(args.text), "data": reviews})
        steps.run(steps_of(args))
    print("\n".join(table(args.output)))


def steps_of(args: argparse.Namespace) -> Iterator[steps.Step]:
    """Everything for a seed before the next seed."""
    out = args.output
    text, vocabulary = f"{out}/corpus/train/*", out / "corpus/vocab.txt"
    prepare = ["preprocess.py", "text", str(args.text), "--lang=en", "--lower", "--dev_fraction=0.01"]
    yield steps.Step(out / "corpus/train", [[*prepare, f"--output={out}/corpus"]])
    yield steps.Step(vocabulary, [["preprocess.py", "vocab", text, "--min_count=3", f"--output={vocabulary}"]])
    models = [model for model in MODELS if {model, f"{model}2"}.intersection(args.models)]
    for seed in args.seeds:
        vectors = out / f"word2vec-{seed}.bin"
        values = {"seed": seed, "vectors": vectors, **{model: out / f"{model}-{seed}/final" for model in "ab"}}
        yield steps.Step(vectors, [["preprocess.py", "vectors", text, f"--output={vectors}", f"--seed={seed}"]])
        for model in models:
            folder = out / f"{model}-{seed}"
            command = ["run_pretrain.py", f"--train_data_path={text}", f"--vocab_file={vocabulary}", *PRETRAINING]
            command += [*(flag.format(**values) for flag in MODELS[model]), f"--save_dir={folder}"]
            yield steps.Step(folder / "final.pdparams", [command], checkpoints=folder)
        for name, (model, flags, tuned) in ROWS.items():
            if model not in args.models:
                continue
            command = ["word2vec_base.py", f"--pretrained_word2vec_file={vectors}"]
            if model != "word2vec":
                command = ["run_finetune.py", f"--init_from_ckpt={out}/{model}-{seed}/final"]
            command += [f"--data_dir={args.data_dir}", *(flag.format(**values) for flag in flags)]
            learns = "--word_vectors_trainable" if model == "word2vec" else "--elmo_trainable"
            frozen = out / "results" / f"{name}-{seed}.json"
            yield steps.Step(frozen, [[*command, f"--results={frozen}"]])
            if tuned:
                path = out / "results" / f"{name}-tuned-{seed}.json"
                launch = ["-m", "paddle.distributed.launch", f"--nproc_per_node={args.processes}", "--backend=gloo"]
                launch += [f"--log_dir={out}/launch/{path.stem}"]
                yield steps.Step(path, [[*launch, *command, "--device=cpu", learns, f"--results={path}"]])


def table(output: Path) -> list[str]:
    """Every row that has results: mean and spread over the pretrainings, over the folds within one, against word2vec."""
    lines = [f"{'':20} {'pretrainings':>12} {'accuracy':>18} {'folds within':>12}  against word2vec treated alike"]
    for treatment in ("", "-tuned"):
        baseline = results(output, "word2vec", treatment)
        for name in ROWS:
            found = results(output, name, treatment)
            if not found:
                continue
            accuracy = mean_and_std([np.mean(folds) for _, folds in found.values()])
            within = 100 * np.mean([np.std(folds, ddof=1) for _, folds in found.values()])
            line = f"{name + treatment:20} {len(found):12} {accuracy:>18} {within:12.2f}"
            both = [seed for seed in found if seed in baseline]
            if name != "word2vec" and both:
                right = np.array([found[seed][0] - baseline[seed][0] for seed in both])
                line += f"  {crossed_difference(right, 'pretrainings', 'reviews')}"
            lines.append(line)
    return lines


def results(output: Path, name: str, treatment: str) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """By seed: whether each review was classified rightly, as 0 or 1, and the accuracies of the folds."""
    found = {}
    for seed, path in steps.results(output / "results", f"{name}{treatment}").items():
        folds = disk.read_json(path, "results of run_finetune.py")["parts"]
        found[seed] = steps.right(path), np.array([fold["accuracy"] for fold in folds])
    return found


if __name__ == "__main__":
    script.run(main)
