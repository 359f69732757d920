"""Reproduce the table of docs/polarity.md from raw text, with several pretraining runs.

    python benchmarks/polarity.py --text=aclImdb/unsup.txt --data_dir=sentence-polarity-dataset-v1 --output=runs/polarity
    python benchmarks/polarity.py ... --seeds 1 2 3 --models word2vec b       (a part of it)
    python benchmarks/polarity.py ... --table                                 (print the results so far)

Each step is a command of docs/polarity.md. Finished steps are skipped and interrupted pretraining is resumed: rerun the
command until the table is complete. Pretraining takes one to four hours on one core, a frozen row minutes, a fine-tuned
row half an hour in two processes. The folds are always those of seed 2020; the seeds vary word2vec and the pretraining
(weights, order of the text, dropout, candidates).
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import steps
from crossed import crossed_difference

import args as arguments
import script
from elmo_core.files import disk
from elmo_tasks.significance import mean_and_std

CLASSIFIER = ["--head=mean", "--lr", "0.001", "0.003", "--weight_decay", "0.1", "1.0"]  # averages its inputs
PRETRAINING = ["--batch_size=64", "--n_negative_samples=2048", "--optimizer=adam", "--epochs=1"]
SHAPE = ["--model_size=small", "--projection_dim=300", "--cell_dim=512", "--pretrained_word_embeddings={vectors}"]
FIRST_PASS = [*SHAPE, "--lr=0.002", "--warmup_steps=500", "--seed={seed}"]
SECOND_PASS = ["--lr=0.001", "--warmup_steps=200", "--dropout=0", "--seed={seed}1"]  # another order
MODELS = {  # name: flags
    "b": [*FIRST_PASS, "--input=word"],
    "b2": [*SECOND_PASS, "--finetune_from={b}"],  # a second epoch
}
ROWS = {  # name: model, flags, whether there is a fine-tuned row besides the frozen one
    "word2vec": ("word2vec", [], True),
    "b": ("b", [], True),
    "b-layer0": ("b", ["--layers=0"], False),
    "b-random": ("b", ["--random_weights=lstm"], False),
    "b-word2vec": ("b", ["--word_vectors={vectors}"], False),
    "b2": ("b2", [], True),
}


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--text", type=Path, help="raw reviews, one per line")
    parser.add_argument("--data_dir", type=Path, required=True, help="the sentence polarity dataset v1")
    parser.add_argument("--output", type=Path, required=True, help="folder for all files")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5], help="one pretraining run each")
    parser.add_argument("--models", nargs="+", choices=("word2vec", *MODELS), default=["word2vec", *MODELS])
    parser.add_argument("--processes", type=int, default=2, help="processes for a fine-tuned row")
    parser.add_argument("--table", action="store_true", help="only print the results so far")
    args = parser.parse_args()
    if not args.table:
        if not args.text:
            parser.error("--text is required, except with --table")
        reviews = steps.digest(*sorted(args.data_dir.rglob("rt-polarity.*")))
        steps.check_settings(args.output, {"text": steps.digest(args.text), "data": reviews})
        steps.run(steps_of(args))
    print("\n".join(table(args.output)))


def steps_of(args: argparse.Namespace) -> Iterator[steps.Step]:
    """All steps of one seed, then those of the next."""
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
            command += [*(flag.format(**values) for flag in MODELS[model]), f"--save_dir={folder}", "--resume"]
            finished = folder / "finished"
            yield steps.Step(finished, [command, ["-c", f"from pathlib import Path; Path({str(finished)!r}).touch()"]])
        for name, (model, flags, tuned) in ROWS.items():
            if model not in args.models:
                continue
            command = ["word2vec_base.py", f"--pretrained_word2vec_file={vectors}"]
            if model != "word2vec":
                command = ["run_finetune.py", f"--init_from_ckpt={out}/{model}-{seed}/final"]
            command += [f"--data_dir={args.data_dir}", *CLASSIFIER, *(flag.format(**values) for flag in flags)]
            trainable = "--word_vectors_trainable" if model == "word2vec" else "--elmo_trainable"
            frozen = out / "results" / f"{name}-{seed}.json"
            yield steps.Step(frozen, [[*command, f"--results={frozen}"]])
            if tuned:
                path = out / "results" / f"{name}-tuned-{seed}.json"
                launch = ["-m", "paddle.distributed.launch", f"--nproc_per_node={args.processes}", "--backend=gloo"]
                launch += [f"--log_dir={out}/launch/{path.stem}"]
                yield steps.Step(path, [[*launch, *command, "--device=cpu", trainable, f"--results={path}"]])


def table(output: Path) -> list[str]:
    """Per row, mean and standard deviation over pretraining runs and over folds, and the difference from word2vec."""
    lines = [f"{'':20} {'pretrainings':>12} {'accuracy':>18} {'folds within':>12}  against word2vec treated alike"]
    for treatment in ("", "-tuned"):
        baseline = results(output, "word2vec", treatment)
        for name in ROWS:
            runs = results(output, name, treatment)
            if not runs:
                continue
            accuracy = mean_and_std([np.mean(folds) for _, folds in runs.values()])
            within = 100 * np.mean([np.std(folds, ddof=1) for _, folds in runs.values()])
            line = f"{name + treatment:20} {len(runs):12} {accuracy:>18} {within:12.2f}"
            shared_seeds = [seed for seed in runs if seed in baseline]
            if name != "word2vec" and shared_seeds:
                differences = np.array([runs[seed][0] - baseline[seed][0] for seed in shared_seeds])
                line += f"  {crossed_difference(differences, 'pretrainings', 'reviews')}"
            lines.append(line)
    return lines


def results(output: Path, name: str, treatment: str) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Per seed, whether each review was classified correctly, as 0 or 1, and the folds' accuracies."""
    runs = {}
    for seed, path in steps.results(output / "results", f"{name}{treatment}").items():
        folds = disk.read_json(path, "results of run_finetune.py")["parts"]
        runs[seed] = steps.correct(path), np.array([fold["accuracy"] for fold in folds])
    return runs


if __name__ == "__main__":
    script.run(main)
