#!/bin/sh
# Makes .venv, or another folder, with what a requirements file names; installs nothing when that is
# there already. In .venv it installs this project, too (`pip install --editable`): scripts in any
# folder find the library. Run it again after you move this folder.
# Usage: bash setup.sh [requirements.txt [folder [version of Paddle]]]
# By default it installs the newest Paddle that this project takes.
set -eu
CDPATH= cd "$(dirname "$0")"

requirements=${1:-requirements.txt}
venv=${2:-.venv}
paddle=${3:-}
stamp=$venv/installed-${requirements%.txt}
state() { # what is installed, and for which Python: an upgrade of the system may bring another
    "$venv/bin/python" --version 2>/dev/null
    cat requirements.txt "$requirements"
    echo "$paddle"
}
project_state() { # what an installation of the project depends on
    .venv/bin/python --version
    pwd -P
    cat pyproject.toml setup.py elmo_core/__init__.py
}
install_project() { # without a network: what it needs is there
    if [ "$venv" != .venv ] || [ -L .venv ]; then
        return # the environment of other copies, or of none
    fi
    if [ -f .venv/installed-project ] && [ "$(cat .venv/installed-project)" = "$(project_state)" ]; then
        return
    fi
    if ! .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps \
        --no-build-isolation --editable .; then
        echo "error: this project could not be installed in .venv; pip's message above says why." >&2
        exit 1
    fi
    project_state >.venv/installed-project
}
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(state)" ]; then
    install_project
    exit 0
fi

suits() { "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }
if "$venv/bin/python" -c '' 2>/dev/null; then
    if ! suits "$venv/bin/python"; then
        echo "error: $venv has $("$venv/bin/python" --version), expected 3.10 to 3.13. Remove the folder and try again." >&2
        exit 1
    fi
else
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3 python3.13 python3.12 python3.11 python3.10 python; fi
    for python; do
        if command -v "$python" >/dev/null && suits "$python"; then break; fi
        python=
    done
    if [ -z "$python" ]; then
        echo "error: no Python 3.10 to 3.13 found (tried: $*). Name one: PYTHON=/path/to/python3.11 bash run.sh" >&2
        exit 1
    fi
    if [ -n "$(ls -A "$venv" 2>/dev/null)" ] && [ ! -f "$venv/pyvenv.cfg" ]; then
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
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1 && ! "$venv/bin/python" -m ensurepip >/dev/null 2>&1; then
    echo "error: $venv has no pip, and it cannot be added. Install pip there, or remove $venv." >&2
    exit 1
fi
echo "installing $requirements (a download of about 300 MB, a few minutes)"
set -- -r "$requirements"
gpu=$("$venv/bin/python" -m pip show paddlepaddle-gpu 2>/dev/null | sed -n 's/^Version: //p')
if [ -n "$gpu" ]; then # the CPU build would overwrite it
    grep -hv -e ^paddlepaddle -e ^-r requirements.txt "$requirements" | sort -u >"$venv/packages.txt"
    set -- -r "$venv/packages.txt"
elif [ -n "$paddle" ]; then
    set -- "$@" "paddlepaddle==$paddle"
fi
case ${gpu:-$paddle} in 2.*) set -- "$@" "numpy<2" ;; esac
# pip 21.2 of Python 3.10.0 to 3.10.2 could not install this project
if ! "$venv/bin/python" -m pip install --disable-pip-version-check "pip>=21.3" "$@"; then
    echo "error: the installation failed; pip's message above says why. Check the network or, offline, the wheels (docs/faq.md)." >&2
    exit 1
fi
state >"$stamp"
install_project
