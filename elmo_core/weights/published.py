"""Published models by name, from published.tsv. Some are bundled with the library, in elmo_core/models/.

The others are downloaded, verified, converted and cached in $ELMO_HOME/models (default: the user's cache,
$XDG_CACHE_HOME/elmo or ~/.cache/elmo):

    NAME/          an ordinary model's folder, which appears when it is converted and checked
    NAME.sha256    checksums of the downloaded files, for `sha256sum --check`; later downloads must match
    .NAME.lock     held by the process that downloads
"""

import csv
import difflib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elmo_core.files import disk
from elmo_core.messages import UserError, log
from elmo_core.weights import checkpoint, formats

TABLE = Path(__file__).with_name("published.tsv")
BUNDLED = Path(__file__).resolve().parents[1] / "models"
BLOCK = 1 << 20  # bytes


@dataclass(frozen=True)
class PublishedModel:
    """A row of the table; its fields are the columns."""

    name: str
    format: str
    language: str
    text: str
    tokens: str
    size: str
    licence: str
    source: str
    files: str
    note: str

    def __repr__(self) -> str:
        return f"<{self.name}: {self.description}{', installed' * self.is_installed}>"

    @property
    def description(self) -> str:
        return ", ".join(filter(None, (self.language, self.text, self.size)))

    @property
    def addresses(self) -> list[list[str]]:
        """Return the addresses of each file."""
        return [file.split("|") for file in self.files.split()]

    @property
    def folder(self) -> Path:
        return (BUNDLED if self.format == "bundled" else home()) / self.name

    @property
    def is_installed(self) -> bool:
        return checkpoint.exists(self.folder)

    @property
    def checksums(self) -> Path:
        return home() / f"{self.name}.sha256"


@cache
def table() -> dict[str, PublishedModel]:
    """Return the known models by name."""
    lines = [
        line for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, restval="")
    return {row["name"]: PublishedModel(**row) for row in rows}


def models(language: str | None = None) -> list[PublishedModel]:
    """List the models that have a name, bundled or published. `is_installed` tells which can be loaded without a network.

    language: only those of a language, by name or code, such as "German" or "de".
    """
    words = {model: re.findall(r"\w+", model.language.lower()) for model in table().values()}
    return [
        model
        for model in words
        if {*re.findall(r"\w+", str(language or "").lower())} <= {*words[model]}
    ]


def home() -> Path:
    """Return the folder of the cached models."""
    folder = disk.user_path(os.environ.get("ELMO_HOME") or disk.cache_path())
    if folder.parts[0].startswith("~"):
        raise UserError(
            f"{folder}: there is no such user. Set ELMO_HOME to a folder for published models."
        )
    return folder.absolute() / "models"


def mirrored(address: str) -> str:
    """Replace https://host/path by $ELMO_MIRROR/host/path, if that is set."""
    mirror = os.environ.get("ELMO_MIRROR")
    return f"{mirror.rstrip('/')}/{address.partition('://')[2]}" if mirror else address


def name_of(folder: Path) -> str | None:
    """Return the name of the published model in this resolved folder, if it is one."""
    model = table().get(folder.name)
    return model.name if model and model.folder.resolve() == folder else None


def similar(name: str) -> list[str]:
    return difflib.get_close_matches(name.lower(), table(), n=3, cutoff=0.8)


def install(name: str, files: str | Path | Sequence[str | Path] = ()) -> Path:
    """Install a published model, unless it is installed, and return its folder.

    files: its files, or a folder or archive with them, to use instead of downloads.
    """
    if name not in table():
        hint = (
            f"Did you mean {' or '.join(names)}?"
            if (names := similar(str(name)))
            else "`elmo.models()` lists all."
        )
        raise UserError(f"{name} is not a published model. {hint}")
    model = table()[name]
    local_files = [Path(file) for file in ([files] if isinstance(files, str | Path) else files)]
    if model.is_installed:
        if local_files:
            log.warning(f"{name} is in {model.folder} already: the given files are not read.")
        return model.folder
    # not writable by others: compiled code is cached only in such folders
    home().parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    home().mkdir(exist_ok=True)
    with disk.locked(home() / f".{name}.lock", wait=True):
        if not model.is_installed:  # another process may have installed it meanwhile
            for killed in home().glob(f".{name}.*.tmp"):
                shutil.rmtree(killed, ignore_errors=True)
            with tempfile.TemporaryDirectory(
                prefix=f".{name}.", suffix=".tmp", dir=home()
            ) as folder:
                _install(model, local_files, Path(folder))
    return model.folder


def _install(model: PublishedModel, local_files: list[Path], folder: Path) -> None:
    """Download a model into a temporary folder, unless all its files are given, and convert it."""
    needs_download = all(map(formats.is_vocabulary, local_files))
    if needs_download and (not model.files or (model.format == "fluid" and not local_files)):
        raise UserError(f"{model.name} {model.note}. Pass the file: {_from_files(model)}")
    downloads = _download(model, folder) if needs_download else []
    try:
        files = _joined([*downloads, *local_files], folder)
        config, weights, vocabulary = formats.read_foreign(files, folder, format_name=model.format)
    except UserError as error:
        raise UserError(f"{model.name}: {error}") from error
    checkpoint.save_model(model.folder, config, weights, vocabulary)
    if downloads:
        with disk.atomic_write(model.checksums) as file:
            file.writelines(f"{disk.sha256(path)}  {path.name}\n" for path in downloads)
    log.warning(f"{model.name} ({model.description}) is installed in {model.folder}.")


def _from_files(model: PublishedModel) -> str:
    return f"python convert.py get {model.name} --from FILE ... (in Python: elmo.install({model.name!r}, [FILE, ...]))"


def _joined(files: Sequence[Path], folder: Path) -> list[Path]:
    """Join the parts NAME.part-00, NAME.part-01 ... of a file in the folder."""
    parts = sorted(
        (path for path in files if path.suffix.startswith(".part-")), key=lambda path: path.name
    )
    if not parts:
        return list(files)
    whole = folder / parts[0].stem
    whole.write_bytes(b"".join(part.read_bytes() for part in parts))
    return [*(path for path in files if path not in parts), whole]


def _download(model: PublishedModel, folder: Path) -> list[Path]:
    """Download each file from the first of its addresses that has it, with the checksum of the first download."""
    import pooch  # with requests, only if needed

    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), chunk_size=BLOCK)
    lines = (
        model.checksums.read_text(encoding="utf-8").splitlines()
        if model.checksums.is_file()
        else []
    )
    known = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    paths = []
    for addresses in model.addresses:
        name, reasons = addresses[0].rpartition("/")[2], ""
        for address in map(mirrored, addresses):
            log.warning(f"downloading   {name} from {address}")
            try:
                paths.append(
                    Path(
                        pooch.retrieve(
                            address, known.get(name), name, folder, downloader=downloader
                        )
                    )
                )
                break
            except (
                OSError,
                ValueError,
            ) as error:  # of requests, too, which wraps others; of another checksum
                reasons += (
                    f"\n  {address}: {getattr(error.args and error.args[0], 'reason', error)}"
                )
        else:
            files = "".join(f"\n  {' or '.join(mirrors)}" for mirrors in model.addresses)
            raise UserError(
                f"{model.name} could not be downloaded.{reasons}\nDownload its files in another way:{files}\n"
                f"Then: {_from_files(model)}\nThe environment variable ELMO_MIRROR names a mirror."
            )
    return paths
