"""What ELMo adds to a task, and where the gain comes from: the same training without it and with parts of it.

    python benchmarks/arms.py --task=weibo-ner --data=DIR --elmo=zh-news --vectors=news/word2vec.bin --output=runs/weibo
    python benchmarks/arms.py ... --table                              (prints what is there)

nothing     vectors of words that are learnt with the task
word2vec    --vectors beside them, which should be trained on the ELMo's own text
layer0      layer 0 of ELMo: words without context
random      ELMo with random weights in its LSTMs
mix         ELMo, its layers mixed with one learnt weight each
elmo        ELMo, its layers side by side
both        ELMo beside word2vec

Each run is a command of run_tag.py or run_finetune.py. Runs whose results are there are skipped, so the same command goes
on after an interruption. The interval and p-value of a difference are about other seeds and other sentences of the same
kind, with this one ELMo and this one word2vec: see significance.py. The F1 of an arm is taken apart into the sentences'
shares in it, to first order.
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import script
from elmo_core.machine import disk
from elmo_tasks.significance import crossed
from elmo_tasks.tagging.columns import read_columns
from elmo_tasks.tagging.scheme import detect, spans

ARMS = {  # flags of run_tag.py
    "nothing": ["--init_from_ckpt=none"],
    "word2vec": ["--init_from_ckpt=none", "--word_vectors={vectors}"],
    "layer0": ["--init_from_ckpt={elmo}", "--layers=0"],
    "random": ["--init_from_ckpt={elmo}", "--random_weights=lstm"],
    "mix": ["--init_from_ckpt={elmo}", "--layers={mix}"],
    "elmo": ["--init_from_ckpt={elmo}"],
    "both": ["--init_from_ckpt={elmo}", "--word_vectors={vectors}"],
}
STATIC = ("nothing", "word2vec", "layer0")
TAGGING = {  # tasks of run_tag.py and their flags
    "conll2000": ["--char_cnn"],
    "weibo-ner": ["--segmentation=strip", "--words=jieba"],
    "duie-lac": ["--scheme=plain"],
}
CLASSIFYING = "chnsenticorp"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=(*TAGGING, CLASSIFYING), required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder with the task's files")
    parser.add_argument("--elmo", help="a checkpoint or a name")
    parser.add_argument("--vectors", help="a file in word2vec's format")
    parser.add_argument("--output", type=Path, required=True, help="folder of everything that is made")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, of one thread each")
    parser.add_argument("--table", action="store_true", help="print the table of what is there, and run nothing")
    args, more = parser.parse_known_args()  # what is not known here are flags of the script that trains
    args.output.mkdir(parents=True, exist_ok=True)
    if not args.table:
        runs = [(seed, arm) for seed, arm in itertools.product(args.seeds, args.arms)]
        with ThreadPoolExecutor(args.jobs) as pool:
            for _ in pool.map(lambda one: run(args, *one, more), runs):
                pass
    print("\n".join(table(args.task, args.data, args.output)))


def run(args: argparse.Namespace, seed: int, arm: str, more: list[str]) -> None:
    """Train an arm and write what it predicts for the test part."""
    result = args.output / f"{arm}-{seed}{suffix(args.task)}"
    if result.exists():
        return
    mix = "mix" if args.task == CLASSIFYING else "all"
    flags = [flag.format(elmo=args.elmo, vectors=args.vectors, mix=mix) for flag in ARMS[arm]]
    if args.task == CLASSIFYING:
        flags += ["--word_vectors_trainable", "--word_vectors_lr", "0.001", "0.003"] * (arm == "nothing")
        data = [f"--train_file={args.data}/train.tsv", f"--test_file={args.data}/dev.tsv"]  # its test.tsv has no labels
        execute("run_finetune.py", *data, "--lang=zh", *flags, f"--seed={seed}", f"--results={result}", *more)
        return
    folder = args.output / f"{arm}-{seed}"
    files = {part: path_of(args, part) for part in ("train", "dev", "test")}
    data = [f"--{part}={path}" for part, path in files.items()]
    own = [flag for flag in TAGGING[args.task] if not (arm == "nothing" and flag.startswith("--words"))]
    flags += [*own, f"--seed={seed}", f"--save_dir={folder}", "--overwrite", *more]
    execute("run_tag.py", "train", *data, *flags)
    execute("run_tag.py", "predict", f"--model_dir={folder}", f"--input={files['test']}", "--input_format=columns",
            f"--output={result}")  # fmt: skip
    shutil.rmtree(folder)


def suffix(task: str) -> str:
    """Of a run's result."""
    return ".json" if task == CLASSIFYING else ".txt"


def execute(script: str, *flags: str) -> None:
    print("$ python", script, *flags, flush=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(PROJECT / script), *flags], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"python {script} {' '.join(flags)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def path_of(args: argparse.Namespace, part: str) -> Path:
    """A part's file. DuIE's lines of word/TAG are written as columns. Its dev part is the test here, and the last tenth of
    the training sentences is the dev part.
    """
    if args.task != "duie-lac":
        return args.data / f"{part}.txt"
    path = args.output / f"{part}.txt"
    if not path.exists():
        lines = (args.data / f"{'dev' if part == 'test' else 'train'}.txt").read_text(encoding="utf-8").splitlines()
        if part != "test":
            cut = len(lines) * 9 // 10
            lines = lines[:cut] if part == "train" else lines[cut:]
        words = [[word.rpartition("/") for word in line.split()] for line in lines]
        with disk.atomic_write(path) as file:
            file.write("\n".join("".join(f"{w}\t{tag}\n" for w, _, tag in one) for one in words))
    return path


def table(task: str, data: Path, output: Path) -> list[str]:
    """Mean and deviation of every arm over the seeds, and its difference from the best static arm."""
    scores = {arm: by_seed(task, data, output, arm) for arm in ARMS}
    scores = {arm: found for arm, found in scores.items() if found}
    lines = []
    for measure in next(iter(next(iter(scores.values())).values()), {}) if scores else []:
        means = {arm: np.array([100 * one[measure].mean() for one in found.values()]) for arm, found in scores.items()}
        static = [arm for arm in STATIC if arm in means]
        best = max(static, key=lambda arm: means[arm].mean()) if static else None
        lines.append(f"{measure:16} seeds {'mean':>16}  {f'against {best}' if best else ''}")
        for arm, found in scores.items():
            spread = f" ± {means[arm].std(ddof=1):.2f}" if len(found) > 1 else ""
            line = f"{arm:16} {len(found):5} {f'{means[arm].mean():.2f}{spread}':>16}"
            both = [seed for seed in found if best and seed in scores[best]]
            if arm != best and both:
                differences = np.array([found[seed][measure] - scores[best][seed][measure] for seed in both])
                line += f"  {crossed(differences, 'seeds', 'texts')}"
            lines.append(line)
    return lines


def by_seed(task: str, data: Path, output: Path, arm: str) -> dict[int, dict[str, np.ndarray]]:
    """Of every run of an arm, by measure, a value of each test sentence, whose mean is the score."""
    found = {}
    for path in sorted(output.glob(f"{arm}-*{suffix(task)}")):
        seed = int(path.stem.rpartition("-")[2])
        if task == CLASSIFYING:
            texts = json.loads(path.read_text(encoding="utf-8"))["reviews"]
            found[seed] = {"accuracy": np.equal(texts["label"], texts["prediction"]).astype(float)}
            continue
        gold, predicted = ([one.labels for one in read_columns(path, label=column)] for column in (-2, -1))
        if task == "duie-lac":
            right = np.array([np.equal(a, b).sum() for a, b in zip(gold, predicted, strict=True)])
            lengths = np.array(list(map(len, gold)))
            found[seed] = {"F1": f1_shares(right, lengths, lengths)}
            continue
        scheme = detect(gold)
        pairs = [(set(spans(a, scheme)), set(spans(b, scheme))) for a, b in zip(gold, predicted, strict=True)]
        found[seed] = {"F1": f1_of(pairs)}
        if task == "weibo-ner":
            named = [tuple({span for span in one if span[2].endswith(".NAM")} for one in pair) for pair in pairs]
            found[seed]["F1, named only"] = f1_of(named)
    return found


def f1_of(pairs: list[tuple[set, set]]) -> np.ndarray:
    counts = np.array([(len(gold & guess), len(gold), len(guess)) for gold, guess in pairs])
    return f1_shares(*counts.T)


def f1_shares(correct: np.ndarray, expected: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """A value of each sentence, whose mean is the F1 of all and whose spread is that of the F1, to first order."""
    both = expected + predicted
    f1 = 2 * correct.sum() / both.sum()
    return f1 + 2 * len(correct) * (correct - f1 / 2 * both) / both.sum()


if __name__ == "__main__":
    script.run(main)
