#!/bin/sh
# Trains the reader on the bundled sample, without ELMo and with the one that `bash run.sh` in the root has made.
# Usage: bash run.sh [arguments of train.py, whose --help shows them]
# They go to both trainings. --use_elmo, --pretrain_elmo_model_path and --model_save_dir are run.sh's own.
set -eu
CDPATH= cd "$(dirname "$0")"
for argument in "$@"; do
    own=
    case $argument in
    -h | --h | --he*)
        sed -n '2,/^set /s/^# //p' "${0##*/}"
        exit 0
        ;;
    --u*) own=--use_elmo ;; # train.py would take an abbreviation too
    --p | --pr*) own=--pretrain_elmo_model_path ;;
    --mo*) own=--model_save_dir ;;
    esac
    if [ "$own" ]; then
        echo "error: ${argument%%=*}: run.sh sets $own itself, for each of its two trainings. Use train.py." >&2
        exit 2
    fi
done
elmo=../checkpoints/sample/final
if [ ! -f "$elmo.pdparams" ]; then
    echo "error: there is no checkpoints/sample/final.pdparams. Run \`bash run.sh\` in the repository's root first." >&2
    exit 2
fi
sh ../setup.sh requirements.txt
python=../.venv/bin/python
models=../checkpoints/mrc

echo "== baseline"
$python train.py --model_save_dir "$models/baseline" --overwrite --use_elmo false "$@"
$python predict.py --model_dir "$models/baseline" --data data/dev.json --output "$models/baseline.json"

echo "== +ELMo"
$python train.py --model_save_dir "$models/elmo" --overwrite --pretrain_elmo_model_path "$elmo" "$@"
$python predict.py --model_dir "$models/elmo" --data data/dev.json --output "$models/elmo.json"

echo "== a question"
echo 王芳最喜欢吃饺子。李雷去年去法国旅行了。他在银行工作。 >"$models/passage.txt"
echo 李雷在哪里工作？ | $python predict.py --model_dir "$models/elmo" --passage "$models/passage.txt"

echo "== +ELMo and baseline on data/dev.json"
$python evaluate.py --data data/dev.json --predictions "$models/elmo.json" --compare_with "$models/baseline.json"
