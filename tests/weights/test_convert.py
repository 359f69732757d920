"""convert.py: what it logs, and the folder that it fills."""

from pathlib import Path

import numpy as np
import pytest
import tiny
from converting import import_flags, refused
from foreign import (
    OMIT,
    options_of,
    write_bilm,
)

import convert
from elmo import ELMoEmbedder, load_bilm
from elmo_core.encoding.encoder import mean_start_state
from elmo_core.messages import UserError
from elmo_core.weights import checkpoint


def test_unusual_options_are_logged(tmp_path, messages):
    options = options_of({"use_skip_connections": OMIT}, {"n_characters": 261})
    write_bilm(tmp_path, options)
    convert.main(import_flags(tmp_path, tmp_path / "out", vocab=True))
    for word in ("use_skip_connections", "needs no words"):
        assert word in messages()
    with pytest.raises(UserError, match="softmax"):
        load_bilm(tmp_path / "out", softmax=True)


def test_an_empty_folder_is_filled_unless_it_is_the_current_one(tmp_path, monkeypatch):
    write_bilm(tmp_path / "in", options_of({}, {}))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    refused(import_flags(tmp_path / "in", Path()), "--output .", tmp_path)
    monkeypatch.chdir(tmp_path)
    convert.main(import_flags(tmp_path / "in", tmp_path / "empty"))
    assert (tmp_path / "empty" / "model.safetensors").exists()


def test_a_speller_and_a_start_state_are_added(tmp_path):
    """Weights and their precision stay; the unknown words are those of the text."""
    model = tiny.save(tiny.random_bilm(), tmp_path / "model")
    convert.main(["half", model, f"--output={tmp_path / 'half'}"])
    text = tmp_path / "text.txt"
    text.write_text("the zyx of the zyx\n\na bank unheard\n", encoding="utf-8")
    output = tmp_path / "open"
    convert.main(["speller", str(tmp_path / "half"), f"--corpus={text}", f"--output={output}"])
    bilm, vocabulary = load_bilm(output, softmax=True)
    assert vocabulary.unknown_words.counts["zyx"] == 2
    assert not set(tiny.WORDS) & set(vocabulary.unknown_words.counts)
    sentences = [line.split() for line in text.read_text(encoding="utf-8").splitlines()]
    expected = mean_start_state(bilm, vocabulary, sentences)
    np.testing.assert_allclose(bilm.start_state.h, expected.h, atol=1e-6)
    before = checkpoint.load_params(tmp_path / "half")
    after = checkpoint.load_params(output)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, strict=True)
    (records,) = ELMoEmbedder(output, device="cpu").surprisal([["zyx"]], vocabulary="open")
    assert not records[0].in_vocabulary and np.isfinite(records[0].forward)


@pytest.mark.parametrize("command", ["half", "export", "speller"])
def test_the_licence_of_a_model_goes_with_its_weights(tmp_path, command):
    model = tiny.save(tiny.random_bilm(), tmp_path / "model")
    (tmp_path / "model/README.md").write_text("# river\n\nODbL\n", encoding="utf-8")
    flags = [command, model, f"--output={tmp_path / 'output'}"]
    if command == "speller":
        (tmp_path / "text.txt").write_text("the zyx of the zyx\n", encoding="utf-8")
        flags.append(f"--corpus={tmp_path / 'text.txt'}")
    convert.main(flags)
    assert "ODbL" in (tmp_path / "output/NOTICE.md").read_text(encoding="utf-8")


def test_a_speller_of_raw_text_is_warned_of(tmp_path, caplog):
    model = tiny.save(tiny.random_bilm(), tmp_path / "model")
    text = tmp_path / "text.txt"
    text.write_text("The bank, of the river.\n" * 20, encoding="utf-8")
    output = tmp_path / "open"
    convert.main(["speller", str(model), f"--corpus={text}", f"--output={output}"])
    assert "not tokenised" in caplog.text


def test_a_speller_needs_a_softmax_and_a_text(tmp_path):
    write_bilm(tmp_path / "in", options_of({}, {}))
    convert.main(import_flags(tmp_path / "in", tmp_path / "vectors"))
    model = tiny.save(tiny.random_bilm(), tmp_path / "model")
    text = tmp_path / "text.txt"
    text.write_text("the bank\n", encoding="utf-8")
    blank = tmp_path / "blank.txt"
    blank.write_text("\n", encoding="utf-8")
    output = f"--output={tmp_path / 'open'}"
    for checkpoint_folder, corpus, message in (
        (tmp_path / "vectors", text, "no softmax"),
        (model, blank, r"blank\.txt: only blank lines"),
        (model, tmp_path / "none.txt", "no file matches"),
    ):
        with pytest.raises(UserError, match=message):
            convert.main(["speller", str(checkpoint_folder), f"--corpus={corpus}", output])
    assert not (tmp_path / "open").exists()
