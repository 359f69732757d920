#!/bin/sh
# The main job on the bundled sample: pretrains a tiny ELMo on data/, evaluates it, embeds two sentences, shows what two
# words mean in context, writes interactive pages of all of them.
# Usage: bash run.sh [arguments of run_pretrain.py, whose --help shows them]
# All but --save_dir, which is checkpoints/sample.
set -eu
CDPATH= cd "$(dirname "$0")"
for argument in "$@"; do
    case $argument in
    -h | --h*)
        sed -n '2,/^set /s/^# //p' "${0##*/}"
        exit 0
        ;;
    --save_d*)
        echo "error: run.sh saves in checkpoints/sample. For another folder use run_pretrain.py." >&2
        exit 2
        ;;
    esac
done
sh setup.sh requirements.txt
python=.venv/bin/python
checkpoint=checkpoints/sample

echo "== pretraining on data/train"
$python run_pretrain.py --train_data_path='data/train/*' --dev_data_path='data/dev/*' --vocab_file=data/vocabulary.txt \
    --save_dir="$checkpoint" --overwrite --model_size=tiny --epochs=4 --batch_size=32 --n_negative_samples=0 \
    --optimizer=adam --lr=0.005 --warmup_steps=200 --dropout=0 --eval_freq=500 --log_freq=100 "$@"

echo "== perplexity on data/dev"
$python run_eval.py --dev_data_path='data/dev/*' --init_from_ckpt="$checkpoint/final"

echo "== two sentences"
$python - "$checkpoint/final" <<'PYTHON'
import sys

from elmo import ELMoEmbedder

sentences = [["The", "first", "sentence", "."], ["第二", "句", "。"]]
for sentence, vectors in zip(sentences, ELMoEmbedder(sys.argv[1]).encode(sentences)):
    print(" ".join(sentence), vectors.shape)
PYTHON

echo "== what a word means in context"
$python run_polysemy.py --init_from_ckpt="$checkpoint/final" --corpus='data/dev/*' --senses=data/dev_senses.tsv \
    --word=bank,苹果 --examples=2 --neighbours=1

echo "== the same with the bundled models, for the words of each one's language, as interactive pages for any browser"
awk -F '\t' 'NR == 1 || $4 ~ /[a-z]/' data/dev_senses.tsv >"$checkpoint/senses-en.tsv"
awk -F '\t' 'NR == 1 || $4 !~ /[a-z]/' data/dev_senses.tsv >"$checkpoint/senses-zh.tsv"
for model in en zh; do
    $python run_polysemy.py --init_from_ckpt="$model" --corpus='data/dev/*' --senses="$checkpoint/senses-$model.tsv" \
        --page="$checkpoint/words-$model.html"
done
