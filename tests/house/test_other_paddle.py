"""Files written in one environment are read in another: checkpoints, resumed runs, taggers,
classifiers, readers, exports.

ELMO_OTHER_PYTHON names the other environment, which tests/everywhere.sh sets to one with another
Paddle and NumPy; by default it is this one, in another process.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import runs

import export_model
import run_finetune
import run_read
import run_tag
from elmo import ELMoEmbedder
from elmo_core.machine.runtime import paddle
from elmo_core.weights import checkpoint
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.reading.reader import Reader
from elmo_tasks.tagging.tagger import Tagger

OTHER = os.environ.get("ELMO_OTHER_PYTHON", sys.executable)
SENTENCES = [["the", "river", "bank"], [], ["苹果", "很", "unknown", "😀", "of"], ["a"]]
TEXTS = ["a goal in the match", "the painter and his museum"]
QUESTION, PASSAGE = "老师住在哪里", "老师住在北京。他在银行工作。医生住在上海。"
MODELS = ["en", "zh"]


def write(folder: Path) -> None:
    """Train one of each, briefly, and save their outputs."""
    corpus = runs.write_corpus(folder / "corpus")
    runs.pretrain(runs.flags(corpus, folder / "whole"))
    runs.pretrain(runs.flags(corpus, folder / "stopped"), stop_at=17)
    runs.pretrain(runs.flags(corpus, folder / "words", input="word", optimizer="adam"))
    lines = [f"the O\n{name} B-x\n{name} I-x\n\n" for name in ("bank", "river") * 9]
    (folder / "train.txt").write_text("".join(lines), encoding="utf-8")
    data, ckpt = f"--train_file={folder / 'train.txt'}", f"--init_from_ckpt={folder / 'whole'}"
    run_tag.main(
        ["train", data, ckpt, "--epochs=1", "--hidden_dim=7", f"--save_dir={folder / 'tagger'}"]
    )
    lines = [
        f"{text}\t{label}\n" for text, label in zip(TEXTS * 40, ["sport", "art"] * 40, strict=True)
    ]
    (folder / "texts.tsv").write_text("".join(lines), encoding="utf-8")
    data = f"--train_file={folder / 'texts.tsv'}"
    run_finetune.main([data, ckpt, f"--save_dir={folder / 'classifier'}"])
    answer = {"question": QUESTION, "answers": [{"text": "北京", "answer_start": 4}]}
    questions = [{"id": letter, **answer} for letter in "abcd"]
    squad = {"data": [{"title": "", "paragraphs": [{"context": PASSAGE, "qas": questions}]}]}
    (folder / "squad.json").write_text(json.dumps(squad), encoding="utf-8")
    data = [f"--{name}_file={folder / 'squad.json'}" for name in ("train", "dev")]
    flags = ["--lang=zh", "--epochs=1", "--hidden_dim=3", "--device=cpu"]
    run_read.main(["train", *data, ckpt, *flags, f"--save_dir={folder / 'reader'}"])
    export_model.main([str(folder / "whole"), f"--output={folder / 'exported'}", "--layers=top"])
    np.savez(folder / "answers.npz", **answers(folder))


def answers(folder: Path) -> dict[str, np.ndarray]:
    """The outputs of all models in the folder."""
    found = {
        f"{name} {k}": array
        for name in ("whole", "words", *MODELS)
        for k, array in enumerate(
            ELMoEmbedder(name if name in MODELS else folder / name).encode(SENTENCES)
        )
    }
    found["tagger"] = np.array(
        [" ".join(labels) for labels in Tagger(folder / "tagger").predict(SENTENCES)]
    )
    classifier = Classifier(folder / "classifier")
    found["classifier"] = classifier.predict_proba(TEXTS)
    reader = Reader(folder / "reader")
    found["reader"] = np.array([answer.text for answer in reader.answers((QUESTION, PASSAGE), k=1)])
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{runs.PROJECT}:{runs.PROJECT / 'tests' / 'support'}",
    }
    done = subprocess.run(
        [OTHER, __file__, str(folder)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_everything_answers_the_same(folder):
    found = answers(folder)
    with np.load(folder / "answers.npz") as expected:
        assert found.keys() == set(expected)
        for name, array in found.items():
            if array.dtype.kind == "f":
                np.testing.assert_allclose(array, expected[name], atol=1e-5, rtol=0, err_msg=name)
            else:
                assert array.tolist() == expected[name].tolist(), name


def test_a_run_is_resumed(folder):
    runs.pretrain(
        [
            *runs.flags(folder / "corpus", folder / "stopped"),
            f"--init_from_ckpt={folder / 'stopped'}",
        ]
    )
    for load in (checkpoint.load_params, lambda folder: checkpoint.load_training(folder)[0]):
        found, expected = (load(checkpoint.resolve(folder / name)) for name in ("stopped", "whole"))
        assert found.keys() == expected.keys()
        for name, array in found.items():
            np.testing.assert_allclose(array, expected[name], atol=1e-5, rtol=1e-5, err_msg=name)


def test_an_exported_model_runs_where_its_readme_says(folder):
    exported, text = folder / "exported", " ".join(SENTENCES[0])
    done = subprocess.run(
        [sys.executable, "run_paddle.py"], cwd=exported, input=text, capture_output=True, text=True
    )
    if (exported / "model.pdmodel").exists() or paddle.version.major == "3":
        assert done.stdout == "vectors (3, 12)\n", done.stderr
    else:
        assert done.returncode == 1 and "needs Paddle 3" in done.stderr


if __name__ == "__main__":
    write(Path(sys.argv[1]))
