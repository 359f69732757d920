"""Reading times: what surprisal adds to the length and frequency of words.

    python reading_times.py text times.tsv --output=story.txt
    elmo surprisal --init_from_ckpt=en --lang=en --dev_data_path=story.txt --per_token=surprisal.tsv
    python reading_times.py fit times.tsv surprisal.tsv --init_from_ckpt=en --output=figure.svg

times.tsv has a header and a row per word; between its columns are tabs, or commas if its name ends
in .csv. Flags give the columns other names:

    word      the word as it was shown, with its punctuation
    time      its reading time; blank or NA if it has none, such as a word that was skipped
    text      optional: the name of its text; without this column, all words are one text
    position  optional: its number in the text. Then rows may have any order, and the rows of a
              word, one per reader for instance, are averaged. Without it, they are in reading order

Each predictor is added to a linear regression on a baseline: length, log frequency, and the place
in the text with its logarithm, since people read faster as they go on. Predictors, length and
frequency come with their values at the words before, for what spills over. Times are relative to
the mean of their text. The log-likelihood is that of held-out words: of ten blocks of successive
words, each is predicted from the nine others. The interval is a bootstrap over sentences.

This is an example: copy it and change it. It needs Matplotlib for the figure.
"""

import argparse
import csv
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_core.checks import import_optional
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.text.text_files import read_lines
from elmo_core.weights.model_files import vocabulary_words

FOLDS = 10
RESAMPLES = 2000  # of the bootstrap
SEED = 1
MIN_WORDS = 30
OURS = ("length", "log rank", "forward", "backward")  # predictors that are computed
MISSING = ("", "NA", "NaN", "nan")
EXCLUSIONS = {  # of words from the regression, not from the text
    "first": "the first word of each sentence",
    "last": "the last word of each sentence",
    "marks": "words with a punctuation mark, and those after them, as far as these spill over",
    "unknown": "words outside the model's vocabulary, and those after them, likewise",
}


class Columns(NamedTuple):
    """The names of the columns of the table of times."""

    word: str
    time: str
    text: str
    position: str


class Words(NamedTuple):
    """The words of all texts, in reading order."""

    words: list[str]
    text: np.ndarray  # (n,) the number of each word's text
    numbers: dict[str, np.ndarray]  # columns of numbers (n,) by name; nan where one is missing
    n_rows: int  # of the table


class WordRows(NamedTuple):
    """A word and the numbers of each of its rows."""

    word: str
    numbers: list[list[float]]


class Token(NamedTuple):
    """A row of `elmo surprisal --per_token`. begin, end: in its line, in characters."""

    line: int
    sentence: int
    position: int
    begin: int
    end: int
    token: str
    forward: float
    backward: float
    is_known: bool


class Data(NamedTuple):
    """The words that are fitted.

    times: (n,), relative to the mean of their text. place: (n, 2), in the text, and its logarithm.
    columns: by name, values at the word and at those before it (n, 1 + spill-over).
    """

    times: np.ndarray
    place: np.ndarray
    columns: dict[str, np.ndarray]
    sentence: np.ndarray  # (n,) the number of each word's sentence

    def design(self, names: Sequence[str]) -> np.ndarray:
        """The columns of a regression (n, columns) on what has these names, and on the place."""
        return np.hstack([*(self.columns[name] for name in names), self.place])


class Result(NamedTuple):
    """What a predictor, or two, add to the baseline.

    gain, low, high: log-likelihood per held-out word in nats, and its 95 % interval. r2: the share
    of the variance of all words. slopes: of each predictor, time per unit, at the word itself and
    where it spills over, together.
    """

    name: str
    gain: float
    low: float
    high: float
    r2: float
    slopes: list[float]


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    # for characters that the terminal cannot encode
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        args.command(args)
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="text | fit")

    text = commands.add_parser("text", help="write the texts that were read, a line each")
    text.set_defaults(command=write_text)
    add_table(text)
    text.add_argument("--output", type=Path, required=True, help="the text")

    fit = commands.add_parser("fit", help="print what each predictor adds; draw a figure")
    fit.set_defaults(command=fit_times)
    add_table(fit)
    fit.add_argument("surprisal", type=Path, help="table of `elmo surprisal --per_token`")
    frequency = fit.add_mutually_exclusive_group(required=True)
    frequency.add_argument("--frequency", metavar="COLUMN", help="log frequency of each word")
    frequency.add_argument(
        "--init_from_ckpt",
        metavar="CKPT",
        help="in place of frequencies: minus the log of the word's rank in this model's vocabulary",
    )
    fit.add_argument(
        "--controls", nargs="+", default=[], metavar="COLUMN", help="more columns of the baseline"
    )
    fit.add_argument(
        "--predictors",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="columns to compare with the surprisal, such as that of another model",
    )
    fit.add_argument(
        "--spillover", type=int, default=2, metavar="N", help="words before (default: 2)"
    )
    about = "; ".join(f"{name}: {what}" for name, what in EXCLUSIONS.items())
    fit.add_argument(
        "--exclude",
        nargs="*",
        choices=EXCLUSIONS,
        default=["first", "last"],
        help=f"what is not fitted (default: first last). {about}",
    )
    fit.add_argument("--output", type=Path, help="figure: .svg, .png or .pdf")
    args = parser.parse_args(argv)
    if getattr(args, "spillover", 0) < 0:
        parser.error("--spillover: expected 0 or more")
    return args


def add_table(parser: argparse.ArgumentParser) -> None:
    """Add the table of times and the names of its columns."""
    parser.add_argument("times", type=Path, help="table of words and reading times")
    for name in Columns._fields:
        parser.add_argument(f"--{name}_column", default=name, metavar="COLUMN")


def columns_of(args: argparse.Namespace) -> Columns:
    return Columns(
        word=args.word_column,
        time=args.time_column,
        text=args.text_column,
        position=args.position_column,
    )


def read_table(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a table, each with the number of its line. needed: columns."""
    disk.check_input(path, "a table")
    delimiter = "," if path.suffix.lower() == ".csv" else "\t"
    lines = (f"{line}\n" for line in read_lines(path))
    table = csv.DictReader(lines, delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in table.fieldnames or ()]
        table.fieldnames = names
        missing = [name for name in needed if name not in names]
        if missing:
            raise csv.Error(f"no column {', '.join(missing)} among {', '.join(names)}")
        for row in table:
            if None in row or None in row.values():
                raise csv.Error(f"expected {len(names)} cells, found {list(row.values())}")
            yield table.line_num, {name: cell.strip() for name, cell in row.items()}
    except csv.Error as error:
        raise UserError(
            f"{path}:{table.line_num}: {error}. Expected a header, "
            f"{'commas' if delimiter == ',' else 'tabs'} between columns, quotes as in CSV."
        ) from error


def to_number(cell: str, where: str) -> float:
    """The number in a cell; nan if it has none."""
    if cell in MISSING:
        return np.nan
    try:
        number = float(cell)
    except ValueError:
        number = np.inf
    if not np.isfinite(number):
        raise UserError(f"{where}: found {cell!r:.60}, expected a number, blank, or NA.")
    return number


def read_texts(
    path: Path, columns: Columns, numeric: Sequence[str]
) -> dict[str, dict[float, WordRows]]:
    """Read the words by text and position, with the columns of numbers."""
    needed = [columns.word, *numeric]
    needed += [name for name in (columns.text, columns.position) if name not in Columns._fields]
    texts: dict[str, dict[float, WordRows]] = {}
    text = ""
    for number, (line, row) in enumerate(read_table(path, needed), 1):
        where = f"{path}:{line}"
        before = text
        text = row.get(columns.text, "")
        position = float(number)
        if columns.position in row:
            position = to_number(row[columns.position], f"{where}, {columns.position}")
            if np.isnan(position):
                raise UserError(f"{where}: no {columns.position}. Number the words.")
        elif text != before and text in texts:
            raise UserError(f"{where}: text {text!r:.60} again. Put its rows together.")
        word = row[columns.word]
        if not word or "\n" in word:
            raise UserError(f"{where}: found {word!r:.60}, expected a word. Leave no row without.")
        found = texts.setdefault(text, {}).setdefault(position, WordRows(word, []))
        if found.word != word:
            raise UserError(
                f"{where}: {columns.position} {position:g} of text {text!r:.60} is {word!r:.60} "
                f"here, {found.word!r:.60} in another row."
            )
        numbers = {name: to_number(row[name], f"{where}, {name}") for name in numeric}
        if numbers.get(columns.time, 1) <= 0:
            raise UserError(
                f"{where}: a time of {row[columns.time]}. Leave it blank if it has none."
            )
        found.numbers.append(list(numbers.values()))
    if not texts:
        raise UserError(f"{path}: no rows. Expected a row per word.")
    return texts


def read_words(path: Path, columns: Columns, numeric: Sequence[str] = ()) -> Words:
    """Read the words and the columns of numbers. The rows of a word are averaged."""
    words = []
    text_numbers = []
    means = []
    n_rows = 0
    for number, text in enumerate(read_texts(path, columns, numeric).values()):
        for position in sorted(text):
            word, rows = text[position]
            words.append(word)
            text_numbers.append(number)
            means.append(mean_of_rows(np.array(rows)))
            n_rows += len(rows)
    by_name = dict(zip(numeric, np.array(means).T, strict=True))
    return Words(words, np.array(text_numbers), by_name, n_rows)


def mean_of_rows(rows: np.ndarray) -> np.ndarray:
    """The mean (columns,) of the numbers in each column (rows, columns); nan without any."""
    is_number = ~np.isnan(rows)
    count = is_number.sum(axis=0)
    sums = np.where(is_number, rows, 0).sum(axis=0)
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)


def write_text(args: argparse.Namespace) -> None:
    """Write each text as a line, with spaces between its words."""
    table = read_words(args.times, columns_of(args))
    disk.check_output("--output", args.output, args.times)
    lines = [f"{' '.join(words)}\n" for words in words_of_texts(table)]
    with disk.atomic_write(args.output) as file:
        file.writelines(lines)


def words_of_texts(table: Words) -> list[list[str]]:
    n_texts = table.text[-1] + 1
    begins = np.searchsorted(table.text, np.arange(n_texts + 1))
    return [table.words[begins[k] : begins[k + 1]] for k in range(n_texts)]


def read_tokens(path: Path) -> list[Token]:
    """Read the tokens of a table of `elmo surprisal --per_token`, without ends of sentences."""
    counts = ("line", "sentence", "position", "begin", "end")
    numeric = (*counts, "forward", "backward", "in_vocabulary")
    tokens = []
    for number, row in read_table(path, ["token", *numeric]):
        values = {name: to_number(row[name], f"{path}:{number}, {name}") for name in numeric}
        if any(np.isnan(values[name]) for name in counts):
            raise UserError(f"{path}:{number}: expected the table of --per_token.")
        token = Token(
            *(int(values[name]) for name in counts),
            token=row["token"],
            forward=values["forward"],
            backward=values["backward"],
            is_known=values["in_vocabulary"] == 1,
        )
        if token.begin < token.end:
            tokens.append(token)
    return tokens


def join(table: Words, tokens: Sequence[Token], source: Path) -> list[list[Token]]:
    """The tokens of each word: those that begin in it, in the text that `text` wrote.

    Raises if words and tokens differ. source: of the tokens.
    """
    parts: list[list[Token]] = [[] for _ in table.words]
    texts = words_of_texts(table)
    first_word = np.searchsorted(table.text, np.arange(len(texts)))  # of each text
    begins = [begins_of(words) for words in texts]
    for token in tokens:
        if token.line >= len(texts):
            raise UserError(
                f"{source}: it has a line {token.line}, counted from 0, but there are "
                f"{len(texts)} texts. Use the text that `text` writes."
            )
        index = np.searchsorted(begins[token.line], token.begin, side="right") - 1
        parts[first_word[token.line] + index].append(token)
    for number, (word, part) in enumerate(zip(table.words, parts, strict=True)):
        found = " ".join(token.token for token in part)
        if letters(word) != letters(found):
            raise UserError(
                f"{source}: word {number + 1} of the times is {word!r:.60}, but the tokens there "
                f"are {found!r:.60}. Write the text again with `text`, and its surprisal."
            )
    return parts


def begins_of(words: Sequence[str]) -> np.ndarray:
    """Where each word begins (n,) in a line, with a space between two."""
    lengths = np.array([len(word) + 1 for word in words])
    return np.cumsum(lengths) - lengths


def letters(text: str) -> str:
    """The letters and digits: the tokeniser may replace other characters."""
    return "".join(char for char in unicodedata.normalize("NFKC", text) if char.isalnum())


def log_ranks(parts: Sequence[Sequence[Token]], vocabulary: Sequence[str]) -> np.ndarray:
    """Minus the logarithm of the rank (n,) of each word's rarest token, leaving out marks.

    By Zipf's law this is nearly log frequency. A token has the better of two ranks, that of itself
    and that in lower case. Unknown ones have the rank after the last.
    """
    ranks = {word: rank for rank, word in enumerate(vocabulary, 1)}
    unknown = len(ranks) + 1
    values = []
    for part in parts:
        worst = 1
        for token in part:
            if letters(token.token):
                rank = ranks.get(token.token, unknown)
                lower = ranks.get(token.token.lower(), unknown)
                worst = max(worst, min(rank, lower))
        values.append(-np.log(worst))
    return np.array(values)


def total(part: Sequence[Token], name: str) -> float:
    """The sum of a value over the tokens of a word; nan for a word without any."""
    return sum(getattr(token, name) for token in part) if part else np.nan


def fit_times(args: argparse.Namespace) -> None:
    """Print what each predictor adds to the baseline, and draw it."""
    if args.output:
        disk.check_output("--output", args.output, args.times, args.surprisal)
    frequency = args.frequency or "log rank"
    baseline = ["length", frequency, *args.controls]
    compared = [["forward"], ["backward"], ["forward", "backward"]]
    compared += [[name] for name in args.predictors]
    given = [args.time_column, *args.controls, *args.predictors]
    if args.frequency:
        given.append(args.frequency)
    for name in given:
        if name in OURS:
            raise UserError(f"{args.times}: {name} is computed here. Rename the column.")

    table = read_words(args.times, columns_of(args), list(dict.fromkeys(given)))
    parts = join(table, read_tokens(args.surprisal), args.surprisal)
    values = dict(table.numbers)
    times = values.pop(args.time_column)
    n_letters = [len(letters(word)) or np.nan for word in table.words]
    values["length"] = np.array(n_letters, float)
    values["forward"] = np.array([total(part, "forward") for part in parts])
    values["backward"] = np.array([total(part, "backward") for part in parts])
    if not args.frequency:
        values[frequency] = log_ranks(parts, vocabulary_words(args.init_from_ckpt))
    excluded = is_excluded(table, parts, args.exclude, args.spillover)
    times = np.where(excluded, np.nan, times)
    data = make_data(table, parts, times=times, values=values, spillover=args.spillover)
    check_data(args.times, data, baseline)

    print(f"{len(data.times):,} of {len(table.words):,} words are fitted")
    if table.n_rows > len(table.words):
        print(f"the time of a word is the mean of its rows, {table.n_rows:,} in all")
    share = 100 * r_squared(data.design(baseline), data.times)
    print(f"baseline: {', '.join(baseline)}, of the word and the {args.spillover} before it")
    print(f"R² of the baseline, within texts: {share:.2f} %")
    results = [compare(data, baseline, names) for names in compared]
    print_results(results)
    if args.output:
        draw(args.output, results)


def is_excluded(
    table: Words, parts: Sequence[Sequence[Token]], exclude: Sequence[str], spillover: int
) -> np.ndarray:
    """Tell (n,) which words are left out, see EXCLUSIONS."""
    last_position = {}  # by sentence
    for part in parts:
        for token in part:
            last_position[token.sentence] = token.position
    excluded = np.zeros(len(parts), bool)
    spilling = np.zeros(len(parts), bool)
    for word, part in enumerate(parts):
        for token in part:
            if "first" in exclude and token.position == 0:
                excluded[word] = True
            if "last" in exclude and token.position == last_position[token.sentence]:
                excluded[word] = True
            if "marks" in exclude and not letters(token.token):
                spilling[word] = True
            if "unknown" in exclude and not token.is_known:
                spilling[word] = True
    near = with_spillover(spilling.astype(float), table.text, spillover)
    return excluded | (near == 1).any(axis=1)


def with_spillover(values: np.ndarray, text: np.ndarray, spillover: int) -> np.ndarray:
    """The values (n, 1 + spillover) at each word and at those before it in its text."""
    columns = [values]
    for lag in range(1, spillover + 1):
        before = np.full(len(values), np.nan)
        is_same_text = text[lag:] == text[:-lag]
        before[lag:] = np.where(is_same_text, values[:-lag], np.nan)
        columns.append(before)
    return np.stack(columns, axis=1)


def make_data(
    table: Words,
    parts: Sequence[Sequence[Token]],
    times: np.ndarray,
    values: dict[str, np.ndarray],
    spillover: int,
) -> Data:
    """Take the words for which nothing is missing: no value, and no word before them."""
    columns = {name: with_spillover(x, table.text, spillover) for name, x in values.items()}
    is_fitted = ~np.isnan(times)
    for column in columns.values():
        is_fitted &= ~np.isnan(column).any(axis=1)
    sentence = np.array([part[0].sentence if part else -1 for part in parts])
    begins = np.searchsorted(table.text, table.text)  # the first word of each word's text
    place = 1 + np.arange(len(times)) - begins
    text = table.text[is_fitted]
    count = np.bincount(text)
    means = np.bincount(text, times[is_fitted]) / np.maximum(count, 1)
    return Data(
        times=times[is_fitted] - means[text],
        place=np.stack([place, np.log(place)], axis=1)[is_fitted],
        columns={name: column[is_fitted] for name, column in columns.items()},
        sentence=sentence[is_fitted],
    )


def check_data(path: Path, data: Data, baseline: Sequence[str]) -> None:
    """Raise if there are too few words, or if values do not differ."""
    n_columns = data.design([*baseline, "forward", "backward"]).shape[1]
    needed = max(MIN_WORDS, 2 * n_columns)
    if len(data.times) < needed:
        raise UserError(
            f"{path}: {len(data.times)} words can be fitted, expected {needed} or more. The others "
            "have no time, lack a value or words before them, or are left out by --exclude."
        )
    if np.ptp(data.times) == 0:
        raise UserError(
            f"{path}: within each text, all times are equal. If each has one time only, leave out "
            "the column of texts."
        )
    for name, column in data.columns.items():
        if np.ptp(column[:, 0]) == 0:
            raise UserError(f"{path}: {name} is {column[0, 0]:g} at all words. Leave it out.")


def compare(data: Data, baseline: Sequence[str], predictors: Sequence[str]) -> Result:
    """Compare the regressions without and with some predictors."""
    name = " + ".join(predictors)
    base = data.design(baseline)
    full = data.design([*predictors, *baseline])
    if is_singular(full):
        raise UserError(
            f"{name}, {', '.join(baseline)}, place in the text: the values of one follow from "
            "those of others. Leave it out."
        )
    gains = log_likelihoods(full, data.times) - log_likelihoods(base, data.times)
    low, high = interval(gains, data.sentence)
    added = full.shape[1] - base.shape[1]
    slopes = coefficients(full, data.times)[1 : 1 + added].reshape(len(predictors), -1)
    return Result(
        name=name,
        gain=float(gains.mean()),
        low=low,
        high=high,
        r2=r_squared(full, data.times) - r_squared(base, data.times),
        slopes=slopes.sum(axis=1).tolist(),
    )


def is_singular(design: np.ndarray) -> bool:
    """Tell whether a column follows from the others."""
    spread = np.ptp(design, axis=0)
    scaled = (design - design.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return np.linalg.matrix_rank(scaled) < design.shape[1]


def log_likelihoods(design: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The log-likelihood (n,) in nats of each word's time, by a regression on the other blocks."""
    values = np.zeros(len(times))
    for block in np.array_split(np.arange(len(times)), FOLDS):
        is_held_out = np.zeros(len(times), bool)
        is_held_out[block] = True
        fitted = coefficients(design[~is_held_out], times[~is_held_out])
        residuals = times - predicted(design, fitted)
        variance = (residuals[~is_held_out] ** 2).mean()
        values[block] = -0.5 * (np.log(2 * np.pi * variance) + residuals[block] ** 2 / variance)
    return values


def r_squared(design: np.ndarray, times: np.ndarray) -> float:
    """The share of the variance of all words that a regression explains."""
    residuals = times - predicted(design, coefficients(design, times))
    return float(1 - residuals.var() / times.var())


def coefficients(design: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The intercept and the slopes (1 + columns,) of a regression by least squares."""
    ones = np.ones((len(design), 1))
    solution, *_ = np.linalg.lstsq(np.hstack([ones, design]), times, rcond=None)
    return solution


def predicted(design: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """The times (n,) that a regression predicts. fitted: its coefficients."""
    return fitted[0] + design @ fitted[1:]


def interval(values: np.ndarray, sentence: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the mean of values (n,), by drawing sentences with replacement."""
    _, number = np.unique(sentence, return_inverse=True)
    total = np.bincount(number, values)
    size = np.bincount(number)
    random = np.random.default_rng(SEED)
    means = []
    for _ in range(RESAMPLES):
        drawn = random.integers(len(size), size=len(size))
        means.append(total[drawn].sum() / size[drawn].sum())
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def print_results(results: Sequence[Result]) -> None:
    width = max(len(result.name) for result in results)
    print(f"{'predictor':{width}}  nats per word  95 % interval       added R²  time per unit")
    for result in results:
        slopes = ", ".join(f"{slope:.3g}" for slope in result.slopes)
        between = f"[{result.low:.4f}, {result.high:.4f}]"
        print(
            f"{result.name:{width}}  {result.gain:13.4f}  {between:18}  {100 * result.r2:6.2f} %  "
            f"{slopes}"
        )


def draw(path: Path, results: Sequence[Result]) -> None:
    """Draw the log-likelihood that each predictor adds, with its interval."""
    matplotlib = import_optional("matplotlib", "a figure")
    from matplotlib.figure import Figure

    format_name = path.suffix.lower().removeprefix(".")
    with matplotlib.rc_context({"font.size": 10, "svg.hashsalt": "reading times"}):
        figure = Figure(figsize=(5, 1.1 + 0.35 * len(results)), layout="constrained")
        axes = figure.add_subplot()
        rows = range(len(results))
        gains = [result.gain for result in results]
        below = [result.gain - result.low for result in results]
        above = [result.high - result.gain for result in results]
        axes.errorbar(
            gains, rows, xerr=[below, above], fmt="o", color="black", markersize=5, capsize=3
        )
        axes.axvline(0, color="gray", linewidth=0.8)
        axes.set_yticks(rows, [result.name for result in results])
        axes.locator_params(axis="x", nbins=6)  # whose numbers do not touch
        axes.set_ylim(len(results) - 0.5, -0.5)
        axes.set_xlabel("added log-likelihood (nats per word)")
        axes.spines[["top", "right"]].set_visible(False)
        if format_name not in figure.canvas.get_supported_filetypes():
            raise UserError(f"{path}: expected a name that ends in .svg, .png or .pdf.")
        metadata = {"Date": None} if format_name == "svg" else {}
        with disk.atomic_write(path, "wb") as file:
            figure.savefig(file, format=format_name, dpi=200, metadata=metadata)


if __name__ == "__main__":
    main()
