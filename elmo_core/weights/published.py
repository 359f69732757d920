"""Published models by name, from published.tsv.

Some are bundled with the library, in elmo_core/models/. The others are downloaded, verified,
converted and cached in $ELMO_HOME/models (default: the user's cache, $XDG_CACHE_HOME/elmo or
~/.cache/elmo):

    NAME/          an ordinary model's folder, which appears when it is converted and checked
    NAME.sha256    checksums of the downloaded files, for `sha256sum --check`; later downloads must
                   match
    .NAME.lock     held by the process that downloads
"""

import csv
import difflib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elmo_core.command import command_line
from elmo_core.files import disk
from elmo_core.messages import UserError, log
from elmo_core.weights import checkpoint, formats

TABLE = Path(__file__).with_name("published.tsv")
BUNDLED = Path(__file__).resolve().parents[1] / "models"


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
        installed = ", installed" if self.is_installed else ""
        return f"<{self.name}: {self.description}{installed}>"

    @property
    def description(self) -> str:
        parts = [self.language, self.text, self.size]
        return ", ".join(part for part in parts if part)

    @property
    def notice(self) -> str:
        """Return what goes with the weights; the bundled models have cards instead."""
        licence = self.licence or "not stated here: see the source"
        source = self.source or self.addresses[0][0]
        return (
            f"# {self.name}\n\n- {self.description}\n- Source: {source}\n- Licence: {licence}\n"
            "- Changed: converted to this library's format\n"
        )

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
    text = TABLE.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, restval="")
    return {row["name"]: PublishedModel(**row) for row in rows}


def models(language: str | None = None) -> list[PublishedModel]:
    """List the models that have a name, bundled or published.

    Those that can be loaded without a network have `is_installed`.
    language: only those of a language, by name or code, such as "German" or "de".
    """
    wanted = _words(language or "")
    return [model for model in table().values() if wanted <= _words(model.language)]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


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
    """Return the name of the published model in this resolved folder, if it is one.

    A link by that name may lead to a folder of any other.
    """
    for model in table().values():
        if model.folder.resolve() == folder:
            return model.name
    return None


def similar(name: str) -> list[str]:
    return difflib.get_close_matches(name.lower(), table(), n=3, cutoff=0.8)


def install(name: str, files: str | Path | Sequence[str | Path] = ()) -> Path:
    """Install a published model, unless it is installed, and return its folder.

    files: its files, or a folder or archive with them, to use instead of downloads.
    """
    if name not in table():
        names = similar(str(name))
        hint = f"Did you mean {' or '.join(names)}?" if names else "`elmo.models()` lists all."
        raise UserError(f"{name} is not a published model. {hint}")
    model = table()[name]
    if isinstance(files, str | Path):
        files = [files]
    local_files = [Path(file) for file in files]
    if model.is_installed:
        if local_files:
            log.warning(f"{name} is in {model.folder} already: the given files are not read.")
        return model.folder
    # not writable by others: compiled code is cached only in such folders
    home().parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    home().mkdir(exist_ok=True)
    with disk.locked(home() / f".{name}.lock", wait=True):
        if model.is_installed:  # by another process meanwhile
            return model.folder
        for killed in home().glob(f".{name}.*.tmp"):
            shutil.rmtree(killed, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}.", suffix=".tmp", dir=home()) as folder:
            _install(model, local_files, Path(folder))
    return model.folder


def _install(model: PublishedModel, local_files: list[Path], folder: Path) -> None:
    """Download a model into a temporary folder, unless all its files are given, and convert it."""
    needs_download = all(formats.is_vocabulary(path) for path in local_files)
    needs_vocabulary = model.format == "fluid" and not local_files
    if needs_download and (not model.files or needs_vocabulary):
        raise UserError(f"{model.name} {model.note}. Pass the file: {_from_files(model)}")
    downloaded = _download(model, folder) if needs_download else []
    try:
        files = _joined(downloaded + local_files, folder)
        config, weights, vocabulary = formats.read_foreign(files, folder, format_name=model.format)
    except UserError as error:
        raise UserError(f"{model.name}: {error}") from error
    checkpoint.save_model(model.folder, config, weights, vocabulary, notice=model.notice)
    if downloaded:
        with disk.atomic_write(model.checksums) as file:
            file.writelines(f"{disk.sha256(path)}  {path.name}\n" for path in downloaded)
    log.warning(f"{model.name} ({model.description}) is installed in {model.folder}.")


def _from_files(model: PublishedModel) -> str:
    get = command_line(f"convert.py get {model.name} --from FILE ...")
    return f"{get} (in Python: elmo.install({model.name!r}, [FILE, ...]))"


def _joined(files: Sequence[Path], folder: Path) -> list[Path]:
    """Join the parts NAME.part-00, NAME.part-01 ... of a file in the folder."""
    parts = [path for path in files if path.suffix.startswith(".part-")]
    if not parts:
        return list(files)
    parts.sort(key=lambda path: path.name)
    whole = folder / parts[0].stem
    whole.write_bytes(b"".join(part.read_bytes() for part in parts))
    others = [path for path in files if path not in parts]
    return [*others, whole]


def _download(model: PublishedModel, folder: Path) -> list[Path]:
    """Download each file from the first of its addresses that has it.

    A file must have the checksum of the first download.
    """
    known = _known_checksums(model)
    paths = []
    for addresses in model.addresses:
        path = folder / addresses[0].rpartition("/")[2]
        failures = _download_from_any(addresses, path, known.get(path.name, ""))
        if not path.exists():
            reasons = "".join(f"\n  {failure}" for failure in failures)
            files = "".join(f"\n  {' or '.join(mirrors)}" for mirrors in model.addresses)
            raise UserError(
                f"{model.name} could not be downloaded.{reasons}\n"
                f"Download its files in another way:{files}\n"
                f"Then: {_from_files(model)}\n"
                "The environment variable ELMO_MIRROR names a mirror."
            )
        paths.append(path)
    return paths


def _known_checksums(model: PublishedModel) -> dict[str, str]:
    """Return the checksums of a model's files when they were downloaded first, by their names."""
    if not model.checksums.is_file():
        return {}
    checksums = {}
    for line in model.checksums.read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        checksums[name] = f"sha256:{digest}"
    return checksums


def _download_from_any(addresses: Sequence[str], path: Path, checksum: str) -> list[str]:
    """Download a file from the first address that has it. Return the failures of those before."""
    from elmo_core.files import downloads  # `requests` takes a while, and is needed only here

    failures = []
    for address in addresses:
        mirror = mirrored(address)
        log.warning(f"downloading   {path.name} from {mirror}")
        try:
            downloads.download(mirror, path, checksum)
            break
        except (UserError, OSError) as error:
            failures.append(str(error))
            path.with_name(f"{path.name}.part").unlink(missing_ok=True)
    return failures
