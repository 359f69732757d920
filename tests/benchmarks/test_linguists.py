"""Public tests for linguists: small made-up files in the forms of the published ones."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import runs

sys.path.append(str(runs.PROJECT / "benchmarks"))

import linguists

from elmo_core.messages import UserError

GOOD, BAD = "it works .", "it work ."
STORY = ["A", "cat,", "she", "said."]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def json_lines(path: Path, *objects: dict) -> None:
    write(path, "".join(json.dumps(fields) + "\n" for fields in objects))


@pytest.fixture
def folder(tmp_path):
    """Repositories of pairs."""
    pair = {"sentence_good": GOOD, "sentence_bad": BAD}
    babylm = tmp_path / linguists.BABYLM
    json_lines(tmp_path / "blimp/data/a.jsonl", {**pair, "UID": "a"})
    json_lines(babylm / "blimp_filtered/a.jsonl", {**pair, "UID": "a"})
    json_lines(babylm / "supplement_filtered/hypernym.jsonl", pair)
    context = {"Context1": "One.", "Context2": "Two.", "Target1": GOOD, "Target2": BAD}
    json_lines(babylm / "ewok_filtered/social.jsonl", context)
    json_lines(tmp_path / "ZhoBLiMP/data/ZhoBLiMP/b.jsonl", pair, pair)
    write(tmp_path / "Zorro/sentences/babyberta/case-pronoun.txt", f"{BAD}\n{GOOD}\n")
    climp = tmp_path / "CLiMP/CLiMP_corpus"
    write(climp / "passive_1000.csv", f"\ufeff,0,1,2,3\n0,p,p,{GOOD},1\n1,p,p,{BAD},0\n")
    write(climp / "ba_1000.csv", f"{GOOD}\n{BAD}\n")
    sling = tmp_path / "SLING_Data_Code/SLING_Data/Anaphor"
    json_lines(sling / "Plural/self.jsonl", pair)
    json_lines(sling / "reflexive_auto/animacy.jsonl", pair)
    return tmp_path


def test_pairs_have_the_good_sentence_first(folder):
    linguists.main(["pairs", str(folder)])
    written = {}
    for path in folder.glob("*.jsonl"):
        lines = path.read_text(encoding="utf-8").splitlines()
        written[path.stem] = [json.loads(line) for line in lines]
    assert {name: len(pairs) for name, pairs in written.items()} == {
        "blimp": 1,
        "blimp-filtered": 1,
        "climp": 2,
        "ewok": 1,
        "sling": 1,
        "supplement": 1,
        "zhoblimp": 2,
        "zorro": 1,
    }
    for pairs in written.values():
        for pair in pairs:
            assert (pair["sentence_good"], pair["sentence_bad"]) == (GOOD, BAD)
    assert [pair["prefix"] for pair in written["ewok"]] == ["One."]
    assert [pair["UID"] for pair in written["climp"]] == ["ba", "passive"]
    (pair,) = written["sling"]
    assert (pair["phenomenon"], pair["UID"]) == ("Anaphor", "self")
    (pair,) = written["zorro"]
    assert (pair["phenomenon"], pair["UID"]) == ("case", "case-pronoun")


def test_a_repository_that_is_missing(tmp_path):
    with pytest.raises(UserError, match="blimp"):
        linguists.main(["pairs", str(tmp_path)])


def test_a_share_is_the_mean_of_the_sets(tmp_path, capsys):
    """A set of one pair counts as much as a set of four."""
    rows = ["UID\tphenomenon\tsentence_good\tsentence_bad\tforward\tbackward\tboth\tin_vocabulary"]
    rows.append("small\tx\tg\tb\t1\t-1\t-1\t1")
    rows += [f"large\ty\tg{number}\tb\t{number}\t-1\t-1\t0" for number in range(4)]
    write(tmp_path / "scores.tsv", "\n".join(rows) + "\n")
    linguists.main(["shares", str(tmp_path / "scores.tsv"), "--group=phenomenon"])
    _, total, first, second = capsys.readouterr().out.splitlines()
    assert total.split() == ["all", "5", "2", "87.5%", "0.0%", "0.0%"]
    assert first.split() == ["x", "1", "1", "100.0%", "0.0%", "0.0%"]
    assert second.split() == ["y", "4", "1", "75.0%", "0.0%", "0.0%"]

    linguists.main(["shares", str(tmp_path / "scores.tsv"), "--known"])
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["all", "1", "1", "100.0%"]

    json_lines(
        tmp_path / "some.jsonl", {"UID": "large", "sentence_good": "g0", "sentence_bad": "b"}
    )
    only = f"--only={tmp_path / 'some.jsonl'}"
    linguists.main(["shares", str(tmp_path / "scores.tsv"), only])
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["all", "1", "1", "0.0%"]


def table(path: Path) -> list[dict]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def reading_rows() -> list[str]:
    """Three sentences of twelve words, whose times are 100 bits more than frequency and length."""
    header = ["item", "word", "sentence", "context_length", "sent_id", "Subtlex_log10", "length"]
    header += [*linguists.EYE_TRACKING, "self_paced_reading_time", "prev_word", "prev_length"]
    rows = [",".join(header)]
    random = np.random.default_rng(1)
    for number in range(3):
        words = [f"w{number}x{position}" for position in range(12)]
        for position in range(1, 12):
            values = [number + position**2 % 7, *random.integers(1, 9, 1)]
            time = sum(values) + 100 * (position % 3 == 0)
            cells = ["", words[position], " ".join(words), position, number, *values]
            cells += [time] * 5 + [words[position - 1], random.integers(1, 9)]
            rows.append(",".join(str(cell) for cell in cells))
    return rows


def test_reading_times(tmp_path):
    root = tmp_path / "naturalstories"
    tokens = [f"{word}\t{number}\t1" for number, word in enumerate(STORY, 1)]
    write(root / "naturalstories_RTS/all_stories.tok", "\n".join(["word\tzone\titem", *tokens]))
    times = [f"{word}\t{number}\t1\t{100 * number}" for number, word in enumerate(STORY, 1)]
    header = "word\tzone\titem\tmeanItemRT"
    write(root / "naturalstories_RTS/processed_wordinfo.tsv", "\n".join([header, *times]))
    write(root / "freqs/freqs-1.tsv", "1.1.whole\t1\tA\t9\tNA\n1.1.word\t1\tA\t1\tNA\n")
    write(root / "freqs/freqs-3.tsv", "1.2.word\t3\tcat\t2\t16\n1.3.word\t3\tshe\t0\t4\n")
    gpt3 = ["token,logprob,story", "A,,0", " ca,-0.5,0", "t,-1,0", '",",-1,0', " she,0,0"]
    write(root / "probs/all_stories_gpt3.csv", "\n".join([*gpt3, " said.,0,0"]))
    write(tmp_path / linguists.READING, "\n".join(reading_rows()))
    linguists.main(["times", str(tmp_path)])
    rows = table(tmp_path / "natural-stories.tsv")
    assert [row["word"] for row in rows] == STORY
    assert [row["time"] for row in rows] == ["", "100", "200", "300"]  # those of the row before
    assert [row["log_frequency"] for row in rows] == ["0.0", "", "", ""]
    assert [row["trigrams"] for row in rows] == ["", "3.0", "", ""]
    assert float(rows[1]["gpt3"]) == pytest.approx(2.5 / np.log(2))
    assert rows[0]["gpt3"] == ""
    rows = table(tmp_path / "reading.tsv")
    assert [row["word"] for row in rows[:2]] == ["w0x0", "w0x1"]
    assert [bool(row["self_paced"]) for row in rows[:3]] == [False, True, True]


def test_surprisal_that_explains_all_times_has_the_score_of_100(tmp_path, capsys):
    write(tmp_path / linguists.READING, "\n".join(reading_rows()))
    rows = ["line\tbegin\tend\ttoken\tforward\tbackward"]
    for line in range(3):
        begin = 0
        for position in range(12):
            word = f"w{line}x{position}"
            end = begin + len(word)
            rows.append(f"{line}\t{begin}\t{end}\t{word}\t{int(position % 3 == 0)}\t{position % 2}")
            begin = end + 1
        rows.append(f"{line}\t{begin - 1}\t{begin - 1}\t</S>\t9\t9")
    write(tmp_path / "surprisal.tsv", "\n".join(rows))
    linguists.main(["reading", str(tmp_path), str(tmp_path / "surprisal.tsv")])
    forward, backward = capsys.readouterr().out.splitlines()
    assert forward.split() == ["forward", "eye", "tracking", "100.00", "self-paced", "100.00"]
    assert float(backward.split()[3]) < 90


def test_a_circuit_is_the_mean_of_its_suites(tmp_path, capsys):
    """Of a suite with several predictions the first counts, and suites of no circuit do not."""
    rows = ["suite\tprediction\titem\tforward\tbackward\tboth\tin_vocabulary"]
    rows += ["npi_any\t1\t1\t1\t0\t0\t1", "npi_any\t2\t1\t0\t0\t1\t1"]
    rows += ["npi_any\t1\t2\t1\t0\t0\t1", "reflexive_src\t1\t1\t0\t1\t0\t1"]
    rows += ["cleft\t1\t1\t1\t1\t0\t1", "nn-nv-rpl\t1\t1\t1\t1\t1\t1"]
    write(tmp_path / "suites.tsv", "\n".join(rows))
    linguists.main(["circuits", str(tmp_path / "suites.tsv")])
    _, licensing, distant, total = capsys.readouterr().out.splitlines()
    assert licensing.split()[1:] == ["2", "50.0%", "50.0%", "0.0%"]
    assert distant.split()[2:] == ["1", "100.0%", "100.0%", "0.0%"]
    assert total.split() == ["all", "3", "66.7%", "66.7%", "0.0%"]
