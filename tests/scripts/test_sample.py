"""The bundled sample and its grammar."""

import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import runs
from project import PROJECT

from elmo import ELMoEmbedder

DATA, SAMPLE = PROJECT / "data", PROJECT / "tests" / "sample"
sys.path.insert(0, str(SAMPLE))

from grammar import Automaton, GrammarError, GrammarReader, Rules, Word, normalise
from make_sample import read_grammar

TOY = """
@n = sg pl
s = ^ <the> <animal.@n> <look>?25 <run.@n> . *3 | ^ a(n) <thing> is here/place . | not one
the ~ the this
animal.sg,pl ~ cat,cats old_owl,old_owls
look = who looks at <the> <animal.@n>
run.sg,pl:verb ~ runs,run sleeps,sleep
thing ~ apple pear orange
"""


def read(tmp_path: Path, text: str, start: str = "s", held_out: bool = False) -> Rules:
    path = tmp_path / "toy.txt"
    path.write_text(text, encoding="utf-8")
    reader = GrammarReader(held_out)
    reader.read(path)
    return normalise(reader.rules, start)


def language(automaton: Automaton) -> dict[str, float]:
    """Every sentence and its probability, by walking all paths."""
    probabilities: dict[str, float] = defaultdict(float)
    pending = [(automaton.start, 1.0, [])]
    while pending:
        state, probability, words = pending.pop()
        if state == 0:
            probabilities[" ".join(words)] += probability
        for edge in automaton.edges[state]:
            pending.append((edge.target, probability * edge.probability, [*words, edge.word.text]))
    return probabilities


@pytest.fixture(scope="module")
def figures() -> dict:
    return json.loads((DATA / "entropy.json").read_text(encoding="utf-8"))


def test_toy_entropy_length_and_parse_against_enumeration(tmp_path):
    automaton = Automaton(read(tmp_path, TOY), "s")
    sentences = language(automaton)
    assert automaton.ambiguous_ending() is None
    assert math.isclose(
        automaton.entropy(), -math.fsum(p * math.log(p) for p in sentences.values())
    )
    assert math.isclose(
        automaton.expected_length(), math.fsum(p * len(s.split()) for s, p in sentences.items())
    )
    for sentence, probability in sentences.items():
        log_probability, words = automaton.parse(sentence.split())
        assert math.isclose(log_probability, math.log(probability))
        assert [word.text for word in words] == sentence.split()
    assert automaton.parse(["This", "cats", "sleep", "."])[1][2] == Word("sleep", "verb", "")
    assert automaton.parse(["A", "pear", "is", "here", "."])[1][3] == Word("here", "", "place")
    assert automaton.parse(["The", "cats", "runs", "."]) == (-math.inf, [])


def test_toy_surprisal_against_enumeration(tmp_path):
    """The share of sentences with the word among those that agree on one side of it."""
    automaton = Automaton(read(tmp_path, TOY), "s")
    sentences = {tuple(sentence.split()): p for sentence, p in language(automaton).items()}
    for tokens in sentences:
        forward, backward = automaton.surprisals(tokens)
        for found, words, order in (
            (forward, tokens, 1),
            ([*backward[-2::-1], backward[-1]], tokens[::-1], -1),
        ):
            for k, nats in enumerate(found):
                agree = {s[::order]: p for s, p in sentences.items() if s[::order][:k] == words[:k]}
                same = [
                    p
                    for s, p in agree.items()
                    if s[: k + 1] == words[: k + 1] and (k < len(words) or s == words)
                ]
                assert math.isclose(
                    nats, math.log(math.fsum(agree.values()) / math.fsum(same)), abs_tol=1e-12
                )


def test_a_trained_models_surprisal_is_like_the_true_one(tmp_path):
    """Frequencies alone correlate with 0.43 (forward) and 0.38."""
    data = {
        "train_data_path": DATA / "train",
        "vocab_file": DATA / "vocabulary.txt",
        "dev_data_path": None,
    }
    sizes = {
        "input": "word",
        "cell_dim": 64,
        "projection_dim": 32,
        "batch_size": 64,
        "unroll_steps": 20,
        "filters": None,
    }
    optimizer = {
        "optimizer": "adam",
        "lr": 0.02,
        "warmup_steps": 10,
        "dropout": 0,
        "n_negative_samples": 0,
    }
    runs.pretrain(runs.flags(DATA, tmp_path, max_steps=300, **data, **sizes, **optimizer))
    with (DATA / "dev" / "dev-00000-of-00002").open(encoding="utf-8") as file:
        sentences = [line.split() for line in islice(file, 200)]
    embedder, automaton = (
        ELMoEmbedder(tmp_path, 8, "cpu", carry_state=True),
        Automaton(read_grammar(), "sample"),
    )
    bits = [record[1:3] for records in embedder.surprisal(sentences) for record in records]
    true = [
        pair for tokens in sentences for pair in zip(*automaton.surprisals(tokens), strict=True)
    ]
    for ours, theirs in zip(np.log(2) * np.transpose(bits), np.transpose(true), strict=True):
        assert np.corrcoef(ours, theirs)[0, 1] > 0.6 and theirs.mean() < ours.mean() < 2


@pytest.mark.parametrize(
    "text",
    [
        "s = a <x> c | <y> c\nx = b\ny = a b",
        "s = bank/money | bank/river",
        "s = <x>? <x>? end\nx = so",
        "s = the <x> sleeps | <y> sleeps\nx ~ cat dog\ny = the cat | the owl",
    ],
)
def test_two_derivations_are_noticed_and_summed(tmp_path, text):
    automaton = Automaton(read(tmp_path, text), "s")
    sentences = language(automaton)
    ending = " ".join(automaton.ambiguous_ending())
    assert any(sentence.endswith(ending) for sentence in sentences)
    assert automaton.entropy() > -math.fsum(p * math.log(p) for p in sentences.values())
    for sentence, probability in sentences.items():
        assert math.isclose(automaton.parse(sentence.split())[0], math.log(probability))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# first\ns =\n    a\n    b:c:d", "toy.txt, line 2: .*'b:c:d'"),
        ("s = <x>", "'x', used in 's'"),
        ("s = <x>\nx = <s>", "s > x > s"),
        ("s = a\nx = b", "never used: x"),
        ("s = <x.@n>", "@n"),
        ("s = <x.a>\nx.a,b ~ one,two,three", "'one,two,three'"),
    ],
)
def test_mistakes_in_a_grammar_are_named(tmp_path, text, message):
    with pytest.raises(GrammarError, match=message):
        read(tmp_path, text)


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    """Run with another hash seed, so that no file depends on the order of a set."""
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    command = [sys.executable, str(SAMPLE / "make_sample.py"), "--output", str(tmp_path)]
    subprocess.run(command, env=environment, check=True, timeout=120)
    written = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(written) == 15
    for path in written:
        assert (tmp_path / path).read_bytes() == (DATA / path).read_bytes(), path
    for folder in ("train", "dev", "polarity", "lac", "reading"):
        bundled = {path.name for path in (DATA / folder).iterdir() if not path.name.startswith(".")}
        assert bundled == {path.name for path in written if path.parent == Path(folder)}
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) < 5e6


def test_the_readme_tells_these_figures(figures):
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    source, dev, train = figures["source"], figures["dev"], figures["train"]
    for figure in (
        f"{source['sentence_entropy_nats']:.3f}",
        f"{source['predictions_per_sentence'] - 1:.3f}",
        f"{source['best_perplexity']:.3f}",
        f"{dev['best_perplexity']:.3f}",
        f"{train['predictions'] - train['sentences']:,}",
        f"{dev['predictions'] - dev['sentences']:,}",
        f"{figures['vocabulary'] - 3:,}",
        f"{figures['grammar']['free_probabilities']:,}",
    ):
        assert figure in readme


@pytest.mark.parametrize(
    ("flag", "code", "message"), [("--help", 0, "run.sh"), ("--save_d=x", 2, "run_pretrain.py")]
)
def test_run_sh_looks_at_its_flags_before_it_begins(flag, code, message):
    command = ["sh", str(PROJECT / "run.sh"), flag]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHON": "/none"}
    )
    assert done.returncode == code and message in done.stdout + done.stderr
