#!/bin/sh
# Trains the tagger on the bundled sample, without ELMo and with the ELMo that `bash run.sh` in the root pretrains.
# Usage: bash run.sh [flags of run_tag.py train, for both training runs]
set -eu
CDPATH= cd "$(dirname "$0")/.."
elmo=checkpoints/sample/final
if [ ! -f checkpoints/sample/names.json ]; then
    echo "error: $elmo does not exist. Run \`bash run.sh\` in the repository's root first." >&2
    exit 2
fi
sh setup.sh requirements.txt
python=.venv/bin/python

for name in none "$elmo"; do
    save_dir=checkpoints/lac/$([ "$name" = none ] && echo baseline || echo elmo)
    echo "== ELMo: $name"
    $python run_tag.py train --train_file=data/lac/train.txt --dev_file=data/lac/dev.txt --scheme=lac --lang=zh \
        --init_from_ckpt="$name" $([ "$name" = none ] || echo --layers=mix) --epochs=15 --patience=0 --seed=1 \
        --save_dir="$save_dir" --overwrite "$@"
done

echo "== a sentence"
echo 北京大学的学生都在学习英语。 |
    $python run_tag.py predict --model_dir=checkpoints/lac/elmo --output_format=tagged

echo "== data/lac/dev.txt, without ELMo and with it"
for name in baseline elmo; do
    $python run_tag.py evaluate --model_dir="checkpoints/lac/$name" --test_file=data/lac/dev.txt | head -n 1
done
