"""LAC_demo and MRC_demo: the published names, and the commands of run.sh, on a tiny model."""

import importlib
import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
from project import PROJECT

from elmo import ELMoEmbedder
from elmo_core.weights import checkpoint

sys.path.append(str(PROJECT / "LAC_demo"))

from bilm import elmo_encoder

SENTENCES = tiny.SENTENCES


@pytest.mark.parametrize("kind", ["char", "word"])
def test_the_encoder_gives_the_mix_of_elmos_layers(checkpoints, kind):
    encoder = elmo_encoder(checkpoints[kind], elmo_l2_coef=0.5, dropout=0.5)
    (mix,) = (layer for name, layer in encoder.named_sublayers() if name.endswith("mixes.0"))
    mix.scalars.set_value(np.log([0.2, 0.3, 0.5]).astype(np.float32))
    mix.gamma.set_value(np.array([2.0], np.float32))
    assert encoder.l2_loss().item() == pytest.approx(
        0.5 * (np.log([0.2, 0.3, 0.5]) ** 2).sum(), rel=1e-5
    )
    assert 0.3 < (encoder(SENTENCES).numpy()[2] == 0).mean() < 0.7
    encoder.eval()
    vectors = encoder(SENTENCES).numpy()
    expected = ELMoEmbedder(checkpoints[kind], layers=[0.4, 0.6, 1.0]).encode(SENTENCES)
    for row, array in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(row[: len(array)], array, rtol=1e-4, atol=1e-5)
        assert not row[len(array) :].any()


@pytest.fixture
def folder(checkpoints, tmp_path, monkeypatch) -> Path:
    """The repository after `bash run.sh`, with a Python that only records its arguments."""
    for name in ("LAC_demo", "MRC_demo", "data"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    tiny.save(tiny.random_bilm(scale=1.0), tmp_path / "checkpoints" / "sample" / "7")
    checkpoint.write_names(tmp_path / "checkpoints" / "sample", {"final": 7})
    (tmp_path / "checkpoints" / "mrc").mkdir()  # as training would create it
    (tmp_path / "setup.sh").write_text("", encoding="utf-8")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        '#!/bin/sh\nfor word; do printf "%s\\n" "$word" >>calls; done\necho >>calls\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("demo", "question"), [("LAC_demo", "北京大学。"), ("MRC_demo", "李雷在哪里工作？")]
)
def test_run_sh_trains_predicts_and_compares(folder, demo, question, no_fsync, monkeypatch, capsys):
    """The flags go to both training runs."""
    flags = ["--epochs=1", "--word_dim=5", "--hidden_dim=3", "--device=cpu"]
    done = subprocess.run(
        ["sh", "run.sh", *flags], cwd=folder / demo, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    calls = (folder / "calls").read_text(encoding="utf-8").removesuffix("\n\n").split("\n\n")
    for call in calls:
        script, *argv = call.split("\n")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{question}\n".encode())))
        importlib.import_module(Path(script).stem).main(argv)
    assert sum("\ntrain\n" in call for call in calls) == 2 and len(calls) in (5, 6)
    printed = capsys.readouterr().out
    if demo == "LAC_demo":
        (sentence,) = (line for line in printed.splitlines() if "北" in line)
        assert "".join(word.rpartition("/")[0] for word in sentence.split()) == question
    else:
        assert printed.count("160 questions") == 4


@pytest.mark.parametrize("demo", ["LAC_demo", "MRC_demo"])
def test_run_sh_needs_the_sample_first(folder, demo):
    shutil.rmtree(folder / "checkpoints")
    done = subprocess.run(["sh", f"{demo}/run.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "bash run.sh" in done.stderr
