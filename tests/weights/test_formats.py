"""Formats of other projects, recognised by the names of their files; archives."""

import io
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
import runs
from converting import WORD, refused
from foreign import (
    options_of,
    write_bilm,
)

import convert
from elmo_core.messages import UserError
from elmo_core.weights import checkpoint, formats


def test_files_are_recognised_by_their_names(tmp_path):
    folder = tmp_path / "in"
    write_bilm(folder, options_of({}, WORD))
    (folder / "__MACOSX").mkdir()
    (folder / "__MACOSX" / "._options.json").touch()  # in archives of macOS
    options = str(folder / "options.json")
    weights = str(folder / "weights.hdf5")
    words = str(folder / "vocab.txt")
    shutil.copy(words, tmp_path / "mine")
    ways = {
        "files": [weights, words, options],
        "folder": [str(folder)],
        "folder, other words": [str(folder), f"--vocab={tmp_path / 'mine'}"],
    }
    for way, argv in ways.items():
        convert.main(["import", *argv, f"--output={tmp_path / way}"])
        runs.assert_same(tmp_path / "files", tmp_path / way, checkpoint.load_params)
    flags = ["import", options, f"--output={tmp_path / 'out'}"]
    refused(flags, r"options\.json.*\.hdf5", tmp_path)


def zipped(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


def tar_of(name: str, kind: bytes, link: str = "") -> bytes:
    """A tar with one member."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.type = kind
        info.linkname = link
        archive.addfile(info)
    return target.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        zipped({"../outside": b"x"}),
        zipped({"/tmp/outside": b"x"}),
        tar_of("../outside", tarfile.REGTYPE),
        tar_of("/tmp/outside", tarfile.REGTYPE),
        tar_of("link", tarfile.SYMTYPE, "/etc/passwd"),
        tar_of("link", tarfile.LNKTYPE, "/etc/passwd"),
        tar_of("pipe", tarfile.FIFOTYPE),
        tar_of("a", tarfile.REGTYPE)[:-20],
        zipped({"a": bytes(range(256)) * 99})[:-2],
    ],
    ids=[
        "up",
        "root",
        "tar up",
        "tar root",
        "symbolic link",
        "hard link",
        "pipe",
        "cut tar",
        "cut",
    ],  # not their dates
)
def test_an_archive_writes_only_into_its_folder(content, tmp_path):
    (tmp_path / "archive").write_bytes(content)
    with pytest.raises(UserError, match=r"archive|No model"):
        formats.read_foreign([tmp_path / "archive"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["archive"] and not Path(
        "/tmp/outside"
    ).exists()
