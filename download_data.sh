#!/bin/sh
# Fetches the published data sets into the folders that README.md names. `bash download_data.sh --help` tells more.
# Runs in any sh that has `local`, on Linux and macOS; needs tar, gzip, and curl or wget.
set -eu

TRIES=5
directory="$(CDPATH= cd "$(dirname "$0")" && pwd)"
keep_archive=no
staging=""

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

say() { printf '%s\n' "$*"; }

fail() {
    printf 'error: %s\n' "$*" >&2
    return 1
}

clean_up() { [ -z "$staging" ] || rm -rf "$staging"; }
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

has() { command -v "$1" >/dev/null 2>&1; }

# describe NAME: sets folder, url, archive and md5 (empty where none is published).
describe() {
    case "$1" in
    lm1b)
        url="https://paddlenlp.bj.bcebos.com/datasets/1-billion-word.tar.gz"
        folder="1-billion-word"
        md5="${MD5_LM1B:-5f079a9b88ea27585e0539f502ca9327}"
        ;;
    polarity)
        url="https://paddlenlp.bj.bcebos.com/datasets/movie-review/sentence-polarity-dataset-v1.tar.gz"
        folder="sentence-polarity-dataset-v1"
        md5="${MD5_POLARITY:-0464239d7b14b18d941f54a948c6cb26}"
        ;;
    imdb)
        url="https://dataset.bj.bcebos.com/imdb%2FaclImdb_v1.tar.gz"
        folder="aclImdb"
        md5="${MD5_IMDB:-7c2ac02c03563afcf9b574c7e56c153a}"
        ;;
    baike)
        url="https://dureader.gz.bcebos.com/elmo/baike_elmo_checkpoint.tar.gz"
        folder="baike_elmo_checkpoint"
        md5="${MD5_BAIKE:-}"
        ;;
    esac
    archive="${url##*/}"
    archive="${archive##*%2F}"
    if [ -n "${ELMO_DATA_URL:-}" ]; then
        url="${ELMO_DATA_URL%/}/$archive"
    fi
    archive="$directory/$archive"
}

# md5_of FILE
md5_of() {
    if has md5sum; then
        md5sum <"$1" | cut -d ' ' -f 1
    elif has md5; then
        md5 -q "$1"
    else
        openssl md5 <"$1" | sed 's/.* //'
    fi
}

# size_of FILE: bytes; 0 if it is not there
size_of() {
    if [ -f "$1" ]; then wc -c <"$1" | tr -d ' '; else echo 0; fi
}

# remote_size URL: bytes, or nothing if the server does not tell
remote_size() {
    local headers
    if has curl; then
        headers="$(curl --silent --head --location --fail --connect-timeout 10 --max-time 30 "$1")" || return 0
    else
        headers="$(wget --spider --server-response --tries=1 --timeout=10 "$1" 2>&1)" || return 0
    fi
    printf '%s\n' "$headers" | tr -d '\r' | awk 'tolower($1) == "content-length:" { n = $2 } END { if (n > 0) print n }'
}

# free_space DIR: bytes
free_space() { df -Pk "$1" | awk 'NR == 2 { printf "%.0f\n", $4 * 1024 }'; }

human() { awk -v n="$1" 'BEGIN { split("B KB MB GB TB", u); i = 1; while (n >= 1000 && i < 5) { n /= 1000; i++ }
    printf (i == 1 ? "%d %s\n" : "%.1f %s\n"), n, u[i] }'; }

# size_text BYTES, which may be empty
size_text() { if [ -n "$1" ]; then human "$1"; else echo "size unknown (no answer from the server)"; fi; }

# fetch_once URL FILE: resumes FILE. 0 complete, 1 worth another try, 2 hopeless (said why)
fetch_once() {
    local code=0 status="" quiet
    if has curl; then
        [ -t 2 ] && quiet="--progress-bar" || quiet="--silent --show-error"
        status="$(curl $quiet --fail --location --connect-timeout 20 --speed-limit 1 --speed-time 60 \
            --continue-at - --output "$2" --write-out '%{http_code}' "$1")" || code=$?
        case "$code:$status" in
        0:*) return 0 ;;
        22:416 | 33:*)
            say "The server cannot resume this file: starting again." >&2
            rm -f "$2"
            return 1
            ;;
        22:4*) fail "$1: the server answers $status. Is the address still right? ELMO_DATA_URL names a mirror." || return 2 ;;
        22:*) say "The server answers $status." >&2 && return 1 ;;
        23:*) fail "cannot write $2: is the disk full? The part that is here is kept and will be resumed." || return 2 ;;
        3:* | 60:*) fail "$1: curl cannot use this address (curl's error $code)." || return 2 ;;
        *) say "No connection, or it broke, after $(human "$(size_of "$2")")." >&2 && return 1 ;;
        esac
    else
        [ -t 2 ] && quiet="--quiet --show-progress" || quiet="--no-verbose"
        wget $quiet --continue --tries=1 --timeout=60 --output-document="$2" "$1" || code=$?
        case "$code" in
        0) return 0 ;;
        3) fail "cannot write $2: is the disk full? The part that is here is kept and will be resumed." || return 2 ;;
        8) fail "$1: the server refuses. Is the address still right? ELMO_DATA_URL names a mirror." || return 2 ;;
        *) say "No connection, or it broke, after $(human "$(size_of "$2")")." >&2 && return 1 ;;
        esac
    fi
}

# fetch URL FILE SIZE: until FILE is complete; SIZE may be empty
fetch() {
    local try=1 code missing available
    if [ -n "$3" ]; then
        [ "$(size_of "$2")" -le "$3" ] || rm -f "$2" # longer than it should be: of no use
        [ "$(size_of "$2")" -ne "$3" ] || return 0
        missing=$(($3 - $(size_of "$2")))
        available="$(free_space "$directory")"
        if [ "$available" -lt "$missing" ]; then
            fail "$directory has $(human "$available") free, the download needs $(human "$missing")." \
                "Free some space or give another place with --dir." || return 1
        fi
    fi
    while [ "$try" -le "$TRIES" ]; do
        code=0
        fetch_once "$1" "$2" || code=$?
        if [ "$code" -eq 0 ]; then return 0; fi
        if [ "$code" -eq 2 ]; then return 1; fi
        if [ "$try" -lt "$TRIES" ]; then
            say "Try $((try + 1)) of $TRIES." >&2
            sleep "${RETRY_SECONDS:-3}"
        fi
        try=$((try + 1))
    done
    fail "$1 could not be fetched in $TRIES tries. The same command resumes where this one stopped."
}

# verify FILE MD5
verify() {
    local found
    if [ -z "$2" ]; then
        say "No checksum is published for this archive: it is not verified."
        return 0
    fi
    say "Checking the MD5 sum ..."
    found="$(md5_of "$1")"
    if [ "$found" != "$2" ]; then
        case $1 in
        *.part) rm -f "$1" ;;
        *) fail "$1 has the MD5 sum $found, expected $2. Remove it, and run the command again to fetch it anew." || return 1 ;;
        esac
        fail "${1##*/} has the MD5 sum $found, expected $2. It has been removed; run the command again to fetch it anew."
    fi
}

# join_reviews FOLDER: the reviews 0_0.txt, 1_0.txt, ... one a line
join_reviews() {
    local n=0
    while [ -f "$1/${n}_0.txt" ]; do
        printf '%s\n' "$1/${n}_0.txt"
        n=$((n + 1))
    done | LC_ALL=C awk '{ file = $0; while ((getline review < file) > 0) print review; close(file) }'
}

# unpack ARCHIVE FOLDER: the folder appears at once and whole, or not at all
unpack() {
    local content
    say "Unpacking ..."
    staging="$(mktemp -d "$directory/.unpack.XXXXXX")" || return 1
    if ! tar -xzf "$1" -C "$staging"; then
        rm -rf "$staging"
        fail "$1 could not be unpacked: damaged, or the disk is full ($(human "$(free_space "$directory")") free)." \
            "If space is not the reason, remove the archive and run the command again." || return 1
    fi
    find "$staging" -name '*.bin.gz' -type f -exec gzip -d {} + ||
        fail "the vectors could not be unpacked: is the disk full?" || return 1
    content="$staging"
    if [ "$(find "$staging" -mindepth 1 -maxdepth 1 ! -name '._*' | wc -l)" -eq 1 ]; then
        content="$(find "$staging" -mindepth 1 -maxdepth 1 ! -name '._*')"
        [ -d "$content" ] || content="$staging"
    fi
    if [ -d "$content/train/unsup" ]; then
        join_reviews "$content/train/unsup" >"$content/unsup.txt" || fail "$directory: is the disk full?" || return 1
    fi
    chmod 755 "$content"
    mv "$content" "$directory/$2" || return 1
    rm -rf "$staging"
    staging=""
}

# get NAME
get() {
    local url folder archive md5 size
    describe "$1"
    mkdir -p "$directory" || return 1
    if [ -e "$directory/$folder" ]; then
        say "$1: $directory/$folder is there already, skipped."
        return 0
    fi
    if [ ! -f "$archive" ]; then
        size="$(remote_size "$url")"
        say "$1: fetching $url ($(size_text "$size"))"
        fetch "$url" "$archive.part" "$size" || return 1
        verify "$archive.part" "$md5" || return 1
        mv "$archive.part" "$archive"
    else
        verify "$archive" "$md5" || return 1
    fi
    unpack "$archive" "$folder" || return 1
    [ "$keep_archive" = yes ] || rm -f "$archive"
    say "$1: ready in $directory/$folder"
}

# overview: what there is, what is here, and how big the rest is
overview() {
    local name url folder archive md5 state
    usage
    say ""
    for name in lm1b polarity imdb baike; do
        describe "$name"
        if [ -e "$directory/$folder" ]; then
            state="here already: $directory/$folder"
        elif [ -f "$archive.part" ]; then
            state="$(human "$(size_of "$archive.part")") of $(size_text "$(remote_size "$url")") are here"
        else
            state="not here; $url, $(size_text "$(remote_size "$url")")"
        fi
        say "$name: $state"
    done
}

main() {
    local names="" name failed=0
    while [ $# -gt 0 ]; do
        case "$1" in
        -h | --help)
            usage
            return 0
            ;;
        --keep) keep_archive=yes ;;
        --dir=?*) directory="${1#*=}" ;;
        --dir)
            [ $# -ge 2 ] || { usage >&2 && fail "--dir needs a folder." || return 2; }
            [ -n "$2" ] || { usage >&2 && fail "--dir is empty: expected a folder." || return 2; }
            directory="$2"
            shift
            ;;
        lm1b | polarity | imdb | baike) names="$names $1" ;;
        all) names="$names lm1b polarity imdb" ;;
        *)
            usage >&2
            fail "unknown: $1" || return 2
            ;;
        esac
        shift
    done
    has curl || has wget || { fail "neither curl nor wget is installed." || return 1; }
    if [ -z "$names" ]; then
        overview
        return 0
    fi
    for name in $names; do
        get "$name" || failed=1
    done
    return "$failed"
}

main "$@"
