#!/bin/sh
# Train readers on the bundled sample, without ELMo and with the ELMo that `bash run.sh` in the root has trained.
# Usage: bash run.sh [flags of run_read.py train, for both training runs]
set -eu
CDPATH= cd "$(dirname "$0")/.."
elmo=checkpoints/sample/final
if [ ! -f checkpoints/sample/names.json ]; then
    echo "error: there is no $elmo. Run \`bash run.sh\` in the repository's root first." >&2
    exit 2
fi
sh setup.sh requirements.txt
python=.venv/bin/python
models=checkpoints/mrc

for name in none "$elmo"; do
    reader=$models/$([ "$name" = none ] && echo baseline || echo elmo)
    echo "== ELMo: $name"
    $python run_read.py train --train_file=data/reading/train.json --dev_file=data/reading/dev.json --lang=zh \
        --init_from_ckpt="$name" $([ "$name" = none ] || echo --layers=mix) --seed=1 --save_dir="$reader" --overwrite "$@"
done

echo "== a question"
echo 王芳最喜欢吃饺子。李雷去年去法国旅行了。他在银行工作。 >"$models/passage.txt"
echo 李雷在哪里工作？ | $python run_read.py predict --model_dir="$models/elmo" --passage="$models/passage.txt"

echo "== data/reading/dev.json, without ELMo and with it"
for name in baseline elmo; do
    $python run_read.py evaluate --model_dir="$models/$name" --test_file=data/reading/dev.json | head -n 1
done
