"""Measure how much ELMo improves a task, and why: the same training without it and with parts of it.

    python benchmarks/arms.py --task=weibo-ner --data=DIR --elmo=zh-news --vectors=news/word2vec.bin --output=runs/weibo
    python benchmarks/arms.py ... --table                              (print the results so far)

nothing     word embeddings trained with the task
word2vec    --vectors, which should be trained on the same text as the ELMo
layer0      layer 0 of ELMo: context-free token vectors
random      ELMo with random LSTMs
mix         ELMo, a trained mix of its layers
elmo        ELMo, its layers concatenated
tuned       the same, fine-tuned; only if named by --arms, and not for cmrc2018
both        ELMo and word2vec
word        --word_elmo, mixed: another ELMo, for instance the one with word input in docs/chinese-lac.md

Each run is one training with run_tag.py, run_read.py or run_finetune.py, which gets the flags after `--`. Finished runs are
skipped. In cmrc2018 all arms but `nothing` also read --vectors. Intervals and p-values of differences cover other seeds and
other texts of the same kind, with these pretrained models (crossed.py); in cmrc2018, other passages. An
arm's span F1 is linearised into per-sentence contributions.
"""

import argparse
import functools
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import steps
from crossed import crossed_difference

import args as arguments
import script
from elmo_core.files import disk
from elmo_core.text.text_files import read_lines
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights import checkpoint, model_files
from elmo_tasks.reading.data import read_passages
from elmo_tasks.reading.score import score
from elmo_tasks.significance import Difference, clustered_bootstrap, mean_and_std
from elmo_tasks.tagging.columns import read_columns
from elmo_tasks.tagging.data import known_words
from elmo_tasks.tagging.formats import labelled_pieces
from elmo_tasks.tagging.pieces import PieceSplitter
from elmo_tasks.tagging.scheme import detect_scheme, spans
from elmo_tasks.training import hold_out

ARMS = {
    "nothing": ["--init_from_ckpt=none"],
    "word2vec": ["--init_from_ckpt=none", "--word_vectors={vectors}"],
    "layer0": ["--init_from_ckpt={elmo}", "--layers=0"],
    "random": ["--init_from_ckpt={elmo}", "--random_weights=lstm"],
    "mix": ["--init_from_ckpt={elmo}", "--layers=mix"],
    "elmo": ["--init_from_ckpt={elmo}"],
    "tuned": ["--init_from_ckpt={elmo}", "--elmo_trainable"],
    "both": ["--init_from_ckpt={elmo}", "--word_vectors={vectors}"],
    "word": ["--init_from_ckpt={word_elmo}", "--layers=mix"],
}
WITHOUT_CONTEXT = ("nothing", "word2vec", "layer0")
MODELS = ("elmo", "vectors", "word_elmo")  # flags
passages_of = functools.cache(read_passages)  # of the test set, for every run


@dataclass(frozen=True)
class Task:
    """How to train for a task.

    files: train, dev (selects the epoch) and test. pretrained: flags of all arms but `nothing`. nothing: flags of that arm.
    """

    script: str
    flags: Sequence[str] = ()
    files: tuple[str, str, str] = ("train.txt", "dev.txt", "test.txt")
    scheme: str = ""
    pretrained: Sequence[str] = ()
    nothing: Sequence[str] = ()


TASKS = {
    "conll2000": Task("run_tag.py", ["--char_cnn"]),
    "weibo-ner": Task("run_tag.py", ["--segmentation=strip"], pretrained=["--words=jieba"]),
    "duie-lac": Task("run_tag.py", scheme="plain"),
    "lac": Task("run_tag.py", ["--epochs=15", "--patience=0"], ("train.txt", "", "test.txt"), "lac"),
    "chnsenticorp": Task(  # its test.tsv has no labels
        "run_finetune.py",
        ["--lang=zh"],
        ("train.tsv", "", "dev.tsv"),
        nothing=["--word_vectors_trainable", "--word_vectors_lr", "0.001", "0.003"],
    ),
    "texts": Task(  # of any classification
        "run_finetune.py",
        files=("train.tsv", "dev.tsv", "test.tsv"),
        nothing=["--word_vectors_trainable", "--word_vectors_lr", "0.001", "0.003"],
    ),
    "cmrc2018": Task(
        "run_read.py", ["--lang=zh"], ("train.json", "trial.json", "dev.json"), pretrained=["--word_vectors={vectors}"]
    ),
}
TAGGED = ("duie-lac", "lac")  # data in lines of word/TAG, train.txt and dev.txt


def main() -> None:
    parser = parser_of(__doc__, TASKS, seeds=5)
    parser.add_argument("--elmo", help="checkpoint or model name")
    parser.add_argument("--word_elmo", help="another, for arm `word`")
    parser.add_argument("--arms", nargs="+", choices=ARMS, help="arms to train (default: all whose models are given)")
    parser.add_argument("--against", choices=ARMS, help="baseline arm (default: the best context-free one)")
    args = read_flags(parser)
    if not args.table:
        lacking = {arm: [flag for flag in needs(args.task, arm) if not getattr(args, flag)] for arm in ARMS}
        if missing := next((lacking[arm] for arm in args.arms or () if lacking[arm]), None):
            parser.error(f"--arms needs --{missing[0]}")
        arms = args.arms or [arm for arm in ARMS if not lacking[arm] and arm != "tuned"]
        run(args, arms)
    print("\n".join(table(args)))


def parser_of(description: str, tasks: Iterable[str], seeds: int) -> argparse.ArgumentParser:
    parser = arguments.parser(description)
    parser.add_argument("--task", choices=tasks, required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder with the task's files")
    parser.add_argument("--vectors", help="word vectors in word2vec's or GloVe's format")
    parser.add_argument("--pieces", type=Path, help="vocabulary of word pieces, for task lac")
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, seeds + 1)))
    parser.add_argument("--jobs", type=int, default=2, help="parallel runs, one thread each")
    parser.add_argument("--table", action="store_true", help="only print the results so far")
    parser.add_argument("flags", nargs="*", metavar="FLAG", help="after --: flags for the task's script")
    return parser


def read_flags(parser: argparse.ArgumentParser) -> argparse.Namespace:
    args = parser.parse_args()
    if args.task == "lac" and not (args.pieces or args.table):
        parser.error("--task=lac needs --pieces")
    return args


def needs(task: str, arm: str) -> list[str]:
    flags = " ".join(flags_of(task, arm))
    return [name for name in MODELS if f"{{{name}}}" in flags]


def flags_of(task: str, arm: str) -> list[str]:
    more = TASKS[task].nothing if arm == "nothing" else TASKS[task].pretrained
    return list(dict.fromkeys([*ARMS[arm], *TASKS[task].flags, *more]))


def run(args: argparse.Namespace, arms: Sequence[str]) -> None:
    """Train the arms with each seed, and save the predictions for the test set."""
    prepare(args, {name: getattr(args, name) and steps.digest(model_file(getattr(args, name))) for name in MODELS})
    steps.run([step_of(args, seed, arm) for seed, arm in itertools.product(args.seeds, arms)], args.jobs)


def prepare(args: argparse.Namespace, settings: Mapping[str, str | None]) -> None:
    """Convert the data where needed. Raise if the folder has results of other data, flags or `settings`."""
    os.environ["OMP_NUM_THREADS"] = "1"
    tagged_lines = [args.data / name for name in ("train.txt", "dev.txt")] if args.task in TAGGED else []
    data = steps.digest(*(tagged_lines or files(args).values()), *([args.pieces] if args.pieces else []))
    common = {"task": args.task, "flags": " ".join(args.flags), "data": data}
    steps.check_settings(args.output, {**common, **settings})
    if tagged_lines:
        write_columns(args)


def model_file(name: str) -> Path:
    return Path(name) if Path(name).is_file() else model_files.resolve_name(name) / checkpoint.WEIGHTS


def step_of(args: argparse.Namespace, seed: int, arm: str) -> steps.Step:
    script, folder = TASKS[args.task].script, args.output / f"{arm}-{seed}"
    result, models = Path(f"{folder}{suffix(args.task)}"), {name: getattr(args, name) for name in MODELS}
    flags = [flag.format(**models) for flag in flags_of(args.task, arm)]
    if script == "run_finetune.py":
        return steps.Step(result, [train_command(args, seed, [*flags, f"--results={result}"])])
    train = train_command(args, seed, [*flags, f"--save_dir={folder}", "--overwrite"])
    predict = [script, "predict", f"--model_dir={folder}", f"--input={files(args)['test']}", f"--output={result}"]
    predict += ["--data_format=columns"] * (script == "run_tag.py")
    return steps.Step(result, [train, predict], scratch=folder)


def train_command(args: argparse.Namespace, seed: int, flags: Sequence[str]) -> list[str]:
    """The command that trains for the task with the user's and other flags."""
    task, data = TASKS[args.task], [f"--{part}_file={path}" for part, path in files(args).items()]
    scheme = [f"--scheme={task.scheme}"] if task.scheme else []
    return [task.script, "train", *data, *scheme, *flags, f"--seed={seed}", *args.flags]


def suffix(task: str) -> str:
    return ".txt" if TASKS[task].script == "run_tag.py" else ".json"


def files(args: argparse.Namespace) -> dict[str, Path]:
    """The task's files by part. Without dev, the script holds out a random tenth of train."""
    folder = args.output if args.task in TAGGED else args.data
    return {
        part: folder / name for part, name in zip(("train", "dev", "test"), TASKS[args.task].files, strict=True) if name
    }


def write_columns(args: argparse.Namespace) -> None:
    """Convert word/TAG lines to columns, for lac with words split into pieces. dev.txt is the test set; for duie-lac, the
    last tenth of train.txt is the dev set.
    """
    train, test = (
        [[word.rpartition("/")[::2] for word in line.split()] for line in read_lines(args.data / name) if line.strip()]
        for name in ("train.txt", "dev.txt")
    )
    splitter = PieceSplitter(Vocabulary.from_file(args.pieces).words) if args.task == "lac" else None
    cut = len(train) if splitter else len(train) * 9 // 10
    for part, path in files(args).items():
        with disk.atomic_write(path) as file:
            for words in {"train": train[:cut], "dev": train[cut:], "test": test}[part]:
                if splitter:
                    pieces = [labelled_pieces(word, tag, splitter) for word, tag in words]
                    words = [pair for word in pieces for pair in zip(word.tokens, word.labels, strict=True)]
                file.write("".join(f"{token}\t{label}\n" for token, label in words) + "\n")


def table(args: argparse.Namespace) -> list[str]:
    """Each arm's mean and standard deviation over seeds, and its difference from the baseline arm."""
    paths = {arm: steps.results(args.output, arm, suffix(args.task)) for arm in ARMS}
    scores = {
        arm: {seed: scores_of(args, path, seed) for seed, path in runs.items()} for arm, runs in paths.items() if runs
    }
    lines = []
    for measure in next(iter(next(iter(scores.values())).values()), {}) if scores else []:
        means = {arm: [float(run[measure].mean()) for run in runs.values()] for arm, runs in scores.items()}
        static = [arm for arm in WITHOUT_CONTEXT if arm in means]
        baseline = args.against or max(static, key=lambda arm: np.mean(means[arm]), default=None)
        lines.append(f"{measure:16} seeds {'mean':>16}  {f'against {baseline}' if baseline else ''}")
        for arm, runs in scores.items():
            line = f"{arm:16} {len(runs):5} {mean_and_std(means[arm]):>16}"
            seeds = [seed for seed in runs if seed in scores.get(baseline, ())]
            if arm != baseline and seeds:
                differences = [runs[seed][measure] - scores[baseline][seed][measure] for seed in seeds]
                line += f"  {difference(args, np.array(differences))}"
            lines.append(line)
    return lines


def difference(args: argparse.Namespace, differences: np.ndarray) -> Difference:
    """Return the mean of the differences (n_seeds, n_texts), with its interval."""
    if args.task != "cmrc2018":
        return crossed_difference(differences, "seeds", "texts")
    passages = passages_of(files(args)["test"])  # questions on a passage depend on each other
    group = np.repeat(np.arange(len(passages)), [len(passage.questions) for passage in passages])
    return clustered_bootstrap(differences.mean(axis=0), np.zeros(len(group)), group, groups="passages")


def scores_of(args: argparse.Namespace, result: Path, seed: int) -> dict[str, np.ndarray]:
    """Per measure, one value per test text; their mean is the run's score."""
    if TASKS[args.task].script == "run_finetune.py":
        return {"accuracy": steps.correct(result)}
    if TASKS[args.task].script == "run_read.py":
        read = score(passages_of(files(args)["test"]), disk.read_json(result, "predictions"), "zh")
        return {"EM": read.exact, "F1": read.f1, "Rouge-L": read.rouge}
    gold, predicted = (read_columns(result, label=column) for column in (-2, -1))
    scheme = TASKS[args.task].scheme or detect_scheme(sentence.labels for sentence in gold)
    pairs = [tuple(set(spans(x.labels, scheme)) for x in pair) for pair in zip(gold, predicted, strict=True)]
    scores = {"F1": f1_contributions(pairs)}
    if args.task == "weibo-ner":
        named = [tuple({span for span in side if span[2].endswith(".NAM")} for side in pair) for pair in pairs]
        scores["F1, named only"] = f1_contributions(named)
    if args.task == "lac":
        train, _ = hold_out(read_columns(files(args)["train"]), seed)
        known = known_words(train, scheme)
        unknown = [
            tuple({(i, j, tag) for i, j, tag in side if "".join(sentence.tokens[i:j]) not in known} for side in pair)
            for sentence, pair in zip(gold, pairs, strict=True)
        ]
        scores["F1, unknown"] = f1_contributions(unknown)
    return scores


def f1_contributions(pairs: list[tuple[set, set]]) -> np.ndarray:
    """Linearise the F1 into one value per sentence. Their mean is the F1, and their spread that of the F1, to first order.

    pairs: gold and predicted spans.
    """
    correct, total = np.array([(len(gold & guess), len(gold) + len(guess)) for gold, guess in pairs]).T
    f1 = 2 * correct.sum() / total.sum()
    return f1 + 2 * len(pairs) * (correct - f1 / 2 * total) / total.sum()


if __name__ == "__main__":
    script.run(main)
