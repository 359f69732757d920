"""The published data sets, which `bash download_data.sh` fetches into folders of this project."""

import errno
import gzip
import itertools
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from elmo_core.files import archives, disk, downloads
from elmo_core.files.foreign_files import damage_named
from elmo_core.messages import UserError, log


@dataclass(frozen=True)
class DataSet:
    """An archive and the folder that it becomes. md5: empty if none is published."""

    name: str
    source: str
    folder: str
    md5: str

    @property
    def archive(self) -> str:
        return unquote(self.source).rpartition("/")[2]

    @property
    def address(self) -> str:
        """Where to download it: at the mirror in ELMO_DATA_URL, or where it is published."""
        mirror = os.environ.get("ELMO_DATA_URL")
        return f"{mirror.rstrip('/')}/{self.archive}" if mirror else self.source

    @property
    def checksum(self) -> str:
        """The MD5 sum as `downloads.verify` takes it. A mirror's archive may have another."""
        md5 = os.environ.get(f"MD5_{self.name.upper()}") or self.md5
        return f"md5:{md5}" if md5 else ""


PADDLENLP = "https://paddlenlp.bj.bcebos.com/datasets"
DATA_SETS = [
    DataSet(
        name="lm1b",
        source=f"{PADDLENLP}/1-billion-word.tar.gz",
        folder="1-billion-word",
        md5="5f079a9b88ea27585e0539f502ca9327",
    ),
    DataSet(
        name="polarity",
        source=f"{PADDLENLP}/movie-review/sentence-polarity-dataset-v1.tar.gz",
        folder="sentence-polarity-dataset-v1",
        md5="0464239d7b14b18d941f54a948c6cb26",
    ),
    DataSet(
        name="imdb",
        source="https://dataset.bj.bcebos.com/imdb%2FaclImdb_v1.tar.gz",
        folder="aclImdb",
        md5="7c2ac02c03563afcf9b574c7e56c153a",
    ),
    DataSet(
        name="baike",
        source="https://dureader.gz.bcebos.com/elmo/baike_elmo_checkpoint.tar.gz",
        folder="baike_elmo_checkpoint",
        md5="",
    ),
]


def fetch_all(names: Sequence[str], directory: Path, keeps_archives: bool) -> bool:
    """Fetch data sets into folders of the directory. Tell whether all of them are there.

    If one fails, the message says why, and the next is fetched.
    """
    data_sets = {data_set.name: data_set for data_set in DATA_SETS}
    directory.mkdir(parents=True, exist_ok=True)
    n_failed = 0
    for name in names:
        try:
            fetch(data_sets[name], directory, keeps_archives)
        except (UserError, OSError) as error:
            print(f"error: {name}: {_advised(error, directory)}", file=sys.stderr)
            n_failed += 1
    return n_failed == 0


def fetch(data_set: DataSet, directory: Path, keeps_archive: bool) -> None:
    """Fetch a data set, unless its folder is there. An archive that is there is not fetched."""
    folder = directory / data_set.folder
    archive = directory / data_set.archive
    if folder.exists():
        print(f"{data_set.name}: {folder} is there already, skipped.", flush=True)
        return
    if not data_set.checksum:
        log.warning("No checksum is published for this archive: it is not verified.")
    if archive.is_file():
        _verify(archive, data_set.checksum)
    else:
        _download(data_set, archive)
    print("Unpacking ...", flush=True)
    _unpack(archive, folder)
    if not keeps_archive:
        archive.unlink()
    print(f"{data_set.name}: ready in {folder}", flush=True)


def show_all(directory: Path) -> None:
    """Say which data sets are here already, and how big the others are."""
    for data_set in DATA_SETS:
        print(f"{data_set.name}: {_state(data_set, directory)}", flush=True)


def _state(data_set: DataSet, directory: Path) -> str:
    folder = directory / data_set.folder
    if folder.exists():
        return f"here already: {folder}"
    size = _format_remote_size(downloads.remote_size(data_set.address))
    part = directory / f"{data_set.archive}.part"
    if part.exists():
        return f"{_format_size(part.stat().st_size)} of {size} are here"
    return f"not here; {data_set.address}, {size}"


def _advised(error: Exception, directory: Path) -> str:
    """Describe an error, and what to do if the disk is full."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return str(error)
    free = _format_size(shutil.disk_usage(directory).free)
    return (
        f"the disk is full: {free} are free in {directory}. Free some space. "
        "The same command resumes where this one stopped."
    )


def _verify(archive: Path, checksum: str) -> None:
    """Check an archive that was there, and perhaps is the user's."""
    if checksum:
        print("Checking the MD5 sum ...", flush=True)
        try:
            downloads.verify(archive, checksum)
        except UserError as error:
            raise UserError(
                f"{error} Remove {archive}, and run the command again to fetch it anew."
            ) from error


def _download(data_set: DataSet, archive: Path) -> None:
    """Download an archive, if there is space for what is missing from it."""
    address = data_set.address
    size = downloads.remote_size(address)
    print(f"{data_set.name}: fetching {address} ({_format_remote_size(size)})", flush=True)
    part = archive.with_name(f"{archive.name}.part")
    missing = (size or 0) - (part.stat().st_size if part.exists() else 0)
    free = shutil.disk_usage(archive.parent).free
    if free < missing:
        raise UserError(
            f"{archive.parent} has {_format_size(free)} free, the download needs "
            f"{_format_size(missing)}. Free some space or give another place with --dir."
        )
    try:
        downloads.download(address, archive, data_set.checksum, size)
    except UserError as error:
        advice = "Run the same command again, which resumes, or name a mirror in ELMO_DATA_URL."
        raise UserError(f"{error} {advice}") from error


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive as a folder, which appears when it is complete."""
    try:
        with archives.unpacked(archive, folder.parent) as temporary:
            if not temporary.is_dir():
                raise UserError(f"{archive} is not an archive.")
            content = _content(temporary, folder.name)
            for compressed in list(content.rglob("*.bin.gz")):
                with damage_named(compressed.name):
                    _decompress(compressed)
            if (content / "train" / "unsup").is_dir():
                _join_reviews(content / "train" / "unsup", content / "unsup.txt")
            disk.rename(content, folder)
    except UserError as error:
        raise UserError(f"{error} Remove {archive}, and run the command again.") from error


def _content(temporary: Path, name: str) -> Path:
    """Return the only folder of an unpacked archive, or a new one with all its files."""
    entries = [path for path in temporary.iterdir() if not path.name.startswith("._")]  # of macOS
    if len(entries) == 1 and entries[0].is_dir():
        return entries[0]
    content = temporary / name
    content.mkdir()
    for path in entries:
        path.rename(content / path.name)
    return content


def _decompress(path: Path) -> None:
    """Replace NAME.gz by NAME."""
    with gzip.open(path, "rb") as source, path.with_suffix("").open("wb") as target:
        shutil.copyfileobj(source, target)
    path.unlink()


def _join_reviews(reviews: Path, path: Path) -> None:
    """Write the reviews 0_0.txt, 1_0.txt ... of a folder to a file, one a line."""
    with path.open("wb") as file:
        for number in itertools.count():
            review = reviews / f"{number}_0.txt"
            if not review.is_file():
                return
            file.write(review.read_bytes().removesuffix(b"\n") + b"\n")


def _format_size(n_bytes: int) -> str:
    if n_bytes < 1000:
        return f"{n_bytes} B"
    size = n_bytes / 1000
    for unit in ("KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _format_remote_size(size: int | None) -> str:
    return "size unknown (no answer from the server)" if size is None else _format_size(size)
