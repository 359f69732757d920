#!/bin/sh
# What may differ from machine to machine, tested under the conditions of other machines: one core, no compiler, another
# processor, another locale, another Python, another Paddle. After `bash test.sh`, which runs every test under those of this
# machine.
# Usage: bash tests/everywhere.sh
#        bash tests/everywhere.sh --paddle 2.6.2      (every test, with this version of Paddle)
set -eu
CDPATH= cd "$(dirname "$0")/.."
sh setup.sh requirements-dev.txt
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
python=.venv/bin/python
numerics='elmo token_inputs traced paddle_tools bilm scalar_mix encoder layers answers token_encoders lstmp softmax char_cnn cpu_lstm cpu_softmax cpu_char_cnn optimizer matmul onednn surprisal start_state speller'
tasks=$(ls tests/tasks | sed -n 's/^test_\(.*\)\.py$/\1/p')

# find_python VERSION...: the first of these, on the path or of pyenv; nothing where there is none
find_python() {
    for version; do
        for found in "python$version" "${HOME:-}/.pyenv/versions/$version".*/bin/python; do
            if "$found" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null; then
                echo "$found"
                return
            fi
        done
    done
}

# with_paddle VERSION: its environment, in .venv-paddle-VERSION
with_paddle() {
    found=$(find_python 3.11 3.12 3.10)
    [ -n "$found" ] && PYTHON=$found sh setup.sh requirements-dev.txt ".venv-paddle-$1" "$1"
}

if [ "${1:-}" = --paddle ]; then
    with_paddle "$2" || { echo "error: no environment with Paddle $2 (and a Python from 3.10 to 3.12)" >&2 && exit 1; }
    exec ".venv-paddle-$2/bin/python" -m pytest -n auto --maxprocesses=4 --dist=loadfile
fi

# leg NAME FILES COMMAND...: the tests of these files, by the command, which ends in a Python
leg() {
    name=$1
    files=$(for file in $2; do find tests -name "test_$file.py" | grep . || echo "tests/test_$file.py is missing"; done)
    shift 2
    printf '\n== %s\n' "$name"
    # shellcheck disable=SC2086  # several files
    { "$@" -m pytest -q -r fE --durations=3 -m "not slow" $files && echo ok >"$scratch/ok"; } 2>&1 | tee "$scratch/output"
    # pytest's closing line, such as "1 failed, 20 passed, 3 deselected in 61.23s (0:01:01)"
    closing=$(grep -E '^[0-9]+ (passed|failed|error).* in [0-9.]+s' "$scratch/output" | tail -n 1)
    [ -e "$scratch/ok" ] || closing=${closing:-1 failed: pytest did not come to its end}
    rm -f "$scratch/ok"
    printf '%-28s %s\n' "$name" "$closing" >>"$scratch/table"
}

skip() {
    printf '\n== %s\nskipped: %s\n' "$1" "$2"
    printf '%-28s skipped: %s\n' "$1" "$2" >>"$scratch/table"
}

if taskset -c 0 true 2>/dev/null; then
    leg "one core" "elmo encoder lstmp runtime embed_text" taskset -c 0 $python
else
    skip "one core" "there is no taskset"
fi
leg "no compiler" "$numerics" env CC=/bin/false XDG_CACHE_HOME="$scratch/none" $python

# A processor with AVX2 only: for the compiler, MKL, oneDNN, NumPy's BLAS, and in /proc/cpuinfo.
if unshare -rm true 2>/dev/null && grep -q avx2 /proc/cpuinfo; then
    sed -E 's/ (avx512|amx)[a-z0-9_]*//g' /proc/cpuinfo >"$scratch/cpuinfo"
    printf '#!/bin/sh\nexec cc "$@" -march=haswell -mprefer-vector-width=256\n' >"$scratch/cc"
    chmod +x "$scratch/cc"
    leg "AVX2 only" "$numerics fused gpu_benchmark reader reading_network" env CC="$scratch/cc" XDG_CACHE_HOME="$scratch/cache" \
        MKL_DEBUG_CPU_TYPE=5 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell \
        unshare -rm sh -c 'mount --bind "$1" /proc/cpuinfo && shift && exec "$@"' sh "$scratch/cpuinfo" $python
else
    skip "AVX2 only" "there are no mount namespaces, or there is no /proc/cpuinfo with avx2"
fi
if $python -m pip install --quiet --disable-pip-version-check --target "$scratch/fastapi" fastapi; then
    leg "a service, with FastAPI" serving env PYTHONPATH="$scratch/fastapi" $python
else
    skip "a service, with FastAPI" "pip cannot install fastapi"
fi
leg "LANG=C" "preprocess raw_text tokenise corpus lexicon vocabulary run_eval" env LANG=C LC_ALL=C $python
for version in 3.10 3.13; do
    found=$(find_python $version)
    if [ -n "$found" ]; then
        PYTHON=$found sh setup.sh requirements-dev.txt ".venv-$version"
        leg "Python $version" "house elmo encoder config answers preprocess raw_text tokenise checkpoint" ".venv-$version/bin/python"
    else
        skip "Python $version" "there is none"
    fi
done
for version in 2.6.2 3.0.0; do
    if with_paddle $version; then
        other=.venv-paddle-$version/bin/python
        files="$numerics checkpoint run run_folder progress model schedule meter interruption pretrain forecast"
        [ $version = 3.0.0 ] || files="$files fused ranks embed_text trained_bilm spelling pairs suites regions reading_times networks export_folder tensorflow tensorflow_models other_paddle $tasks"
        leg "Paddle $version" "$files" env ELMO_OTHER_PYTHON=$python $other
    else
        skip "Paddle $version" "there is no Python 3.10 to 3.12"
    fi
done
if [ -e .venv-paddle-2.6.2 ]; then
    leg "files of 2.6.2 in 3.3" other_paddle env ELMO_OTHER_PYTHON=.venv-paddle-2.6.2/bin/python $python
fi

printf '\n== no network\n'
if unshare -rn true 2>/dev/null; then
    closing="1 failed"
    if $python -m pip wheel --disable-pip-version-check --quiet -r requirements.txt -w "$scratch/wheels" &&
        unshare -rn env PYTHON="$PWD/$python" PIP_NO_INDEX=1 PIP_FIND_LINKS="$scratch/wheels" \
            sh setup.sh requirements.txt "$scratch/offline"; then
        closing="1 passed"
    fi
    printf '%-28s %s\n' "no network" "$closing" >>"$scratch/table"
else
    skip "no network" "there are no network namespaces"
fi

printf '\n== mutants\n'
closing="1 failed"
$python tests/mutants/run.py --sample 8 --seed "$(date +%j)" && closing="8 passed"
printf '%-28s %s\n' "mutants" "$closing" >>"$scratch/table"

printf '\n== all\n'
cat "$scratch/table"
awk '{ for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) passed += $(i - 1); if ($i ~ /^(failed|error)/) failed += $(i - 1) } }
    END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 }' "$scratch/table"
