#!/bin/sh
# Installs what is needed into .venv, checks the style, runs every test, some files at the same time. With arguments, which
# go through to pytest, one after another.
set -eu
CDPATH= cd "$(dirname "$0")"
sh setup.sh requirements-dev.txt
.venv/bin/ruff check .
.venv/bin/ruff format --check .
[ $# -gt 0 ] || set -- -n auto --maxprocesses=4 --dist=loadfile
exec .venv/bin/python -m pytest "$@"
