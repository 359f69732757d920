"""choosing.py: its draws, its methods on small sets, its tables."""

import json
import random
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import runs

sys.path.append(str(runs.PROJECT / "benchmarks"))

import choosing

from elmo_core.messages import UserError

GOOD = ["good", "fine", "lovely", "great"]
BAD = ["bad", "poor", "awful", "dull"]
ENGLISH = ("good", "bad")
CHINESE = ("满意", "失望")
FAST = ("majority", "tfidf", "word2vec")


def texts(n: int, seed: int, chinese: bool = False) -> list[str]:
    """Lines of a set in which one word decides."""
    generator = random.Random(seed)
    lines = []
    for number in range(n):
        words = (GOOD, BAD)[number % 2]
        label = ENGLISH[number % 2]
        if chinese:
            text = f"房间{generator.choice('大小')}，令人{CHINESE[number % 2]}"
        else:
            text = f"the {generator.choice(['room', 'film', 'book'])} is {generator.choice(words)}"
        lines.append(f"{text}\t{label}")
    return lines


def save(folder: Path, **parts: list[str]) -> Path:
    folder.mkdir()
    for name, lines in parts.items():
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def reviews(tmp_path) -> Path:
    return save(tmp_path / "reviews", train=texts(40, seed=1), test=texts(20, seed=2))


@pytest.fixture
def vectors(tmp_path) -> Path:
    path = tmp_path / "vectors.txt"
    lines = [f"{word} 1 0" for word in GOOD] + [f"{word} 0 1" for word in BAD]
    path.write_text(f"{len(lines)} 2\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(data: Path, output: Path, *flags: object) -> list[dict]:
    choosing.main(["run", f"--data={data}", f"--output={output}", *map(str, flags)])
    return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


# Draws


def test_a_draw_has_each_class_first_and_then_in_proportion():
    labels = ["a"] * 60 + ["b"] * 30 + ["c"] * 9 + ["d"]
    found = choosing.order(labels, seed=3)
    assert sorted(found) == list(range(100))
    in_order = [labels[k] for k in found]
    assert set(in_order[:4]) == set("abcd")
    half = Counter(in_order[:50])
    assert abs(half["a"] - 30) <= 2 and abs(half["b"] - 15) <= 2 and abs(half["c"] - 5) <= 2
    assert (choosing.order(labels, seed=3) == found).all()
    assert (choosing.order(labels, seed=4) != found).any()


def test_a_large_draw_has_the_texts_of_the_small_one(reviews, tmp_path, monkeypatch):
    seen = {}

    def noted(train, setup):
        seen[len(train.texts), setup.seed] = set(zip(train.texts, train.labels, strict=True))
        return choosing.majority(train, setup)

    monkeypatch.setitem(choosing.METHODS, "majority", choosing.Method(noted))
    flags = ["--methods", "majority", "--sizes", 6, 12, 40, 400, "all", "--draws", 2]
    records = run(reviews, tmp_path / "results.jsonl", *flags)
    # not 40, which is all of them; with all, draws do not differ
    sizes = [(record["size"], record["draw"]) for record in records]
    assert sizes == [(6, 0), (6, 1), (12, 0), (12, 1), ("all", 0)]
    assert seen[6, 0] <= seen[12, 0] and seen[6, 1] <= seen[12, 1]
    assert records[-1]["n"] == 40


# Methods


def test_methods_learn_and_finished_runs_are_kept(reviews, vectors, tmp_path):
    output = tmp_path / "results.jsonl"
    flags = ["--methods", *FAST, f"--word_vectors=en={vectors}", "--sizes", 36]
    first = run(reviews, output, *flags, "--draws", 1)
    accuracies = {record["method"]: record["accuracy"] for record in first}
    assert accuracies == {"majority": 0.5, "tfidf": 1.0, "word2vec": 1.0}
    for record in first:
        assert record["auc"] == record["accuracy"] and record["lang"] == "en"
    assert first[0]["macro_f1"] == pytest.approx(1 / 3)
    assert first[1]["chosen"]["C"] in choosing.OF_COUNTS
    second = run(reviews, output, *flags, "--draws", 2)
    assert second[:3] == first and len(second) == 6


def test_chinese_methods(tmp_path):
    data = save(
        tmp_path / "rooms",
        train=texts(20, seed=1, chinese=True),
        test=texts(10, seed=2, chinese=True),
    )
    flags = ["--methods", "tfidf", "tfidf-characters", "--sizes", "all"]
    records = run(data, tmp_path / "results.jsonl", *flags)
    assert [(record["method"], record["accuracy"]) for record in records] == [
        ("tfidf", 1.0),
        ("tfidf-characters", 1.0),
    ]
    assert records[0]["lang"] == "zh"


def test_methods_of_characters_are_for_chinese(reviews, tmp_path):
    flags = ["--methods", "majority", "tfidf-characters", "--sizes", "all"]
    (record,) = run(reviews, tmp_path / "results.jsonl", *flags)
    assert record["method"] == "majority"


def test_elmo_and_a_classifier(reviews, tmp_path, small_weights):
    flags = ["--methods", "elmo", "classifier", "tuned", "--sizes", "all", "--draws", 1]
    records = run(reviews, tmp_path / "results.jsonl", *flags, f"--elmo={small_weights['word']}")
    assert [record["method"] for record in records] == ["elmo", "classifier", "tuned"]
    assert all(0 <= record["auc"] <= 1 for record in records)


def test_fasttext_is_given_words_and_its_labels_are_read(reviews, tmp_path, monkeypatch):
    """With a package in fastText's place that knows the words of each label."""
    lines = []

    def train_supervised(path, **settings):
        lines.extend(Path(path).read_text(encoding="utf-8").splitlines())
        return SimpleNamespace(predict=predict)

    def predict(found, k):
        bad, good = "__label__0", "__label__1"
        names = [[good, bad] if set(GOOD) & set(text.split()) else [bad, good] for text in found]
        return names, [[0.8, 0.2]] * len(found)

    package = SimpleNamespace(train_supervised=train_supervised)
    monkeypatch.setitem(sys.modules, "fasttext", package)
    flags = ["--methods", "fasttext", "--sizes", "all", "--draws", 2]
    records = run(reviews, tmp_path / "results.jsonl", *flags)
    assert [record["accuracy"] for record in records] == [1.0, 1.0]
    first, second = lines[:40], lines[40:]
    assert sorted(first) == sorted(second) and first != second
    assert all(("__label__1" in line) == bool(set(GOOD) & set(line.split())) for line in first)
    assert choosing.spaced("en", False, "It's Fine.") == "it ' s fine ."
    assert choosing.spaced("zh", True, "很 好A") == "很 好 a"


def test_a_search_for_c_with_few_texts_of_a_class():
    train = choosing.Part(["aa bb", "bb cc", "cc dd", "dd ee", "ee ff"], ["1", "1", "2", "2", "3"])
    setup = choosing.Setup(lang="en", seed=0, word_vectors=None, elmo="auto")
    model = choosing.tfidf(train, setup)
    assert np.asarray(model.probabilities(["aa", "ff"])).shape == (2, 3)


# Mistakes


@pytest.mark.parametrize(
    "lines, named",
    [(["fine\tgood", "only a text"], "train.tsv:2"), (["fine\tgood"] * 3, "1 classes")],
)
def test_a_file_that_is_no_set(tmp_path, lines, named):
    data = save(tmp_path / "set", train=lines, test=texts(4, seed=1))
    with pytest.raises(UserError, match=named):
        run(data, tmp_path / "results.jsonl", "--methods", "tfidf")


def test_mistakes_in_flags(reviews, tmp_path):
    output = tmp_path / "results.jsonl"
    with pytest.raises(UserError, match="--word_vectors"):
        run(reviews, output, "--methods", "word2vec")
    with pytest.raises(UserError, match="two folders"):
        choosing.main(["run", "--data", str(reviews), str(reviews), f"--output={output}"])
    output.write_text('{"set": 1}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"results\.jsonl:1"):
        run(reviews, output, "--methods", "majority")


# Tables


def write_results(path: Path, *groups: tuple[str, str, object, list[float]]) -> Path:
    """groups: set, method, size, and the accuracies of its draws."""
    lines = []
    for name, method, size, draws in groups:
        for draw, accuracy in enumerate(draws):
            values = {"set": name, "method": method, "size": size, "draw": draw}
            values.update({"lang": "en", "n": 500, "accuracy": accuracy})
            values.update({"train_seconds": 2.0, "texts_per_second": 1000.0})
            lines.append(json.dumps(values) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def results(tmp_path) -> Path:
    """Two sets, of which one is too small for a size of 100."""
    return write_results(
        tmp_path / "results.jsonl",
        ("one", "tfidf", 100, [0.6, 0.7, 0.8]),
        ("one", "word2vec", 100, [0.5]),
        ("one", "classifier", 100, [0.72]),
        ("one", "tfidf", "all", [0.8]),
        ("one", "word2vec", "all", [0.84]),
        ("one", "classifier", "all", [0.84]),
        ("two", "tfidf", "all", [0.4]),
        ("two", "word2vec", "all", [0.3]),
        ("two", "classifier", "all", [0.5]),
    )


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_tables(results, capsys):
    choosing.main(["table", str(results)])
    lines = capsys.readouterr().out.splitlines()
    of_one = lines.index("| one (500) | 100 | all |")
    # 0.7, and 4.303 times 0.1 / √3
    assert cells(lines[of_one + 2]) == ["TF-IDF", "70.0 ± 24.8", "80.0"]
    assert cells(lines[of_one + 3]) == ["word2vec", "50.0", "**84.0**"]
    assert cells(lines[of_one + 4]) == ["`Classifier`", "**72.0**", "**84.0**"]
    mean = lines.index("| mean over sets | 100 | all |")
    assert cells(lines[mean + 2]) == ["TF-IDF", "70.0", "60.0"]
    gain = lines.index("| `Classifier` − the best baseline | 100 | all | mean |")
    assert cells(lines[gain + 2]) == ["one", "+2.0", "+0.0", "+1.0"]
    assert cells(lines[gain + 3]) == ["two", "–", "+10.0", "+10.0"]
    assert cells(lines[gain + 4]) == ["mean", "+2.0", "+5.0", "+3.5"]
    seconds = lines.index("| seconds of training, mean over sets | 100 | all | texts per second |")
    assert cells(lines[seconds + 2]) == ["TF-IDF", "2.0", "2.0", "1,000"]


def test_a_method_without_all_sets_has_no_mean(results, capsys):
    with results.open("a", encoding="utf-8") as file:
        line = {"set": "one", "method": "elmo", "size": "all", "draw": 0, "lang": "en", "n": 500}
        file.write(json.dumps({**line, "accuracy": 0.9}) + "\n")
    choosing.main(["table", str(results)])
    lines = capsys.readouterr().out.splitlines()
    mean = lines.index("| mean over sets | 100 | all |")
    assert cells(lines[mean + 4]) == ["`ELMoVectorizer`", "–", "–"]


def test_the_figure_is_of_sets_with_all_sizes(results, tmp_path, messages):
    picture = tmp_path / "choosing.svg"
    choosing.main(["figure", str(results), f"--output={picture}"])
    assert "<svg" in picture.read_text(encoding="utf-8")
    assert "mean over one." in messages()
    with pytest.raises(UserError, match="zh"):
        choosing.main(["figure", str(results), "--lang=zh", f"--output={picture}"])
