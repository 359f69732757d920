"""run_tag.py on small files: training, evaluation, tagging text and columns, and mistakes in its flags."""

import io
import json
import random
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import tiny

import run_tag
from args import with_flags
from elmo_core.machine import versions
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.tokens import SPECIAL_TOKENS, UNK_ID, Vocabulary
from elmo_tasks.tagging.columns import read_columns
from elmo_tasks.tagging.data import make_batch
from elmo_tasks.tagging.tagger import Tagger

QUICK = ["--device=cpu", "--epochs=2", "--hidden_dim=7", "--n_layers=1", "--word_dim=5", "--batch_size=8"]
LEARNS = ["--epochs=40", "--patience=0", "--hidden_dim=20", "--lr=0.02", "--dropout=0"]
NO_ELMO = "--init_from_ckpt=none"


def columns(n: int, seed: int) -> str:
    """Sentences of names of people and places; the word before a name tells which it is."""
    generator, lines = random.Random(seed), []
    for _ in range(n):
        for _ in range(generator.randint(1, 4)):
            name = generator.choice(["bank", "river", f"x{generator.randrange(99)}"])
            kind, before = generator.choice([("PER", "a"), ("LOC", "of")])
            lines += [f"{before} P O", f"{name} N B-{kind}", *[f"{name} N I-{kind}"] * generator.randrange(2)]
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture
def files(tmp_path, no_fsync) -> Path:
    for seed, (name, n) in enumerate({"train": 40, "dev": 9, "test": 9}.items()):
        (tmp_path / name).write_text(columns(n, seed), encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(files, capsys, monkeypatch):
    """Return a function that runs run_tag.py next to the files and returns its output."""
    monkeypatch.chdir(files)

    def run(command: str, *flags: str, text: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        capsys.readouterr()
        run_tag.main([*command.split(), *flags])
        return capsys.readouterr().out

    return run


def train(run, *flags: str, save_dir: str = "tagger", data: str = "--train_file=train --dev_file=dev --test_file=test"):
    """Train, and check that the saved tagger has the same scores as the trained one."""
    printed = run(f"train {data} --save_dir={save_dir}", *QUICK, *flags)
    if "--test_file" in data:
        how = [flag for flag in flags if flag.startswith(("--data_format", "--token_column", "--label_column"))]
        again = run(f"evaluate --model_dir={save_dir} --test_file=test --device=cpu", *how)
        assert again.partition("== test")[2] == printed.partition("== test")[2].partition("saved")[0]
    return printed


def test_train_and_predict(run, messages):
    train(run, NO_ELMO, "--char_cnn", *LEARNS, "--json=r.json")
    results = json.loads(Path("r.json").read_text(encoding="utf-8"))
    card = Path("tagger/README.md").read_text(encoding="utf-8")
    assert "40 training, 9 dev, 9 test" in card and '"lr": 0.02' in card and "B-LOC, B-PER" in card
    exec(card.partition("```python")[2].partition("```")[0])  # its example
    assert results["dev"]["f1"] > 0.9 and results["test"]["f1"] > 0.7 and set(results["test"]["tags"]) == {"PER", "LOC"}
    predict = "predict --model_dir=tagger --device=cpu"
    first, blank, last = run(predict, "--output_format=json", text="of river\n\na  bank").splitlines()
    assert json.loads(first)["tokens"] == ["of", "river"] and blank == ""
    last = json.loads(last)
    (span,) = last["spans"]
    assert 0.5 < span.pop("score") <= 1 and last["text"] == "a  bank"
    assert span == {"begin": 3, "end": 7, "text": "bank", "label": "PER"}
    assert run(predict, text="a bank\n\nof\n") == "a\tO\nbank\tB-PER\n\n\nof\tO\n\n"
    run(predict, "--input=test", "--output=out")
    assert "read as columns" in messages()
    assert read_columns("out", label=-2) == read_columns("test")
    assert read_columns("out")[0].labels[0] == "O"


def test_input_that_is_recognised(run, messages):
    """Each of these is `a bank`, with labels, and is tagged as that."""
    train(run, NO_ELMO, *LEARNS, data="--train_file=train")
    predict, expected = "predict --model_dir=tagger --device=cpu", "a\tO\nbank\tB-PER\n\n"
    for form, text in {
        "tsv": "a bank\tO B-PER\n",
        "json": '{"tokens": ["a", "bank"]}',
        "tagged": "a/O bank/B-PER",
        "text": "a bank",
    }.items():
        assert run(predict, text=text) == expected and f"read as {form}" in messages() + "read as text"
    for text in (
        '{"id": 7, "text": "a bank"}',
        '[{"data": {"text": "a bank"}}]',
        'id;Text\n1;"a\nbank"\n',
        "text\tx\na bank\t1",
    ):
        assert run(predict, text=text) == expected
    assert run(predict, text="text, a\n").startswith("text\t")
    assert run(predict, text="text\tO\nbank\tO\n").startswith("text\tO\t")
    assert run(predict, "--data_format=csv", text="Text\na bank\n") == expected
    with pytest.raises(UserError, match="'Word'"):
        run(predict, "--data_format=csv", text="Sentence,Word,Tag\n1,a,O\n")
    assert run(predict, "--data_format=text", text="a/O bank/O\n").count("\n") > 3
    columns = "".join(f"{line}\n" for line in ["a\tO", "bank\tO", ""] * 3)
    assert run(predict, text=columns) == "".join(f"{row}\n" for row in ["a\tO\tO", "bank\tO\tB-PER", ""] * 3)


def test_output_is_written_as_its_lines_arrive(run, capsys, monkeypatch):
    train(run, NO_ELMO, data="--train_file=train")
    for flags, chunks in (
        ([], [b"a bank\n", b"of", b" river\na\n", b"x"]),
        (["columns"], [b"a x\n\nbank x\n", b"\na x"]),
        (["json"], [b'{"text": "a bank"}\n', b'{"text": "of"}\n\n{"tokens": ["river", "a"]}\n', b'{"text": "x"}']),
    ):
        written, chunks = [], iter(chunks)

        def read1(size):
            written.append(capsys.readouterr().out)  # noqa: B023
            return next(chunks, b"")  # noqa: B023

        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=SimpleNamespace(read1=read1)))
        flags = [f"--data_format={form}" for form in flags]
        run_tag.main(["predict", "--model_dir=tagger", "--device=cpu", *flags])
        tokens = [re.findall(r"^\w+", text, re.M) for text in [*written, capsys.readouterr().out]]
        assert tokens == (
            [[], ["a"], ["bank"], ["a"]]
            if flags == ["--data_format=columns"]
            else [[], ["a", "bank"], ["of", "river", "a"], [], ["x"]]
            if flags
            else [[], ["a", "bank"], [], ["of", "river", "a"], [], ["x"]]
        )


def test_mistakes_are_listed(run):
    train(run, NO_ELMO, data="--train_file=train")
    tagger, sentences = Tagger("tagger"), read_columns("test")
    run("evaluate --model_dir=tagger --test_file=test --device=cpu --mistakes=out")
    predicted = zip(sentences, tagger.predict([sentence.tokens for sentence in sentences]), strict=True)
    expected = [(sentence, labels) for sentence, labels in predicted if sentence.labels != labels]
    assert read_columns("out", label=1) == [sentence for sentence, _ in expected]
    assert [sentence.labels for sentence in read_columns("out")] == [labels for _, labels in expected]
    assert f"# source = {expected[0][0].where}\n" in Path("out").read_text(encoding="utf-8")


def test_interrupted_training_is_resumed(run, monkeypatch, messages):
    """The same weights as without the interruption."""
    dropout = 0.2 if versions.random_states(paddle) else 0  # Paddle 2.6 hides its random generator
    flags = [NO_ELMO, *LEARNS, "--epochs=5", f"--dropout={dropout}"]
    assert re.search("dev, epoch [345]:", train(run, *flags, save_dir="whole"))
    command, n = "train --train_file=train --dev_file=dev --save_dir=run", iter(range(3))

    def interrupted(*args):
        if next(n) == 2:
            raise KeyboardInterrupt
        return score(*args)

    score = Tagger.score
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Tagger, "score", interrupted)
        run(command, *QUICK, *flags)
    assert "stopped in epoch 3" in messages() and Tagger("run").predict([["a", "bank"]])
    with pytest.raises(UserError, match="resume=True"):
        run(command, *QUICK, *flags)
    run(command, *QUICK, *flags, "--resume")
    whole, resumed = Tagger("whole").weights(), Tagger("run").weights()
    for name, weight in whole.items():
        np.testing.assert_allclose(resumed[name], weight, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    "flags",
    [
        ["--elmo_at=input,output", "--cell=lstm", "--layers=mix"],
        ["--layers=0", "--cache_gb=0.0000001"],
        ["--elmo_at=input,output"],
        ["--random_weights=lstm"],
        ["--elmo_trainable", "--elmo_lr=0.001"],
    ],
)
def test_taggers_with_elmo(run, small_weights, flags):
    train(run, f"--init_from_ckpt={small_weights['char']}", *flags, "--json=r.json")
    results = json.loads(Path("r.json").read_text(encoding="utf-8"))
    mixes = {name.removeprefix("mix_at_"): len(mix["layers"]) for name, mix in results.items() if "mix" in name}
    assert mixes == (
        {"input": 3, "output": 3} if "--layers=mix" in flags else {"input": 1} if "--layers=0" in flags else {}
    )


@pytest.mark.parametrize(("segmentation", "text"), [("feature", "李0 开1"), ("strip", "李开")])
def test_characters_with_positions_from_training_to_prediction(run, segmentation, text):
    Path("train").write_text("科0\tO\n技1\tO\n\n李0\tB-PER\n开1\tI-PER\n\n" * 9, encoding="utf-8")
    train(run, NO_ELMO, f"--segmentation={segmentation}", data="--train_file=train")
    printed = run("predict --model_dir=tagger --device=cpu", text=f"{text}\n")
    tagged = [line.split("\t")[0] for line in printed.splitlines()]
    assert tagged == [*(text.split() if segmentation == "feature" else text), ""]


def test_a_column_as_a_feature(run):
    """The label depends on it alone."""
    for name in ("train", "dev", "test"):
        lines = [f"w{k % 3} {'XY'[k % 5 % 2]} {'bc'[k % 5 % 2]}\n" + "\n" * (k % 4 == 0) for k in range(80)]
        Path(name).write_text("".join(lines), encoding="utf-8")
    assert "accuracy 100.00%" in train(run, NO_ELMO, "--feature_column=1", *LEARNS, "--epochs=8")
    predict = "predict --model_dir=tagger --device=cpu"
    assert run(predict, "--data_format=columns", text="new X\nw1 Y\n") == "new X b\nw1 Y c\n\n"
    with pytest.raises(UserError, match="no column 1"):
        run(predict, text="w1\n")
    with pytest.raises(UserError, match="feature_column"):
        run(predict, "--data_format=text", text="w1 w2\n")


def test_word_vectors_are_fine_tuned(run):
    Path("v.txt").write_text("a 1 2 3\nof 3 2 1\nriver 0 1 0\n", encoding="utf-8")
    train(run, NO_ELMO, "--word_vectors=v.txt", "--word_vectors_trainable", *LEARNS, "--epochs=4")
    tagger = Tagger("tagger")
    tagger.network.eval()
    changes = tagger.weights()["vector_change.weight"]
    assert np.abs(changes[tagger.words.ids(["a", "of"])]).max() > 0.01
    known, new = (make_batch([[word]], tagger.words) for word in ("river", "unheard-of"))
    before = [tagger.network.token_features(batch).numpy()[0, 0, -3:] for batch in (known, new)]
    np.testing.assert_allclose(before[0], changes[tagger.words.ids(["river"])[0]] + [0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(before[1], changes[UNK_ID], atol=1e-6)


@pytest.mark.parametrize("pieces", ["", "--pieces=vocab.txt"])
def test_tagged_words_from_training_to_raw_text(run, pieces):
    """The output keeps the characters of the text, with pieces and with whole words."""
    lines = ["小明/nr 爱/v 苹果/n 。/w", "我/n 爱/v 北京大学/n ，/w", "苹果/n 很/c 好/v 。/w"]
    for name in ("train", "dev", "test"):
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    Vocabulary([*SPECIAL_TOKENS, "苹果", "北京", "大学"]).save(Path("vocab.txt"))
    learns = ["--epochs=60", "--lr=0.03", "--batch_size=3", "--dropout=0", "--patience=0"]
    printed = train(run, NO_ELMO, "--data_format=tagged", "--lang=zh", *learns, *filter(None, [pieces]))
    assert "F1 100.00%" in printed
    predict = "predict --model_dir=tagger --device=cpu --output_format=tagged"
    lines = run(predict, text="\n  苹果  很 好 。\n\n　\n小明 爱 ＡＢ 。\n").split("\n")
    assert lines[1] == "苹果/n 很/c 好/v 。/w" and [k for k, line in enumerate(lines) if line] == [1, 4]
    assert "".join(token.rpartition("/")[0] for token in lines[4].split()) == "小明爱ＡＢ。"
    lines = run(predict, text="小明爱北京大学。\n\n苹果很好。\n").split("\n")
    assert lines[1:3] == ["", "苹果/n 很/c 好/v 。/w"]
    assert "".join(token.rpartition("/")[0] for token in lines[0].split()) == "小明爱北京大学。"


def test_word_segmentation_from_training_to_words(run):
    Path("train").write_text("他 在 北京 大学 学习\n我 爱 苹果 。\n" * 5, encoding="utf-8")
    Path("test").write_text("他 爱 北京 。\n我 在 学\n", encoding="utf-8")
    learns = ["--epochs=60", "--lr=0.03", "--batch_size=3", "--dropout=0", "--patience=0"]
    printed = train(run, NO_ELMO, *learns, data="--train_file=train --dev_file=train --test_file=test")
    assert "unknown words" in printed.partition("== test")[2] and "  1 word\n" in printed.partition("== test")[2]
    predict = "predict --model_dir=tagger --device=cpu --output_format=words"
    assert run(predict, text="我爱北京大学。\n\n他 在苹果 。\n") == "我 爱 北京 大学 。\n\n他 在 苹果 。\n"


def test_a_taggers_dictionary_finds_the_words_that_elmo_reads(run, small_weights, monkeypatch):
    Path("train").write_text("云\tB-x\n原\tI-x\n生\tI-x\n\n很\tO\n好\tO\n\n" * 9, encoding="utf-8")
    Path("words.txt").write_text("云原生 100000 n\n", encoding="utf-8")
    flags = [f"--init_from_ckpt={small_weights['word']}", "--words=jieba", "--user_dict=words.txt"]
    train(run, *flags, data="--train_file=train")
    assert Tagger("tagger").network.segment.words_of([["云", "原", "生", "很"]])[0] == [["云原生", "很"]]
    scores = iter([Tagger("tagger").score(read_columns("train")), KeyboardInterrupt])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Tagger, "score", mock.Mock(side_effect=scores))
        train(run, *flags, "--overwrite", data="--train_file=train")
    Path("words.txt").write_text("云原 100000 n\n", encoding="utf-8")
    with pytest.raises(UserError, match="user_dict"):
        train(run, *flags, "--resume", data="--train_file=train")
    with pytest.raises(UserError, match="user_dict"):
        train(run, NO_ELMO, "--user_dict=words.txt", "--overwrite", data="--train_file=train")


def test_pieces_default_to_elmos_vocabulary_in_lacs_scheme(run, small_weights):
    Path("train").write_text("苹\tn-B\n果\tn-I\n\n很\tc\n\n" * 9, encoding="utf-8")
    train(run, f"--init_from_ckpt={small_weights['word']}", "--scheme=lac", data="--train_file=train")
    assert "苹果" in Tagger("tagger").pieces.tokens


@pytest.mark.parametrize(("known", "written"), [("，", "，"), ("q", ",")])
def test_the_elmo_says_whether_full_width_characters_stay(run, tmp_path, monkeypatch, known, written):
    monkeypatch.setattr(tiny, "WORDS", [*tiny.WORDS[:-1], known])
    model = tiny.save(tiny.random_bilm(scale=1.0), tmp_path / "model")
    for name in ("train", "dev"):
        Path(name).write_text("苹果/n ，/w 很/c\n" * 9, encoding="utf-8")
    run(f"train --train_file=train --dev_file=dev --save_dir=tagger --init_from_ckpt={model}", *QUICK)
    tagger = Tagger("tagger")
    assert "苹果" in tagger.words.tokens and {",", "，"}.intersection(tagger.words.tokens) == {written}
    assert tagger.settings.lang == "zh" and tagger.tokenised("很，").tokens == ["很", written]
    Path("unseen").write_text("很/c ！，/w\n", encoding="utf-8")
    (line,) = run("predict --model_dir=tagger --input=unseen --output_format=json").splitlines()
    assert json.loads(line)["tokens"] == ["很", f"!{written}"]


def test_warnings(run, caplog):
    """Labels that break the scheme or cannot be predicted, and test scores on the dev set."""
    run("train --train_file=train --dev_file=dev --save_dir=tagger", NO_ELMO, *QUICK)
    assert not caplog.text
    Path("new").write_text("a P B-NEW\n", encoding="utf-8")
    run("train --train_file=train --dev_file=new --test_file=new --save_dir=other --scheme=bioes", NO_ELMO, *QUICK)
    place = f"in the sentence at {read_columns('train')[0].where}"
    for words in ("break the rules of the scheme bioes", place, "B-NEW", "--dev_file and --test_file"):
        assert words in caplog.text


TRAIN = "train --train_file=train --dev_file=dev --save_dir=new --device=cpu"
BASELINE = f"{TRAIN} --init_from_ckpt=none"
PREDICT = "predict --model_dir=tagger --device=cpu"
MISTAKES = [  # flags, pattern of the message
    (TRAIN, "--init_from_ckpt"),
    (f"{BASELINE} --layers=0", "--layers"),
    (f"{BASELINE} --elmo_trainable", "--elmo_trainable"),
    (f"{BASELINE} --word_vectors_limit=3", "--word_vectors_limit"),
    (f"{BASELINE} --word_vectors_trainable", "--word_vectors_trainable"),
    (f"{BASELINE} --words=jieba", "--words"),
    (f"{BASELINE} --data_format=tagged --feature_column=1", "--feature_column"),
    (f"{BASELINE} --train_file=one_label", "one label, O"),
    ("train --train_file=one_sentence --save_dir=new --init_from_ckpt=none --device=cpu", "--dev_file"),
    (f"{BASELINE} --label_column=0", "train:1.*column 0"),
    (f"{BASELINE} --save_dir=tagger", "--overwrite"),
    (f"{BASELINE} --save_dir=model --overwrite", "--save_dir"),
    (f"{BASELINE} --json=train", "--json"),
    (f"{BASELINE} --data_format=tagged --pieces=dev", "dev"),
    (f"{TRAIN} --init_from_ckpt=model --layers=all", "'all'.*mix"),
    (f"{TRAIN} --init_from_ckpt=model --layers=mix:0,9", "mix:0,9.*0 to 2"),
    (f"{TRAIN} --init_from_ckpt=model --elmo_l2_coef=0.1", "--layers=mix"),
    (f"{TRAIN} --init_from_ckpt=model --elmo_lr=0.1", "--elmo_trainable"),
    (f"{PREDICT} --input=train --output_format=tagged", "--output_format"),
    (f"{PREDICT} --input=train --output=train", "--output"),
    (f"{PREDICT} --input=train --data_format=columns --token_column=7", "train:1"),
    (f"{PREDICT} --input=train --data_format=columns --token_column=word", "--token_column"),
    (f"{PREDICT} --input=latin", "latin:2"),
    (f"{PREDICT} --lang=zh --data_format=json", "--lang"),
    ("predict --model_dirr=tagger", "--model_dirr.*mean --model_dir\\?.*predict --help"),
    (f"{BASELINE} --train-file=train", "--train-file.*mean --train_file\\?"),
    (f"{BASELINE} train dev", "in quotes"),
    (f"{BASELINE} --resume", "no interrupted training"),
    ("evaluate --model_dir=tagger --test_file=train --mistakes=train", "--mistakes"),
    ("evaluate --model_dir=tagger --test_file=missing", "missing"),
    ("predict --model_dir=tagger --input=long --device=cpu", "32,769 tokens"),
]


@pytest.fixture(scope="module")
def folder(checkpoints, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "model").symlink_to(checkpoints["char"])
    contents = {"train": columns(9, 0), "dev": columns(9, 1), "one_label": "a O\n\nb O\n", "one_sentence": "a O\nb x\n"}
    for name, text in contents.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "latin").write_bytes(b"a\n\xe9\n")
    (folder / "long").write_text("a\n" + "b " * 32_769, encoding="utf-8")
    run_tag.main(["train", f"--train_file={folder / 'train'}", f"--save_dir={folder / 'tagger'}", NO_ELMO, *QUICK])
    return folder


@pytest.mark.parametrize(("flags", "pattern"), MISTAKES)
def test_a_mistake_is_named_and_changes_nothing(flags, pattern, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises((UserError, SystemExit)) as raised:
        run_tag.main(shlex.split(flags))
    message = capsys.readouterr().err.splitlines()[-1] if raised.type is SystemExit else with_flags(str(raised.value))
    assert re.search(pattern, message)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
