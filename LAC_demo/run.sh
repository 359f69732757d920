#!/bin/sh
# Trains the tagger on the bundled sample, without ELMo and with the one that `bash run.sh` in the root has made.
# Usage: bash run.sh [arguments of train.py, whose --help shows them]
# They go to both trainings. --use_elmo, --pretrain_elmo_model_path and --model_save_dir are run.sh's own.
set -eu
CDPATH= cd "$(dirname "$0")"
for argument in "$@"; do
    own=
    case $argument in
    -h | --h*)
        sed -n '2,/^set /s/^# //p' "${0##*/}"
        exit 0
        ;;
    --u*) own=--use_elmo ;; # train.py would take an abbreviation too
    --pr*) own=--pretrain_elmo_model_path ;;
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
models=../checkpoints/lac
mkdir -p "$models"
rm -f "$models/failed"

# train NAME ARGUMENTS: its output also goes to NAME.txt. sh has no pipefail, so a file takes the exit code.
train() {
    name=$1
    shift
    { $python train.py --model_save_dir "$models/$name" --overwrite "$@" || echo $? >"$models/failed"; } |
        tee "$models/$name.txt"
    [ ! -e "$models/failed" ] || exit "$(cat "$models/failed")"
}

echo "== baseline"
train baseline --use_elmo false "$@"

echo "== +ELMo"
train elmo --pretrain_elmo_model_path "$elmo" "$@"

echo "== a sentence"
echo 北京大学的学生都在学习英语。 | $python predict.py --model_dir "$models/elmo"

echo "== F1 on data/dev"
tail -qn 1 "$models/baseline.txt" "$models/elmo.txt"
