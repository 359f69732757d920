"""The scripts of MRC_demo: training, answering, scoring, preparing, and the experiment."""

import importlib.util
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import runs

import args as arguments
from elmo_core.machine.messages import UserError
from elmo_tasks.reading.data import read_dataset
from elmo_tasks.reading.text import Text

DEMO = runs.PROJECT / "MRC_demo"
TEXT = "老师住在北京。他在银行工作。医生住在上海。"


def script(name: str):
    """A script of the demo, under a name of its own: LAC_demo has some of the same name."""
    spec = importlib.util.spec_from_file_location(f"mrc_{name}", DEMO / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(DEMO))
train, predict, evaluate, prepare, experiment = map(script, ("train", "predict", "evaluate", "prepare", "experiment"))
sys.path.remove(str(DEMO))


def squad(name: str, text: str, **answers: str) -> dict:
    qas = [
        {"id": f"{name}-{k}", "question": question, "answers": [{"text": answer, "answer_start": text.find(answer)}]}
        for k, (question, answer) in enumerate(answers.items())
    ]
    return {"title": "", "paragraphs": [{"context": text, "qas": qas}]}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data.json"
    one = squad("a", TEXT, 老师住在哪里="北京", 谁住在上海="医生")
    other = squad("b", "医生在学校工作。", 谁在学校工作="医生", 医生在哪里工作="学校工")
    path.write_text(json.dumps({"data": [one, other]}), encoding="utf-8")
    return path


def flags(data: Path, folder: Path, **changes) -> list[str]:
    values = {
        "train_data": data,
        "dev_data": data,
        "model_save_dir": folder,
        "epochs": 2,
        "word_emb_dim": 5,
        "hidden_dim": 3,
        "min_count": 1,
        "device": "cpu",
        **changes,
    }
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in values.items()]


@pytest.fixture(scope="module")
def reader(data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("readers") / "baseline"
    train.main(flags(data, folder, use_elmo="false"))
    return folder


def vectors_file(path: Path) -> Path:
    path.write_text("2 3\n老师 1 0 0\n医生 0 1 0\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", [None, "char", "word"])
def test_train_predict_and_evaluate(checkpoints, data, tmp_path, kind, capsys):
    elmo = {"use_elmo": "false", "word_vectors": vectors_file(tmp_path / "v.txt")}
    if kind:
        elmo = {"pretrain_elmo_model_path": checkpoints[kind], "elmo_cache": 1e-9}
    train.main(flags(data, tmp_path / "reader", **elmo))
    printed = capsys.readouterr().out
    assert ("baseline EM" if kind is None else "+ELMo EM") in printed and printed.count("layers of ELMo") == 2 * bool(
        kind
    )
    predict.main([f"--model_dir={tmp_path / 'reader'}", f"--data={data}", f"--output={tmp_path / 'p.json'}"])
    found = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))
    passages = read_dataset(data).passages
    assert dict.fromkeys(found, True) == {q.id: found[q.id] in p.text for p in passages for q in p.questions}
    evaluate.main([f"--data={data}", f"--predictions={tmp_path / 'p.json'}"])
    assert capsys.readouterr().out.split(" in epoch")[0].strip() in printed


def test_english_has_its_own_words_and_scores(tmp_path, capsys):
    data, text = tmp_path / "en.json", 'Anna lives in "Paris". She works at the bank.'
    one = squad("a", text, **{"Where does Anna live?": "Paris", "Where does she work?": "the bank"})
    data.write_text(json.dumps({"data": [one]}), encoding="utf-8")
    train.main(flags(data, tmp_path / "reader", use_elmo="false", language="en", epochs=1))
    capsys.readouterr()
    predict.main([f"--model_dir={tmp_path / 'reader'}", f"--data={data}"])
    assert all(answer in text for answer in json.loads(capsys.readouterr().out).values())
    (tmp_path / "p.json").write_text('{"a-0": "\\"Paris\\".", "a-1": "bank"}', encoding="utf-8")
    evaluate.main([f"--data={data}", f"--predictions={tmp_path / 'p.json'}", "--language=en"])
    assert capsys.readouterr().out.startswith("EM 100.00%")


def test_questions_of_standard_input_are_answered_in_their_order(reader, tmp_path, monkeypatch, capsys):
    (tmp_path / "passage.txt").write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("谁住在上海？\n\n老师住在哪里？\n".encode())))
    predict.main([f"--model_dir={reader}", f"--passage={tmp_path / 'passage.txt'}"])
    answers = capsys.readouterr().out.splitlines()
    assert len(answers) == 3 and all(answer and answer in TEXT for answer in answers)


def test_evaluate_scores_and_compares(data, tmp_path, capsys):
    for name, answers in (
        ("one", {"a-0": "北京。", "a-1": "北京", "b-0": "医生", "b-1": "学校"}),
        ("two", {"a-1": "北京"}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(answers), encoding="utf-8")
    evaluate.main(
        [
            f"--data={data}",
            f"--predictions={tmp_path / 'one.json'}",
            f"--compare_with={tmp_path / 'two.json'}",
            f"--json={tmp_path / 'scores.json'}",
        ]
    )
    printed, found = capsys.readouterr().out, json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert found["exact"] == 0.5 and found["f1"] == pytest.approx((1 + 0 + 1 + 0.8) / 4)
    assert found["other"]["unanswered"] == 3 and found["difference"]["mean"] == pytest.approx(0.7)
    assert "3 of them without a prediction" in printed and "p = " in printed


def test_prepare_counts_and_writes(data, tmp_path, capsys):
    prepare.main([str(data), f"--output={tmp_path / 'squad.json'}", f"--text={tmp_path / 'text'}"])
    printed = capsys.readouterr().out
    assert "2 passages, 4 questions" in printed and "1 answers begin or end within a word" in printed
    assert "EM 75.00%" in printed
    assert read_dataset(tmp_path / "squad.json").passages == read_dataset(data).passages
    lines = (tmp_path / "text").read_text(encoding="utf-8").splitlines()
    assert lines[:3] == [" ".join(sentence) for sentence in Text.of(TEXT, "zh").sentences] and len(lines) == 4


def test_train_refuses_used_folders_and_a_missing_elmo(checkpoints, data, reader, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="--overwrite"):
        train.main(flags(data, reader, use_elmo="false"))
    with pytest.raises(UserError, match="--model_save_dir"):
        train.main(flags(data, Path(checkpoints["char"]).parent, use_elmo="false", overwrite=True))
    monkeypatch.setattr(arguments, "SAMPLE_ELMO", tmp_path / "sample" / "final")
    with pytest.raises(UserError, match=r"bash run\.sh"):
        train.main(flags(data, tmp_path / "other"))


@pytest.mark.parametrize(
    ("change", "word"), [({"stride": 9, "window": 8}, "--stride"), ({"limit": 3}, "--limit"), ({"ema": 1}, "--ema")]
)
def test_flags_that_cannot_be_are_errors(data, tmp_path, change, word, capsys):
    with pytest.raises(SystemExit, match="2"):
        train.main(flags(data, tmp_path / "x", **change))
    assert word in capsys.readouterr().err


def test_mistakes_in_files_are_named(data, reader, tmp_path, monkeypatch):
    (tmp_path / "p.json").write_text('{"a-0": 3}', encoding="utf-8")
    with pytest.raises(UserError, match=r"p\.json.*'a-0'"):
        evaluate.main([f"--data={data}", f"--predictions={tmp_path / 'p.json'}"])
    with pytest.raises(UserError, match="--output"):
        predict.main([f"--model_dir={reader}", f"--data={data}", f"--output={data}"])
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(UserError, match="--passage"):
        predict.main([f"--model_dir={reader}", f"--passage={tmp_path / 'empty.txt'}"])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(UserError, match="standard input"):
        predict.main([f"--model_dir={reader}", f"--passage={data}"])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda values: values.pop("reader"), "'reader'"),
        (lambda values: values["reader"].update(hidden_dim="3"), "hidden_dim"),
        (lambda values: values["reading"].update(language="xx"), "language"),
        (lambda values: values.update(words="x"), "vocab.txt"),
    ],
)
def test_a_changed_reader_is_an_error(reader, data, tmp_path, change, word):
    folder = shutil.copytree(reader, tmp_path / "copy")
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    change(values)
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(UserError, match=word):
        predict.main([f"--model_dir={folder}", f"--data={data}"])


# The experiment


def test_the_experiment_compares_arms_and_resumes(checkpoints, data, tmp_path, capsys, messages):
    results = tmp_path / "results.json"
    given = [
        *(flag for flag in flags(data, tmp_path) if "model_save_dir" not in flag),
        f"--test_data={data}",
        f"--json={results}",
        f"--word_vectors={vectors_file(tmp_path / 'v.txt')}",
        f"--pretrain_elmo_model_path={checkpoints['char']}",
        "--epochs=1",
    ]
    experiment.main([*given, "--seeds=1", "--arms=word2vec,elmo"])
    first = json.loads(results.read_text(encoding="utf-8"))["runs"]
    assert messages().count("computed once") == 1
    experiment.main([*given, "--seeds=1,2"])
    found = json.loads(results.read_text(encoding="utf-8"))["runs"]
    assert found[:2] == first
    assert sorted((run["arm"], run["seed"]) for run in found) == sorted(
        (arm, seed) for arm in experiment.ARMS for seed in (1, 2)
    )
    assert messages().count("computed once") == 5  # once more for each arm with ELMo, not for each seed
    mixes = {run["arm"]: run["mixes"] for run in found}
    assert len(mixes["mix"]["input"]["layers"]) == 3 and len(mixes["layer0"]["input"]["layers"]) == 1
    assert not mixes["word2vec"] and not mixes["random"] and not mixes["elmo"]
    table = capsys.readouterr().out
    assert all(f"elmo - {name}" in table for name in ("word2vec", "layer0", "random", "mix"))
    assert table.count("best without pretrained context") == 2  # one in each of the two tables
    with pytest.raises(UserError, match="hidden_dim"):
        experiment.main([*given, "--hidden_dim=4"])
    results.write_text("[]", encoding="utf-8")
    with pytest.raises(UserError, match=r"results\.json"):
        experiment.main(given)


@pytest.mark.parametrize(("flag", "word"), [("--arms=elmo,bert", "bert"), ("--seeds=1,x", "x")])
def test_arms_and_seeds_that_cannot_be_are_errors(data, flag, word, capsys):
    with pytest.raises(SystemExit, match="2"):
        experiment.main([flag])
    assert word in capsys.readouterr().err


# From the command line


def run(*command, cwd: Path = DEMO, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=cwd, input=text, capture_output=True, encoding="utf-8", check=False)


def test_the_scripts_run_from_the_root_and_from_the_demos_folder(reader, data):
    done = run(sys.executable, "prepare.py", "data/dev.json")
    assert done.returncode == 0 and "160 questions" in done.stdout, done.stderr
    done = run(sys.executable, "MRC_demo/predict.py", f"--model_dir={reader}", "--data=none.json", cwd=runs.PROJECT)
    assert done.returncode == 2 and "none.json" in done.stderr and "Traceback" not in done.stderr


def test_the_demo_needs_the_sample_first(tmp_path):
    done = run("sh", "run.sh", cwd=shutil.copytree(DEMO, tmp_path / "MRC_demo", symlinks=True))
    assert done.returncode == 2 and "bash run.sh" in done.stderr


@pytest.mark.parametrize(
    ("flag", "code", "word"),
    [("--model_save_d=x", 2, "--model_save_dir"), ("--use_elmo=false", 2, "--use_elmo"), ("--he", 0, "Usage")],
)
def test_the_demo_keeps_its_own_flags(flag, code, word):
    done = run("bash", "run.sh", "--epochs=1", flag)
    assert done.returncode == code and word in (done.stderr if code else done.stdout)
