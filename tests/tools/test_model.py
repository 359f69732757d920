"""The initial model of a run: another vocabulary, a missing softmax, word vectors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import runs
from pretraining_runs import load

from elmo_core.config import ELMoConfig
from elmo_core.network.start_state import NAMES
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights import checkpoint

pytestmark = pytest.mark.usefixtures("no_fsync")


def test_finetuning_with_the_same_vocabulary_starts_from_the_weights(corpus, finished, tmp_path):
    runs.pretrain(
        runs.flags(corpus, tmp_path, finetune_from=finished, max_steps=1, lr=1e-12, vocab_file=None)
    )
    before = load(finished / "final")
    assert checkpoint.steps(tmp_path) == [1]
    assert (tmp_path / "1" / "vocab.txt").read_bytes() == (corpus / "vocab.txt").read_bytes()
    for name, array in load(tmp_path / "final").items():
        np.testing.assert_allclose(array, before[name], atol=1e-9, err_msg=name)


@pytest.mark.parametrize("input", ["char", "word"])
def test_finetuning_with_another_vocabulary_keeps_the_rows_of_known_words(
    corpus, tmp_path, messages, input
):
    known = Vocabulary.from_file(corpus / "vocab.txt")
    new = Vocabulary([*SPECIAL_TOKENS, "new", *reversed(known.tokens[5:]), "words"])
    new.save(tmp_path / "new.txt")
    runs.pretrain(runs.flags(corpus, tmp_path / "1", max_steps=2, input=input))
    changes = {
        "finetune_from": tmp_path / "1",
        "vocab_file": tmp_path / "new.txt",
        "max_steps": 1,
        "lr": 1e-12,
    }
    runs.pretrain(runs.flags(corpus, tmp_path / "2", **changes))
    assert f"{len(new) - 2} of {len(new)} words known" in messages()
    before, after = (load(tmp_path / name / "final") for name in "12")
    tables = {name for name in after if after[name].shape[0] == len(new)}
    assert tables == {"softmax.weight", "softmax.bias"} | (
        {"token_encoder.embedding.weight"} if input == "word" else set()
    )
    for name, array in after.items():
        for k, token in enumerate(new.tokens if name in tables else ()):
            kept = token in known and np.allclose(
                array[k], before[name][known.index[token]], atol=1e-9
            )
            assert kept == (token in known), f"{name} of {token}"
        if name not in tables and name not in NAMES:  # the start state depends on the vocabulary
            np.testing.assert_allclose(array, before[name], atol=1e-9, err_msg=name)


@pytest.mark.parametrize("words", [None, "new.txt"])
def test_the_licence_of_a_finetuned_model_goes_with_each_checkpoint(corpus, tmp_path, words):
    runs.pretrain(runs.flags(corpus, tmp_path / "1", max_steps=1))
    assert not (tmp_path / "1/1/NOTICE.md").exists()
    (tmp_path / "1/1/README.md").write_text("# river\n\nODbL\n", encoding="utf-8")
    if words:
        words = tmp_path / words
        Vocabulary([*SPECIAL_TOKENS, "new"]).save(words)
    run = {"finetune_from": tmp_path / "1", "vocab_file": words, "save_freq": 1}
    runs.pretrain(runs.flags(corpus, tmp_path / "2", max_steps=2, **run))
    runs.pretrain(runs.flags(corpus, tmp_path / "2", max_steps=3, resume=True, vocab_file=None))
    assert checkpoint.steps(tmp_path / "2") == [1, 2, 3]
    for step in (1, 2, 3):
        text = (tmp_path / f"2/{step}/NOTICE.md").read_text(encoding="utf-8")
        assert text.count("ODbL") == 1


def test_finetuning_adds_a_missing_softmax(corpus, finished, tmp_path, messages):
    """Most published models have none."""
    folder = checkpoint.resolve(finished)
    weights, config = load(folder), ELMoConfig.from_dict(checkpoint.load_config(folder)["model"])
    bare = {name: array for name, array in weights.items() if not name.startswith("softmax.")}
    checkpoint.save_model(tmp_path / "bare", replace(config, vocab_size=0), bare)
    flags = runs.flags(
        corpus, tmp_path / "2", finetune_from=tmp_path / "bare", max_steps=1, lr=1e-12
    )
    runs.pretrain(flags)
    after = load(tmp_path / "2" / "final")
    assert (
        after["softmax.weight"].shape == weights["softmax.weight"].shape and "softmax" in messages()
    )
    for name, array in bare.items():
        np.testing.assert_allclose(after[name], array, atol=1e-9, err_msg=name)


def write_vectors(path: Path, words: list[str], dimensions: int) -> np.ndarray:
    vectors = np.random.default_rng(0).standard_normal((len(words), dimensions)).round(3)
    lines = [
        f"{word} {' '.join(map(str, vector))}"
        for word, vector in zip(words, vectors.tolist(), strict=True)
    ]
    path.write_text("\n".join([f"{len(words)} {dimensions}", *lines]) + "\n", encoding="utf-8")
    return vectors


@pytest.mark.parametrize(
    "changes", [{"input": "word"}, {"input": "char+word", "word_dim": 6, "projection_dim": 7}]
)
def test_word_vectors_fill_the_word_table(corpus, tmp_path, messages, changes):
    """Other words keep their random start. A resumed run does not read the vectors again."""
    words = [*runs.WORDS[:20:2], "elsewhere"]
    vectors = write_vectors(tmp_path / "vectors.txt", words, 6)
    argv = runs.flags(corpus, tmp_path / "run", max_steps=1, lr=1e-12, **changes)
    runs.pretrain([*argv, f"--pretrained_word_embeddings={tmp_path / 'vectors.txt'}"])
    runs.pretrain([*argv, f"--save_dir={tmp_path / 'plain'}"])
    assert "10 of 40 words (25.0%)" in messages()
    vocabulary = Vocabulary.from_file(corpus / "vocab.txt")
    name = "embedding.weight" if changes["input"] == "word" else "words.weight"
    table, plain = (load(tmp_path / run)[f"token_encoder.{name}"] for run in ("run", "plain"))
    for word, vector in zip(words[:-1], vectors, strict=False):
        np.testing.assert_allclose(table[vocabulary.index[word]], vector, atol=1e-6)
    other = vocabulary.index[runs.WORDS[1]]
    np.testing.assert_allclose(table[other], plain[other], atol=1e-9)
    resume = ["--resume", "--pretrained_word_embeddings=nowhere.txt", "--max_steps=2"]
    runs.pretrain([*argv, *resume])
    assert "`pretrained_word_embeddings` is not read" in messages()
