#!/usr/bin/env bash
# Trains the tagger on the bundled sample, without ELMo and with the one that `bash run.sh` in the root has made.
# Usage: bash run.sh [arguments of train.py, whose --help shows them]
# They go to both trainings. --use_elmo, --pretrain_elmo_model_path and --model_save_dir are run.sh's own.
set -euo pipefail
cd "$(dirname "$0")"
for argument in "$@"; do
    flag=${argument%%=*}
    if [[ $flag == -h || (${#flag} -gt 2 && --help == "$flag"*) ]]; then
        sed -n '2,/^set /s/^# //p' "${0##*/}"
        exit 0
    fi
    for own in --use_elmo --pretrain_elmo_model_path --model_save_dir; do
        if [[ ${#flag} -gt 2 && $own == "$flag"* ]]; then # train.py would take an abbreviation too
            echo "error: $flag: run.sh sets $own itself, for each of its two trainings. Use train.py." >&2
            exit 2
        fi
    done
done
elmo=../checkpoints/sample/final
if [ ! -f "$elmo.pdparams" ]; then
    echo "error: there is no checkpoints/sample/final.pdparams. Run \`bash run.sh\` in the repository's root first." >&2
    exit 2
fi
bash ../setup.sh requirements.txt
python=../.venv/bin/python
models=../checkpoints/lac
mkdir -p "$models"

echo "== baseline"
$python train.py --use_elmo false --model_save_dir "$models/baseline" --overwrite "$@" | tee "$models/baseline.txt"

echo "== +ELMo"
$python train.py --pretrain_elmo_model_path "$elmo" --model_save_dir "$models/elmo" --overwrite "$@" |
    tee "$models/elmo.txt"

echo "== a sentence"
echo 北京大学的学生都在学习英语。 | $python predict.py --model_dir "$models/elmo"

echo "== F1 on data/dev"
tail -qn 1 "$models/baseline.txt" "$models/elmo.txt"
