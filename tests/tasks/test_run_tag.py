"""run_tag.py from training to predictions."""

import json
from types import SimpleNamespace

import pytest

import run_tag
from elmo_core.messages import UserError
from elmo_tasks import Tagger, TaggerSettings


def test_the_script(tmp_path, capsys, small_weights):
    rows = ("Ann B-PER\nsaw O\nRome B-LOC\n\nRome B-LOC\nis O\nbig O\n\n") * 9
    for name in (
        "train.json",
        "dev.json",
    ):  # an ending that --data_format contradicts, in evaluation, too
        (tmp_path / name).write_text(rows, encoding="utf-8")
    model, files = (
        f"--save_dir={tmp_path / 'tagger'}",
        [f"--{n}_file={tmp_path / n}.json" for n in ("train", "dev")],
    )
    flags = [
        "--epochs=20",
        "--patience=0",
        "--batch_size=4",
        "--lr=0.02",
        "--hidden_dim=16",
        "--n_layers=1",
    ]
    flags += ["--lang=en", "--device=cpu", "--data_format=columns"]
    run_tag.main(["train", *files, model, f"--init_from_ckpt={small_weights['char']}", *flags])
    assert "== dev" in capsys.readouterr().out
    argv = [f"--model_dir={tmp_path / 'tagger'}", "--device=cpu"]
    scores = f"--json={tmp_path / 'scores.json'}"
    run_tag.main(["evaluate", *argv, f"--test_file={tmp_path / 'dev.json'}", scores])
    assert json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["test"]["f1"] > 0.9
    capsys.readouterr()
    (tmp_path / "text").write_text("Ann saw Rome.\n\nRome is big\n", encoding="utf-8")
    run_tag.main(
        ["predict", *argv, f"--input={tmp_path / 'text'}", f"--output={tmp_path / 'tagged'}"]
    )
    blocks = (tmp_path / "tagged").read_text(encoding="utf-8").split("\n\n")
    assert (
        blocks[0].startswith("Ann\tB-PER\nsaw\tO\nRome\tB-LOC\n.\t")
        and "Rome\tB-LOC\nis" in blocks[-2]
    )
    run_tag.main(["predict", *argv, f"--input={tmp_path / 'text'}", "--output_format=json"])
    values = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line]
    assert len(values) == 2 and values[0]["spans"][0]["label"] == "PER"
    with pytest.raises(UserError, match=r"dev.json:1: .*labelled"):
        run_tag.main(["predict", *argv, f"--input={tmp_path / 'dev.json'}"])
    for wrong in ("tagged", "words"):
        with pytest.raises(UserError, match="output_format"):
            run_tag.main(
                ["predict", *argv, f"--input={tmp_path / 'text'}", f"--output_format={wrong}"]
            )


@pytest.fixture(scope="module")
def tagger(tmp_path_factory) -> str:
    """The folder of an untrained tagger of parts of speech."""
    folder = tmp_path_factory.mktemp("models") / "tagger"
    parts = {"labels": ["NOUN", "VERB", 1], "words": ["a"], "known": None, "pieces": None}
    settings = TaggerSettings(
        elmo=None, scheme="plain", lang="en", hidden_dim=3, n_layers=1, word_dim=3
    )
    Tagger.create(settings, parts, "cpu").save(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "a.txt",
            "Rockwell NNP B-NP\nsaid VBD B-VP\nit PRP B-NP\n",
        ),  # with the labels of another tagger
        ("a.txt", "\nIt said:\n\ndogs NOUN\nbark VERB\nloudly VERB\n"),
        ("a.txt", "dogs\tNOUN\n"),
        ("a.conll", "dogs _ NOUN\nbark _ VERB\n\ndogs _ NOUN\nbark _ VERB\n. _ NOUN\n"),
    ],
)
def test_labelled_data_are_no_text(tmp_path, tagger, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=rf"{name}:\d+: .*labelled"):
        run_tag.main(
            ["predict", f"--model_dir={tagger}", f"--input={tmp_path / name}", "--device=cpu"]
        )


def test_text_that_resembles_columns(tmp_path, tagger, capsys):
    """A line or two that end in a label, and numbers, although 1 is a label."""
    text = "It has vitamin B-12\nof type O\n\na VERB\nChapter 1\nChapter 1\nChapter 1\n"
    (tmp_path / "text").write_text(text, encoding="utf-8")
    run_tag.main(
        ["predict", f"--model_dir={tagger}", f"--input={tmp_path / 'text'}", "--device=cpu"]
    )
    assert capsys.readouterr().out.count("\n\n") >= 6


SEGMENTED = "小明 在 北京 学习\n我 爱 苹果 。\n" * 4
TAGGED = "小明/nr 爱/v 苹果/n 。/w\n我/n 爱/v 学习/n ，/w\n苹果/n 很/c 好/v 。/w\n" * 3
WORDS = "我 爱 苹果 。\n\n小明 爱 苹果 。\n"


@pytest.mark.parametrize(
    ("data_format", "content", "outputs"),
    [
        ("segmented", SEGMENTED, {"words": WORDS}),
        (
            "tagged",
            TAGGED,
            {"words": WORDS, "tagged": "我/n 爱/v 苹果/n 。/w\n\n小明/nr 爱/v 苹果/n 。/w\n"},
        ),
    ],
)
def test_words_from_training_to_raw_text(tmp_path, data_format, content, outputs):
    (tmp_path / "train").write_text(content, encoding="utf-8")
    (tmp_path / "text").write_text("我爱苹果。\n\n小明 爱苹果。\n", encoding="utf-8")
    data = [
        f"--train_file={tmp_path / 'train'}",
        f"--dev_file={tmp_path / 'train'}",
        f"--save_dir={tmp_path / 'm'}",
    ]
    network = ["--hidden_dim=20", "--n_layers=1", "--word_dim=10", "--dropout=0", "--device=cpu"]
    training = [
        "--epochs=40",
        "--lr=0.03",
        "--batch_size=4",
        "--lang=zh",
        f"--data_format={data_format}",
    ]
    run_tag.main(["train", *data, "--init_from_ckpt=none", *network, *training])
    for output_format, expected in outputs.items():
        files = [f"--input={tmp_path / 'text'}", f"--output={tmp_path / output_format}"]
        model = [f"--model_dir={tmp_path / 'm'}", "--device=cpu"]
        run_tag.main(["predict", *model, *files, f"--output_format={output_format}"])
        assert (tmp_path / output_format).read_text(encoding="utf-8") == expected


def test_words_of_a_dictionary_stay_whole(tmp_path, capsys):
    parts = {"labels": ["n", "n-B", "n-I"], "words": ["云"], "known": [], "pieces": None}
    settings = TaggerSettings(
        elmo=None, scheme="lac", lang="characters", hidden_dim=3, n_layers=1, word_dim=3
    )
    Tagger.create(settings, parts, "cpu").save(tmp_path / "tagger")
    (tmp_path / "text").write_text("云计算 云计算a1\n", encoding="utf-8")
    (tmp_path / "words").write_text("云计算 3 n\n", encoding="utf-8")
    flags = ["predict", f"--model_dir={tmp_path / 'tagger'}", f"--input={tmp_path / 'text'}"]
    flags += ["--output_format=words", "--device=cpu"]
    run_tag.main([*flags, f"--user_dict={tmp_path / 'words'}"])
    assert capsys.readouterr().out == "云计算 云计算 a1\n"
    (tmp_path / "words").write_text("云计算 3 v\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"user_dict.* v.* n"):
        run_tag.main([*flags, f"--user_dict={tmp_path / 'words'}"])


def test_a_line_is_tagged_before_the_next_one_is_read(tagger, capsys, monkeypatch):
    """As far as lines are not sorted together: at the end of a window at the latest."""
    monkeypatch.setattr(Tagger, "batch_size", 1)
    printed = []

    def lines():
        for _ in range(40):
            printed.append(capsys.readouterr().out)
            yield b"a dog\n"

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=lines()))
    run_tag.main(["predict", f"--model_dir={tagger}", "--device=cpu"])
    assert any(printed) and "".join([*printed, capsys.readouterr().out]).count("dog\t") == 40
