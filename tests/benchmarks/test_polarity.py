"""polarity.py: its folds, and what it compares."""

import json
import shutil
import sys
from unittest import mock

import pytest
import runs

sys.path.append(str(runs.PROJECT / "benchmarks"))

import polarity

from elmo_core.messages import UserError


def run(*flags: object) -> None:
    with mock.patch.object(sys, "argv", ["polarity.py", *map(str, flags)]):
        polarity.main()


def test_ten_folds_of_polarity(tmp_path, capsys, small_weights):
    for name, words in (("pos", "good film"), ("neg", "bad film")):
        (tmp_path / f"rt-polarity.{name}").write_text(
            "".join(f"{words} {k}\n" for k in range(30)), encoding="utf-8"
        )
    (tmp_path / "vectors.txt").write_text("2 2\ngood 1 0\nbad 0 1\n", encoding="utf-8")
    one, other = tmp_path / "elmo.json", tmp_path / "words.json"
    flags = [f"--data_dir={tmp_path}", "--epochs=2", "--lr", 0.05, "--weight_decay", 0.1]
    run(
        *flags,
        "--init_from_ckpt=none",
        f"--word_vectors={tmp_path / 'vectors.txt'}",
        f"--results={other}",
    )
    more = [
        f"--init_from_ckpt={small_weights['word']}",
        "--elmo_trainable",
        "--tune_epochs=1",
        f"--results={one}",
    ]
    run(*flags, *more, "--against", other)
    folds = json.loads(one.read_text(encoding="utf-8"))["folds"]
    assert (
        sorted(k for fold in folds for k in fold["reviews"]) == list(range(60)) and len(folds) == 10
    )
    assert "McNemar" in capsys.readouterr().out
    run("--runs", one, one, "--against", other, other)
    assert "2 pretrainings and 60 reviews" in capsys.readouterr().out
    (tmp_path / "copy").mkdir()
    for file in tmp_path.glob("rt-polarity.*"):
        shutil.copy(file, tmp_path / "copy")
    with pytest.raises(UserError, match=r"elmo\.json"):
        run(*flags, *more, f"--data_dir={tmp_path / 'copy'}")
