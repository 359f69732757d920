"""The example that regresses reading times on surprisal: its numbers against scikit-learn's, the
join with the tokens, the figure, and mistakes in its tables.
"""

import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
from experiment_runs import run
from project import PROJECT
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

import run_eval
from elmo import ELMoEmbedder
from elmo_core.text.tokenise import Tokeniser
from elmo_tools.experiments.examples import reading_times

COLUMNS = ["line", "sentence", "position", "begin", "end", "token", "forward", "backward"]
COLUMNS += ["in_vocabulary"]
SENTENCE = 12  # words


def write_table(path: Path, rows: list) -> Path:
    delimiter = "," if path.suffix == ".csv" else "\t"
    lines = [delimiter.join(str(cell) for cell in row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class Made:
    """Made-up words with their surprisal, and times with a known effect of forward surprisal: 6 ms
    per bit at the word, 3 at the next one.
    """

    def __init__(
        self,
        folder: Path,
        n: int = 480,
        n_texts: int = 4,
        noise: float = 8,
        n_without_marks: int = 0,
    ):
        random = np.random.default_rng(3)
        self.words = ["".join(random.choice([*"aeiou"], 1 + k % 7)) for k in range(n)]
        self.frequency = random.normal(size=n).round(3)
        self.forward = random.exponential(5, n).round(6)
        self.backward = random.exponential(5, n).round(6)
        self.other = (self.forward + random.normal(0, 3, n)).round(6)
        self.text = np.arange(n) * n_texts // n
        self.place = np.concatenate([1 + np.arange(n // n_texts)] * n_texts)
        self.length = np.array([len(word) for word in self.words], float)
        before = np.where(self.place > 1, np.roll(self.forward, 1), 0)
        self.times = (
            300
            + 20 * self.text
            - 9 * np.log(self.place)
            + 10 * self.length
            - 5 * self.frequency
            + 6 * self.forward
            + 3 * before
            + random.normal(0, noise, n)
        ).round(3)
        self.header = ["word", "time", "text", "position", "frequency", "other"]
        columns = [self.times, self.text, self.place, self.frequency, self.other]
        marks = ["" if k < n_without_marks else "." for k in range(n)]
        shown = [word + mark for word, mark in zip(self.words, marks, strict=True)]
        self.rows = [[word, *values] for word, *values in zip(shown, *columns, strict=True)]
        self.folder = folder
        self.table = write_table(folder / "times.tsv", [self.header, *self.rows])
        self.tokens = [COLUMNS]
        begin = 0
        for k, word in enumerate(self.words):
            begin = 0 if self.place[k] == 1 else begin
            sentence, position = divmod(int(self.place[k]) - 1, SENTENCE)
            sentence += 100 * self.text[k]
            where = [self.text[k], sentence, 2 * position]
            end = begin + len(word)
            bits = self.forward[k]
            if marks[k]:  # the word's surprisal is the sum of its two tokens'
                bits -= 0.5
            self.tokens.append([*where, begin, end, word, bits, self.backward[k], 1])
            if marks[k]:
                where[2] += 1
                end += 1
                self.tokens.append([*where, end - 1, end, ".", 0.5, 0, 1])
            if position == SENTENCE - 1:
                self.tokens.append([*where[:2], 2 * SENTENCE, end, end, "</S>", 99, 99, 1])
            begin = end + 1
        self.surprisal = write_table(folder / "surprisal.tsv", self.tokens)

    def fit(self, capsys, *flags) -> dict[str, list[float]]:
        """The printed rows: gain, low, high, added R², slopes."""
        argv = ["fit", self.table, self.surprisal, "--frequency=frequency", *flags]
        reading_times.main([str(part) for part in argv])
        self.printed = capsys.readouterr().out
        rows = self.printed.partition("predictor")[2].splitlines()[1:]
        parts = [re.split(r"  +", line, maxsplit=1) for line in rows]
        return {
            name: [float(x) for x in re.findall(r"-?\d[\d.e+-]*", text)] for name, text in parts
        }


@pytest.fixture
def made(tmp_path) -> Made:
    return Made(tmp_path)


def test_it_recovers_a_known_effect(made, capsys):
    found = made.fit(capsys, "--predictors", "other")
    gain, low, high, r2, slope = found["forward"]
    assert 0 < low < gain < high and r2 > 20
    assert slope == pytest.approx(6 + 3, abs=0.3)
    assert found["backward"][1] < 0.005 and found["backward"][3] < 1
    both = found["forward + backward"]
    assert both[4:] == pytest.approx([9, 0], abs=0.4) and both[0] < gain + 0.01
    assert found["backward"][0] < found["other"][0] < gain


def expected(made: Made, names: list[str], spillover: int) -> tuple[float, float, float]:
    """The added log-likelihood and R² and the slope, by scikit-learn, of all words."""
    is_fitted = made.place > spillover
    text = made.text[is_fitted]
    times = made.times[is_fitted]
    for number in range(text[-1] + 1):
        times[text == number] -= times[text == number].mean()

    def design(names: list[str]) -> np.ndarray:
        columns = [
            np.roll(getattr(made, name), lag) for name in names for lag in range(spillover + 1)
        ]
        return np.stack([*columns, made.place, np.log(made.place)], axis=1)[is_fitted]

    likelihood = []
    share = []
    for chosen in (names, []):
        X = design([*chosen, "length", "frequency"])
        total = 0
        for train, test in KFold(10).split(X):
            model = LinearRegression().fit(X[train], times[train])
            variance = np.mean((times[train] - model.predict(X[train])) ** 2)
            errors = times[test] - model.predict(X[test])
            total -= np.sum(np.log(2 * np.pi * variance) / 2 + errors**2 / variance / 2)
        likelihood.append(total / len(X))
        share.append(LinearRegression().fit(X, times).score(X, times))
    slopes = LinearRegression().fit(design([*names, "length", "frequency"]), times).coef_
    return (
        likelihood[0] - likelihood[1],
        100 * (share[0] - share[1]),
        slopes[: spillover + 1].sum(),
    )


@pytest.mark.parametrize("spillover", [0, 2])
def test_its_numbers_are_those_of_scikit_learn(made, capsys, spillover):
    found = made.fit(capsys, f"--spillover={spillover}", "--exclude", "--predictors", "other")
    for name in ("forward", "forward + backward", "other"):
        gain, r2, slope = expected(made, name.split(" + "), spillover)
        values = found[name]
        assert values[0] == pytest.approx(gain, abs=6e-5)
        assert values[3] == pytest.approx(r2, abs=6e-3)
        assert values[4] == pytest.approx(slope, rel=6e-3)


def test_thirty_lines_suffice(tmp_path, capsys):
    found = Made(tmp_path, n=32, n_texts=1, noise=1).fit(
        capsys, "--spillover=1", "--exclude", "--predictors", "other"
    )
    assert found["forward"][1] > 0 and found["forward"][4] == pytest.approx(9, abs=0.5)


def test_rows_of_several_readers_are_averaged_in_any_order(made, capsys):
    once = made.fit(capsys)
    assert "mean of its rows" not in made.printed
    rows = []
    for word, time, *rest in made.rows:
        rows += [[word, time + 7, *rest], [word, time - 7, *rest], [word, "NA", *rest]]
    np.random.default_rng(0).shuffle(rows[3:])
    made.table = write_table(made.folder / "times.csv", [made.header, *rows])
    assert made.fit(capsys) == once
    assert "mean of its rows, 1,440 in all" in made.printed


def fitted(made: Made, capsys, *flags: str) -> int:
    made.fit(capsys, "--spillover=1", *flags)
    return int(made.printed.split()[0].replace(",", ""))


def test_words_are_left_out_as_the_flags_say(made, capsys):
    n = len(made.words) - 4  # the first of a text has no word before it
    sentences = len(made.words) // SENTENCE
    assert fitted(made, capsys, "--exclude") == n
    assert fitted(made, capsys, "--exclude", "last") == n - sentences
    assert fitted(made, capsys) == n - (sentences - 4) - sentences
    made.tokens[1 + 2 * 30][-1] = 0  # in the middle of a sentence: it and the next
    made.rows[50][1] = ""
    made.rows[60][4] = "NA"
    write_table(made.surprisal, made.tokens)
    write_table(made.table, [made.header, *made.rows])
    assert fitted(made, capsys, "--exclude") == n - 1 - 2
    assert fitted(made, capsys, "--exclude", "unknown") == n - 1 - 2 - 2


def test_words_with_marks_and_those_after_them_are_left_out(tmp_path, capsys):
    made = Made(tmp_path, n_without_marks=100)
    assert fitted(made, capsys, "--exclude", "marks") == 100 - 1


def test_an_interval_is_that_of_whole_sentences():
    random = np.random.default_rng(0)
    sentence = np.repeat(np.arange(200), random.integers(1, 20, 200))
    ones = np.ones(len(sentence))
    assert reading_times.interval(ones, sentence) == (1, 1)
    by_sentence = random.normal(size=200)
    low, high = reading_times.interval(np.repeat(by_sentence, 5), np.repeat(np.arange(200), 5))
    assert high - low == pytest.approx(2 * 1.96 * by_sentence.std() / 200**0.5, rel=0.1)
    assert low < by_sentence.mean() < high


TEXT = "“Come, said the river… bank can't — naïve. Don't you? He (the bank) left"


def test_a_word_has_the_sum_of_its_tokens(model, tmp_path):
    words = [[word, 300, "a"] for word in TEXT.split()]
    rows = [["word", "time", "text"], *words, ["bank", 300, "b"]]
    table = write_table(tmp_path / "times.tsv", rows)
    text = tmp_path / "text.txt"
    reading_times.main(["text", str(table), f"--output={text}"])
    assert text.read_text(encoding="utf-8") == f"{TEXT}\nbank\n"
    surprisal = tmp_path / "surprisal.tsv"
    run(model, "--lang=en", f"--dev_data_path={text}", f"--per_token={surprisal}")

    columns = reading_times.Columns._make(reading_times.Columns._fields)
    words = reading_times.read_words(table, columns)
    parts = reading_times.join(words, reading_times.read_tokens(surprisal), surprisal)
    tokens = [[token.token for token in part] for part in parts]
    assert tokens[:5] == [['"', "Come", ","], ["said"], ["the"], ["river", "..."], ["bank"]]
    assert tokens[5:8] == [["ca", "n't"], ["--"], ["naïve", "."]]
    sentences = Tokeniser("en").sentences(TEXT)
    records = ELMoEmbedder(model, device="cpu").surprisal([*sentences, ["bank"]])
    for name in ("forward", "backward"):
        by_token = [getattr(record, name) for sentence in records for record in sentence[:-1]]
        ends = np.cumsum([len(part) for part in tokens])
        expected = [sum(values) for values in np.split(by_token, ends[:-1])]
        found = [reading_times.total(part, name) for part in parts]
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_without_frequencies_the_rank_of_the_rarest_token_counts(made, model, capsys):
    def part(*tokens: str) -> list[reading_times.Token]:
        return [
            reading_times.Token(0, 0, 0, 0, 1, token, forward=1, backward=1, is_known=True)
            for token in tokens
        ]

    parts = [part("The"), part("the", "bank", "."), part("bank", "zyx"), part("river")]
    ranks = reading_times.log_ranks(parts, ["the", "river", "bank", "."])
    np.testing.assert_allclose(np.exp(-ranks), [1, 3, 5, 2])

    argv = ["fit", str(made.table), str(made.surprisal), "--controls", "frequency"]
    reading_times.main([*argv, f"--init_from_ckpt={model}"])
    assert "length, log rank, frequency, of the word" in capsys.readouterr().out


def test_the_figure_has_every_predictor_and_is_the_same_each_time(made, capsys):
    pictures = []
    for name in ("figure.svg", "again.svg", "figure.png"):
        path = made.folder / name
        made.fit(capsys, "--predictors", "other", f"--output={path}")
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[1]
    assert all(f"<!-- {name} -->".encode() in pictures[0] for name in ("forward", "other"))
    assert pictures[2].startswith(b"\x89PNG")


def changed(made: Made, row: int, column: int, value: str) -> None:
    made.rows[row][column] = value
    write_table(made.table, [made.header, *made.rows])


MISTAKES = {
    "no column": (lambda made: made.table.write_text("word\trt\na\t1\n"), "no column time"),
    "no time": (lambda made: changed(made, 7, 1, "fast"), r"times.tsv:9, time: found 'fast'"),
    "infinite": (lambda made: changed(made, 7, 4, "inf"), "times.tsv:9, frequency"),
    "a skipped word": (lambda made: changed(made, 7, 1, "0"), "times.tsv:9: a time of 0"),
    "no word": (lambda made: changed(made, 7, 0, ""), "times.tsv:9: found ''"),
    "no position": (lambda made: changed(made, 7, 3, ""), "times.tsv:9: no position"),
    "two words in a place": (lambda made: changed(made, 7, 3, "7"), "times.tsv:9: position 7"),
    "other words": (lambda made: changed(made, 7, 0, "zebra."), "word 8 .* 'zebra.'.* `text`"),
    "a quotation mark": (lambda made: changed(made, 7, 0, '"a'), "quotes as in CSV"),
    "Latin 1": (lambda made: made.table.write_bytes(b"word\ttime\nna\xefve\t1\n"), "UTF-8"),
    "no rows": (lambda made: made.table.write_text("\t".join(made.header)), "no rows"),
    "too few words": (lambda made: write_table(made.table, [made.header, *made.rows[:30]]), "line"),
    "no table of tokens": (lambda made: made.surprisal.write_text("a\tb\n"), "no column token"),
    "no file": (lambda made: made.surprisal.unlink(), "there is no such file"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message(made, capsys, name):
    make, said = MISTAKES[name]
    make(made)
    fails(made, capsys, said)


def fails(made: Made, capsys, said: str, *flags: str) -> None:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        made.fit(capsys, *flags)
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and re.search(said, error.splitlines()[-1])


def test_wrong_flags_are_messages(made, capsys):
    fails(made, capsys, "no column gpt3", "--predictors", "gpt3")
    fails(made, capsys, "no column story", "--text_column=story")
    fails(made, capsys, "forward is computed", "--controls", "forward")
    fails(made, capsys, "follow from", "--predictors", "frequency")
    fails(made, capsys, "--spillover", "--spillover=-1")
    fails(made, capsys, "another flag", f"--output={made.table}")
    fails(made, capsys, r"\.svg", f"--output={made.folder / 'figure.doc'}")
    for row in made.rows:
        row[5] = 1
    write_table(made.table, [made.header, *made.rows])
    fails(made, capsys, "other is 1 at all words", "--predictors", "other")
    for row in made.rows:
        row[1] = 300
    write_table(made.table, [made.header, *made.rows])
    fails(made, capsys, "all times are equal")


def test_too_few_words_are_a_message(tmp_path, capsys):
    fails(Made(tmp_path, n=30, n_texts=1), capsys, "expected 30 or more")


def test_rows_of_a_text_must_be_together_unless_they_are_numbered(made, capsys):
    made.header[3] = "number"
    write_table(made.table, [made.header, *made.rows])
    assert len(made.fit(capsys)) == 3
    write_table(made.table, [made.header, *made.rows[1:], made.rows[0]])
    fails(made, capsys, "text '0' again")


SECTION = re.compile(r"^## (?:Reading times|阅读时间)\n.*?^```bash\n(.*?)^```", re.M | re.S)


@pytest.mark.parametrize("page", ["linguists.md", "linguists_zh.md"])
def test_the_commands_of_the_page_find_the_effect_that_it_names(
    page, tmp_path, monkeypatch, capsys
):
    """6 ms per bit, at the word and the next one together."""
    monkeypatch.chdir(tmp_path)
    Path("elmo_tools").symlink_to(PROJECT / "elmo_tools")
    block = SECTION.search((PROJECT / "docs" / page).read_text(encoding="utf-8"))[1]
    for line in block.replace("\\\n", " ").splitlines():
        command, *rest = shlex.split(line, comments=True) or [""]
        if command == "python":
            capsys.readouterr()
            scripts = {"reading_times.py": reading_times.main, "run_eval.py": run_eval.main}
            scripts[rest[0]](rest[1:])
        elif command:
            subprocess.run(["bash", "-ec", line], check=True)
    printed = capsys.readouterr().out.splitlines()
    shown = re.findall(r"^# (.*)", block, re.M)
    assert printed[:2] == shown[:2] and len(printed) == len(shown)
    forward = re.match(r"forward +(\S+) .* (\S+)$", printed[4])
    assert float(forward[1]) > 0.3 and float(forward[2]) == pytest.approx(6, abs=1.5)
    assert Path("figure.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert Path("reading_times.py").read_bytes() == Path(reading_times.__file__).read_bytes()
