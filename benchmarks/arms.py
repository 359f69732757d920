"""Measure how much ELMo improves a task, and why.

    python benchmarks/arms.py --task=weibo-ner --data=DIR --elmo=zh --vectors=news/word2vec.bin \\
        --output=runs/weibo
    python benchmarks/arms.py ... --arms elmo tuned --seeds 1 2 --set epochs=10 lr=0.001

It repeats the same training without ELMo and with parts of it, its arms:

nothing     word embeddings trained with the task
word2vec    --vectors, which should be trained on the same text as the ELMo
layer0      layer 0 of ELMo: context-free token vectors
random      ELMo with random LSTMs
mix         ELMo, a trained mix of its layers
elmo        ELMo, its layers concatenated
tuned       the same, fine-tuned; only if named by --arms
both        ELMo and word2vec
word        --word_elmo, mixed: another ELMo, as the one with word input in docs/chinese-lac.md

Prints the table of all results in --output; runs that are there are skipped. Intervals and p-values
of differences cover other seeds and other texts of the same kind, with these pretrained models; in
cmrc2018, other passages. In cmrc2018 all arms but `nothing` also read --vectors. An arm's span F1
is linearised into contributions of the sentences.
"""

import argparse
import ast
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from significance import Difference, clustered_bootstrap, crossed_difference, mean_and_std

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import args as arguments
import elmo
import script
from elmo_core.files import disk
from elmo_core.messages import UserError, log
from elmo_core.network.bilm import weights_of
from elmo_core.text.text_files import read_lines
from elmo_core.weights import checkpoint, model_files
from elmo_tasks import Classifier, Parser, Reader, Tagger
from elmo_tasks.reading.data import read_passages
from elmo_tasks.tagging.data import SentenceReader
from elmo_tasks.tagging.score import TaggerScore

ARMS = {  # settings; {elmo}, {vectors}, ... are the flags
    "nothing": {"elmo": None},
    "word2vec": {"elmo": None, "word_vectors": "{vectors}"},
    "layer0": {"elmo": "{elmo}", "layers": "0"},
    "random": {"elmo": "{random}"},
    "mix": {"elmo": "{elmo}", "layers": "mix"},
    "elmo": {"elmo": "{elmo}"},
    "tuned": {"elmo": "{elmo}", "elmo_trainable": True},
    "both": {"elmo": "{elmo}", "word_vectors": "{vectors}"},
    "word": {"elmo": "{word_elmo}", "layers": "mix"},
}
# Flags, and their help.
MODELS = {"elmo": "checkpoint or model name", "word_elmo": "another", "vectors": "word vectors"}
WITHOUT_CONTEXT = ("nothing", "word2vec", "layer0")


def tagged_words(
    path: Path, begin: int = 0, end: int = 10
) -> tuple[list[list[str]], list[list[str]]]:
    """The words of lines of word/TAG, and their tags. begin, end: the lines, in tenths."""
    lines = [line.split() for line in read_lines(path) if line.strip()]
    sentences = []
    labels = []
    for line in lines[len(lines) * begin // 10 : len(lines) * end // 10]:
        words = []
        tags = []
        for tagged_word in line:
            word, _, tag = tagged_word.rpartition("/")
            words.append(word)
            tags.append(tag)
        sentences.append(words)
        labels.append(tags)
    return sentences, labels


def stripped(path: Path) -> tuple[list[list[str]], list[list[str]]]:
    """Characters and their labels in columns, without their positions in words, as in 科0."""
    sentences = SentenceReader(Tagger.settings_type(lang="characters")).read(path, "data")
    characters = []
    for sentence in sentences:
        characters.append([token[0] for token in sentence.tokens])
    return characters, [sentence.labels for sentence in sentences]


@dataclass
class Task:
    """How to train for a task.

    settings: of all arms; pretrained: of all but `nothing`; nothing: of that arm.
    files: train, dev ("": a tenth of train) and test.
    read: how to read each file, if not as the task does.
    """

    kind: type
    settings: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, str, str] = ("train.txt", "dev.txt", "test.txt")
    pretrained: Mapping[str, Any] = field(default_factory=dict)
    nothing: Mapping[str, Any] = field(default_factory=dict)
    read: Sequence[Callable] = (Path, Path, Path)


LEARNT = {"word_dim": 300}  # by a classifier
TASKS = {
    "conll2000": Task(kind=Tagger, settings={"char_cnn": True}),
    "weibo-ner": Task(
        kind=Tagger, pretrained={"unit": "jieba"}, read=(stripped, stripped, stripped)
    ),
    # Its dev.txt is the test set, the last tenth of train.txt the dev set.
    "duie-lac": Task(
        kind=Tagger,
        settings={"scheme": "plain"},
        files=("train.txt", "train.txt", "dev.txt"),
        read=(partial(tagged_words, end=9), partial(tagged_words, begin=9), tagged_words),
    ),
    "lac": Task(
        kind=Tagger,
        settings={"scheme": "lac", "data_format": "tagged", "epochs": 15, "patience": 0},
        files=("train.txt", "", "dev.txt"),
    ),
    # Its test.tsv has no labels.
    "chnsenticorp": Task(
        kind=Classifier,
        settings={"lang": "zh", "head": "lstm"},
        files=("train.tsv", "", "dev.tsv"),
        nothing=LEARNT,
    ),
    "texts": Task(
        kind=Classifier,
        settings={"head": "lstm"},
        files=("train.tsv", "dev.tsv", "test.tsv"),
        nothing=LEARNT,
    ),
    "parsing": Task(kind=Parser, files=("train.conllu", "dev.conllu", "test.conllu")),
    "cmrc2018": Task(
        kind=Reader,
        settings={"lang": "zh"},
        files=("train.json", "trial.json", "dev.json"),
        pretrained={"word_vectors": "{vectors}"},
    ),
}


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder with the task's files")
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    for name, help in MODELS.items():
        parser.add_argument(f"--{name}", help=help)
    parser.add_argument(
        "--arms", nargs="+", choices=ARMS, default=[], help="(default: all whose models are given)"
    )
    parser.add_argument(
        "--against", choices=ARMS, help="baseline arm (default: the best context-free one)"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="further settings of the task"
    )
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    check_setup(args)
    given = [arm for arm in ARMS if arm != "tuned" and not lacking(args, arm)]
    for seed, arm in itertools.product(args.seeds, args.arms or given):
        missing = lacking(args, arm)
        if missing:
            raise UserError(f"arm {arm} needs --{missing[0]}")
        path = args.output / f"{arm}-{seed}.json"
        if not path.exists():
            model, test = trained(args, arm, seed)
            scores = scores_of(args.task, model, test)
            disk.write_json(path, {name: values.tolist() for name, values in scores.items()})
    print("\n".join(table(args)))


def check_setup(args: argparse.Namespace) -> None:
    """Raise if the results in --output are of other data, models or settings.

    Otherwise write down those of this run. A model that was not given before may be added: no
    result depends on it.
    """
    values = {"task": args.task, "set": args.set, "data": absolute(args.data)}
    for name in MODELS:
        if getattr(args, name):
            values[name] = absolute(getattr(args, name))
    file = args.output / "setup.json"
    before = disk.read_json(file, "the flags of earlier runs") if file.exists() else {}
    for name, value in values.items():
        if before.get(name, value) != value:
            raise UserError(
                f"{args.output} has results of another setup: "
                f"--{name} was {before[name]}, is {value}. Name another --output."
            )
    disk.write_json(file, {**before, **values})


def absolute(value: str | Path) -> str:
    """The absolute path of what exists; anything else, such as a model's name, as it is."""
    path = Path(value)
    return str(path.resolve()) if path.exists() else str(value)


def settings_of(name: str, arm: str) -> dict[str, Any]:
    """The settings of an arm of a task."""
    task = TASKS[name]
    vectors = task.nothing if arm == "nothing" else task.pretrained
    return {**task.settings, **vectors, **ARMS[arm]}


def lacking(args: argparse.Namespace, arm: str) -> list[str]:
    """The flags of models that an arm needs, and that are not given."""
    missing = []
    for value in settings_of(args.task, arm).values():
        if isinstance(value, str) and value.startswith("{"):
            name = value.strip("{}").replace("random", "elmo")
            if not getattr(args, name):
                missing.append(name)
    return missing


def trained(args: argparse.Namespace, arm: str, seed: int) -> tuple[Any, Any]:
    """The model of an arm, and the test data."""
    task = TASKS[args.task]
    random = args.output / "elmo-random"
    if arm == "random" and not random.exists():
        save_random(args.elmo, random)
    models = {
        "elmo": args.elmo,
        "word_elmo": args.word_elmo,
        "vectors": args.vectors,
        "random": random,
    }
    values: dict[str, Any] = {"seed": seed}
    for name, value in settings_of(args.task, arm).items():
        values[name] = value.format(**models) if isinstance(value, str) else value
    for setting in args.set:
        name, _, text = setting.partition("=")
        values[name] = literal(text)
    parts = []
    for read, name in zip(task.read, task.files, strict=True):
        parts.append(read(args.data / name) if name else None)
    train, dev, test = parts
    data, labels = train if isinstance(train, tuple) else (train, None)
    settings = task.kind.settings_type(**values)
    return task.kind.train(data, labels, dev=dev, settings=settings), test


def literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def save_random(name: str, folder: Path) -> None:
    """Save the ELMo with random LSTMs, as before pretraining."""
    elmo.paddle.seed(1)
    bilm, vocabulary = elmo.load_bilm(model_files.resolve_name(name))
    weights = weights_of(bilm)
    fresh = weights_of(elmo.BiLM(bilm.config, softmax=False))
    for key in weights:
        if "_lstm." in key:
            weights[key] = fresh[key]
    checkpoint.save_model(folder, bilm.config, weights, vocabulary)


def scores_of(task: str, model: Any, test: Any) -> dict[str, np.ndarray]:
    """Per measure, one value per test text; their mean is the run's score."""
    if isinstance(model, Classifier):
        score = model.evaluate(test)
        return {"accuracy": (score.predicted == score.labels).astype(float)}
    if isinstance(model, Reader):
        score = model.evaluate(test)
        return {"EM": score.exact, "F1": score.f1}
    if isinstance(model, Parser):
        return parser_scores(model, test)
    return tagger_scores(task, model, test)


def parser_scores(model: Parser, test: Any) -> dict[str, np.ndarray]:
    gold = model.read(test)
    shares = []
    for tree, predicted in zip(gold, model.predictions(gold), strict=True):
        shares.append(model.measure([tree], [predicted]).shares)
    words = np.array([len(tree.tokens) for tree in gold])
    uas = words * [share["uas"] for share in shares]
    las = words * [share["las"] for share in shares]
    return {"UAS": ratio_contributions(uas, words), "LAS": ratio_contributions(las, words)}


def tagger_scores(task: str, model: Tagger, test: Any) -> dict[str, np.ndarray]:
    known = set(model.parts["known"] or ())
    sentences = model.read(test)
    scores = []
    for sentence, prediction in zip(sentences, model.predictions(sentences), strict=True):
        score = TaggerScore(model.settings.scheme, of_words=True, known=known)
        score.add(sentence.tokens, sentence.labels, model.names(prediction))
        scores.append(score)
    counts = {"F1": [score.total for score in scores]}
    if task == "weibo-ner":
        counts["F1, named only"] = [named_only(score) for score in scores]
    if task == "lac":
        counts["F1, unknown"] = [score.unknown for score in scores]
    results = {}
    for name, values in counts.items():
        n_gold = np.sum(values, axis=0)[2]
        if n_gold:
            results[name] = f1_contributions(values)
        else:
            log.warning(f"{name}: left out, because the test set has nothing of the kind.")
    return results


def named_only(score: TaggerScore) -> np.ndarray:
    """Correct, predicted and gold spans of Weibo's named entities."""
    named = [counts for tag, counts in score.tags.items() if tag.endswith(".NAM")]
    return np.sum([[0, 0, 0], *named], axis=0)


def f1_contributions(counts: Sequence[Sequence[int]]) -> np.ndarray:
    """The F1 by sentence. counts: of each sentence, its correct, predicted and gold spans."""
    correct, predicted, gold = np.array(counts).T
    return ratio_contributions(2 * correct, predicted + gold)


def ratio_contributions(parts: Sequence[float], wholes: Sequence[float]) -> np.ndarray:
    """Linearise the ratio of two sums into one value per sentence.

    Their mean is the ratio, and their spread that of the ratio, to first order.
    """
    part = np.array(parts)
    whole = np.array(wholes)
    ratio = part.sum() / whole.sum()
    return ratio + len(part) * (part - ratio * whole) / whole.sum()


def table(args: argparse.Namespace) -> Iterator[str]:
    """Yield each arm's mean and standard deviation over seeds, and what it adds to the baseline."""
    scores = read_scores(args.output)
    for measure in measures_of(scores):
        means: dict[str, list[float]] = {}
        for arm, runs in scores.items():
            means[arm] = [float(run[measure].mean()) for run in runs.values()]
        static = [arm for arm in WITHOUT_CONTEXT if arm in means]
        baseline = args.against or max(static, key=lambda arm: np.mean(means[arm]), default=None)
        against = f"against {baseline}" if baseline else ""
        yield f"{measure:16} seeds {'mean':>16}  {against}"
        for arm, runs in scores.items():
            line = f"{arm:16} {len(runs):5} {mean_and_std(means[arm]):>16}"
            of_baseline = scores.get(baseline, {})
            differences = [
                run[measure] - of_baseline[seed][measure]
                for seed, run in runs.items()
                if seed in of_baseline
            ]
            if arm != baseline and differences:
                line += f"  {difference(args, np.array(differences))}"
            yield line


def measures_of(scores: dict[str, dict[int, dict[str, np.ndarray]]]) -> list[str]:
    """The names of the measures, which are those of any run."""
    for runs in scores.values():
        for run in runs.values():
            return list(run)
    return []


def read_scores(folder: Path) -> dict[str, dict[int, dict[str, np.ndarray]]]:
    """The results in a folder: by arm, by seed, the values of each measure."""
    scores: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for arm in ARMS:
        for path in sorted(folder.glob(f"{arm}-*.json")):
            seed = int(path.stem.rpartition("-")[2])
            values = disk.read_json(path, "results")
            run = {name: np.array(column) for name, column in values.items()}
            scores.setdefault(arm, {})[seed] = run
    return scores


def difference(args: argparse.Namespace, differences: np.ndarray) -> Difference:
    """The mean of the differences (n_seeds, n_texts), with its interval."""
    if args.task != "cmrc2018":
        return crossed_difference(differences, "seeds", "texts")
    # Questions on a passage depend on each other.
    _, _, test = TASKS[args.task].files
    passages = read_passages(args.data / test)
    group = np.repeat(np.arange(len(passages)), [len(passage.questions) for passage in passages])
    return clustered_bootstrap(differences.mean(axis=0), group, groups="passages")


if __name__ == "__main__":
    script.run(main)
