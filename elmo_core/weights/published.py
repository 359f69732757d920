"""Models by name, those of published.tsv. Some come with this repository, in its folder models/.

The others are fetched, verified, converted and kept in $ELMO_HOME/models (default: the user's cache, $XDG_CACHE_HOME/elmo or
~/.cache/elmo):

    NAME/          a checkpoint like any other, which appears when all is converted and checked
    NAME.sha256    of the files that it was made of, as `sha256sum --check` reads it; later fetches must bring the same
    .NAME.fetch/   what has come of a download; .NAME.lock: who holds it is fetching
"""

import csv
import difflib
import hashlib
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
SHIPPED = "shipped"  # the format of models that come with the repository
REPOSITORY = Path(__file__).resolve().parents[2] / "models"


@dataclass(frozen=True)
class Published:
    """A row of the table."""

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
        """Of each file, where it is to be had."""
        return [file.split("|") for file in self.files.split()]

    @property
    def folder(self) -> Path:
        in_repository = self.format == SHIPPED and checkpoint.exists(REPOSITORY / self.name / checkpoint.FINAL)
        return (REPOSITORY if in_repository else home()) / self.name

    @property
    def is_here(self) -> bool:
        return checkpoint.exists(self.prefix)

    @property
    def prefix(self) -> Path:
        return self.folder / checkpoint.FINAL


@cache
def table() -> dict[str, Published]:
    """The known models by name."""
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, restval="")
    return {row["name"]: Published(**row) for row in rows}


def home() -> Path:
    """Where the models are kept."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("ELMO_HOME") or Path(caches, "elmo")).expanduser().absolute() / "models"


def mirrored(address: str) -> str:
    """https://host/path as it is, or as $ELMO_MIRROR/host/path."""
    mirror = os.environ.get("ELMO_MIRROR")
    return f"{mirror.rstrip('/')}/{address.partition('://')[2]}" if mirror else address


def similar(name: str) -> list[str]:
    return difflib.get_close_matches(name, table(), n=3, cutoff=0.8)


def get(name: str, brought: Sequence[Path] = ()) -> Path:
    """The prefix of a published model's checkpoint, fetched if it is not here.

    brought: its files, or a folder or an archive with them, in place of those that would be fetched.
    """
    if name not in table():
        hint = f"Did you mean {' or '.join(names)}?" if (names := similar(name)) else "convert.py list shows all."
        raise UserError(f"{name}: no published model is known by this name. {hint}")
    model = table()[name]
    if model.is_here:
        if brought:
            log.warning(f"{model.folder} is here already. To make it anew from --from, remove it first.")
        return model.prefix
    if model.format == SHIPPED:
        raise UserError(
            f"{name} is not here. It comes with those versions of the repository that have a folder models/{name}; `pip "
            f"install` leaves it out. Copy this folder to {model.folder}, or give its path."
        )
    home().parent.mkdir(mode=0o755, parents=True, exist_ok=True)  # where others can write, no compiled code is kept
    home().mkdir(exist_ok=True)
    lock = home() / f".{name}.lock"
    with lock.open("w") as file:
        try:
            disk.lock(file.fileno(), lock)
        except disk.FileLocked:
            log.warning(f"{name} is being fetched by another process: waiting for it.")
            disk.lock(file.fileno(), lock, wait=True)
        if not model.is_here:  # or else another process has just fetched it
            _make(model, list(brought))
    return model.prefix


def _make(model: Published, brought: list[Path]) -> None:
    """Fetch and convert a model."""
    is_fetched = all(map(formats.is_vocabulary, brought))
    if model.format == "fluid" and not any(map(formats.is_vocabulary, brought)):
        raise UserError(f"{model.name} {model.note}. Bring it, alone or with the rest, by --from FILE.")
    for killed in home().glob(f".{model.name}.*.tmp"):
        shutil.rmtree(killed, ignore_errors=True)
    fetched, first_digests = home() / f".{model.name}.fetch", home() / f"{model.name}.sha256"
    fetched.mkdir(exist_ok=True)
    files = [*_fetch(model, fetched), *brought] if is_fetched else brought
    try:
        digests = _digests(first_digests, files)
        config, weights, vocabulary = formats.read(model.format, files, fetched)
        for name, value in (pair.split("=") for pair in model.expect.split()):
            if str(getattr(config, name)) != value:
                raise UserError(f"this is another model: its {name} is {getattr(config, name)}, expected {value}.")
    except UserError as error:
        if is_fetched and (not brought or isinstance(error, archives.Damaged)):
            shutil.rmtree(fetched)  # fetching it again may help; otherwise what was brought may be wrong
        raise UserError(f"{model.name}: {error}") from error
    checkpoint.save_model(model.folder, config, weights, vocabulary)
    with disk.atomic_write(first_digests) as file:
        file.writelines(f"{digest}  {name}\n" for name, digest in digests.items())
    shutil.rmtree(fetched)


def _fetch(model: Published, folder: Path) -> list[Path]:
    """The model's files, those fetched that are not in the folder yet."""
    about = ", ".join(filter(None, (model.language, model.text, model.size)))
    log.warning(f"{model.name} ({about}) is fetched into {home()}.")
    paths = []
    for addresses in model.addresses:
        path = folder / addresses[0].rpartition("/")[2]
        paths.append(path)
        if not path.exists():
            _fetch_one(model, addresses, path)
    return paths


def _fetch_one(model: Published, addresses: list[str], path: Path) -> None:
    reasons = []
    for address in map(mirrored, addresses):
        try:
            return download.fetch(address, path)
        except download.Refused as error:
            reasons.append(f"\n  {address}: {error}")
    files = "".join(f"\n  {' or '.join(mirrors)}" for mirrors in model.addresses)
    raise UserError(
        f"{model.name} could not be fetched.{''.join(reasons)}\nDownload its files in another way:{files}\nThen: "
        f"python convert.py get {model.name} --from FILE ... (ELMO_MIRROR names a mirror, see convert.py --help.)"
    )


def _digests(known: Path, files: Sequence[Path]) -> dict[str, str]:
    """SHA-256 of the model's files by their names; compared with those `known`, of the first fetch."""
    digests = {}
    for path in filter(Path.is_file, files):
        with path.open("rb") as file:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
        digests[path.name] = digest.hexdigest()
    lines = known.read_text(encoding="utf-8").splitlines() if known.is_file() else []
    before = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    if changed := [name for name, digest in digests.items() if before.get(name, digest) != digest]:
        raise UserError(
            f"{changed[0]} is not the file that was fetched first (SHA-256 {digests[changed[0]]}, then "
            f"{before[changed[0]]}). If it may have changed, remove {known} and try again."
        )
    return {**before, **digests}
