"""download_data.sh against a local server, under every sh: whole, broken, refused, wrong and repeated downloads."""

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
TOOLS = [tool for tool in ("curl", "wget") if shutil.which(tool)]
SUMS = [tool for tool in ("md5sum", "md5", "openssl") if shutil.which(tool)]
pytestmark = pytest.mark.skipif(not TOOLS, reason="needs curl or wget")
LM1B, POLARITY, BAIKE = (
    "1-billion-word.tar.gz",
    "sentence-polarity-dataset-v1.tar.gz",
    "baike_elmo_checkpoint.tar.gz",
)
IMDB = "aclImdb_v1.tar.gz"


def archive(entries: dict[str, bytes]) -> bytes:
    """A .tar.gz that does not shrink: the entries, and incompressible ballast to break a download in."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in entries.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


BALLAST = b"".join(hashlib.md5(str(i).encode()).digest() for i in range(6000))
LM1B_ARCHIVE = archive(
    {"1-billion-word/vocab-15w.txt": b"<S>\n", "1-billion-word/training/part": BALLAST}
)


@pytest.fixture
def server(server):
    server.files[LM1B] = LM1B_ARCHIVE
    return server


def run(server, tmp_path, *names, code=0, tool=None, path=None, shell="sh", **environment):
    """Run the script with output in tmp_path/data, expecting this exit code and the checksums of the server's files."""
    variables = {
        "ELMO_DATA_URL": f"{server.address}/",
        "RETRY_SECONDS": "0",
        "PATH": path or (path_with_only(tmp_path, tool, *SUMS) if tool else os.environ["PATH"]),
        "no_proxy": "127.0.0.1",
        **environment,
    }
    for variable, name in (("MD5_LM1B", LM1B), ("MD5_POLARITY", POLARITY), ("MD5_IMDB", IMDB)):
        if name in server.files:
            variables.setdefault(variable, hashlib.md5(server.files[name]).hexdigest())
    command = [shell, str(SCRIPT), "--dir", str(tmp_path / "data"), *names]
    inherited = {
        name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")
    }
    done = subprocess.run(
        command, env=inherited | variables, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, done.stderr
    return done


def path_with_only(tmp_path: Path, *tools: str) -> str:
    """A PATH with nothing but what the script says it needs, and the tools named."""
    needed = re.findall(
        r"\w+", "awk cat chmod cut df dirname find gzip mkdir mktemp mv rm sed sh sleep tar tr wc"
    )
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in (*needed, *tools):
        (folder / tool).symlink_to(shutil.which(tool))
    return str(folder)


def left_over(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "data").iterdir())


@pytest.mark.parametrize(
    "shell", [shell for shell in ("sh", "bash", "dash", "ksh") if shutil.which(shell)]
)
@pytest.mark.parametrize("tool", TOOLS)
def test_fetches_verifies_and_unpacks(server, tmp_path, tool, shell):
    run(server, tmp_path, "lm1b", tool=tool, shell=shutil.which(shell))
    assert (tmp_path / "data/1-billion-word/training/part").read_bytes() == BALLAST
    assert left_over(tmp_path) == ["1-billion-word"]


@pytest.mark.parametrize("tool", TOOLS)
def test_resumes_where_the_connection_broke(server, tmp_path, tool):
    server.break_after = [30000, 20000]
    run(server, tmp_path, "lm1b", tool=tool)
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


@pytest.mark.skipif("curl" not in TOOLS, reason="needs curl")
def test_starts_again_where_the_server_cannot_resume(server, tmp_path):
    server.ranges = False
    server.break_after = [30000]
    run(server, tmp_path, "lm1b", tool="curl")
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


@pytest.mark.parametrize("tool", TOOLS)
def test_not_found(server, tmp_path, tool):
    del server.files[LM1B]
    result = run(server, tmp_path, "lm1b", tool=tool, code=1)
    assert LM1B in result.stderr
    assert "ELMO_DATA_URL" in result.stderr
    assert len(server.gets) == 1
    assert not (tmp_path / "data/1-billion-word").exists()


def test_an_unreachable_server(server, tmp_path):
    result = run(server, tmp_path, "lm1b", ELMO_DATA_URL="http://127.0.0.1:9", code=1)
    assert "127.0.0.1:9" in result.stderr


def test_too_little_space_is_an_error_before_fetching(server, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    df = folder / "df"
    df.write_text("#!/bin/sh\necho header\necho /dev/x 100 90 10 90% /\n", encoding="utf-8")
    df.chmod(0o755)
    result = run(server, tmp_path, "lm1b", path=f"{folder}:{os.environ['PATH']}", code=1)
    assert "free" in result.stderr
    assert server.gets == []


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


def test_unrated_reviews_become_lines_in_order(server, tmp_path):
    reviews = {
        f"aclImdb/train/unsup/{n}_0.txt": f"Film {n}: caf\u00e9.<br />".encode() for n in range(12)
    }
    server.files[IMDB] = archive({**reviews, "aclImdb/train/pos/0_9.txt": b"Good."})
    run(server, tmp_path, "imdb")
    lines = (tmp_path / "data/aclImdb/unsup.txt").read_text(encoding="utf-8").splitlines()
    assert lines == [f"Film {n}: caf\u00e9.<br />" for n in range(12)]
    assert left_over(tmp_path) == ["aclImdb"]


def test_several_sets_one_of_which_fails(server, tmp_path):
    del server.files[LM1B]
    server.files[BAIKE] = archive({"baike_elmo_checkpoint/README": b"x"})
    run(server, tmp_path, "lm1b", "baike", "--keep", code=1)
    assert (tmp_path / "data/baike_elmo_checkpoint/README").exists()
    assert (tmp_path / "data" / BAIKE).exists()


@pytest.mark.skipif(not shutil.which("md5sum"), reason="needs md5sum to stand in for md5")
def test_macos_checksum_tool(server, tmp_path):
    folder = path_with_only(tmp_path, TOOLS[0])
    md5 = Path(folder) / "md5"
    md5.write_text(
        f'#!/bin/sh\n[ "$1" = -q ] && {shutil.which("md5sum")} "$2" | cut -d " " -f 1\n',
        encoding="utf-8",
    )
    md5.chmod(0o755)
    run(server, tmp_path, "lm1b", path=folder)
    run(server, tmp_path / "other", "lm1b", path=folder, MD5_LM1B="1" * 32, code=1)


def test_without_a_name_all_sets_are_listed(server, tmp_path):
    (tmp_path / "data/sentence-polarity-dataset-v1").mkdir(parents=True)
    result = run(server, tmp_path)
    assert re.search(r"lm1b: not here; http\S+, 9\d\.\d KB", result.stdout)
    assert re.search(r"polarity: here already", result.stdout)
    assert re.search(r"baike: not here; http\S+, size unknown", result.stdout)
    assert server.gets == []


@pytest.mark.parametrize("arguments", [["imagenet"], ["--dir"], ["--dir", "", "imdb"]])
def test_wrong_usage(server, tmp_path, arguments):
    result = subprocess.run(
        ["sh", str(SCRIPT), *arguments], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 2
    assert "usage:" in result.stderr
