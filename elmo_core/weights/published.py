"""Published models by name, from published.tsv. Some are bundled with the library, in elmo_core/models/.

The others are downloaded, verified, converted and cached in $ELMO_HOME/models (default: the user's cache,
$XDG_CACHE_HOME/elmo or ~/.cache/elmo):

    NAME/          an ordinary checkpoint, which appears when it is converted and checked
    NAME.sha256    checksums of the downloaded files, for `sha256sum --check`; later downloads must match
    .NAME.fetch/   unfinished downloads; .NAME.lock: held by the process that downloads
"""

import csv
import difflib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elmo_core.files import checkpoint
from elmo_core.machine import disk
from elmo_core.machine.messages import UserError, log
from elmo_core.weights import archives, download, formats

TABLE = Path(__file__).with_name("published.tsv")
BUNDLED = Path(__file__).resolve().parents[1] / "models"


@dataclass(frozen=True)
class PublishedModel:
    """A row of the table; its fields are the columns."""

    name: str
    format: str
    language: str
    text: str
    size: str
    licence: str
    expect: str
    files: str
    note: str

    @property
    def addresses(self) -> list[list[str]]:
        """The addresses of each file."""
        return [file.split("|") for file in self.files.split()]

    @property
    def folder(self) -> Path:
        return (BUNDLED if self.is_bundled else home()) / self.name

    @property
    def is_bundled(self) -> bool:
        return self.format == "bundled"

    @property
    def is_installed(self) -> bool:
        return checkpoint.exists(self.prefix)

    @property
    def prefix(self) -> Path:
        return self.folder / checkpoint.FINAL


@cache
def table() -> dict[str, PublishedModel]:
    """The known models by name."""
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, restval="")
    return {row["name"]: PublishedModel(**row) for row in rows}


def home() -> Path:
    """The folder of the cached models."""
    cache_dir = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("ELMO_HOME") or Path(cache_dir, "elmo")).expanduser().absolute() / "models"


def mirrored(address: str) -> str:
    """Replace https://host/path by $ELMO_MIRROR/host/path, if that is set."""
    mirror = os.environ.get("ELMO_MIRROR")
    return f"{mirror.rstrip('/')}/{address.partition('://')[2]}" if mirror else address


def name_of(prefix: Path) -> str | None:
    """The name of the published model with this resolved prefix, if it is one."""
    return next((name for name, model in table().items() if model.prefix.resolve() == prefix), None)


def similar(name: str) -> list[str]:
    return difflib.get_close_matches(name, table(), n=3, cutoff=0.8)


def get(name: str, local_files: Sequence[Path] = ()) -> Path:
    """Return the prefix of a published model's checkpoint. Downloads the model first if it is not installed.

    local_files: its files, or a folder or archive with them, to use instead of downloads.
    """
    if name not in table():
        hint = f"Did you mean {' or '.join(names)}?" if (names := similar(name)) else "`convert.py list` shows all."
        raise UserError(f"{name} is not a published model. {hint}")
    model = table()[name]
    if model.is_bundled or model.is_installed:
        if local_files:
            log.warning(f"{model.folder} already exists. Remove it first to replace it.")
        return model.prefix
    # not writable by others: compiled code is cached only in such folders
    home().parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    home().mkdir(exist_ok=True)
    lock = home() / f".{name}.lock"
    with lock.open("w") as file:
        try:
            disk.lock(file.fileno(), lock)
        except disk.FileLocked:
            log.warning(f"Waiting for another process, which is downloading {name}.")
            disk.lock(file.fileno(), lock, wait=True)
        if not model.is_installed:  # another process may have installed it meanwhile
            _install(model, list(local_files))
    return model.prefix


def _install(model: PublishedModel, local_files: list[Path]) -> None:
    """Download and convert a model."""
    downloads = all(map(formats.is_vocabulary, local_files))
    if model.format == "fluid" and not any(map(formats.is_vocabulary, local_files)):
        raise UserError(f"{model.name} {model.note}. Give it: python convert.py get {model.name} --from FILE ...")
    for killed in home().glob(f".{model.name}.*.tmp"):
        shutil.rmtree(killed, ignore_errors=True)
    folder, first_digests = home() / f".{model.name}.fetch", home() / f"{model.name}.sha256"
    folder.mkdir(exist_ok=True)
    files = [*_download(model, folder), *local_files] if downloads else local_files
    try:
        digests = _digests(first_digests, files)
        config, weights, vocabulary, *_ = formats.read(files, folder, model.format)
        for name, value in (pair.split("=") for pair in model.expect.split()):
            if str(getattr(config, name)) != value:
                raise UserError(f"this is a different model: its {name} is {getattr(config, name)}, expected {value}.")
    except UserError as error:
        if downloads and (not local_files or isinstance(error, archives.DamagedArchive)):
            shutil.rmtree(folder)  # downloading again may help; otherwise the local files may be wrong
        raise UserError(f"{model.name}: {error}") from error
    checkpoint.save_model(model.folder, config, weights, vocabulary)
    with disk.atomic_write(first_digests) as file:
        file.writelines(f"{digest}  {name}\n" for name, digest in digests.items())
    shutil.rmtree(folder)


def _download(model: PublishedModel, folder: Path) -> list[Path]:
    """Download the model's files that are not in the folder yet, and return all of them."""
    description = ", ".join(filter(None, (model.language, model.text, model.size)))
    log.warning(f"Downloading {model.name} ({description}) into {home()}.")
    paths = []
    for addresses in model.addresses:
        path = folder / addresses[0].rpartition("/")[2]
        paths.append(path)
        if not path.exists():
            _download_file(model, addresses, path)
    return paths


def _download_file(model: PublishedModel, addresses: list[str], path: Path) -> None:
    reasons = []
    for address in map(mirrored, addresses):
        try:
            return download.download_file(address, path)
        except download.DownloadFailed as error:
            reasons.append(f"\n  {address}: {error}")
    files = "".join(f"\n  {' or '.join(mirrors)}" for mirrors in model.addresses)
    raise UserError(
        f"{model.name} could not be downloaded.{''.join(reasons)}\nDownload its files in another way:{files}\nThen "
        f"run python convert.py get {model.name} --from FILE ... (To use a mirror, see ELMO_MIRROR in convert.py --help.)"
    )


def _digests(first_digests: Path, files: Sequence[Path]) -> dict[str, str]:
    """SHA-256 of the model's files by name. Raises if they differ from the first download's."""
    digests = {path.name: disk.sha256(path) for path in files if path.is_file()}
    lines = first_digests.read_text(encoding="utf-8").splitlines() if first_digests.is_file() else []
    before = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    if changed := [name for name, digest in digests.items() if before.get(name, digest) != digest]:
        raise UserError(
            f"{changed[0]} differs from the first download (SHA-256 {digests[changed[0]]}, then "
            f"{before[changed[0]]}). If the change is legitimate, remove {first_digests} and try again."
        )
    return {**before, **digests}
