"""SyntaxGym's suites: against sums of surprisal; tokens, totals, metrics; mistakes in the files."""

import copy
import csv
import json

import numpy as np
import pytest
from experiment_runs import bits, run

from elmo import UserError
from elmo_core.text.tokenise import Tokeniser
from elmo_tools.experiments import suites
from elmo_tools.experiments.suites import read_suite, read_suites, suite_files

ITEMS = {  # regions 1 to 4 by item and condition
    7: {"a": ["the", "river bank", "", "of"], "b": [" a", "q", "of  the", "of"]},
    3: {"a": ["the bank", "", "a river", "river"], "b": ["the", "unheard", "", "the"]},
    4: {"a": ["", "bank the", "a", "q"], "b": ["longerword", "", "the", "q"]},
}
FORMULAS = ["[(2;%a%) + (3;%a%)] > (*;%b%) - (1;%b%)", "(2;%a%) = 0", "(4;%a%) < (4;%b%)"]


def suite(name="made up", metric="sum", formulas=FORMULAS, items=ITEMS) -> dict:
    return {
        "meta": {"name": name, "metric": metric, "comment": ""},
        "region_meta": {"1": "first"},
        "predictions": [{"type": "formula", "formula": text} for text in formulas],
        "items": [
            {
                "item_number": number,
                "conditions": [
                    {
                        "condition_name": condition,
                        "regions": [
                            {"region_number": k, "content": content}
                            for k, content in enumerate(regions, 1)
                        ],
                    }
                    for condition, regions in conditions.items()
                ],
            }
            for number, conditions in items.items()
        ],
    }


def write(path, value) -> None:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    path.write_text(text, encoding="utf-8")


def region_words(model, item: int, condition: str) -> list[np.ndarray]:
    """Surprisals of the words of each region (n, 3): forward, backward, their sum."""
    regions = ITEMS[item][condition]
    records = bits(model, " ".join(regions))
    records = np.column_stack([records, records.sum(1)])
    lengths = [len(content.split()) for content in regions]
    return np.split(records, np.cumsum(lengths))[:-1]


def expected_of(model, item: int) -> np.ndarray:
    """Whether each of FORMULAS holds (3 formulas, 3 directions), by sums."""
    a, b = ([words.sum(0) for words in region_words(model, item, c)] for c in "ab")
    return np.array([a[1] + a[2] > b[1] + b[2] + b[3], abs(a[1]) < 1e-3, a[3] < b[3] - 1e-3])


def read_rows(path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def printed_rows(capsys) -> dict[str, list[float]]:
    """The printed numbers by name."""
    head, *lines = capsys.readouterr().out.splitlines()
    width = head.index("items") - 5
    return {
        line[:width].strip(): [
            float(number.rstrip("%").replace("–", "nan")) for number in line[width:].split()
        ]
        for line in lines
    }


def test_predictions_are_checked_by_item_and_direction(model, tmp_path, capsys):
    write(tmp_path / "s.json", suite())
    run(model, "--suite", tmp_path / "s.json", "--output", tmp_path / "out.tsv")
    expected = np.array([expected_of(model, item) for item in ITEMS])
    assert 0 < expected[:, 0].mean() < 1 and 0 < expected[:, 2].mean() < 1, "nothing to tell"
    rows = read_rows(tmp_path / "out.tsv")
    assert [(row["suite"], row["prediction"], row["item"]) for row in rows] == [
        ("made up", str(k), str(item)) for k in (1, 2, 3) for item in ITEMS
    ]
    found = [[int(row[name]) for name in ("forward", "backward", "both")] for row in rows]
    np.testing.assert_array_equal(np.reshape(found, (3, 3, 3)).swapaxes(0, 1), expected)
    assert [row["in_vocabulary"] for row in rows] == ["1", "0", "1"] * 3
    printed = printed_rows(capsys)
    names = [f"made up ({k})" for k in (1, 2, 3)]
    assert list(printed) == [*names, "mean of 1 suite"]
    for k, name in enumerate(names):
        shares = [*expected[:, k].mean(0), *expected[[0, 2], k].mean(0)]
        numbers = [3, *np.multiply(100, shares[:3]), 2, *np.multiply(100, shares[3:])]
        np.testing.assert_allclose(printed[name], numbers, atol=0.051)
    assert printed["mean of 1 suite"] == printed[names[0]], "that of the first prediction"


def test_the_total_is_the_mean_of_the_suites(model, tmp_path, capsys):
    """Each counts the same, whatever the number of its items and predictions."""
    unknown = {k: {"a": ["unheard"]} for k in range(5)}
    write(tmp_path / "1.json", suite("one", formulas=["(1;%a%) > 0", "1 < 0"], items=unknown))
    write(tmp_path / "2.json", suite("two", formulas=["(1;%a%) < 0"], items={1: ITEMS[7]}))
    write(tmp_path / "3.json", suite("three", formulas=["(1;%a%) < 0"], items={1: ITEMS[7]}))
    run(model, "--suite", tmp_path / "[12].json", tmp_path / "3.json")
    printed = printed_rows(capsys)
    assert list(printed) == ["one (1)", "one (2)", "two", "three", "mean of 3 suites"]
    mean = [7, *[33.3] * 3, 2, *[0] * 3]
    np.testing.assert_allclose(printed["mean of 3 suites"], mean, atol=0.051)
    np.testing.assert_array_equal(printed["one (1)"], [5, 100, 100, 100, 0, *[np.nan] * 3])
    run(model, "--suite", tmp_path / "1.json")
    assert np.isnan(printed_rows(capsys)["mean of 1 suite"][-3:]).all()


def test_a_suite_is_scored_alike_beside_others(model, tmp_path):
    """Sentences are in batches of all suites."""
    write(tmp_path / "1.json", suite("one"))
    write(tmp_path / "2.json", suite("two", items={9: ITEMS[3], 1: ITEMS[4]}))
    run(model, "--suite", tmp_path, "--output", tmp_path.parent / "both.tsv", "--batch_size=2")
    apart = []
    for name in ("1", "2"):
        run(model, "--suite", tmp_path / f"{name}.json", "--output", tmp_path.parent / "out.tsv")
        apart += read_rows(tmp_path.parent / "out.tsv")
    assert read_rows(tmp_path.parent / "both.tsv") == apart


@pytest.mark.parametrize(
    ("metric", "function"),
    [
        ("mean", np.mean),
        ("median", np.median),
        ("range", np.ptp),
        ("max", np.max),
        ("min", np.min),
    ],
)
def test_metrics_of_the_words_of_a_region(model, tmp_path, metric, function):
    """Of the whole sentence, the sum of those of its regions, as in SyntaxGym."""
    items = {7: ITEMS[7]}
    a = [function(words, axis=0) for words in region_words(model, 7, "a") if len(words)]
    for direction, name in enumerate(("forward", "backward", "both")):
        whole = sum(values[direction] for values in a)
        bounds = [f"(2;%a%) = {a[1][direction]:.4f}", f"(*;%a%) = {whole:.4f}"]
        write(tmp_path / "s.json", suite(metric=metric, formulas=bounds, items=items))
        run(model, "--suite", tmp_path / "s.json", "--output", tmp_path / "out.tsv")
        assert [row[name] for row in read_rows(tmp_path / "out.tsv")] == ["1", "1"]
    write(tmp_path / "s.json", suite(metric=metric, formulas=["(3;%a%) > 1"], items=items))
    with pytest.raises(UserError, match=rf"s.json, item_number 7, condition 'a': .*no {metric}"):
        run(model, "--suite", tmp_path / "s.json")


def test_numbers_are_in_the_unit_of_the_surprisal(model, tmp_path):
    in_bits = region_words(model, 7, "a")[1].sum(0)
    for unit, factor in (("bits", 1), ("nats", np.log(2))):
        value = f"(2;%a%) = {in_bits[0] * factor:.4f}"
        write(tmp_path / "s.json", suite(formulas=[value], items={7: ITEMS[7]}))
        flags = ["--suite", tmp_path / "s.json", "--output", tmp_path / "out.tsv"]
        run(model, *flags, f"--unit={unit}")
        assert [row["forward"] for row in read_rows(tmp_path / "out.tsv")] == ["1"]


def test_raw_regions_get_their_tokens(tmp_path):
    items = {1: {"a": ["The actor", "", "didn't,", "he said, laugh."], "b": ["A", "B", "C", "D"]}}
    write(tmp_path / "s.json", suite(items=items))
    first, _ = suites.tokenise_suite(read_suite(tmp_path / "s.json"), Tokeniser("en"))
    assert first.regions == {1: [0, 1], 2: [], 3: [2, 3, 4], 4: [5, 6, 7, 8, 9]}
    assert first.tokens == ["The", "actor", "did", "n't", ",", "he", "said", ",", "laugh", "."]


def test_raw_suites_need_a_language(model, tmp_path):
    items = {1: {c: ["The bank", "is", "a", "river."] for c in "ab"}}
    write(tmp_path / "s.json", suite(items=items))
    with pytest.raises(UserError, match=r"s.json.*--lang"):
        run(model, "--suite", tmp_path / "s.json")
    run(model, "--suite", tmp_path / "s.json", "--lang=en")


def replaced(original: dict, parents, last, value) -> dict:
    """A copy in which one value is replaced, or left out if the value is `...`."""
    whole = copy.deepcopy(original)
    parent = whole
    for key in parents:
        parent = parent[key]
    if value is ...:
        del parent[last]
    else:
        parent[last] = value
    return whole


def changed(*keys, value) -> dict:
    """The suite with one value replaced or left out."""
    return replaced(suite(), keys[:-1], keys[-1], value)


ITEM = ("items", 1)
CONDITION = (*ITEM, "conditions", 1)
REGION = (*CONDITION, "regions", 0)
FORMULA = ("predictions", 1, "formula")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "is empty"),
        ("{", "invalid JSON.*line 1"),
        ("[" * 200_000, "invalid JSON.*brackets"),
        ("[1, 2]", "'meta' is missing"),
        ('{"a": 1}', "'meta' is missing, expected a test suite"),
        ('{"sentence_good": "a", "sentence_bad": "b"}\n' * 2, "invalid JSON"),
        (changed("meta", "name", value=...), "meta: 'name' is missing"),
        (changed("meta", "name", value="a\nb"), "meta: found the name"),
        (changed("meta", "metric", value="all"), "meta: metric='all'"),
        (changed("predictions", value=[]), "'predictions' is empty"),
        (changed("predictions", 1, "type", value="relation"), "prediction 2: .*'relation'"),
        (changed(*FORMULA, value="(2;%a%) >"), "prediction 2, the end, expected a region"),
        (changed(*FORMULA, value="(2;%c%) > 1"), "item_number 7: no condition 'c'.*n 2.* a, b"),
        (changed(*FORMULA, value="(5;%b%) > 1"), "item_number 7, condition 'b': no region 5"),
        (changed(*FORMULA, value="(*;%c%) > 1"), "no condition 'c'"),
        (changed("items", value=[]), "'items' is empty"),
        (changed("items", value={}), "'items' is {}"),
        (changed(*ITEM, "item_number", value=7), "item_number 7 occurs twice"),
        (changed(*ITEM, "item_number", value="7"), "item 2: 'item_number' is '7'"),
        (changed(*CONDITION, value=...), "item_number 3: no condition 'b'"),
        (changed(*CONDITION, "condition_name", value="a"), "3: the condition 'a' occurs twice"),
        (changed(*CONDITION, "regions", value=[]), "3, condition 'b': 'regions' is empty"),
        (changed(*REGION, value=...), "item_number 3, condition 'b': no region 1"),
        (changed(*REGION, "region_number", value=2), "condition 'b': the region 2 occurs twice"),
        (changed(*REGION, "content", value=None), "condition 'b', region 1: 'content' is missing"),
        (changed(*REGION, "content", value=["the"]), "region 1: 'content' is"),
        (changed(*REGION, "content", value="a\0"), "region 1: .*NUL"),
    ],
)
def test_mistakes_in_a_suite_are_named(tmp_path, value, words):
    write(tmp_path / "s.json", value)
    with pytest.raises(UserError, match=rf"s.json.*{words}"):
        read_suites([tmp_path / "s.json"])


def test_sentences_and_regions_without_words_are_named(tmp_path):
    for regions, words in ((["", " "], "the sentence has"), (["a", "<b>"], "region 2, '<b>', has")):
        write(tmp_path / "s.json", suite(formulas=["1 < 2"], items={5: {"x": regions}}))
        with pytest.raises(UserError, match=f"s.json, item_number 5, condition 'x': .*{words} no"):
            suites.tokenise_suite(read_suite(tmp_path / "s.json"), Tokeniser("en"))


def places(value, before=()):
    """The keys of all values within a value."""
    keys = {dict: lambda v: list(v), list: lambda v: list(range(len(v)))}
    for key in keys.get(type(value), lambda v: [])(value):
        yield (*before, key)
        yield from places(value[key], (*before, key))


def test_any_value_in_any_place_is_read_or_named(tmp_path):
    """Or it is none of what is read."""
    junk = [None, ..., True, -1, 2.5, "", "x", "\ud800", [], [None], {}, {"x": {}}]
    original = suite(items={7: ITEMS[7]})
    n_mistakes = 0
    for *parents, last in places(original):
        for value in junk:
            whole = replaced(original, parents, last, value)
            write(tmp_path / "s.json", json.dumps(whole))
            try:
                found = read_suite(tmp_path / "s.json")
                suites.tokenise_suite(found, Tokeniser("none"))
            except UserError as error:
                assert "s.json" in str(error)
                n_mistakes += 1
    assert n_mistakes > 300


def test_files_that_are_no_suites_are_named(model, tmp_path):
    write(tmp_path / "s.json", suite())
    with pytest.raises(UserError, match=r"no file matches .*x\*"):
        suite_files([str(tmp_path / "x*")])
    for twice in (["s.json", "s.json"], ["s.json", "."], ["../*/s.json", "*.json"]):
        with pytest.raises(UserError, match=r"s.json is given twice"):
            suite_files([str(tmp_path / name) for name in twice])
    write(tmp_path / "t.json", suite())
    with pytest.raises(UserError, match=r"t.json and .*s.json are both named 'made up'"):
        read_suites([tmp_path / "s.json", tmp_path / "t.json"])
    (tmp_path / "u.json").write_bytes(json.dumps(suite(), indent=1).encode("utf-16"))
    with pytest.raises(UserError, match=r"u.json:1: .*UTF-16"):
        read_suite(tmp_path / "u.json")
    with pytest.raises(UserError, match=r"--output .*s.json"):
        run(model, "--suite", tmp_path / "s.json", "--output", tmp_path / "s.json")
    assert json.loads((tmp_path / "s.json").read_text(encoding="utf-8")) == suite()
