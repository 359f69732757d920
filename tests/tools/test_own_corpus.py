"""The corpus in the folder of a run: made once, whole or not at all."""

import pytest
from preprocessing_runs import files_of

from elmo_core.messages import UserError
from elmo_tools.preprocessing.given_text import GivenText
from elmo_tools.preprocessing.raw_text import PreprocessingSettings
from elmo_tools.pretraining import own_corpus

TEXTS = [f"This is sentence {k} of a text." for k in range(40)]
SETTINGS = PreprocessingSettings(lang="en")


def test_a_corpus_is_used_again_if_it_is_of_the_same_text(tmp_path):
    folder = own_corpus.make(tmp_path, GivenText(TEXTS), SETTINGS, is_resumed=False)
    made = files_of(folder)
    (folder / "train" / "mark").touch()
    own_corpus.make(tmp_path, GivenText(list(TEXTS)), SETTINGS, is_resumed=True)
    assert (folder / "train" / "mark").exists()
    others = PreprocessingSettings(lang="en", lower=True)
    with pytest.raises(UserError, match=r"lower was False, is True\. Give the same"):
        own_corpus.make(tmp_path, GivenText(TEXTS), others, is_resumed=True)
    own_corpus.make(tmp_path, GivenText(TEXTS), others, is_resumed=True, allow_changes=True)
    assert files_of(folder).keys() == made.keys() and files_of(folder) != made


def test_a_folder_of_the_user_is_not_replaced(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "mine.txt").touch()
    with pytest.raises(UserError, match="corpus already exists"):
        own_corpus.make(tmp_path, GivenText(TEXTS), SETTINGS, is_resumed=False)
    assert (tmp_path / "corpus" / "mine.txt").exists()


def test_without_held_out_text(tmp_path):
    settings = PreprocessingSettings(lang="en", dev_fraction=0)
    folder = own_corpus.make(tmp_path, GivenText(TEXTS), settings, is_resumed=False)
    train, dev = own_corpus.corpora(folder)
    assert dev is None and len(train.paths) == 8
