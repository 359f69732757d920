"""The scripts of LAC_demo: its corpora, words cut into pieces, training, tagging, and the experiment."""

import io
import json
import random
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import runs

import args as arguments
from elmo_core.machine.messages import UserError
from elmo_core.text.tokens import MARKERS, Vocabulary
from elmo_tasks.tagging.data import BadLines, Labels, Sentence, read_tsv
from elmo_tasks.tagging.score import words_of

DEMO = runs.PROJECT / "LAC_demo"
sys.path.append(str(DEMO))

import experiment
import predict
import prepare
import reader
import train
from pieces import Pieces, labels_of_corpus

LABELS = Labels(["c", "n", "n-B", "n-I", "nr", "nr-B", "nr-I", "v", "v-B", "v-I", "w"])
SMALL = ["--word_emb_dim=5", "--grnn_hidden_dim=7", "--device=cpu"]
TSV = ["小 明 爱 苹果 。\tnr-B nr-I v n w", "苹果 很 好 。\tn c v w", "我 爱 北京 大学 。\tn v n-B n-I w"]


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def vocabulary(*words: str) -> Vocabulary:
    return Vocabulary([*MARKERS, *words])


# Data and formats


def test_the_demo_has_the_samples_data():
    for name, source in (("train", "train.tsv"), ("dev", "dev.tsv"), ("tag.dic", "tag.dic")):
        assert (DEMO / "data" / name).read_bytes() == (runs.PROJECT / "data" / "lac" / source).read_bytes()
    labels = Labels.from_file(DEMO / "data" / "tag.dic")
    assert "O" not in labels.index
    assert len(read_tsv(DEMO / "data" / "dev", labels, BadLines())) == 150


def test_full_width_forms_are_those_of_unicode():
    wide = {c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.decomposition(c).startswith("<wide>")}
    table = reader.read_replacements(DEMO / "conf" / "q2b.dic")
    assert set(table) == wide - {"\u3000"}
    for character, narrow in table.items():
        assert int(unicodedata.decomposition(character).split()[1], 16) == ord(narrow)


def test_words_are_cut_into_the_longest_pieces():
    pieces = Pieces(
        vocabulary("北京", "北京大", "大学", "学生", "A1", "，"), {"Ａ": "A", "１": "1", "，": ",", "：": ":"}
    )
    assert pieces.split("北京大学生") == ["北京大", "学生"]
    assert pieces.split("南京大学") == ["南", "京", "大学"]
    assert pieces.split("Ａ１") == ["A1"]
    assert pieces.split("，") == ["，"]  # which the vocabulary has as it is
    assert pieces.split("：") == [":"]
    whole = Pieces(vocabulary("北京"), {"Ａ": "A"}, whole=True)
    assert whole.split("北京Ａ") == ["北京A"]


def test_a_word_whose_tag_has_no_b_and_i_stays_whole():
    pieces = Pieces(vocabulary("而"), {})
    assert pieces.sentence([("而且", "c"), ("苹果", "n")], LABELS) == Sentence(
        ["而且", "苹", "果"], ["c", "n-B", "n-I"]
    )
    assert pieces.sentence([("而且", "q")], LABELS) == "q"


def test_words_without_a_tag_have_the_label_o():
    words = [("去", "O"), ("北京", "O"), ("小明", "nr")]
    labels = labels_of_corpus([words], False, "corpus")
    assert labels.names == ["O", "nr", "nr-B", "nr-I"]
    assert Pieces(None, {}).sentence(words, labels).labels == ["O", "O", "O", "nr-B", "nr-I"]


def test_pieces_round_trip():
    generator = random.Random(1)
    for _ in range(200):
        known = {"".join(generator.choices("甲乙丙/", k=generator.randint(1, 3))) for _ in range(5)}
        words = [
            ("".join(generator.choices("甲乙丙/", k=generator.randint(1, 6))), generator.choice(["n", "nr", "v", "c"]))
            for _ in range(generator.randint(1, 8))
        ]
        sentence = Pieces(vocabulary(*sorted(known)), {}).sentence(words, LABELS)
        assert len(sentence.tokens) == len(sentence.labels)
        assert words_of(sentence.tokens, sentence.labels) == words


def test_conll_columns_are_words_or_chunks_of_rows(tmp_path):
    path = write(tmp_path / "x.conll", "小明 x nr", "爱\tx\tv", "", "", "北 B-n", "京 I-n", "山 B-n", "西 I-nr", "。 w")
    assert list(reader.read_conll(path, BadLines())) == [
        (2, [("小明", "nr"), ("爱", "v")]),
        (9, [("北京", "n"), ("山", "n"), ("西", "nr"), ("。", "w")]),
    ]


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        *((reader.read_tagged, "苹果/n", bad) for bad in ("苹果/n 好", "/n", "苹果/", "\udcb0苹果/n")),
        *((reader.read_conll, "苹果 n", bad) for bad in ("苹果", "\udcb0苹果 n")),
    ],
)
def test_a_bad_line_is_an_error_or_skipped(tmp_path, read, good, bad):
    """With its sentence. The last of either are not UTF-8."""
    path, after = tmp_path / "data", f"{good}\n" if read is reader.read_conll else ""
    path.write_bytes(f"{good}\n\n{bad}\n{after}\n{good}\n".encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=r"data:3: .*--skip_bad_lines"):
        list(read(path, BadLines()))
    bad_lines = BadLines(skip=True)
    assert [words for _, words in read(path, bad_lines) if words] == [[("苹果", "n")]] * 2
    assert len(bad_lines.found) == 1


# prepare.py


@pytest.mark.parametrize("whole", [False, True])
def test_a_corpus_round_trips(tmp_path, whole):
    corpus = write(tmp_path / "corpus.txt", "小明/nr 爱/v 苹果/n 和/c 1/2/n //w", "", "而且/c 北京大学/n ，Ａ/w")
    vocab, labels = tmp_path / "vocab.txt", tmp_path / "tag.dic"
    vocabulary("苹果", "北京", "大学", "，").save(vocab)
    tsv, back = tmp_path / "out.tsv", tmp_path / "back.txt"
    flags = [f"--vocab_file={vocab}", f"--label_dict_path={labels}", "--make_label_dict", *["--whole_words"][:whole]]
    prepare.main([str(corpus), f"--output={tsv}", *flags])
    lines = tsv.read_text(encoding="utf-8").splitlines()
    if whole:
        assert lines[0] == "小明 爱 苹果 和 1/2 /\tnr v n c n w"
    else:
        assert lines[0] == "小 明 爱 苹果 和 1 / 2 /\tnr-B nr-I v n c n-B n-I n-I w"
    prepare.main([str(tsv), "--reverse", f"--output={back}", f"--label_dict_path={labels}"])
    words = corpus.read_text(encoding="utf-8").replace("Ａ", "A").split("\n")
    assert back.read_text(encoding="utf-8").splitlines() == [words[0], words[2]]


@pytest.mark.parametrize(
    ("corpus", "flags", "message"),
    [
        ("苹果/zz", [], "--vocab_file"),
        ("苹果/zz", ["--whole_words", "--label_dict_path=nowhere"], "nowhere"),
        ("苹果/zz", ["--whole_words"], r"corpus\.txt:1: .*'zz'.*tag\.dic"),
        ("苹果/n-B", ["--vocab_file=v.txt", "--label_dict_path=new.dic", "--make_label_dict"], r"corpus\.txt.*'n-B'"),
        ("", ["--vocab_file=v.txt", "--label_dict_path=new.dic", "--make_label_dict"], r"corpus\.txt"),
        ("苹果/n", ["--whole_words", "--label_dict_path=x.tsv", "--make_label_dict"], "--output"),
    ],
)
def test_prepare_names_a_mistake(tmp_path, monkeypatch, corpus, flags, message):
    monkeypatch.chdir(tmp_path)
    vocabulary("苹").save("v.txt")
    with pytest.raises(UserError, match=message):
        prepare.main([str(write(tmp_path / "corpus.txt", corpus)), "--output=x.tsv", *flags])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.txt", "v.txt"]


# The scripts that train and tag


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write(folder / "train.tsv", *TSV * 3)
    write(folder / "dev.tsv", *TSV)
    write(folder / "tag.dic", *LABELS.names)
    write(
        folder / "corpus.txt", *["小明/nr 爱/v 苹果/n 。/w", "我/n 爱/v 北京大学/n ，/w", "苹果/n 很/c 好/v 。/w"] * 4
    )
    write(folder / "test.txt", "小明/nr 爱/v 北京/n 。/w", "小红/nr 爱/v 苹果/n ！/w")
    return folder


def train_flags(data: Path, save: Path, **changes) -> list[str]:
    values = {
        "traindata_dir": data / "train.tsv",
        "testdata_dir": data / "dev.tsv",
        "label_dict_path": data / "tag.dic",
        "model_save_dir": save,
        "epochs": 2,
        **changes,
    }
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in values.items()] + SMALL


@pytest.fixture(scope="module")
def baseline(data, tmp_path_factory):
    """A tagger without ELMo."""
    folder = tmp_path_factory.mktemp("taggers") / "baseline"
    train.main(train_flags(data, folder, use_elmo="false", epochs=1))
    return folder


@pytest.mark.parametrize("kind", [None, "char", "word"])
def test_train_and_predict(small_weights, data, tmp_path, kind, capsys, monkeypatch):
    elmo_flags = {"use_elmo": "false"} if kind is None else {"pretrain_elmo_model_path": small_weights[kind]}
    learn = {"epochs": 60, "base_learning_rate": 0.03, "batch_size": 3, "dropout": 0, "elmo_dropout": 0}
    train.main(train_flags(data, tmp_path / "tagger", **learn, **elmo_flags))
    printed = capsys.readouterr().out
    assert ("baseline F1 " if kind is None else "+ELMo F1 ") in printed
    assert ("layers of ELMo" in printed) == (kind is not None)

    text = "\n  苹果  很 好 。\n\n　\n小明 爱 ＡＢ 。\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    predict.main([f"--model_dir={tmp_path / 'tagger'}", "--segmented"])
    lines = capsys.readouterr().out.split("\n")
    assert [bool(line) for line in lines] == [False, True, False, False, True, False]
    assert lines[1] == "苹果/n 很/c 好/v 。/w"
    assert "".join(token.rpartition("/")[0] for token in lines[4].split()) == "小明爱ＡＢ。"

    raw, output = write(tmp_path / "raw.txt", "小明爱北京大学。", "", "苹果很好。"), tmp_path / "tagged.txt"
    predict.main([f"--model_dir={tmp_path / 'tagger'}", f"--input={raw}", f"--output={output}"])
    found = output.read_text(encoding="utf-8").splitlines()
    assert found[2] == "苹果/n 很/c 好/v 。/w" and not found[1]
    assert "".join(token.rpartition("/")[0] for token in found[0].split()) == "小明爱北京大学。"


def test_lines_that_are_not_utf8_become_blank_lines(baseline, tmp_path, caplog):
    raw, output = tmp_path / "raw", tmp_path / "tagged"
    raw.write_bytes("苹果\n".encode("gb18030") + "好\n".encode() + "苹果\n".encode("gb18030"))
    flags = [f"--model_dir={baseline}", f"--input={raw}", f"--output={output}"]
    with pytest.raises(UserError, match="raw:1: "):
        predict.main(flags)
    assert not output.exists()
    predict.main([*flags, "--skip_bad_lines"])
    first, second, third, end = output.read_text(encoding="utf-8").split("\n")
    assert second.startswith("好/") and not any([first, third, end])
    assert "2 bad lines" in caplog.text


@pytest.mark.parametrize("target", ["tagger/tag.dic", "elmo/vocab.txt", "raw.txt"])
def test_predict_writes_over_nothing_that_it_reads(small_weights, data, tmp_path, target):
    elmo = shutil.copytree(Path(small_weights["word"]).parent, tmp_path / "elmo")
    train.main(train_flags(data, tmp_path / "tagger", pretrain_elmo_model_path=elmo, epochs=1))
    raw, output = write(tmp_path / "raw.txt", "好"), tmp_path / target
    before = output.read_bytes()
    with pytest.raises(UserError, match=f"--output .*{target}"):
        predict.main([f"--model_dir={tmp_path / 'tagger'}", f"--input={raw}", f"--output={output}"])
    assert output.read_bytes() == before


def test_train_refuses_used_folders_and_a_missing_elmo(small_weights, data, baseline, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="--model_save_dir"):  # which holds an ELMo
        train.main(train_flags(data, Path(small_weights["char"]).parent, use_elmo="false", overwrite=True))
    with pytest.raises(UserError, match="--overwrite"):
        train.main(train_flags(data, baseline, use_elmo="false"))
    missing = tmp_path / "sample" / "final"
    monkeypatch.setattr(arguments, "SAMPLE_ELMO", missing)
    with pytest.raises(UserError, match=r"bash run\.sh"):
        train.main(train_flags(data, tmp_path / "other"))


# The experiment


@pytest.mark.parametrize("whole", [False, True])
def test_the_experiment_compares_arms_and_resumes(small_weights, data, tmp_path, whole, capsys):
    results = tmp_path / "results.json"
    flags = [
        f"--train_data={data / 'corpus.txt'}",
        f"--test_data={data / 'test.txt'}",
        f"--json={results}",
        f"--elmo=char={small_weights['char']}",
        "--epochs=2",
        *(["--whole_words"] if whole else []),
        *SMALL,
    ]
    experiment.main([*flags, "--seeds=1"])
    first = json.loads(results.read_text(encoding="utf-8"))["runs"]
    experiment.main([*flags, "--seeds=1,2", f"--elmo=word={small_weights['word']}"])
    found = json.loads(results.read_text(encoding="utf-8"))
    assert [(run["arm"], run["seed"]) for run in found["runs"]] == [
        *[("baseline", 1), ("char", 1), ("baseline", 2), ("char", 2), ("word", 1), ("word", 2)]
    ]
    assert found["runs"][:2] == first
    for run in found["runs"]:
        assert run["sentences"] == 11 and run["test"]["words"] == 8 and "nr" in run["test"]["tags"]
        assert run["test"]["unknown_words"]["words"] in (3, 4)  # 北京, 小红 and ！, and what was held out
    assert found["jieba"]["given"]["words"] == 8
    table = capsys.readouterr().out
    assert "char gains" in table and "word gains" in table and "jieba.posseg" in table
    with pytest.raises(UserError, match="train_fraction"):
        experiment.main([*flags, "--train_fraction=0.5"])
    with pytest.raises(UserError, match="char was another checkpoint"):
        experiment.main([*flags[:3], f"--elmo=char={small_weights['word']}", *flags[4:]])


@pytest.mark.parametrize("damaged", ["{", "[]", '{"runs": []}', '{"protocol": {}, "runs": [{}]}'])
def test_the_experiment_keeps_foreign_files(data, tmp_path, damaged):
    results = write(tmp_path / "x.json", damaged)
    flags = [f"--train_data={data / 'corpus.txt'}", f"--test_data={data / 'test.txt'}", "--whole_words"]
    with pytest.raises(UserError, match=r"x\.json"):
        experiment.main([*flags, f"--json={results}"])
    assert results.read_text(encoding="utf-8") == f"{damaged}\n"


def test_the_experiments_arms_get_the_same_sentences(data, tmp_path):
    flags = [f"--train_data={data / 'corpus.txt'}", f"--test_data={data / 'test.txt'}", f"--json={tmp_path / 'x'}"]
    args = experiment.parse([*flags, "--whole_words", "--train_fraction=0.5"])
    one = experiment.Experiment(args, {"baseline": None})
    sentences, dev = one.split(3)
    assert (len(sentences), len(dev)) == (5, 1)
    assert one.split(3) == (sentences, dev) and one.split(4) != (sentences, dev)


def test_jiebas_tags_are_mapped_to_the_corpus():
    figures = experiment.jieba_figures(
        [[("小明", "nr"), ("爱", "v"), ("苹果", "nz"), ("。", "w")]] * 2,
        [[("小明", "nr"), ("爱", "n"), ("苹果", "nz")]],
    )
    assert figures["given_tags"]["n"] == "nz" and figures["given_tags"]["v"] == "v"
    assert figures["given"]["f1"] == pytest.approx(2 / 3)
    assert figures["given_words"]["f1"] == 1.0


# From the command line


def run(*command, cwd: Path = DEMO, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=cwd, input=text, capture_output=True, encoding="utf-8", check=False)


def test_the_scripts_run_from_the_root_and_from_the_demos_folder(data, tmp_path):
    done = run(sys.executable, "train.py", *train_flags(data, tmp_path / "tagger", use_elmo="false"))
    assert done.returncode == 0 and "baseline F1" in done.stdout, done.stderr
    command = [sys.executable, "LAC_demo/predict.py", f"--model_dir={tmp_path / 'tagger'}"]
    done = run(*command, cwd=runs.PROJECT, text="我爱苹果。\n\n好\n")
    assert done.returncode == 0 and done.stdout.count("\n") == 3, done.stderr


def test_the_demo_needs_the_sample_first(tmp_path):
    done = run("sh", "run.sh", cwd=shutil.copytree(DEMO, tmp_path / "LAC_demo", symlinks=True))
    assert done.returncode == 2 and "bash run.sh" in done.stderr


@pytest.mark.parametrize(
    ("flag", "code", "word"),
    [("--model_save_d=x", 2, "--model_save_dir"), ("--use_elmo=false", 2, "--use_elmo"), ("--he", 0, "Usage")],
)
def test_the_demo_keeps_its_own_flags(flag, code, word):
    done = run("bash", "run.sh", "--epochs=1", flag)
    assert done.returncode == code and word in (done.stderr if code else done.stdout)
