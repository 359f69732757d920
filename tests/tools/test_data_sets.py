"""download_data.sh against a local server: whole, broken, refused, wrong, repeated downloads."""

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from project import PROJECT

SCRIPT = PROJECT / "download_data.sh"
LM1B = "1-billion-word.tar.gz"
POLARITY = "sentence-polarity-dataset-v1.tar.gz"
IMDB = "aclImdb_v1.tar.gz"
BAIKE = "baike_elmo_checkpoint.tar.gz"


def archive(entries: dict[str, bytes]) -> bytes:
    """A .tar.gz with these entries."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in entries.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


# does not shrink: something to break a download in
BALLAST = b"".join(hashlib.md5(str(i).encode()).digest() for i in range(6000))
LM1B_ARCHIVE = archive(
    {"1-billion-word/vocab-15w.txt": b"<S>\n", "1-billion-word/training/part": BALLAST}
)


@pytest.fixture
def server(server):
    server.files[LM1B] = LM1B_ARCHIVE
    return server


def run(server, tmp_path, *names, code=0, shell="sh", **environment):
    """Run the script with output in tmp_path/data, expecting this exit code.

    It expects the checksums of the server's files, unless the environment names others.
    """
    variables = {
        "ELMO_DATA_URL": f"{server.address}/",
        "RETRY_SECONDS": "0",
        "no_proxy": "127.0.0.1",
    }
    for variable, name in (("MD5_LM1B", LM1B), ("MD5_POLARITY", POLARITY), ("MD5_IMDB", IMDB)):
        if name in server.files:
            variables[variable] = hashlib.md5(server.files[name]).hexdigest()
    inherited = {
        name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")
    }
    done = subprocess.run(
        [shell, str(SCRIPT), "--dir", str(tmp_path / "data"), *names],
        env={**inherited, **variables, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def left_over(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "data").iterdir())


@pytest.mark.parametrize(
    "shell", [shell for shell in ("sh", "bash", "dash", "ksh") if shutil.which(shell)]
)
def test_fetches_verifies_and_unpacks(server, tmp_path, shell):
    run(server, tmp_path, "lm1b", shell=shell)
    assert (tmp_path / "data/1-billion-word/training/part").read_bytes() == BALLAST
    assert left_over(tmp_path) == ["1-billion-word"]


def test_resumes_where_the_connection_broke(server, tmp_path):
    server.break_after = [30000, 20000]
    run(server, tmp_path, "lm1b")
    assert [range_header for _, range_header in server.gets] == [
        None,
        "bytes=30000-",
        "bytes=50000-",
    ]
    assert (tmp_path / "data/1-billion-word/training/part").read_bytes() == BALLAST


@pytest.mark.parametrize(
    ("size", "requests"), [(40000, [(LM1B, "bytes=40000-")]), (len(LM1B_ARCHIVE), [])]
)
def test_an_earlier_runs_part_is_resumed_or_complete(server, tmp_path, size, requests):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / f"{LM1B}.part").write_bytes(LM1B_ARCHIVE[:size])
    run(server, tmp_path, "lm1b")
    assert server.gets == requests


def test_gives_up_after_some_tries_and_keeps_the_part(server, tmp_path):
    server.break_after = [1000] * 9
    run(server, tmp_path, "lm1b", code=1)
    assert left_over(tmp_path) == [f"{LM1B}.part"]
    assert (tmp_path / "data" / f"{LM1B}.part").read_bytes() == LM1B_ARCHIVE[:5000]


def test_starts_again_where_the_server_cannot_resume(server, tmp_path):
    server.ranges = False
    server.break_after = [30000]
    run(server, tmp_path, "lm1b")
    assert (tmp_path / "data/1-billion-word/training/part").read_bytes() == BALLAST


def test_wrong_checksum_removes_the_download(server, tmp_path):
    result = run(server, tmp_path, "lm1b", MD5_LM1B="0" * 32, code=1)
    assert "MD5" in result.stderr
    assert left_over(tmp_path) == []
    own = tmp_path / "data/1-billion-word.tar.gz"
    own.write_bytes(b"brought by hand")
    run(server, tmp_path, "lm1b", MD5_LM1B="0" * 32, code=1)
    assert own.exists()


def test_existing_data_is_skipped_without_a_request(server, tmp_path):
    (tmp_path / "data/1-billion-word").mkdir(parents=True)
    run(server, tmp_path, "lm1b")
    assert server.requests == []


def test_not_found(server, tmp_path):
    del server.files[LM1B]
    result = run(server, tmp_path, "lm1b", code=1)
    assert LM1B in result.stderr
    assert "ELMO_DATA_URL" in result.stderr
    assert len(server.gets) == 1
    assert not (tmp_path / "data/1-billion-word").exists()


def test_an_unreachable_server(server, tmp_path):
    result = run(server, tmp_path, "lm1b", ELMO_DATA_URL="http://127.0.0.1:9", code=1)
    assert "127.0.0.1:9" in result.stderr


def test_too_little_space_is_an_error_before_fetching(server, tmp_path):
    server.lies[LM1B] = 10**18
    result = run(server, tmp_path, "lm1b", code=1)
    assert "free" in result.stderr
    assert server.gets == []


def test_a_busy_server_is_asked_again(server, tmp_path):
    server.status = [503]
    run(server, tmp_path, "lm1b")
    assert len(server.gets) == 2


def test_a_part_of_another_file_is_no_beginning(server, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / f"{LM1B}.part").write_bytes(LM1B_ARCHIVE + b"more")
    run(server, tmp_path, "lm1b")
    assert server.gets == [(LM1B, None)]


def test_a_damaged_archive_leaves_no_folder(server, tmp_path):
    server.files[LM1B] = LM1B_ARCHIVE[:-5000]
    run(server, tmp_path, "lm1b", code=1)
    assert left_over(tmp_path) == [LM1B]


def test_vectors_are_unzipped_and_a_flat_archive_gets_its_folder(server, tmp_path):
    vectors = gzip.compress(b"3 2\nbank 1 2\n")
    server.files[POLARITY] = archive(
        {"rt-polarity.pos": b"good .\n", "GoogleNews-vectors-negative300.bin.gz": vectors}
    )
    run(server, tmp_path, "polarity")
    folder = tmp_path / "data/sentence-polarity-dataset-v1"
    assert (folder / "GoogleNews-vectors-negative300.bin").read_bytes() == b"3 2\nbank 1 2\n"
    assert (folder / "rt-polarity.pos").read_bytes() == b"good .\n"


def test_damaged_vectors_are_an_error_and_the_next_set_is_fetched(server, tmp_path):
    vectors = gzip.compress(BALLAST)[:-1000]
    server.files[POLARITY] = archive({"GoogleNews-vectors-negative300.bin.gz": vectors})
    result = run(server, tmp_path, "polarity", "lm1b", code=1)
    assert "GoogleNews-vectors-negative300.bin.gz" in result.stderr
    assert left_over(tmp_path) == ["1-billion-word", POLARITY]


def test_unrated_reviews_become_lines_in_order(server, tmp_path):
    reviews = [f"Film {n}: caf\u00e9.<br />" for n in range(12)]
    entries = {"aclImdb/train/pos/0_9.txt": b"Good."}
    for n, review in enumerate(reviews):
        entries[f"aclImdb/train/unsup/{n}_0.txt"] = review.encode()
    server.files[IMDB] = archive(entries)
    run(server, tmp_path, "imdb")
    lines = (tmp_path / "data/aclImdb/unsup.txt").read_text(encoding="utf-8").splitlines()
    assert lines == reviews
    assert left_over(tmp_path) == ["aclImdb"]


def test_several_sets_one_of_which_fails(server, tmp_path):
    del server.files[LM1B]
    server.files[BAIKE] = archive({"baike_elmo_checkpoint/README": b"x"})
    run(server, tmp_path, "lm1b", "baike", "--keep", code=1)
    assert (tmp_path / "data/baike_elmo_checkpoint/README").exists()
    assert (tmp_path / "data" / BAIKE).exists()


def test_without_the_library_the_error_names_setup(tmp_path):
    """In a clone without .venv; modules beside the script come before those of python3."""
    shutil.copy(SCRIPT, tmp_path)
    (tmp_path / "requests.py").write_text("raise ImportError('none')\n", encoding="utf-8")
    command = ["sh", str(tmp_path / SCRIPT.name), "lm1b"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "bash setup.sh" in result.stderr
    assert "Traceback" not in result.stderr


def test_without_a_name_all_sets_are_listed(server, tmp_path):
    (tmp_path / "data/sentence-polarity-dataset-v1").mkdir(parents=True)
    result = run(server, tmp_path)
    assert re.search(r"lm1b: not here; http\S+, 9\d\.\d KB", result.stdout)
    assert re.search(r"polarity: here already", result.stdout)
    assert re.search(r"baike: not here; http\S+, size unknown", result.stdout)
    assert server.gets == []


@pytest.mark.parametrize("arguments", [["imagenet"], ["--dir"], ["--dir", "", "imdb"]])
def test_wrong_usage(arguments):
    command = ["sh", str(SCRIPT), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert "usage:" in result.stderr
