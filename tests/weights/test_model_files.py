"""A model's files: its vocabulary and its weights must fit its configuration."""

import json
from pathlib import Path

import pytest
import tiny
from reference import assert_close

import elmo
from elmo import ELMo, ELMoEmbedder
from elmo_core.messages import UserError
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint

SENTENCES = tiny.SENTENCES


def test_another_vocabulary_of_the_same_size_is_an_error(tmp_path):
    bilm = tiny.random_bilm(input="word")
    folder = Path(tiny.save(bilm, tmp_path))
    vocabulary = Vocabulary(tiny.WORDS)
    config = {"model": bilm.config.to_dict(), "training": {"vocabulary": vocabulary.identity}}
    checkpoint.save_config(folder, config)
    assert elmo.load_bilm(folder)[1].tokens == vocabulary.tokens
    Vocabulary([*tiny.WORDS[:3], *sorted(tiny.WORDS[3:], reverse=True)]).save(folder / "vocab.txt")
    with pytest.raises(UserError, match=r"vocab\.txt"):
        elmo.load_bilm(folder)


def test_a_character_model_needs_no_vocabulary_and_a_word_model_its_own(model, tmp_path):
    prefix = tiny.save(tiny.random_bilm(), tmp_path / "char")
    (tmp_path / "char" / "vocab.txt").unlink()
    assert_close(ELMoEmbedder(prefix).encode(SENTENCES), ELMoEmbedder(model).encode(SENTENCES))
    prefix = tiny.save(tiny.random_bilm(input="word"), tmp_path / "word")
    path = tmp_path / "word" / "vocab.txt"
    path.write_text(path.read_text(encoding="utf-8") + "more\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"vocab.txt.* 13 .* 12"):
        ELMoEmbedder(prefix)
    path.unlink()
    with pytest.raises(UserError, match=r"vocab\.txt"):
        ELMo(prefix)


def test_wrong_weights_are_listed(tmp_path):
    prefix = tiny.save(tiny.random_bilm(projection_dim=5), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config["model"]["projection_dim"] = 7
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(
        UserError, match=r"forward_lstm\.0\.input_weight is \(5, \d+\), expected \(7, \d+\)"
    ):
        ELMoEmbedder(prefix)
    config["model"] = {"colour": 1}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.json.*colour"):
        elmo.load_bilm(prefix)
