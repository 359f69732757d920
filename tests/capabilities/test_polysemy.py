"""run_polysemy.py: the sample's senses, nearest occurrences, mistakes."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import runs
import tiny

import run_polysemy
from elmo import ELMoEmbedder, load_bilm
from elmo_core.display import terminal
from elmo_core.messages import UserError
from elmo_core.text.tokens import Vocabulary
from senses import nearest, occurrences, page, report

DATA = runs.PROJECT / "data"
SENSES = ["file", "line", "token", "word", "sense"]
LINES = [
    "we sat on the bank of the river .",
    "the bank of the town was closed",
    "Bank holidays and riverbanks",
    "",
    "a bank robber took the money .",
    "we sat on the bank of the river .",
    "他 在 银行 的 门口 等 我 们 。",
    "a 苹果 is on the bank of a deep , wide and very long river that nobody has ever seen",
    "很 红 的 苹果 很 甜",
    "only here",
]
LABELS = [
    ("0", "4", "bank", "river"),
    ("1", "1", "bank", "money"),
    ("4", "1", "bank", "money"),
    ("7", "5", "bank", "river"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small model after a few steps on the sample."""
    folder = tmp_path_factory.mktemp("trained")
    data = {"train_data_path": DATA / "train", "vocab_file": DATA / "vocabulary.txt", "dev_data_path": None}
    sizes = {"cell_dim": 48, "projection_dim": 24, "filters": "1:8,2:16,3:16", "batch_size": 32, "unroll_steps": 20}
    optimizer = {"optimizer": "adam", "lr": 0.01, "warmup_steps": 10, "dropout": 0, "n_negative_samples": 0}
    runs.pretrain(runs.flags(DATA, folder, max_steps=50, **data, **sizes, **optimizer))
    return folder


@pytest.fixture
def corpus(tmp_path):
    return write(tmp_path / "text.txt", LINES)


@pytest.fixture
def senses(tmp_path):
    return write_senses(tmp_path / "senses.tsv", LABELS)


@pytest.fixture
def printed(capsys):
    """Run the script and return its output lines."""

    def run(model, corpus, *argv) -> list[str]:
        capsys.readouterr()
        run_polysemy.main([f"--init_from_ckpt={model}", f"--corpus={corpus}", "--device=cpu", *map(str, argv)])
        return capsys.readouterr().out.splitlines()

    return run


def write(path: Path, lines) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_senses(path: Path, labels, header=SENSES, file="text.txt") -> Path:
    return write(path, ["\t".join(header), *("\t".join((file, *label)) for label in labels)])


def table(lines) -> dict[str, list[float]]:
    """Parse the table: per row, chance and the layers' shares in percent."""
    rows = (re.fullmatch(r"(.+?) {2,}[\d,]+ +\d+ +(\d.*%)", line) for line in lines)
    return {row[1]: [float(share.rstrip("%")) for share in row[2].split()] for row in rows if row}


def sentence_of(line: str) -> str:
    """The sentence in an occurrence's line."""
    return line[report.HEAD :].replace("[", "").replace("]", "").strip()


# The sample


def test_contextual_layers_distinguish_senses_and_layer_0_does_not(trained, printed):
    lines = printed(trained, DATA / "dev", f"--senses={DATA / 'dev_senses.tsv'}")
    rows = table(lines)
    assert len(rows) == 27 and len(lines) == 29
    for chance, layer_0, *_ in rows.values():
        assert layer_0 == chance
    chance, _, layer_1, layer_2 = rows["words of dev_senses.tsv: 26"]
    assert 40 < chance < 50
    assert min(layer_1, layer_2) > chance + 20


def test_the_end_of_run_sh(trained, printed):
    argv = [f"--senses={DATA / 'dev_senses.tsv'}", "--word=bank,苹果", "--examples=2", "--neighbours=1"]
    lines = printed(trained, DATA / "dev", *argv)
    assert len(lines) < 25
    assert list(table(lines)) == ["bank", "苹果", "words of dev_senses.tsv: 26"]
    assert sum("[bank]" in line for line in lines) == sum("[苹果]" in line for line in lines) == 6
    assert {line[18:23] for line in lines if re.match("  [12] .*bank", line)} == {"river", "money"}


# How often the nearest has the same sense


def test_ties_count_by_their_share():
    vectors = np.array([[1, 0], [0.6, 0.8], [0.6, 0.8], [0.6, -0.8], [-1, 0]])
    senses, sentences = np.array(list("aabba")), np.arange(5)
    # the first is as near to 1, 2 and 3; 1 and 2 are each other's; the last is nearest to 1, 2 and 3 again
    expected = [1 / 3, 0, 0, 0, 1 / 3]
    np.testing.assert_allclose(nearest.same_sense(vectors, senses, sentences), expected)


def test_an_occurrence_in_the_same_sentence_is_no_neighbour():
    vectors = np.array([[1, 0], [1, 0], [0.6, 0.8], [0, 1]])
    senses, sentences = np.array(list("aabb")), np.array([7, 7, 3, 4])
    np.testing.assert_allclose(nearest.same_sense(vectors, senses, sentences), [0, 0, 1, 1])


# The occurrences that are shown


def test_neighbours_are_the_nearest_by_layer(model, corpus, printed):
    lines = printed(model, corpus, "--word=bank", "--examples=4", "--neighbours=3")
    embedder = ELMoEmbedder(model, device="cpu")
    texts = list(dict.fromkeys(line for line in LINES if "bank" in line.split()))
    arrays = embedder.encode([text.split() for text in texts])
    vectors = np.stack([array[:, text.split().index("bank")] for text, array in zip(texts, arrays, strict=True)])
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)  # (4, layers, 2P)
    shown = [line for line in lines[2:] if "[bank]" in line]
    assert len(shown) == 4 * (1 + 2 * 3)
    for begin in range(0, len(shown), 7):
        example, *others = shown[begin : begin + 7]
        k = next(k for k, text in enumerate(texts) if agrees(example, text))
        for layer, found in (1, others[:3]), (2, others[3:]):
            cosines = vectors[:, layer] @ vectors[k, layer]
            order = [other for other in np.argsort(-cosines) if other != k]
            for other, line in zip(order, found, strict=True):
                assert agrees(line, texts[other]), line
                assert float(line[12:16]) == pytest.approx(cosines[other], abs=0.006)


def test_most_similar_words(model, caplog):
    embedder = ELMoEmbedder(model, device="cpu")
    words = ["river", "unheard", "苹果", "very"]
    vectors = embedder.encode_tokens(["bank", *words])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = dict(zip(words, vectors[1:] @ vectors[0], strict=True))
    found = embedder.most_similar("bank", words=[*words, "bank"])
    assert dict(found) == pytest.approx(expected, abs=1e-5)
    assert [word for word, _ in found] == sorted(words, key=expected.get, reverse=True)
    assert len(embedder.most_similar("bank", topn=3)) == 3 and not caplog.records
    embedder.most_similar("unheard")
    assert [record.levelname for record in caplog.records] == ["WARNING"] and "unheard" in caplog.text
    of_words = ELMoEmbedder((tiny.random_bilm(input="word"), Vocabulary(tiny.WORDS)))
    assert [word for word, _ in of_words.most_similar("bank", words=["unheard", "river"])] == ["river"]
    with pytest.raises(UserError, match="'unheard'"):
        of_words.most_similar("unheard")
    for word, words in ((["bank"], None), ("bank", "river")):
        with pytest.raises(TypeError, match=r"bank|river"):
            embedder.most_similar(word, words=words)
    with pytest.raises(UserError, match="`words`"):
        ELMoEmbedder(load_bilm(model)).most_similar("bank")


def agrees(line: str, text: str) -> bool:
    """Whether the line shows the sentence, possibly truncated."""
    return sentence_of(line).strip("…") in text


def test_a_sentence_of_ones_own_is_compared(model, corpus, printed):
    text = "the bank of the town was closed"
    lines = printed(model, corpus, "--word=bank", "--sentence=his bank gave him credit", f"--sentence={text}")
    examples = [sentence_of(line) for line in lines if re.match(r"  \d ", line)]
    assert examples == ["his bank gave him credit", text]
    below = lines[lines.index(next(line for line in lines if re.match("  2 ", line))) + 1 :]
    assert below and not any("town" in line for line in below)  # the same sentence is no neighbour of itself


def test_words_are_aligned_in_one_column(model, printed, tmp_path):
    lines = [
        "x " * 60 + "苹果 很 甜",
        "他 在 银行 的 门口 等 我 们 吃 很 红 的 苹果",
        "e\u0301te\u0301 苹果",
        "苹果 ！",
    ]
    lines = printed(model, write(tmp_path / "text.txt", lines), "--word=苹果", "--examples=4")
    places = {terminal.display_width(line.partition("[")[0]) for line in lines[2:]}
    assert len(lines) == 2 + 4 * (1 + 2 * 3) and len(places) == 1
    assert max(map(terminal.display_width, lines[2:])) <= 110


def test_columns_of_wide_and_combined_characters():
    assert [terminal.display_width(text) for text in ("bank", "苹果", "，", "e\u0301", "")] == [4, 4, 2, 1, 0]
    assert terminal.truncate("苹果很甜", 7) == "苹果很…" and terminal.truncate("苹果很甜", 8) == "苹果很甜"
    assert terminal.truncate("苹果很甜", 6) == "苹果…"


def test_control_characters_are_not_printed(model, printed, tmp_path):
    corpus = write(tmp_path / "text.txt", ["a \x1b[2J bank", "the \u202e bank", "of bank"])
    text = "".join(printed(model, corpus, "--word=bank"))
    assert "\ufffd[2J [bank]" in text and "\x1b" not in text and "\u202e" not in text


def test_a_sample_is_random_seeded_and_reported(model, printed, tmp_path):
    corpus = write(tmp_path / "text.txt", [f"number {k} bank" for k in range(300)])
    argv = ["--word=bank", "--max_occurrences=30", "--examples=30", "--neighbours=1"]
    one, again, other = (printed(model, corpus, *argv, f"--seed={seed}") for seed in (1, 1, 2))
    assert one == again != other
    assert re.search(r"bank\D* 300 \D* 30 .*--max_occurrences", one[0])
    numbers = [int(line.split()[2]) for line in one if re.match(r"  \d", line)]
    assert len(set(numbers)) == 30 and min(numbers) < 100 and max(numbers) >= 200


def test_the_nearest_words_in_layer_0(model, corpus, printed):
    lines = printed(model, corpus, "--word=bank")
    embedder = ELMoEmbedder(model, device="cpu", layers=0)
    words = sorted({word for line in LINES for word in line.split() if any(map(str.isalnum, word))})
    found = np.concatenate(embedder.encode([[word] for word in words]))
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    cosines = found @ found[words.index("bank")]
    order = [k for k in np.argsort(-cosines) if words[k] != "bank"][:5]
    nearest = ", ".join(f"{words[k]} {cosines[k]:.2f}" for k in order)
    assert "layer 0" in lines[1] and lines[1].endswith(f" {nearest}")


def test_a_word_outside_the_vocabulary_is_compared_without_a_warning(model, corpus, printed, caplog):
    """The sample's page of another language's words began with twenty of them."""
    lines = printed(model, corpus, "--word=on")
    assert "on" not in tiny.WORDS and len(re.findall(r" \d\.\d\d", lines[1])) == nearest.NEAREST_WORDS
    assert "'on'" not in caplog.text


def test_words_are_given_one_by_one_or_with_commas(model, corpus, printed):
    expected = printed(model, corpus, "--word=bank", "--word=苹果")
    for given in ("bank,苹果", "bank， 苹果 ,bank,"):
        assert printed(model, corpus, f"--word={given}") == expected


def test_words_left_out_are_logged(word_model, corpus, printed, tmp_path, caplog):
    labels = [*LABELS, ("8", "3", "苹果", "fruit"), ("1", "4", "town", "place"), ("9", "0", "only", "x")]
    senses = write_senses(tmp_path / "senses.tsv", labels)
    assert list(table(printed(word_model, corpus, f"--senses={senses}"))) == ["bank", "words of senses.tsv: 1"]
    assert "'苹果' is left out" in caplog.text and "'town' is left out" in caplog.text


def test_senses_in_missing_files_are_counted(model, corpus, printed, tmp_path, caplog):
    senses = write_senses(tmp_path / "senses.tsv", LABELS)
    with senses.open("a", encoding="utf-8") as file:
        file.write("elsewhere.txt\t0\t0\tbank\tmoney\n")
    assert table(printed(model, corpus, f"--senses={senses}"))
    assert "1 occurrence of 5" in caplog.text


# Key words


def test_key_words_are_rare_in_the_corpus_and_frequent_beside_the_word():
    sentences = [
        "the fish in the river bank",
        "the river by the bank",
        "the robber in the bank .",
        "a robber by the bank",
    ]
    background = [*sentences, *["the man in the house by the sea ."] * 20]
    found = [occurrences.Occurrence(tuple(text.split()), text.split().index("bank")) for text in sentences]
    word = occurrences.Word("bank", 4, 4, found, 0)
    found = page.keywords(word, page.Frequencies([text.split() for text in background]))
    assert found[0] == "fish river" and "river" in found[1] and "robber" in found[2] and "robber" in found[3]


# Mistakes


def test_a_sample_that_is_too_small_is_said_to_be(model, corpus, senses, printed, caplog):
    small = "--max_occurrences=1"
    with pytest.raises(UserError, match="max_occurrences"):
        printed(model, corpus, "--word=bank", small)
    with pytest.raises(UserError):
        printed(model, corpus, f"--senses={senses}", small)
    assert "max_occurrences" in caplog.text


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([("0", "4", "river", "x")], r"senses\.tsv:2"),
        ([LABELS[0], ("10", "0", "bank", "x")], r"senses\.tsv:3"),
        ([LABELS[0], ("0", "4", "bank", "money")], r"senses\.tsv:3.*'money'.*'river'"),
        ([("0", "4", "bank")], r"senses\.tsv:2"),
        ([("0", "4.0", "bank", "river")], r"senses\.tsv:2"),
        ([], r"senses\.tsv"),
        ([("1", "4", "town", "x")], r"senses\.tsv"),  # nothing that can be counted
        ([LABELS[0]], "'bank'"),
    ],
)
def test_senses_that_do_not_fit_are_explained(model, corpus, printed, tmp_path, rows, word):
    senses = write_senses(tmp_path / "senses.tsv", rows)
    asked = ["--word=bank"] if rows == [LABELS[0]] else []
    with pytest.raises(UserError, match=word):
        printed(model, corpus, f"--senses={senses}", *asked)


def test_senses_of_another_corpus_are_explained(model, corpus, printed, tmp_path):
    senses = write_senses(tmp_path / "senses.tsv", LABELS, file="other.txt")
    with pytest.raises(UserError, match=r"other\.txt.* text\.txt"):
        printed(model, corpus, f"--senses={senses}")
    (tmp_path / "again").mkdir()
    shutil.copy(corpus, tmp_path / "again")
    with pytest.raises(UserError, match="2 files named text"):
        printed(model, f"{tmp_path}/**/text.txt", f"--senses={write_senses(tmp_path / 'senses.tsv', LABELS)}")
