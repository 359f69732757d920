"""The daily work without what Windows lacks; see tests/support/windows.py.

Windows itself is not tested.
"""

import os
import subprocess
import sys

import tiny
from project import PROJECT

TINY = (
    "--model_size=tiny --cell_dim=13 --projection_dim=6 --filters=1:4,2:7 "
    "--batch_size=5 --unroll_steps=7 --device=cpu"
)
PRETRAIN = (
    "run_pretrain.py --train_data_path=corpus/train --dev_data_path=corpus/dev "
    f"--vocab_file=vocab.txt {TINY}"
)
COMMANDS = f"""\
preprocess.py text raw.txt --lang=zh --output=corpus --dev_fraction=0.2 --processes=2
preprocess.py vocab corpus/train --output=vocab.txt
{PRETRAIN} --save_dir=run --max_steps=4 --eval_freq=2 --save_freq=2 --log_freq=2
{PRETRAIN} --save_dir=run --max_steps=6 --init_from_ckpt=run
{PRETRAIN} --save_dir=run --max_steps=2 --overwrite
run_eval.py --dev_data_path=corpus/dev --init_from_ckpt=run --device=cpu
convert.py export run --output=exported
convert.py import exported/options.json exported/weights.hdf5 --output=imported
run_embed.py --init_from_ckpt=zh --input=vocab.txt --output=vectors.hdf5 --device=cpu
run_tag.py train --train_file=tags --dev_file=tags --save_dir=tagger \
    --init_from_ckpt=model --epochs=1 --device=cpu
run_tag.py train --train_file=tags --save_dir=tagger \
    --init_from_ckpt=none --epochs=1 --device=cpu --overwrite
run_tag.py predict --model_dir=tagger --input=vocab.txt --output=tagged --device=cpu
run_finetune.py train --train_file=texts.tsv --save_dir=classifier \
    --init_from_ckpt=model --device=cpu
run_finetune.py predict --model_dir=classifier --input=vocab.txt --output=classes --device=cpu
"""


def test_the_daily_work_without_what_windows_lacks(tmp_path):
    tiny.save(tiny.random_bilm(), tmp_path / "model")
    (tmp_path / "imported").mkdir()
    files = {
        "raw.txt": "{}只猫坐在河边。\n",
        "tags": "的 O\n苹果 B-{}\n\n",
        "texts.tsv": "苹果 很 {}\t好\n河 边\t坏\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text("".join(text.format(n) for n in range(60)), encoding="utf-8")
    # open() without an encoding takes ASCII
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [sys.executable, str(PROJECT / "tests" / "support" / "windows.py")]
    environment = {**os.environ, **locale, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        input=COMMANDS,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
