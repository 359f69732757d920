"""run_tag.py from training to predictions."""

import json

import pytest

import run_tag
from elmo_core.messages import UserError


def test_the_script(tmp_path, capsys, small_weights):
    rows = ("Ann B-PER\nsaw O\nRome B-LOC\n\nRome B-LOC\nis O\nbig O\n\n") * 9
    for name in ("train.json", "dev.json"):  # an ending that --data_format contradicts, in evaluation, too
        (tmp_path / name).write_text(rows, encoding="utf-8")
    model, files = f"--save_dir={tmp_path / 'tagger'}", [f"--{n}_file={tmp_path / n}.json" for n in ("train", "dev")]
    flags = ["--epochs=20", "--patience=0", "--batch_size=4", "--lr=0.02", "--hidden_dim=16", "--n_layers=1"]
    flags += ["--lang=en", "--device=cpu", "--data_format=columns"]
    run_tag.main(["train", *files, model, f"--init_from_ckpt={small_weights['char']}", *flags])
    assert "== dev" in capsys.readouterr().out
    argv = [f"--model_dir={tmp_path / 'tagger'}", "--device=cpu"]
    scores = f"--json={tmp_path / 'scores.json'}"
    run_tag.main(["evaluate", *argv, f"--test_file={tmp_path / 'dev.json'}", scores])
    assert json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["test"]["f1"] > 0.9
    capsys.readouterr()
    (tmp_path / "text").write_text("Ann saw Rome.\n\nRome is big\n", encoding="utf-8")
    run_tag.main(["predict", *argv, f"--input={tmp_path / 'text'}", f"--output={tmp_path / 'tagged'}"])
    blocks = (tmp_path / "tagged").read_text(encoding="utf-8").split("\n\n")
    assert blocks[0].startswith("Ann\tB-PER\nsaw\tO\nRome\tB-LOC\n.\t") and "Rome\tB-LOC\nis" in blocks[-2]
    run_tag.main(["predict", *argv, f"--input={tmp_path / 'text'}", "--output_format=json"])
    values = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line]
    assert len(values) == 2 and values[0]["spans"][0]["label"] == "PER"
    with pytest.raises(UserError, match=r"dev.json:1: .*labelled"):
        run_tag.main(["predict", *argv, f"--input={tmp_path / 'dev.json'}"])
    for wrong in ("tagged", "words"):
        with pytest.raises(UserError, match="output_format"):
            run_tag.main(["predict", *argv, f"--input={tmp_path / 'text'}", f"--output_format={wrong}"])
