#!/bin/sh
# Makes .venv, or another folder, with what a requirements file names; does nothing when that is there already.
# Usage: bash setup.sh requirements.txt [folder]
set -eu
cd "$(dirname "$0")"

requirements=$1
venv=${2:-.venv}
wanted=$(cat requirements.txt "$requirements")
stamp=$venv/installed-${requirements%.txt}
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

suits() { "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    for python in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10 python}; do
        if command -v "$python" >/dev/null && suits "$python"; then break; fi
        python=
    done
    if [ -z "$python" ]; then
        echo "error: no Python 3.10 to 3.13 found. Install one, or name it: PYTHON=/path/to/python3.11 bash run.sh" >&2
        exit 1
    fi
    if [ -e "$venv" ] && [ ! -f "$venv/pyvenv.cfg" ]; then
        echo "error: $venv is there and is no virtual environment. Remove it, or name another folder." >&2
        exit 1
    fi
    echo "making $venv with $("$python" --version)"
    rm -rf "$venv"
    if ! "$python" -m venv "$venv"; then
        rm -rf "$venv"
        echo "error: $python cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 1
    fi
fi
echo "installing $requirements (about 300 MB, a few minutes)"
packages=$requirements
if "$venv/bin/python" -m pip show --quiet paddlepaddle-gpu >/dev/null 2>&1; then # the CPU build would overwrite it
    packages=$venv/packages.txt
    grep -hv -e ^paddlepaddle -e ^-r requirements.txt "$requirements" | sort -u >"$packages"
fi
if ! "$venv/bin/python" -m pip install --disable-pip-version-check --quiet -r "$packages"; then
    echo "error: the installation failed; pip's message above says why. Check the network, then run the command again." >&2
    exit 1
fi
printf '%s\n' "$wanted" >"$stamp"
