"""The published command lines, run as they stand but for the device, on small data of the published form.

Those of README.md and docs/files.md, and those of PaddleNLP's README, which our users come from. Flags at their end make the
model tiny and the run short.
"""

import gzip
import importlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import runs
import tiny
from project import commands

import convert

PADDLENLP = """
python -m paddle.distributed.launch --gpus '0,1' run_pretrain.py --train_data_path='./1-billion-word/training-tokenized-shuffled/*' --vocab_file='./1-billion-word/vocab-15w.txt' --save_dir='./checkpoints' --device='gpu'
python run_eval.py --dev_data_path='./1-billion-word/heldout-tokenized-shuffled/*' --vocab_file='./1-billion-word/vocab-15w.txt' --init_from_ckpt='./checkpoints/10000' --device='gpu'
python -m paddle.distributed.launch --gpus '0' word2vec_base.py --data_dir='./sentence-polarity-dataset-v1/' --pretrained_word2vec_file='./sentence-polarity-dataset-v1/GoogleNews-vectors-negative300.bin' --device='gpu'
python -m paddle.distributed.launch --gpus '0' run_finetune.py --data_dir='./sentence-polarity-dataset-v1/' --init_from_ckpt='./checkpoints/10000' --device='gpu'
"""  # noqa: E501
TINY = {
    "run_pretrain.py": "--model_size=tiny --cell_dim=13 --projection_dim=6 --filters=1:4,2:7 --batch_size=5 "
    "--unroll_steps=7 --n_negative_samples=11 --max_steps=4",
    "word2vec_base.py": "--folds=3 --epochs=1 --lr=0.01 --weight_decay=0",
    "run_finetune.py": "--folds=3 --epochs=1 --lr=0.01 --weight_decay=0",
}
OTHERS_TEST = ("bash run.sh", "bash test.sh", "pip install")  # by .ci/run, .ci/run, test_wheel.py


def run(line: str, folder: Path) -> None:
    """A command line in a folder of its user's; in this process, if it does not ask for the launcher."""
    words = shlex.split(line.replace("--device=gpu", "--device=cpu").replace("--device='gpu'", "--device=cpu"))
    (at,) = [k for k, word in enumerate(words) if word.endswith(".py")]
    script, argv = words[at], [*words[at + 1 :], *shlex.split(TINY.get(words[at], ""))]
    if script == "run_pretrain.py":
        argv.append("--max_steps=6" if "--init_from_ckpt" in line else "--overwrite")
    launcher = words[1:at]
    if not launcher:
        importlib.import_module(script.removesuffix(".py")).main(argv)
        return
    if "--gpus" in launcher:
        gpus = launcher.index("--gpus")
        n = len(launcher[gpus + 1].split(","))
        launcher[gpus : gpus + 2] = ["--nproc_per_node", str(n), "--backend", "gloo"]
    command = [sys.executable, *launcher, "--log_dir", str(folder / "log"), str(runs.PROJECT / script), *argv]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    logs = "".join(path.read_text(encoding="utf-8") for path in (folder / "log").glob("workerlog.*"))
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}{logs}"


@pytest.mark.slow
def test_paddlenlps_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus, reviews = Path("1-billion-word"), Path("sentence-polarity-dataset-v1")
    for folder, files in (("training-tokenized-shuffled", 4), ("heldout-tokenized-shuffled", 1)):
        (corpus / folder).mkdir(parents=True)
        for k in range(files):
            text = "\n".join(runs.sentences(40, seed=k)) + "\n"
            (corpus / folder / f"news.en-{k:05}-of-00100").write_text(text, encoding="utf-8")
    (corpus / "vocab-15w.txt").write_text("\n".join(["the", *runs.WORDS]) + "\n", encoding="utf-8")
    reviews.mkdir()
    for kind, start in (("pos", 0), ("neg", 20)):
        text = "".join(f"{word} café is {word} .\n" for word in runs.WORDS[start : start + 20])
        (reviews / f"rt-polarity.{kind}").write_text(text, encoding="latin-1")
    vectors = np.random.default_rng(0).standard_normal((len(runs.WORDS), 5)).astype(np.float32)
    content = b"".join(word.encode() + b" " + row.tobytes() for word, row in zip(runs.WORDS, vectors, strict=True))
    with gzip.open(reviews / "GoogleNews-vectors-negative300.bin.gz", "wb") as file:
        file.write(f"{len(vectors)} 5\n".encode() + content)

    pretrain, *rest = PADDLENLP.strip().splitlines()
    run(pretrain, tmp_path)
    for path in Path("checkpoints").glob("final.*"):  # stands for the one after 10,000 steps
        path.rename(path.with_stem("10000"))
    for line in rest:
        run(line, tmp_path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What the README's reader has by then: a checkpoint, files of bilm-tf's form, some text."""
    monkeypatch.chdir(tmp_path)
    prefix = tiny.save(tiny.random_bilm(), Path("checkpoints"), "10000")
    convert.main(["export", str(prefix), "--output=published"])
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(Path("published") / name, name)
    Path("sentences.txt").write_text("The first sentence .\n" * 9, encoding="utf-8")
    Path("vocab.txt").write_text("<S>\n</S>\nThe\nfirst\nsentence\n", encoding="utf-8")
    Path("raw").mkdir()
    for k in range(2):
        text = "".join(f"{n}只猫坐在河边。{n}只狗也来了,它们一起看河。\n" for n in range(500 * k, 500 * k + 500))
        Path(f"raw/{k}.txt").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("page", ["README.md", "docs/files.md"])
def test_the_readmes_commands(page, folder):
    lines = [line for line in commands(page) if line and not line.startswith(OTHERS_TEST)]
    assert len(lines) > 5 and all(re.match(r"python .*\.py ", line) for line in lines), lines
    for line in lines:
        if "--output=vectors.hdf5" in line:  # one file, made in several ways
            Path("vectors.hdf5").unlink(missing_ok=True)
        run(line, folder)
