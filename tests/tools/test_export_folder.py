"""The exported folder: programs that run without this project, licences, a README."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from exporting import RUNTIMES, random_tagger, raw_lines

import export_model
import run_finetune
import run_tag
from elmo_tools.export import folder as export_folder


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory):
    """A folder with trained classifiers, by the names of `CLASSIFIERS`."""
    folder = tmp_path_factory.mktemp("classifiers")
    generator = random.Random(3)
    model = tiny.save(tiny.random_bilm(scale=1.0), folder / "elmo")
    rows = [
        generator.choice([("river bank", "a"), ("of the", "b"), ("苹果 很", "c")])
        for _ in range(40)
    ]
    (folder / "texts.tsv").write_text(
        "".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8"
    )
    pairs = ["text_a\ttext_b\tlabel", *(f"{text}\tthe bank\t{label}" for text, label in rows)]
    (folder / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    topics = ["text\tlabel", *(f"{text}\t{label}|any" for text, label in rows), "the\t"]
    (folder / "topics.tsv").write_text("\n".join(topics) + "\n", encoding="utf-8")
    for name, (file, flags) in CLASSIFIERS.items():
        files = [f"--{part}_file={folder / file}.tsv" for part in ("train", "dev", "test")]
        defaults = ["--device=cpu", "--lang=en", f"--init_from_ckpt={model}"]
        run_finetune.main([*defaults, *files, *flags, f"--save_dir={folder / name}"])
    return folder


# The data of classifiers, and their flags.
CLASSIFIERS = {
    "texts": ("texts", ["--max_seq_len=9"]),
    "texts without ELMo": ("texts", ["--init_from_ckpt=none"]),
    "pairs": ("pairs", ["--max_seq_len=9"]),
    "lists of labels": ("topics", ["--label_separator=|"]),
    "pairs for an LSTM": (
        "pairs",
        ["--head=lstm", "--max_seq_len=9", "--epochs=1", "--hidden_dim=6", "--head_dim=5"],
    ),
}
JIEBA = {"unit": "jieba", "lang": "characters", "user_dict": ["很的 1000000"]}
LAC = {"scheme": "lac", "lang": "zh", "elmo": False, "pieces": ["银行", "河", "苹果", "的"]}
WORDS = {"scheme": "lac", "lang": "characters", "elmo": False, "user_dict": ["云计算 5 v", "很银"]}
TAGGERS = {"tagger": {}, "lac": LAC, "jieba": JIEBA, "words": WORDS}
SPECIAL = ["云计算", "银行", "GitHub", "1,000", "http://t.cn/a", "😂", "👨‍👩‍👧", "Ａ１", "很"]


def predicted(
    kind: str, lines: list[str], tmp_path: Path, classifiers: Path
) -> tuple[Path, list[dict]]:
    """The folder of a trained model, and what it predicts for the lines."""
    file = tmp_path / "lines"
    output = tmp_path / "output"
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    if kind in TAGGERS:
        script = run_tag
        random_tagger(tmp_path, **TAGGERS[kind])
        model = tmp_path / "tagger"
    else:
        script = run_finetune
        model = classifiers / kind
    flags = [f"--input={file}", f"--output={output}", "--output_format=json"]
    script.main(["predict", f"--model_dir={model}", *flags])
    return model, [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("kind", [*TAGGERS, *CLASSIFIERS])
def test_the_programs_answer_raw_lines_without_this_project(tmp_path, classifiers, runtime, kind):
    lines = raw_lines(70, tiny.WORDS[3:])
    folder = tmp_path / "exported"
    if kind in ("lac", "jieba"):
        lines = raw_lines(70, ["银行", "河流", "苹果", "很", "的", "Ａ１"], "")
    elif kind == "words":
        lines = raw_lines(70, SPECIAL, "")
    elif kind.startswith("pairs"):
        first = raw_lines(90, ["the", "river"])[20:]
        lines = [f"{a}\t{b}" for a, b in zip(first, lines, strict=True)]
    model, expected = predicted(kind, lines, tmp_path, classifiers)
    onnx = ["--onnx"] if runtime == "run_onnx" else []
    export_model.main([str(model), f"--output={folder}", *onnx])
    # Neither this project nor SciPy, which NumPy and the runtimes do not bring.
    (tmp_path / "missing").mkdir()
    (tmp_path / "missing" / "scipy.py").write_text("raise ImportError('scipy')", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "missing")}
    options = {
        "cwd": folder,
        "env": environment,
        "capture_output": True,
        "encoding": "utf-8",
        "timeout": 300,
    }
    done = subprocess.run(
        [sys.executable, f"{runtime}.py", "--json"], input="\n".join(lines), **options
    )
    assert not done.returncode, done.stderr
    for line, values in zip(done.stdout.splitlines(), expected, strict=True):
        answer = json.loads(line)
        assert answer.pop("probabilities", {}) == pytest.approx(
            values.pop("probabilities", {}), abs=1e-5
        )
        assert answer.pop("score", 0) == pytest.approx(values.pop("score", 0), abs=1e-5)
        for span in values.get("spans", []):
            del span["score"]
        assert answer == values
    assert f"{runtime}.py" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("zh-lac", ["UNER_Chinese-GSDSIMP", "golden-horse", "Baidu, Inc.", "Apache"]),
        ("tagger/en-ewt", ["UD_English-EWT", "Maas"]),  # the ELMo in the graph has its own
    ],
)
def test_a_ready_made_model_is_exported_with_its_licence(tmp_path, no_fsync, name, sources):
    """By the name that the task's script takes."""
    folder = tmp_path / "exported"
    export_model.main([name, f"--output={folder}"])
    notice = (folder / "NOTICE.md").read_text(encoding="utf-8")
    assert "CC BY-SA 4.0" in notice
    for source in sources:
        assert source in notice
    assert "NOTICE.md" in (folder / "README.md").read_text(encoding="utf-8")


def test_the_licence_of_a_copied_elmo_is_exported_and_of_ones_own_there_is_none(tmp_path, no_fsync):
    random_tagger(tmp_path)
    export_model.main([str(tmp_path / "tagger"), f"--output={tmp_path / 'own'}"])
    assert not (tmp_path / "own/NOTICE.md").exists()
    assert "NOTICE.md" not in (tmp_path / "own/README.md").read_text(encoding="utf-8")
    (copy,) = (tmp_path / "tagger").glob("elmo-*")
    (copy / "NOTICE.md").write_text("# river\n\nODbL\n", encoding="utf-8")
    for model, output in ((tmp_path / "tagger", "tagger"), (copy, "elmo")):
        export_model.main([str(model), f"--output={tmp_path / 'exported' / output}"])
        text = (tmp_path / f"exported/{output}/NOTICE.md").read_text(encoding="utf-8")
        assert "ODbL" in text


def test_the_readme_names_the_files_that_are_there(export, model, tmp_path):
    export(model, "run_paddle")
    readme = (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(model\.\w+)`", readme))
    assert named and all((tmp_path / "exported" / name).is_file() for name in named)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("from elmo_core.files import disk", "elmo_core.files"),  # a package
        (
            "from elmo_tasks.reading.text import Passage\nfrom elmo_tasks.tagging.text import Line",
            "text.py",
        ),
        ("import elmo_core.messages", "elmo_core.messages"),
    ],
)
def test_programs_that_would_not_run_are_not_exported(monkeypatch, tmp_path, line, named):
    (tmp_path / "predict.py").write_text(f"{line}\n", encoding="utf-8")
    monkeypatch.setattr(export_folder, "EXAMPLES", tmp_path)
    with pytest.raises(ImportError, match=re.escape(named)):
        export_folder._programs(["predict.py"])
