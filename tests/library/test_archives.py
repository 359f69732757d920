"""Archives of others: unpacked in a temporary folder, and nothing is written outside of it."""

import io
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from elmo_core.files.archives import unpacked
from elmo_core.messages import UserError


@pytest.mark.parametrize("kind", ["zip", "tar", "gztar", "bztar"])
def test_an_archive_is_unpacked_for_a_while(tmp_path, kind):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "options.json").write_text("{}", encoding="utf-8")
    archive = shutil.make_archive(str(tmp_path / "elmo"), kind, tmp_path / "model")
    (tmp_path / "work").mkdir()
    with unpacked(tmp_path / archive, tmp_path / "work") as folder:
        assert folder.parent == tmp_path / "work"
        assert (folder / "options.json").read_text(encoding="utf-8") == "{}"
    assert list((tmp_path / "work").iterdir()) == []


def test_any_other_file_is_itself(tmp_path):
    path = tmp_path / "weights.hdf5"
    path.write_bytes(b"\x89HDF")
    with unpacked(path, tmp_path) as found:
        assert found == path


def test_nothing_is_written_outside(tmp_path):
    """A tar whose entry leads out of the folder is damage; a zip's stays inside."""
    (tmp_path / "work").mkdir()
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        member = tarfile.TarInfo("../../evil")
        member.size = 1
        tar.addfile(member, io.BytesIO(b"x"))
    with (
        pytest.raises(UserError, match=r"evil\.tar"),
        unpacked(tmp_path / "evil.tar", tmp_path / "work"),
    ):
        pass
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("../../evil", "x")
    with unpacked(tmp_path / "evil.zip", tmp_path / "work"):
        assert not (tmp_path / "evil").exists()
    assert not (tmp_path.parent / "evil").exists()
    assert list((tmp_path / "work").iterdir()) == []


def test_a_truncated_archive_is_an_error_that_names_it(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(bytes(100_000))
    archive = shutil.make_archive(str(tmp_path / "elmo"), "tar", tmp_path / "model")
    with Path(archive).open("r+b") as file:
        file.truncate(50_000)
    with pytest.raises(UserError, match=r"elmo\.tar"), unpacked(tmp_path / archive, tmp_path):
        pass
