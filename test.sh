#!/bin/sh
# Installs what is needed into .venv, checks the style, runs every test. Arguments go through to pytest.
set -eu
cd "$(dirname "$0")"
sh setup.sh requirements-dev.txt
.venv/bin/ruff check .
.venv/bin/ruff format --check .
exec .venv/bin/python -m pytest "$@"
