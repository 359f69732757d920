"""Downloads: a file is there when it is complete; a part is resumed; checksums are compared."""

import gzip
import hashlib
from pathlib import Path

import pytest

from elmo_core.files import downloads
from elmo_core.messages import UserError

CONTENT = bytes(range(256)) * 400
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


@pytest.fixture
def address(server, monkeypatch):
    monkeypatch.setenv("RETRY_SECONDS", "0")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server.files["weights.bin"] = CONTENT
    return f"{server.address}/weights.bin"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_download_is_complete_and_checked(address, tmp_path):
    downloads.download(address, tmp_path / "weights.bin", SHA256)
    assert (tmp_path / "weights.bin").read_bytes() == CONTENT
    assert names(tmp_path) == ["weights.bin"]


def test_a_broken_download_leaves_a_part_which_the_next_call_resumes(server, address, tmp_path):
    server.break_after = [20_000] * downloads.TRIES
    with pytest.raises(UserError, match=r"weights\.bin"):
        downloads.download(address, tmp_path / "weights.bin", SHA256)
    assert names(tmp_path) == ["weights.bin.part"]
    server.requests.clear()
    downloads.download(address, tmp_path / "weights.bin", SHA256)
    assert server.gets == [("weights.bin", "bytes=100000-")]
    assert (tmp_path / "weights.bin").read_bytes() == CONTENT


def test_a_file_with_another_checksum_is_removed(address, tmp_path):
    with pytest.raises(UserError, match="SHA256"):
        downloads.download(address, tmp_path / "weights.bin", f"sha256:{'0' * 64}")
    assert names(tmp_path) == []


def test_a_complete_part_is_not_asked_for(server, address, tmp_path):
    (tmp_path / "weights.bin.part").write_bytes(CONTENT)
    downloads.download(address, tmp_path / "weights.bin", SHA256, size=len(CONTENT))
    assert server.gets == []
    assert (tmp_path / "weights.bin").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "is_undone"), [("words.txt.gz", False), ("words.tgz", False), ("words.txt", True)]
)
def test_a_files_own_compression_stays(server, address, tmp_path, name, is_undone):
    """Some servers declare it as the encoding of what they send."""
    compressed = gzip.compress(CONTENT)
    server.files[name] = compressed
    server.encodings[name] = "gzip"
    downloads.download(f"{server.address}/{name}", tmp_path / name)
    assert (tmp_path / name).read_bytes() == (CONTENT if is_undone else compressed)


def test_the_size_of_a_remote_file(server, address):
    assert downloads.remote_size(address) == len(CONTENT)
    assert downloads.remote_size(f"{server.address}/nothing") is None
    assert downloads.remote_size("http://127.0.0.1:9/x") is None
