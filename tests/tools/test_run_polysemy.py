"""run_polysemy.py: the sample's senses, nearest occurrences, mistakes."""

import re

import numpy as np
import pytest
import runs
import tiny
from polysemy_text import LINES, sentence_of, table, write

from elmo import ELMoEmbedder
from elmo_tools.senses import nearest

DATA = runs.PROJECT / "data"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small model after a few steps on the sample."""
    folder = tmp_path_factory.mktemp("trained")
    data = {
        "train_data_path": DATA / "train",
        "vocab_file": DATA / "vocabulary.txt",
        "dev_data_path": None,
    }
    sizes = {
        "cell_dim": 48,
        "projection_dim": 24,
        "filters": "1:8,2:16,3:16",
        "batch_size": 32,
        "unroll_steps": 20,
    }
    optimizer = {
        "optimizer": "adam",
        "lr": 0.01,
        "warmup_steps": 10,
        "dropout": 0,
        "n_negative_samples": 0,
    }
    runs.pretrain(runs.flags(DATA, folder, max_steps=50, **data, **sizes, **optimizer))
    return folder


@pytest.fixture
def corpus(tmp_path):
    return write(tmp_path / "text.txt", LINES)


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
    argv = [
        f"--senses={DATA / 'dev_senses.tsv'}",
        "--word=bank,苹果",
        "--examples=2",
        "--neighbours=1",
    ]
    lines = printed(trained, DATA / "dev", *argv)
    assert len(lines) < 25
    assert list(table(lines)) == ["bank", "苹果", "words of dev_senses.tsv: 26"]
    assert sum("[bank]" in line for line in lines) == sum("[苹果]" in line for line in lines) == 6
    assert {line[18:23] for line in lines if re.match("  [12] .*bank", line)} == {"river", "money"}


def test_neighbours_are_the_nearest_by_layer(model, corpus, printed):
    lines = printed(model, corpus, "--word=bank", "--examples=4", "--neighbours=3")
    embedder = ELMoEmbedder(model, device="cpu")
    texts = list(dict.fromkeys(line for line in LINES if "bank" in line.split()))
    arrays = embedder.encode([text.split() for text in texts])
    vectors = np.stack(
        [array[:, text.split().index("bank")] for text, array in zip(texts, arrays, strict=True)]
    )
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


def agrees(line: str, text: str) -> bool:
    """Whether the line shows the sentence, possibly truncated."""
    return sentence_of(line).strip("…") in text


def test_a_sentence_of_ones_own_is_compared(model, corpus, printed):
    text = "the bank of the town was closed"
    lines = printed(
        model, corpus, "--word=bank", "--sentence=his bank gave him credit", f"--sentence={text}"
    )
    examples = [sentence_of(line) for line in lines if re.match(r"  \d ", line)]
    assert examples == ["his bank gave him credit", text]
    second = next(k for k, line in enumerate(lines) if re.match("  2 ", line))
    below = lines[second + 1 :]
    # The same sentence is no neighbour of itself.
    assert below and not any("town" in line for line in below)


def test_the_nearest_words_in_layer_0(model, corpus, printed):
    lines = printed(model, corpus, "--word=bank")
    embedder = ELMoEmbedder(model, device="cpu", layers=0)
    tokens = set(" ".join(LINES).split())
    words = sorted(token for token in tokens if re.search(r"\w", token))
    found = np.concatenate(embedder.encode([[word] for word in words]))
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    cosines = found @ found[words.index("bank")]
    order = [k for k in np.argsort(-cosines) if words[k] != "bank"][:5]
    nearest = ", ".join(f"{words[k]} {cosines[k]:.2f}" for k in order)
    assert "layer 0" in lines[1] and lines[1].endswith(f" {nearest}")


def test_a_word_outside_the_vocabulary_is_compared_without_a_warning(
    model, corpus, printed, caplog
):
    """The sample's page of another language's words began with twenty of them."""
    lines = printed(model, corpus, "--word=on")
    assert "on" not in tiny.WORDS
    assert len(re.findall(r" \d\.\d\d", lines[1])) == nearest.NEAREST_WORDS
    assert "'on'" not in caplog.text


def test_words_are_given_one_by_one_or_with_commas(model, corpus, printed):
    expected = printed(model, corpus, "--word=bank", "--word=苹果")
    for given in ("bank,苹果", "bank， 苹果 ,bank,"):
        assert printed(model, corpus, f"--word={given}") == expected
