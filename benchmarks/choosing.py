"""What people try first on labelled texts of their own, beside ELMo: which tool for which text.

    python benchmarks/choosing.py prepare public    # from clones to public/sets/NAME/train.tsv, ...
    python benchmarks/choosing.py run --data public/sets/ag-news --output results.jsonl \\
        --word_vectors en=word2vec.bin
    python benchmarks/choosing.py table results.jsonl > tables.md
    python benchmarks/choosing.py figure results.jsonl --lang en --output choosing-en.svg

A set is a folder with train.tsv and test.tsv, lines of text<TAB>label. A draw is a random order of
the training texts, of which a run has the first ones: each class has its share, and at least one
text if there is room for all. So the draw's 50 texts are among its 100.

Finished runs are kept in --output: the same command continues. Seconds are of the processor; those
of training include the search for C and do without what is loaded once, such as word vectors.
OMP_NUM_THREADS=1 uses one core.
"""

import argparse
import json
import logging
import random
import re
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import choosing_sets
import jieba
import numpy as np
from scipy import stats
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import args as arguments
import script
from elmo_core.checks import import_optional
from elmo_core.files import disk
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.messages import UserError, format_count, join_names, log
from elmo_core.text.language import make_tokeniser, recognise
from elmo_core.text.text_files import parse_json, read_lines

ALL = "all"  # the size of all training texts
SIZES = (50, 100, 300, 1000, ALL)
FOLDS = 5  # of the search for C
# Values of C. Of equally good ones the first is taken, as few texts seldom tell them apart.
OF_COUNTS = (100, 30, 10, 3, 1, 0.3, 0.1)  # for TF-IDF, which is best with little regularisation
OF_VECTORS = (0.0001, 0.001, 0.01, 0.1, 1, 10)  # for standardised vectors
# fastText fills its vectors in ten parts, a thread each; those of fewer threads stay unset memory.
FASTTEXT_THREADS = 10
BASELINES = ("tfidf", "tfidf-characters", "fasttext", "fasttext-characters", "word2vec")
MEASURES = {"accuracy": "accuracy", "macro_f1": "macro F1", "auc": "ROC AUC"}


class Part(NamedTuple):
    """Texts and their labels."""

    texts: Sequence[str]
    labels: Sequence[str]

    def first(self, order: Sequence[int]) -> "Part":
        """The texts of these numbers."""
        return Part([self.texts[k] for k in order], [self.labels[k] for k in order])


class Setup(NamedTuple):
    """What the methods know besides the texts. word_vectors: gensim's, by language."""

    lang: str
    seed: int
    word_vectors: Any
    elmo: str


class Fitted(NamedTuple):
    """A trained model. probabilities: a function from texts to (texts, labels)."""

    labels: Sequence[str]
    probabilities: Callable[[Sequence[str]], np.ndarray]
    chosen: dict[str, Any]  # by the training, such as C


class Method(NamedTuple):
    """has_seed: runs on the same texts differ. lang: the only language that it is for, if one."""

    fit: Callable[[Part, Setup], Fitted]
    has_seed: bool = False
    lang: str = ""


class Run(NamedTuple):
    """What identifies a line of the results."""

    set: str
    method: str
    size: int | str
    draw: int


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(required=True, metavar="prepare | run | table | figure")

    prepare = commands.add_parser("prepare", help="write the public sets")
    prepare.set_defaults(command=choosing_sets.prepare)
    prepare.add_argument("folder", type=Path, help="the folder of the repositories")
    prepare.add_argument(
        "--sets", nargs="+", choices=tuple(choosing_sets.SETS), help="only these (default: all)"
    )

    run = commands.add_parser("run", help="train and test each method, and keep the scores")
    run.set_defaults(command=run_all)
    run.add_argument(
        "--data", **arguments.DIR, nargs="+", required=True, help="folders with train.tsv, test.tsv"
    )
    run.add_argument("--output", **arguments.FILE, required=True, help="the scores, JSON lines")
    run.add_argument(
        "--methods", nargs="+", choices=tuple(METHODS), help="only these (default: all)"
    )
    run.add_argument(
        "--sizes",
        type=size,
        nargs="+",
        default=SIZES,
        metavar="N",
        help="numbers of training texts",
    )
    run.add_argument("--draws", **arguments.COUNT, default=5, help="draws of each size")
    run.add_argument(
        "--word_vectors",
        type=by_language,
        nargs="+",
        default=(),
        metavar="LANG=FILE",
        help="for word2vec, of `preprocess.py vectors`, such as en=word2vec.bin",
    )
    run.add_argument("--elmo", default="auto", help="model; auto: en or zh, by the texts")

    table = commands.add_parser("table", help="print tables in Markdown")
    table.set_defaults(command=print_tables)
    add_results(table)
    table.add_argument(
        "--against", default="classifier", choices=tuple(METHODS), help="compare with the baselines"
    )

    figure = commands.add_parser("figure", help="draw the mean over a language's sets")
    figure.set_defaults(command=draw_figure)
    add_results(figure)
    figure.add_argument("--lang", default="en", choices=("en", "zh"), help="of the sets")
    figure.add_argument("--output", **arguments.FILE, required=True, help="picture, such as .svg")

    args = parser.parse_args(argv)
    args.command(args)


def add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, nargs="+", help="files of `run --output`")
    parser.add_argument(
        "--measure", choices=tuple(MEASURES), default="accuracy", help="what is compared"
    )


def size(text: str) -> int | str:
    return text if text == ALL else arguments.COUNT["type"](text)


def by_language(text: str) -> tuple[str, Path]:
    lang, _, name = text.partition("=")
    if lang not in ("en", "zh") or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected en=FILE or zh=FILE")
    return lang, disk.user_path(name)


# Runs --------------------------------------------------------------------------------------------


def run_all(args: argparse.Namespace) -> None:
    disk.check_output("--output", args.output)
    names = [folder.name for folder in args.data]
    if len(set(names)) < len(names):
        raise UserError(f"--data: two folders of a name among {join_names(names)}. Rename one.")
    if "fasttext" in (args.methods or METHODS):
        import_optional("fasttext", "the method fasttext")
    args.output.parent.mkdir(parents=True, exist_ok=True)
    jieba.setLogLevel(logging.WARNING)
    jieba.initialize()  # not in the first training's seconds
    finished = {run_of(record) for record in read_results([args.output])}
    for folder in args.data:
        run_set(folder, args, finished)


def run_set(folder: Path, args: argparse.Namespace, finished: set[Run]) -> None:
    """Run the methods on a set, and append their scores to --output."""
    train = read_part(folder / "train.tsv")
    test = read_part(folder / "test.tsv")
    lang = "zh" if recognise(train.texts) == "zh" else "en"
    methods = methods_of(lang, args.methods)
    vectors = dict(args.word_vectors).get(lang)
    if "word2vec" in methods and not vectors:
        raise UserError(f"word2vec needs --word_vectors {lang}=FILE of `preprocess.py vectors`.")
    orders: dict[int, np.ndarray] = {}
    for name, number, draw in product(methods, args.sizes, range(args.draws)):
        run = Run(folder.name, name, number, draw)
        if run in finished or not is_possible(run, len(train.texts)):
            continue
        if draw not in orders:
            orders[draw] = order(train.labels, draw)
        chosen = train.first(orders[draw] if number == ALL else orders[draw][:number])
        setup = Setup(lang=lang, seed=draw, word_vectors=vectors, elmo=args.elmo)
        record = {"set": run.set, "method": name, "size": number, "draw": draw}
        record.update({"lang": lang, "n": len(chosen.texts)})
        record.update(scores(METHODS[name].fit, chosen, test, setup))
        with args.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        log.info(
            f"{run.set:16} {name:20} {number:>5} {draw}  {record['accuracy']:.2%}  "
            f"{record['train_seconds']:.1f} s"
        )


def methods_of(lang: str, chosen: Sequence[str] | None) -> list[str]:
    """The methods that are for a language. chosen: by the user, None for all."""
    return [name for name in chosen or METHODS if METHODS[name].lang in ("", lang)]


def is_possible(run: Run, n_texts: int) -> bool:
    """Whether there are more texts than the run's, and whether it differs from the first draw's."""
    if run.size == ALL:
        return run.draw == 0 or METHODS[run.method].has_seed
    return run.size < n_texts


def read_part(path: Path) -> Part:
    disk.check_input(path, "labelled texts")
    texts = []
    labels = []
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split("\t")
        if len(fields) != 2:
            found = f"{len(fields)} columns"
            raise UserError(f"{path}:{number}: found {found}, expected text<TAB>label.")
        texts.append(fields[0])
        labels.append(fields[1])
    if len(set(labels)) < 2:
        raise UserError(f"{path}: found {len(set(labels))} classes, expected two or more.")
    return Part(texts, labels)


def order(labels: Sequence[str], seed: int) -> np.ndarray:
    """A random order (n,) of texts in which all beginnings have the classes in proportion.

    One text of each class comes first.
    """
    labels = np.array(labels)
    rng = np.random.default_rng(seed)
    position = np.empty(len(labels))
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        position[members] = (np.arange(len(members)) + rng.random()) / len(members)
        position[members[0]] = rng.random() - 1
    return np.argsort(position)


def scores(
    fit: Callable[[Part, Setup], Fitted], train: Part, test: Part, setup: Setup
) -> dict[str, Any]:
    """Train and test: the measures, the seconds, and what the training chose."""
    began = time.process_time()
    model = fit(train, setup)
    trained = time.process_time()
    probabilities = np.asarray(model.probabilities(test.texts))  # (texts, labels)
    predicted = [model.labels[k] for k in probabilities.argmax(axis=1)]
    ended = time.process_time()
    gold = np.array(test.labels)
    found = {
        "accuracy": float(np.mean(gold == predicted)),
        "macro_f1": float(f1_score(gold, predicted, labels=np.unique(gold), average="macro")),
        "train_seconds": round(trained - began, 3),
        "texts_per_second": round(len(gold) / max(ended - trained, 1e-6), 1),
        "chosen": model.chosen,
    }
    if len(model.labels) == 2:
        found["auc"] = float(roc_auc_score(gold == model.labels[1], probabilities[:, 1]))
    return found


# Methods -----------------------------------------------------------------------------------------


def majority(train: Part, setup: Setup) -> Fitted:
    counts = Counter(train.labels)
    shares = np.array(list(counts.values())) / len(train.labels)
    return Fitted(list(counts), lambda texts: np.tile(shares, (len(texts), 1)), {})


def tfidf(train: Part, setup: Setup, characters: bool = False) -> Fitted:
    """Words and pairs of them, or one to three characters, each class against the others.

    liblinear is as good as scikit-learn's usual solver here, and several times as fast.
    """
    features = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    if characters:
        features = TfidfVectorizer(sublinear_tf=True, analyzer="char", ngram_range=(1, 3))
    elif setup.lang == "zh":
        features.set_params(tokenizer=jieba.lcut, token_pattern=None)
    linear = OneVsRestClassifier(LogisticRegression(solver="liblinear"))
    return fitted(train, features, linear, {"estimator__C": OF_COUNTS})


def word2vec(train: Part, setup: Setup) -> Fitted:
    """The mean of the vectors of a text's words."""
    vectors = FunctionTransformer(partial(mean_vectors, setup.lang, setup.word_vectors))
    return of_vectors(train, vectors)


def elmo(train: Part, setup: Setup) -> Fitted:
    from elmo_tasks import ELMoVectorizer  # the other methods need no Paddle

    return of_vectors(train, ELMoVectorizer(setup.elmo))


def of_vectors(train: Part, vectorizer: Any) -> Fitted:
    features = make_pipeline(vectorizer, StandardScaler())
    return fitted(train, features, LogisticRegression(max_iter=1000), {"C": OF_VECTORS})


def fitted(train: Part, features: Any, linear: Any, grid: dict[str, Sequence[float]]) -> Fitted:
    """A linear model over features, with the C that is best in cross-validation."""
    matrix = features.fit_transform(train.texts)
    search = GridSearchCV(linear, grid, cv=folds(train.labels))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")  # has fewer than FOLDS texts
        search.fit(matrix, train.labels)

    def probabilities(texts: Sequence[str]) -> np.ndarray:
        return search.predict_proba(features.transform(texts))

    (value,) = search.best_params_.values()
    return Fitted(search.classes_.tolist(), probabilities, {"C": value})


def folds(labels: Sequence[str]) -> Any:
    """How the search for C divides the texts: in proportion, if a class has enough of them."""
    kind = StratifiedKFold if max(Counter(labels).values()) >= FOLDS else KFold
    return kind(FOLDS, shuffle=True, random_state=0)


def mean_vectors(lang: str, path: Path, texts: Sequence[str]) -> np.ndarray:
    """The means (n, D) of the vectors of texts' words. A word that has none is tried lower-case."""
    vectors = loaded_vectors(path)
    means = np.zeros((len(texts), vectors.vector_size), np.float32)
    tokeniser = make_tokeniser(lang, texts)
    for number, text in enumerate(texts):
        rows = []
        for word in tokeniser(text):
            row = vectors.key_to_index.get(word, vectors.key_to_index.get(word.lower()))
            if row is not None:
                rows.append(row)
        if rows:
            means[number] = vectors.vectors[rows].mean(axis=0)
    return means


@cache
def loaded_vectors(path: Path) -> Any:
    return load_word_vectors(path)


def fasttext(train: Part, setup: Setup, characters: bool = False) -> Fitted:
    """fastText's classifier, with the settings of its tutorial."""
    package = import_optional("fasttext", "the method fasttext")
    cut = partial(spaced, setup.lang, characters)
    labels = sorted(set(train.labels))
    numbers = {label: number for number, label in enumerate(labels)}
    lines = [
        f"__label__{numbers[label]} {cut(text)}\n"
        for text, label in zip(train.texts, train.labels, strict=True)
    ]
    random.Random(setup.seed).shuffle(lines)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "train.txt")
        file.write_text("".join(lines), encoding="utf-8")
        model = package.train_supervised(
            str(file), epoch=25, lr=0.5, dim=100, wordNgrams=2, thread=FASTTEXT_THREADS, verbose=0
        )

    def probabilities(texts: Sequence[str]) -> np.ndarray:
        found = np.zeros((len(texts), len(labels)))
        names, shares = model.predict([cut(text) for text in texts], k=len(labels))
        for row, (of_text, values) in enumerate(zip(names, shares, strict=True)):
            columns = [int(name.removeprefix("__label__")) for name in of_text]
            found[row, columns] = values
        return found

    return Fitted(labels, probabilities, {})


def spaced(lang: str, characters: bool, text: str) -> str:
    """A text in lower case, with spaces between its words or its characters."""
    text = text.lower()
    if characters:
        return " ".join("".join(text.split()))
    if lang == "zh":
        return " ".join(" ".join(jieba.lcut(text)).split())
    return " ".join(re.findall(r"\w+|[^\w\s]", text))


def classifier(train: Part, setup: Setup, **settings: Any) -> Fitted:
    from elmo_tasks import Classifier, ClassifierSettings

    settings["seed"] = setup.seed
    if setup.elmo != "auto":
        settings["elmo"] = setup.elmo
    model = Classifier.train(
        train.texts, train.labels, settings=ClassifierSettings(**settings), progress=False
    )
    return Fitted(model.labels, model.predict_proba, {})


METHODS = {
    "majority": Method(majority),
    "tfidf": Method(tfidf),
    "tfidf-characters": Method(partial(tfidf, characters=True), lang="zh"),
    "fasttext": Method(fasttext, has_seed=True),
    "fasttext-characters": Method(partial(fasttext, characters=True), has_seed=True, lang="zh"),
    "word2vec": Method(word2vec),
    "elmo": Method(elmo),
    "classifier": Method(classifier, has_seed=True),
    "tuned": Method(partial(classifier, elmo_trainable=True), has_seed=True),
}
LABELS = {
    "majority": "most frequent class",
    "tfidf": "TF-IDF",
    "tfidf-characters": "TF-IDF, characters",
    "fasttext": "fastText",
    "fasttext-characters": "fastText, characters",
    "word2vec": "word2vec",
    "elmo": "`ELMoVectorizer`",
    "classifier": "`Classifier`",
    "tuned": "`Classifier`, fine-tuned",
}


# Tables ------------------------------------------------------------------------------------------


def read_results(paths: Sequence[Path]) -> list[dict]:
    """The lines of results. A file that does not exist has none."""
    records = []
    for path in paths:
        lines = read_lines(path) if path.exists() else ()
        for number, line in enumerate(lines, 1):
            try:
                record = parse_json(line)
                run_of(record)
            except (ValueError, TypeError, KeyError) as error:
                found = f"{path}:{number}: found {line!r:.60}"
                raise UserError(f"{found}, expected a line of `choosing.py run`.") from error
            records.append(record)
    return records


def run_of(record: dict) -> Run:
    return Run(record["set"], record["method"], record["size"], record["draw"])


class Results:
    """The values of a measure, by set, method and size, with one per draw."""

    def __init__(self, records: Sequence[dict], lang: str, measure: str):
        self.values: dict[tuple[str, str, int | str], dict[int, float]] = defaultdict(dict)
        sizes = set()
        for record in records:
            run = run_of(record)
            if record["lang"] == lang and measure in record:
                self.values[run.set, run.method, run.size][run.draw] = record[measure]
                sizes.add(run.size)
        numbers = sorted(number for number in sizes if number != ALL)
        self.sizes = [*numbers, *sizes & {ALL}]
        self.sets = list(dict.fromkeys(name for name, _, _ in self.values))
        found = {method for _, method, _ in self.values}
        self.methods = [name for name in METHODS if name in found]

    def draws(self, set_name: str, method: str, number: int | str) -> list[float]:
        return list(self.values.get((set_name, method, number), {}).values())

    def mean(self, set_name: str, method: str, number: int | str) -> float:
        draws = self.draws(set_name, method, number)
        return float(np.mean(draws)) if draws else np.nan

    def over_sets(self, method: str, number: int | str) -> float:
        """The mean over the sets; not a number if the method lacks some that another has."""
        means = [self.mean(name, method, number) for name in self.sets_with(number)]
        return float(np.mean(means)) if means else np.nan

    def sets_with(self, number: int | str) -> list[str]:
        """The sets with runs of a size: a small set does not have all of them."""
        having = {name for name, _, of_run in self.values if of_run == number}
        return [name for name in self.sets if name in having]

    def best(self, set_name: str, number: int | str) -> float:
        """The mean of the best baseline."""
        means = [self.mean(set_name, method, number) for method in BASELINES]
        known = [mean for mean in means if not np.isnan(mean)]
        return max(known, default=np.nan)


def known_results(args: argparse.Namespace) -> list[dict]:
    for path in args.results:
        disk.check_input(path, "results of `run`")
    return read_results(args.results)


def print_tables(args: argparse.Namespace) -> None:
    records = known_results(args)
    for lang in ("en", "zh"):
        results = Results(records, lang, args.measure)
        if results.sets:
            print("\n".join(tables(results, records, args, lang)))


def tables(
    results: Results, records: Sequence[dict], args: argparse.Namespace, lang: str
) -> Iterator[str]:
    texts = {record["set"]: record["n"] for record in records if record["size"] == ALL}
    yield f"## {lang}: {MEASURES[args.measure]}, mean and 95 % interval over draws"
    yield ""
    for name in results.sets:
        yield from of_set(results, f"{name} ({texts.get(name, 0):,})", name)
    yield from header("mean over sets", results.sizes)
    for method in results.methods:
        means = [results.over_sets(method, number) for number in results.sizes]
        yield row(LABELS[method], [percent(mean) for mean in means])
    yield ""
    if args.against in results.methods:
        yield from differences(results, args.against)
    yield from header("seconds of training, mean over sets", results.sizes, "texts per second")
    seconds = Results(records, lang, "train_seconds")
    speeds = Results(records, lang, "texts_per_second")
    for method in results.methods:
        cells = [seconds.over_sets(method, number) for number in results.sizes]
        rates = [speeds.over_sets(method, number) for number in results.sizes]
        speed = f"{np.nanmean(rates):,.0f}" if not np.all(np.isnan(rates)) else "–"
        yield row(LABELS[method], [*(decimal(cell) for cell in cells), speed])
    yield ""


def of_set(results: Results, title: str, name: str) -> Iterator[str]:
    """The table of a set, with the best mean of each size in bold."""
    yield from header(title, results.sizes)
    best = {}
    for number in results.sizes:
        means = [results.mean(name, method, number) for method in results.methods]
        best[number] = max([mean for mean in means if not np.isnan(mean)], default=np.nan)
    for method in results.methods:
        cells = []
        for number in results.sizes:
            draws = results.draws(name, method, number)
            cell = with_interval(draws)
            is_best = draws and np.mean(draws) == best[number]
            cells.append(f"**{cell}**" if is_best else cell)
        yield row(LABELS[method], cells)
    yield ""


def differences(results: Results, method: str) -> Iterator[str]:
    """The method's means without those of the best baseline of the set and size, in points."""
    yield from header(f"{LABELS[method]} − the best baseline", results.sizes, "mean")
    columns = defaultdict(list)
    for name in results.sets:
        gains = []
        for number in results.sizes:
            gain = results.mean(name, method, number) - results.best(name, number)
            gains.append(gain)
            columns[number].append(gain)
        yield row(name, [signed(gain) for gain in [*gains, mean_of_known(gains)]])
    means = [mean_of_known(columns[number]) for number in results.sizes]
    yield row("mean", [signed(gain) for gain in [*means, mean_of_known(means)]])
    yield ""


def mean_of_known(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else np.nan


def header(title: str, sizes: Sequence[int | str], *more: str) -> Iterator[str]:
    names = [f"{number:,}" if number != ALL else ALL for number in sizes]
    yield row(title, [*names, *more])
    n_columns = 1 + len(names) + len(more)
    yield row("---", ["---"] * (n_columns - 1))


def row(title: str, cells: Sequence[str]) -> str:
    return "| " + " | ".join([title, *cells]) + " |"


def percent(value: float) -> str:
    return "–" if np.isnan(value) else f"{100 * value:.1f}"


def signed(value: float) -> str:
    return "–" if np.isnan(value) else f"{100 * value:+.1f}"


def decimal(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.2f}" if value < 1 else f"{value:,.1f}"


def with_interval(draws: Sequence[float]) -> str:
    """The mean in per cent and, of several draws, half the width of its 95 % interval."""
    if not draws:
        return "–"
    mean = percent(float(np.mean(draws)))
    if len(draws) == 1:
        return mean
    half = stats.t.ppf(0.975, len(draws) - 1) * stats.sem(draws)
    return f"{mean} ± {100 * half:.1f}"


# The figure --------------------------------------------------------------------------------------


def draw_figure(args: argparse.Namespace) -> None:
    """Draw the mean over the sets that have all sizes, a line per method."""
    figures = import_optional("matplotlib.figure", "a figure")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    disk.check_output("--output", args.output, *args.results)
    results = Results(known_results(args), args.lang, args.measure)
    complete = set(results.sets)
    for number in results.sizes:
        complete.intersection_update(results.sets_with(number))
    if not complete:
        raise UserError(f"no set in {args.lang} has runs of each size: nothing to draw.")
    results.sets = sorted(complete)
    figure = figures.Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places = range(len(results.sizes))
    for method in results.methods:
        means = [100 * results.over_sets(method, number) for number in results.sizes]
        dashed = method in BASELINES or method == "majority"
        label = LABELS[method].replace("`", "")
        axes.plot(places, means, "o--" if dashed else "o-", markersize=4, label=label)
    axes.set_xticks(places, [str(number) for number in results.sizes])
    axes.set_xlabel("training texts")
    axes.set_ylabel(f"{MEASURES[args.measure]}, mean of {format_count(len(complete), 'sets')} (%)")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize="small")
    format_name = args.output.suffix.removeprefix(".")
    with disk.atomic_write(args.output, "wb") as file:
        figure.savefig(file, format=format_name, dpi=150)
    log.info(f"{args.output}: the mean over {join_names(results.sets)}.")


if __name__ == "__main__":
    script.run(main)
