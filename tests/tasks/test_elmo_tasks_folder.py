"""A model's folder: what a save and a training write there, and what they leave alone."""

import json
import os
import pickle
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import tiny

from elmo import ELMo
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_tasks import Classifier, Tagger, TaggerSettings, folder

SENTENCES = [["Anna", "lives", "in", "Paris", "."], ["Paris", "is", "large", "."]] * 9
LABELS = [["B-PER", "O", "O", "B-LOC", "O"], ["B-LOC", "O", "O", "O"]] * 9
SETTINGS = TaggerSettings(elmo=None, epochs=2, lr=0.02, hidden_dim=3, n_layers=1, word_dim=3)


@pytest.fixture(autouse=True)
def fast(no_fsync):
    pass


def train(save_dir=None, settings=SETTINGS, **options) -> Tagger:
    return Tagger.train(
        SENTENCES, LABELS, settings=settings, save_dir=save_dir, device="cpu", **options
    )


def files(path: Path) -> dict[str, bytes]:
    """The content of all files in a folder but the lock."""
    found = [p for p in path.rglob("*") if p.is_file() and p.name != ".lock"]
    return {str(p.relative_to(path)): p.read_bytes() for p in found}


def interrupt(scores) -> None:
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def trained() -> Tagger:
    return train()


@pytest.fixture(scope="module")
def other() -> Tagger:
    return train(settings=replace(SETTINGS, seed=3))


def test_a_save_replaces_the_model_and_leaves_other_files_alone(tmp_path, trained, other):
    trained.save(tmp_path / "ner")
    before = set(files(tmp_path / "ner"))
    (tmp_path / "ner/notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "ner/scores.json").write_text("{}", encoding="utf-8")
    os.utime(tmp_path / "ner/notes.txt", (1, 1))
    inode = (tmp_path / "ner/notes.txt").stat().st_ino
    other.save(tmp_path / "ner", overwrite=True)
    after = set(files(tmp_path / "ner"))
    assert len(after) == len(before) + 2 and {"notes.txt", "scores.json"} < after
    assert (tmp_path / "ner/notes.txt").stat().st_ino == inode
    assert Tagger(tmp_path / "ner").settings.seed == 3


def test_a_repository_in_the_folder_survives(tmp_path, trained, other):
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", tmp_path / "ner", *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    trained.save(tmp_path / "ner")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    git("gc", "-q")  # packs all refs: .git/refs is left without files
    other.save(tmp_path / "ner", overwrite=True)
    assert "first" in git("log", "--oneline")
    git("checkout", "-q", ".")
    assert Tagger(tmp_path / "ner").settings.seed == trained.settings.seed


def test_sockets_links_and_empty_folders_do_not_matter(tmp_path, trained, monkeypatch):
    trained.save(tmp_path / "ner")
    monkeypatch.chdir(tmp_path / "ner")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(".daemon.ipc")
        os.mkfifo("pipe")
        Path("dangling").symlink_to("nowhere")
        Path("empty").mkdir()
        trained.save(".", overwrite=True)
    names = {path.name for path in Path().iterdir()}
    assert {".daemon.ipc", "pipe", "dangling", "empty", "config.json"} < names


def test_a_failed_save_changes_nothing(tmp_path, trained, other, monkeypatch):
    trained.save(tmp_path / "ner")
    other.save(tmp_path / "other")
    before = files(tmp_path / "ner")

    def fail(*arguments, **options) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "write_json", fail)
    with pytest.raises(OSError, match="space"):
        other.save(tmp_path / "ner", overwrite=True)
    assert files(tmp_path / "ner") == before
    assert other.folder == (tmp_path / "other").resolve()


def test_a_full_disk_while_the_weights_are_written_changes_nothing(
    tmp_path, trained, other, monkeypatch
):
    trained.save(tmp_path / "ner")
    before = files(tmp_path / "ner")

    def fail(*arguments) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UserError, match="full"):
        other.save(tmp_path / "ner", overwrite=True)
    assert files(tmp_path / "ner") == before


def test_the_same_model_can_be_saved_again(tmp_path, trained, small_weights):
    tagger = train(tmp_path / "ner", replace(SETTINGS, elmo=small_weights["char"]))
    before = files(tmp_path / "ner")
    tagger.save(tmp_path / "ner", overwrite=True)
    assert files(tmp_path / "ner") == before


def test_a_copy_of_an_elmo_is_removed_with_its_model(tmp_path, trained, small_weights):
    train(tmp_path / "ner", replace(SETTINGS, elmo=small_weights["char"]))
    assert list(tmp_path.glob("ner/elmo-*"))
    trained.save(tmp_path / "ner", overwrite=True)
    assert not list(tmp_path.glob("ner/elmo-*"))


def test_what_a_killed_save_left_is_removed(tmp_path, trained, other):
    trained.save(tmp_path / "ner")
    temporary = tmp_path / f"ner/.model-{'a' * 12}.safetensors.{'b' * 16}.tmp"
    temporary.touch()
    (tmp_path / f"ner/.elmo-{'a' * 12}.{'b' * 16}.tmp").mkdir()
    (tmp_path / "ner/.notes.tmp").touch()
    other.save(tmp_path / "ner", overwrite=True)
    hidden = {path.name for path in (tmp_path / "ner").iterdir() if path.name[0] == "."}
    assert hidden == {".lock", ".notes.tmp"}


@pytest.mark.parametrize("content", ['{"own": 1}', "[]", '{"task": "classifier"}'])
def test_a_folder_of_another_program_is_refused(tmp_path, trained, content):
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    for overwrite in (False, True):
        with pytest.raises(UserError, match=r"config\.json"):
            trained.save(tmp_path, overwrite)
    assert files(tmp_path) == {"config.json": content.encode()}


def test_a_folder_with_files_and_no_model_is_refused(tmp_path, trained):
    (tmp_path / "notes.txt").touch()
    for overwrite in (False, True):
        with pytest.raises(UserError, match=r"notes\.txt"):
            trained.save(tmp_path, overwrite)
    assert list(files(tmp_path)) == ["notes.txt"]


def test_a_first_save_that_was_killed_can_be_repeated(tmp_path, trained):
    trained.save(tmp_path / "model")
    for name in (folder.CONFIG, folder.CARD):
        (tmp_path / "model" / name).unlink()
    trained.save(tmp_path / "model")
    assert Tagger(tmp_path / "model").labels == trained.labels


def test_a_folder_with_hidden_files_only_is_empty(tmp_path, trained):
    (tmp_path / ".DS_Store").touch()
    trained.save(tmp_path)
    assert Tagger(tmp_path).predict(SENTENCES) == trained.predict(SENTENCES)


def test_a_model_is_not_replaced_without_being_asked(tmp_path, trained):
    trained.save(tmp_path)
    with pytest.raises(UserError, match="overwrite"):
        trained.save(tmp_path)
    with pytest.raises(UserError, match="overwrite"):
        train(tmp_path)


def test_a_model_of_another_task_is_refused(tmp_path, trained):
    trained.save(tmp_path)
    with pytest.raises(UserError, match="tagger"):
        Classifier.train(["a", "b"], ["x", "y"], save_dir=tmp_path, overwrite=True)


def test_a_card_that_a_user_wrote_stays(tmp_path, trained, other):
    trained.save(tmp_path / "ner")
    card = (tmp_path / "ner/README.md").read_text(encoding="utf-8")
    other.save(tmp_path / "ner", overwrite=True)
    assert (tmp_path / "ner/README.md").read_text(encoding="utf-8") != card
    (tmp_path / "ner/README.md").write_text("mine\n" + card, encoding="utf-8")
    trained.save(tmp_path / "ner", overwrite=True)
    assert (tmp_path / "ner/README.md").read_text(encoding="utf-8") == "mine\n" + card


def test_the_card_shows_a_call_that_works(tmp_path, trained, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    trained.save("ner")
    card = Path("ner/README.md").read_text(encoding="utf-8")
    assert "ELMo: none" in card
    exec(card.split("```python\n")[1].split("```")[0])
    assert capsys.readouterr().out.startswith("[")


class OwnTagger(Tagger):
    pass


def test_the_card_imports_a_users_own_task_from_its_module():
    tagger = OwnTagger.train(SENTENCES, LABELS, settings=SETTINGS, device="cpu")
    assert f"from {__name__} import OwnTagger" in tagger.card("own")


@pytest.mark.parametrize("key, value", [("weights", "../notes.txt"), ("elmo", "elmo-../x")])
def test_a_config_that_names_files_outside_of_the_folder_is_refused(tmp_path, trained, key, value):
    trained.save(tmp_path / "ner")
    (tmp_path / "notes.txt").touch()
    path = tmp_path / "ner/config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**values, key: value}), encoding="utf-8")
    with pytest.raises(UserError, match=key):
        Tagger(tmp_path / "ner")
    with pytest.raises(UserError, match=key):
        trained.save(tmp_path / "ner", overwrite=True)
    assert (tmp_path / "notes.txt").exists()


def test_a_model_that_is_saved_while_it_is_loaded(tmp_path, trained, other, monkeypatch):
    trained.save(tmp_path)
    read = folder.read_config

    def save_in_between(path):
        values = read(path)
        monkeypatch.setattr(folder, "read_config", read)
        other.save(tmp_path, overwrite=True)
        return values

    monkeypatch.setattr(folder, "read_config", save_in_between)
    assert Tagger(tmp_path).settings.seed == 3


# Training


def test_overwrite_keeps_an_interrupted_training_until_there_is_another(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, progress=interrupt)
    before = files(tmp_path)
    assert sorted(before) == ["curve.svg", "training-1.safetensors"]
    with pytest.raises(UserError, match="lr"):
        train(tmp_path, replace(SETTINGS, lr=1e18, batch_size=4), overwrite=True)
    assert files(tmp_path) == before
    train(tmp_path, resume=True)
    assert not folder.states(tmp_path)


def test_a_new_training_removes_later_phases_of_an_older_one(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, progress=interrupt)
    (tmp_path / "training-2.safetensors").touch()
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, progress=interrupt, overwrite=True)
    assert sorted(files(tmp_path)) == ["curve.svg", "training-1.safetensors"]


def test_an_interrupted_training_is_named(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, progress=interrupt)
    for use in (lambda: Tagger(tmp_path), lambda: train(tmp_path)):
        with pytest.raises(UserError, match=r"interrupted training.*resume"):
            use()


def test_a_training_over_a_model_leaves_it_until_the_end(tmp_path, trained):
    trained.save(tmp_path)
    (tmp_path / "notes.txt").touch()
    before = files(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, replace(SETTINGS, seed=3), progress=interrupt, overwrite=True)
    after = files(tmp_path)
    assert after.pop("training-1.safetensors") and after.pop("curve.svg") and after == before
    train(tmp_path, replace(SETTINGS, seed=3), resume=True)
    assert Tagger(tmp_path).settings.seed == 3 and (tmp_path / "notes.txt").exists()


def test_a_divergence_after_an_epoch_says_how_to_start_again(tmp_path):
    with pytest.raises(UserError, match=r"lr.*overwrite"):
        train(tmp_path, replace(SETTINGS, lr=1e18))
    assert folder.states(tmp_path)
    train(tmp_path, overwrite=True)
    assert Tagger(tmp_path).training["epoch"]


def test_a_stopped_training_that_saved_nothing_says_so(tmp_path, messages):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, progress=interrupt)

    class Stopped(BaseException):
        pass

    def stop(settings, share):
        raise Stopped

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        patch.setattr("elmo_tasks.trainer.learning_rate", stop)
        train(tmp_path, replace(SETTINGS, seed=5), overwrite=True)
    assert "Nothing has been saved" in messages()


def test_long_lists_keep_words_with_line_breaks(tmp_path):
    (tmp_path / "vectors.txt").write_text("2 2\nAnna 1 2\nis 3 4\n", encoding="utf-8")
    settings = replace(SETTINGS, word_vectors=tmp_path / "vectors.txt")
    tagger = train(settings=settings)
    words = tagger.vectors.words
    words[0] = "An\nna"
    tagger.save(tmp_path / "ner")
    assert list(Tagger(tmp_path / "ner").vectors.words) == list(words)


def test_many_labels_of_which_one_has_a_line_break(tmp_path):
    sentences = [SENTENCES[0]] * 240
    names = [f"L\n{k}" for k in range(5 * 240)]
    labels = [names[k : k + 5] for k in range(0, len(names), 5)]  # of each sentence
    settings = replace(SETTINGS, epochs=0)
    tagger = Tagger.train(sentences, labels, settings=settings, save_dir=tmp_path / "ner")
    assert Tagger(tmp_path / "ner").labels == tagger.labels


def test_a_list_in_a_config_that_is_far_too_long_is_refused(tmp_path, trained):
    trained.save(tmp_path)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    # Their transitions would take 40 GB.
    values["parts"]["labels"] = [str(k) for k in range(100_000)]
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(UserError, match=r"labels.*100,000"):
        Tagger(tmp_path)


def test_scores_that_are_no_object_are_refused(tmp_path, trained):
    trained.save(tmp_path)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**values, "scores": -1}), encoding="utf-8")
    with pytest.raises(UserError, match="scores"):
        Tagger(tmp_path)


def test_files_whose_names_resemble_ours_stay(tmp_path, trained, other):
    trained.save(tmp_path)
    for name in ("training-set.safetensors", "model-large.safetensors"):
        (tmp_path / name).touch()
    other.save(tmp_path, overwrite=True)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, overwrite=True, progress=interrupt)
    train(tmp_path, resume=True)
    assert {"training-set.safetensors", "model-large.safetensors"} < set(files(tmp_path))


def test_weights_that_a_killed_save_left_are_removed(tmp_path, trained, other):
    trained.save(tmp_path)
    (tmp_path / f"model-{'a' * 12}.safetensors").touch()
    other.save(tmp_path, overwrite=True)
    assert len(list(tmp_path.glob("model-*"))) == 1


def test_a_missing_elmo_is_not_called_damage(tmp_path, trained, monkeypatch):
    trained.save(tmp_path)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**values, "elmo": "allennlp-small"}), encoding="utf-8")

    def fail(name):
        raise UserError(f"{name} could not be downloaded.")

    monkeypatch.setattr(folder.published, "install", fail)
    with pytest.raises(UserError) as error:
        Tagger(tmp_path)
    assert "Copy the folder again" not in str(error.value)


def test_a_ready_made_model_that_is_saved_keeps_its_licence(tmp_path):
    """From folder to folder, in a copy, and when it is saved where it is; its ELMo is not there."""
    Tagger("en-ewt").save(tmp_path / "first")
    first = Tagger(tmp_path / "first")
    notice = (tmp_path / "first/NOTICE.md").read_text(encoding="utf-8")
    assert "CC BY-SA 4.0" in notice and "UD English EWT" in notice
    assert "IMDB" not in notice
    assert "NOTICE.md" in (tmp_path / "first/README.md").read_text(encoding="utf-8")
    pickle.loads(pickle.dumps(first)).save(tmp_path / "second")
    first.save(tmp_path / "first", overwrite=True)
    for name in ("first", "second"):
        assert (tmp_path / name / "NOTICE.md").read_text(encoding="utf-8") == notice


def test_a_notice_goes_with_the_model_that_it_is_of(tmp_path, trained):
    Tagger("en-ewt").save(tmp_path)
    trained.save(tmp_path, overwrite=True)
    assert not (tmp_path / "NOTICE.md").exists()
    trained.save(tmp_path, overwrite=True)
    (tmp_path / "NOTICE.md").write_text("mine", encoding="utf-8")
    Tagger("en-ewt").save(tmp_path, overwrite=True)
    assert (tmp_path / "NOTICE.md").read_text(encoding="utf-8") == "mine"


def test_the_card_that_a_user_edited_goes_with_the_weights(tmp_path, trained):
    trained.save(tmp_path / "one")
    card = tmp_path / "one/README.md"
    card.write_text(card.read_text(encoding="utf-8") + "\nCC0\n", encoding="utf-8")
    edited = Tagger(tmp_path / "one")
    edited.save(tmp_path / "one", overwrite=True)
    assert not (tmp_path / "one/NOTICE.md").exists()
    edited.save(tmp_path / "two")
    assert "CC0" in (tmp_path / "two/NOTICE.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("is_tuned", [False, True])
@pytest.mark.parametrize("is_layer", [False, True])
def test_the_licence_of_an_elmo_goes_with_its_weights(tmp_path, is_tuned, is_layer):
    """With its copy, which is in a folder of its own, and with those that were tuned."""
    elmo = tiny.save(tiny.random_bilm(), tmp_path / "elmo")
    (tmp_path / "elmo/README.md").write_text("# river\n\nODbL\n", encoding="utf-8")
    settings = replace(SETTINGS, elmo=elmo, elmo_trainable=is_tuned, epochs=1)
    if is_layer:
        settings = replace(settings, elmo=ELMo(elmo, layers="concat"))
    tagger = train(tmp_path / "tagger", settings)
    (copy,) = (tmp_path / "tagger").glob("elmo-*")
    assert "ODbL" in (copy / "NOTICE.md").read_text(encoding="utf-8")
    pickle.loads(pickle.dumps(tagger)).save(tmp_path / "again")
    Tagger(tmp_path / "again").save(tmp_path / "loaded")
    for name in ("tagger", "again", "loaded"):
        notices = list((tmp_path / name).rglob("NOTICE.md"))
        assert len(notices) == 1 + is_tuned
        assert all(path.read_text(encoding="utf-8").count("ODbL") == 1 for path in notices)


@pytest.mark.parametrize("target", ["nowhere", "link", "notes.txt"])
def test_a_save_needs_a_folder(tmp_path, trained, target):
    (tmp_path / "notes.txt").touch()
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(UserError, match="link"):
        trained.save(tmp_path / "link")


def test_a_link_to_a_folder_is_one(tmp_path, trained):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    trained.save(tmp_path / "link")
    assert Tagger(tmp_path / "disk").predict(SENTENCES) == trained.predict(SENTENCES)
    assert (tmp_path / "link").is_symlink()
