#!/bin/sh
# Fetches the published data sets into folders of this project, with elmo_tools/preprocessing/data_sets.py.
# `bash download_data.sh --help` tells more.
set -eu

project="$(CDPATH= cd "$(dirname "$0")" && pwd)"
directory="$project"
keep_archives=no
names=""

usage() {
    cat <<'TEXT'
usage: bash download_data.sh [--dir DIR] [--keep] [lm1b | polarity | imdb | baike | all] ...

  lm1b      1 Billion Word benchmark                           1-billion-word/
  polarity  sentence polarity v1, with the GoogleNews vectors  sentence-polarity-dataset-v1/
  imdb      film reviews; unsup.txt has those without a rating aclImdb/
  baike     ELMo checkpoint trained on Baidu Baike             baike_elmo_checkpoint/
  all       lm1b, polarity and imdb

Without a name: says what there is, how big it is, and what is here already.
A broken download is resumed by the same command. What is there is skipped; to fetch it anew, remove its folder.

  --dir DIR   where the folders are made (default: the folder of this script)
  --keep      keep the archives after unpacking

environment:
  ELMO_DATA_URL                        a mirror that holds the archives under their own names
  MD5_LM1B, MD5_POLARITY, ...          the checksum to expect, where the mirror's archive differs
  RETRY_SECONDS                        pause before another try (3)
TEXT
}

misused() {
    usage >&2
    echo "error: $1" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case "$1" in
    -h | --help)
        usage
        exit 0
        ;;
    --keep) keep_archives=yes ;;
    --dir=?*) directory="${1#*=}" ;;
    --dir)
        [ $# -ge 2 ] || misused "--dir needs a folder."
        [ -n "$2" ] || misused "--dir is empty: expected a folder."
        directory="$2"
        shift
        ;;
    lm1b | polarity | imdb | baike) names="$names $1" ;;
    all) names="$names lm1b polarity imdb" ;;
    *) misused "unknown: $1" ;;
    esac
    shift
done
if [ -z "$names" ]; then
    usage
    echo
fi

case "$directory" in
/*) ;;
*) directory="$PWD/$directory" ;;
esac
cd "$project"
if [ -x .venv/bin/python ]; then python=.venv/bin/python; else python=python3; fi
if ! command -v "$python" >/dev/null; then
    echo "error: python3 is not installed. Then \`bash setup.sh\` installs what the library needs." >&2
    exit 1
fi
# the folder of -c's modules is the current one
exec "$python" -c '
import sys
from pathlib import Path

try:
    import requests

    import script
    from elmo_tools.preprocessing import data_sets
except Exception as error:  # any of them, in an old Python too
    sys.exit(f"error: {sys.executable}: {error}. `bash setup.sh` installs what the library needs.")


def main():
    directory, keep_archives, *names = sys.argv[1:]
    if not names:
        data_sets.show_all(Path(directory))
    elif not data_sets.fetch_all(names, Path(directory), keep_archives == "yes"):
        sys.exit(1)


script.run(main)
' "$directory" "$keep_archives" $names
