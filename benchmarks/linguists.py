"""The public tests of docs/results-linguists.md: from their repositories to tables of results.

    python benchmarks/linguists.py pairs public         # writes public/blimp.jsonl and others
    python benchmarks/linguists.py times public         # writes public/natural-stories.tsv, ...
    python benchmarks/linguists.py shares scores.tsv    # of `run_eval.py --pairs --output`
    python benchmarks/linguists.py circuits suites.tsv  # of `run_eval.py --suite --output`
    python benchmarks/linguists.py reading public public/reading-surprisal.tsv    # BabyLM's scores

The folder holds clones of the repositories. A share is the mean of the test sets' shares, whatever
their sizes.
"""

import argparse
import csv
import itertools
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import args as arguments
import script
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.text.text_files import parse_json, read_lines
from elmo_tools.experiments.pairs import ROUNDING

BABYLM = "babylm-evaluation-2025/evaluation_data/full_eval"
READING = f"{BABYLM}/reading/reading_data.csv"
DIRECTIONS = ("forward", "backward", "both")
CIRCUITS = {  # of Hu et al. 2020, by how the names of their suites begin
    "agreement": ("number_",),
    "center embedding": ("center_",),
    "garden paths": ("npz_", "mvrr"),
    "gross syntactic state": ("subordination",),
    "licensing": ("npi_", "reflexive_"),
    "long-distance dependencies": ("fgd_", "cleft"),
}
EYE_TRACKING = ("RTfirstfix", "RTfirstpass", "RTgopast", "RTrightbound")


class Pair(NamedTuple):
    """A minimal pair, as run_eval.py --pairs reads it. uid: its test set."""

    sentence_good: str
    sentence_bad: str
    phenomenon: str
    uid: str
    prefix: str = ""


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(
        required=True, metavar="pairs | times | shares | circuits | reading"
    )

    pairs = commands.add_parser("pairs", help="write minimal pairs as JSON lines")
    pairs.set_defaults(command=write_pairs)
    add_folder(pairs)

    times = commands.add_parser("times", help="write tables of words and reading times")
    times.set_defaults(command=write_times)
    add_folder(times)

    shares = commands.add_parser("shares", help="print the shares of pairs that a model gets right")
    shares.set_defaults(command=print_shares)
    shares.add_argument("scores", type=Path, help="table of `run_eval.py --pairs --output`")
    shares.add_argument("--only", **arguments.FILE, help="count the pairs of this file only")
    shares.add_argument("--known", action="store_true", help="count pairs of known words only")
    shares.add_argument("--set", default="UID", help="column of the test set (default: UID)")
    shares.add_argument("--group", metavar="COLUMN", help="also print the mean of these groups")

    circuits = commands.add_parser("circuits", help="print the shares of SyntaxGym's circuits")
    circuits.set_defaults(command=print_circuits)
    circuits.add_argument("scores", type=Path, help="table of `run_eval.py --suite --output`")

    reading = commands.add_parser("reading", help="print the two scores of BabyLM's reading task")
    reading.set_defaults(command=print_reading)
    add_folder(reading)
    reading.add_argument("surprisal", type=Path, help="table of `run_eval.py --per_token`")

    args = parser.parse_args(argv)
    args.command(args)


def add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="the folder of the repositories")


# Minimal pairs -----------------------------------------------------------------------------------


def write_pairs(args: argparse.Namespace) -> None:
    folder = args.folder
    copy_lines(folder / "blimp.jsonl", json_lines(folder / "blimp/data"))
    copy_lines(folder / "blimp-filtered.jsonl", json_lines(folder / BABYLM / "blimp_filtered"))
    copy_lines(folder / "zhoblimp.jsonl", json_lines(folder / "ZhoBLiMP/data/ZhoBLiMP"))
    save_pairs(folder / "zorro.jsonl", zorro(folder))
    save_pairs(folder / "supplement.jsonl", supplement(folder))
    save_pairs(folder / "ewok.jsonl", ewok(folder))
    save_pairs(folder / "climp.jsonl", climp(folder))
    save_pairs(folder / "sling.jsonl", sling(folder))


def files_of(folder: Path, ending: str) -> list[Path]:
    """The files of a folder and of those in it, in the order of their names."""
    paths = [path for path in folder.rglob(f"*{ending}") if not path.name.startswith(".")]
    if not paths:
        raise UserError(f"{folder} has no files *{ending}. See docs/results-linguists.md.")
    return sorted(paths)


def json_lines(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in files_of(folder, ".jsonl"):
        for line in read_lines(path):
            yield path, line


def copy_lines(path: Path, lines: Iterable[tuple[Path, str]]) -> None:
    """Write the lines of several files into one."""
    with disk.atomic_write(path) as file:
        file.writelines(f"{line}\n" for _, line in lines)


def save_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    with disk.atomic_write(path) as file:
        for pair in pairs:
            fields = {"sentence_good": pair.sentence_good, "sentence_bad": pair.sentence_bad}
            fields.update({"phenomenon": pair.phenomenon, "UID": pair.uid})
            if pair.prefix:
                fields["prefix"] = pair.prefix
            file.write(f"{json.dumps(fields, ensure_ascii=False)}\n")


def zorro(folder: Path) -> Iterator[Pair]:
    """Zorro has a bad sentence on each odd line, and the good one after it."""
    for path in files_of(folder / "Zorro/sentences/babyberta", ".txt"):
        lines = list(read_lines(path))
        phenomenon = path.stem.split("-")[0]
        for bad, good in zip(lines[::2], lines[1::2], strict=True):
            yield Pair(good, bad, phenomenon=phenomenon, uid=path.stem)


def supplement(folder: Path) -> Iterator[Pair]:
    for path, line in json_lines(folder / BABYLM / "supplement_filtered"):
        fields = parse_json(line)
        yield Pair(
            fields["sentence_good"],
            fields["sentence_bad"],
            phenomenon="supplement",
            uid=path.stem,
        )


def ewok(folder: Path) -> Iterator[Pair]:
    """EWoK, as BabyLM scores it: two continuations of a context."""
    for path, line in json_lines(folder / BABYLM / "ewok_filtered"):
        fields = parse_json(line)
        yield Pair(
            fields["Target1"],
            fields["Target2"],
            phenomenon="ewok",
            uid=path.stem,
            prefix=fields["Context1"],
        )


def climp(folder: Path) -> Iterator[Pair]:
    """CLiMP has a good sentence in each row, and the bad one in the next.

    One file holds nothing but sentences, the others a header and a sentence in the fourth column.
    """
    for path in files_of(folder / "CLiMP/CLiMP_corpus", ".csv"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
        if len(rows[0]) > 1:
            rows = [row[3:] for row in rows[1:]]
        sentences = [row[0] for row in rows]
        uid = path.stem.removesuffix("_1000")
        for good, bad in zip(sentences[::2], sentences[1::2], strict=True):
            yield Pair(good, bad, phenomenon=uid, uid=uid)


def sling(folder: Path) -> Iterator[Pair]:
    """SLING, without the small sets of Yang 2025 on reflexives, which its repository holds, too."""
    root = folder / "SLING_Data_Code/SLING_Data"
    for path, line in json_lines(root):
        if path.parent.name.startswith("reflexive_"):
            continue
        fields = parse_json(line)
        phenomenon = path.relative_to(root).parts[0]
        yield Pair(
            fields["sentence_good"],
            fields["sentence_bad"],
            phenomenon=phenomenon,
            uid=path.stem,
        )


# Reading times -----------------------------------------------------------------------------------


def write_times(args: argparse.Namespace) -> None:
    save_table(args.folder / "natural-stories.tsv", natural_stories(args.folder))
    save_table(args.folder / "reading.tsv", reading_task(args.folder))


def save_table(path: Path, rows: Iterable[dict]) -> None:
    rows = list(rows)
    with disk.atomic_write(path) as file:
        table = csv.DictWriter(file, list(rows[0]), delimiter="\t", lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def read_table(path: Path, delimiter: str = "\t", is_quoted: bool = True) -> Iterator[dict]:
    """Yield the rows of a table with a header."""
    disk.check_input(path, "a table")
    quoting = csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter=delimiter, quoting=quoting)


def natural_stories(folder: Path) -> Iterator[dict]:
    """The words of Natural Stories, with their mean times in milliseconds.

    log_frequency: natural, in Google Books. gpt3, trigrams: surprisal in bits, GPT-3's with the
    marks at the word.
    """
    root = folder / "naturalstories"
    rts = root / "naturalstories_RTS"
    times = {}
    for row in read_table(rts / "processed_wordinfo.tsv", is_quoted=False):
        # In this file a word's time stands in the row before its own. Only processed_RTs.tsv, from
        # which it was made, was corrected in 2025.
        times[int(row["item"]), int(row["zone"]) + 1] = row["meanItemRT"]
    frequencies = {}
    for word, count, _ in google_books(root / "freqs/freqs-1.tsv"):
        frequencies[word] = math.log(count)
    trigrams = {}
    for word, count, count_before in google_books(root / "freqs/freqs-3.tsv"):
        trigrams[word] = math.log2(count_before / count)
    words = read_table(rts / "all_stories.tok", is_quoted=False)
    bits = gpt3_bits(root / "probs/all_stories_gpt3.csv")
    for row, surprisal in zip(words, bits, strict=True):
        story = int(row["item"])
        position = int(row["zone"])
        word = (story, position)
        yield {
            "text": story,
            "position": position,
            "word": row["word"],
            "time": times.get(word),
            "log_frequency": frequencies.get(word),
            "gpt3": surprisal,
            "trigrams": trigrams.get(word),
        }


def google_books(path: Path) -> Iterator[tuple[tuple[int, int], float, float]]:
    """Yield story and position of a word, the count of its n-gram, and that of the words before.

    Words that are not in Google Books are left out.
    """
    for line in read_lines(path):
        code, _, _, count, count_before = line.split("\t")
        story, position, kind = code.split(".")
        if kind == "word" and float(count) > 0:
            before = math.nan if count_before == "NA" else float(count_before)
            yield (int(story), int(position)), float(count), before


def gpt3_bits(path: Path) -> list[float | None]:
    """GPT-3's surprisal of each word in bits; None for the first one of a story."""
    words: list[list[str]] = []  # the log-probabilities of each word's tokens
    for row in read_table(path, delimiter=","):
        is_first = not row["logprob"]
        if is_first or row["token"].startswith(" "):
            words.append([])
        words[-1].append(row["logprob"])
    bits: list[float | None] = []
    for tokens in words:
        if "" in tokens:
            bits.append(None)
        else:
            bits.append(-sum(float(token) for token in tokens) / math.log(2))
    return bits


def reading_task(folder: Path) -> Iterator[dict]:
    """The words of BabyLM's reading task, with three of its times. Others have none."""
    sentences = {}
    measured = {}
    for row in read_table(folder / READING, delimiter=","):
        number = int(row["sent_id"])
        sentences[number] = row["sentence"].split()
        measured[number, int(row["context_length"])] = row
    for number, words in sorted(sentences.items()):
        for position, word in enumerate(words):
            row = measured.get((number, position), {})
            yield {
                "text": number,
                "position": position,
                "word": word,
                "self_paced": row.get("self_paced_reading_time"),
                "first_pass": row.get("RTfirstpass"),
                "go_past": row.get("RTgopast"),
                "log_frequency": row.get("Subtlex_log10"),
                "number": position,
            }


# Shares of pairs ---------------------------------------------------------------------------------


def print_shares(args: argparse.Namespace) -> None:
    """Print the mean of the test sets' shares, and of groups of sets (sums of surprisal)."""
    rows = list(read_table(args.scores))
    if args.only:
        wanted = set()
        for line in read_lines(args.only):
            fields = parse_json(line)
            wanted.add((fields[args.set], fields["sentence_good"], fields["sentence_bad"]))
        rows = [
            row
            for row in rows
            if (row[args.set], row["sentence_good"], row["sentence_bad"]) in wanted
        ]
    if args.known:
        rows = [row for row in rows if row["in_vocabulary"] == "1"]
    if not rows:
        raise UserError(f"{args.scores}: no pairs are left.")
    members = defaultdict(list)
    members["all"] = rows
    for row in rows:
        if args.group:
            members[row[args.group]].append(row)
    width = max(len(name) for name in members)
    print(f"{'':{width}}   pairs  sets   forward  backward      both")
    for name, group in members.items():
        n_sets, shares = mean_shares(group, args.set)
        cells = [f"{share:10.1%}" for share in shares]
        print(f"{name:{width}}  {len(group):6,}  {n_sets:4}" + "".join(cells))


def mean_shares(rows: Sequence[dict], set_column: str) -> tuple[int, np.ndarray]:
    """The number of test sets, and the mean (3,) of their shares of pairs, by direction."""
    is_right = defaultdict(list)
    for row in rows:
        is_right[row[set_column]].append([float(row[name]) > ROUNDING for name in DIRECTIONS])
    shares = [np.mean(values, axis=0) for values in is_right.values()]
    return len(shares), np.mean(shares, axis=0)


# SyntaxGym ---------------------------------------------------------------------------------------


def print_circuits(args: argparse.Namespace) -> None:
    """Print the mean of the suites of each circuit: shares of items whose first prediction holds.

    As in the authors' tables, other predictions and other suites are not counted.
    """
    holds = defaultdict(list)
    for row in read_table(args.scores):
        if row["prediction"] == "1":
            holds[row["suite"]].append([float(row[name]) for name in DIRECTIONS])
    shares = {suite: np.mean(items, axis=0) for suite, items in holds.items()}
    members = {}
    for circuit, beginnings in CIRCUITS.items():
        members[circuit] = [suite for suite in shares if suite.startswith(beginnings)]
    members["all"] = list(itertools.chain.from_iterable(members.values()))
    print(f"{'':26}  suites   forward  backward      both")
    for circuit, suites in members.items():
        if suites:
            means = np.mean([shares[suite] for suite in suites], axis=0)
            cells = [f"{mean:10.1%}" for mean in means]
            print(f"{circuit:26}  {len(suites):6}" + "".join(cells))


# BabyLM's reading task ---------------------------------------------------------------------------


def print_reading(args: argparse.Namespace) -> None:
    """Print the scores, in %: how much of the variance that a baseline leaves is explained.

    The baselines are those of evaluation_pipeline/reading/run.py: frequency, length and number of
    words before, and for the self-paced times length and surprisal of the word before, with all
    products of two of them.
    """
    rows = list(read_table(args.folder / READING, delimiter=","))
    numbers = sorted({int(row["sent_id"]) for row in rows})
    line_of = {number: line for line, number in enumerate(numbers)}
    texts = {int(row["sent_id"]): row["sentence"].split() for row in rows}
    lines = [" ".join(texts[number]) for number in numbers]
    for direction in DIRECTIONS[:2]:
        bits = word_bits(args.surprisal, lines, direction)
        for row in rows:
            line = line_of[int(row["sent_id"])]
            position = int(row["context_length"])
            row["surprisal"] = bits[line, position]
            row["previous"] = bits[line, position - 1] if row["prev_word"] else math.nan
        words = ["Subtlex_log10", "length", "context_length"]
        eyes = np.mean([reading_score(rows, time, words) for time in EYE_TRACKING])
        words += ["prev_length", "previous"]
        self_paced = reading_score(rows, "self_paced_reading_time", words)
        print(f"{direction:8}  eye tracking {eyes:.2f}  self-paced {self_paced:.2f}")


def word_bits(path: Path, lines: Sequence[str], direction: str) -> dict[tuple[int, int], float]:
    """The surprisal by line and position of a word, without that of marks."""
    bits: dict[tuple[int, int], float] = defaultdict(float)
    for row in read_table(path):
        if any(char.isalnum() for char in row["token"]) and row["begin"] != row["end"]:
            line = int(row["line"])
            position = lines[line][: int(row["begin"])].count(" ")
            bits[line, position] += float(row[direction])
    return bits


def reading_score(rows: Sequence[dict], time: str, words: Sequence[str]) -> float:
    """How much of the variance of times that `words` leave the surprisal explains, in %."""
    columns = []
    for name in (time, *words, "surprisal"):
        columns.append([to_number(row[name]) for row in rows])
    table = np.array(columns).T
    table = table[~np.isnan(table).any(axis=1)]
    times = table[:, 0]
    baseline = table[:, 1:-1]
    baseline = (baseline - baseline.mean(axis=0)) / baseline.std(axis=0)
    terms = list(baseline.T)
    terms += [first * second for first, second in itertools.combinations(terms, 2)]
    left = variance_left(terms, times)
    left_by_both = variance_left([*terms, table[:, -1]], times)
    return 100 * (1 - left_by_both / left)


def to_number(cell: str | float) -> float:
    return float(cell) if cell != "" else math.nan


def variance_left(columns: Sequence[np.ndarray], times: np.ndarray) -> float:
    """The variance that a regression by least squares leaves."""
    design = np.column_stack([np.ones(len(times)), *columns])
    solution, *_ = np.linalg.lstsq(design, times, rcond=None)
    return float((times - design @ solution).var())


if __name__ == "__main__":
    script.run(main)
