"""Downloads: resumed where they stopped, checked, with a bar."""

import hashlib
import os
import time
from pathlib import Path

import requests

from elmo_core.messages import UserError, bar, log

TRIES = 5
TIMEOUT = 30  # seconds without an answer or a byte
BLOCK = 1 << 18  # bytes
AS_STORED = {"Accept-Encoding": "identity"}  # ranges count the bytes that are sent


def download(address: str, path: Path, checksum: str = "", size: int | None = None) -> None:
    """Download a file, which appears when it is complete. Until then it is PATH.part.

    A part from an earlier call is resumed. If the connection breaks, it is tried again.
    checksum: the algorithm and the digest to expect, such as "md5:7c2a...". A file with another
    is removed. size: of the complete file in bytes, if known.
    """
    part = path.with_name(f"{path.name}.part")
    if size is not None and _size(part) > size:
        part.unlink()  # of another file
    if size is None or _size(part) < size:
        _complete(address, part)
    if checksum:
        try:
            verify(part, checksum)
        except UserError as error:
            part.unlink()
            raise UserError(f"{error} It has been removed.") from error
    part.replace(path)


def remote_size(address: str) -> int | None:
    """Ask for a file's size in bytes. None: the server does not tell it."""
    try:
        answer = requests.head(address, headers=AS_STORED, allow_redirects=True, timeout=TIMEOUT)
    except requests.RequestException:
        return None
    size = int(answer.headers.get("Content-Length", 0))
    return size if answer.ok and size else None


def verify(path: Path, checksum: str) -> None:
    """Raise unless a file has the checksum, given as in `download`."""
    algorithm, _, expected = checksum.partition(":")
    digest = hashlib.new(algorithm)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    found = digest.hexdigest()
    if found != expected:
        name = path.name.removesuffix(".part")
        raise UserError(f"{name} has the {algorithm.upper()} sum {found}, expected {expected}.")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _complete(address: str, part: Path) -> None:
    """Download what is missing from a part, in several tries if the connection breaks."""
    for attempt in range(1, TRIES + 1):
        try:
            _append_rest(address, part)
            return
        except requests.RequestException as error:
            reason = _reason(error)
            status = 0 if error.response is None else error.response.status_code
        is_unreachable = status == 0 and _size(part) == 0
        is_refused = 400 <= status < 500
        if status == requests.codes.range_not_satisfiable:
            part.unlink(missing_ok=True)  # it is not shorter than the file
        elif is_unreachable or is_refused:
            raise UserError(f"{address}: {reason}.")
        if attempt < TRIES:
            log.warning(f"{reason}. Try {attempt + 1} of {TRIES}.")
            time.sleep(float(os.environ.get("RETRY_SECONDS", "3")))
    raise UserError(f"{address}: {reason}, in {TRIES} tries.")


def _append_rest(address: str, part: Path) -> None:
    """Append to a part what is missing from it, or write all anew if the server cannot resume."""
    headers = dict(AS_STORED)
    start = _size(part)
    if start:
        headers["Range"] = f"bytes={start}-"
    with requests.get(address, headers=headers, stream=True, timeout=TIMEOUT) as answer:
        answer.raise_for_status()
        is_resumed = answer.status_code == requests.codes.partial_content
        if not is_resumed:
            start = 0
        length = answer.headers.get("Content-Length")
        total = start + int(length) if length else None
        if part.name.endswith((".gz.part", ".tgz.part")):
            # Some servers declare the file's own compression, which is not to be undone.
            answer.raw.headers.pop("Content-Encoding", None)
        # otherwise the last block before a break would be lost; the length is checked below
        answer.raw.enforce_content_length = False
        progress = bar(None, shown=True, total=total, initial=start, unit="B", unit_scale=True)
        with progress, part.open("ab" if is_resumed else "wb") as file:
            for block in answer.iter_content(BLOCK):
                file.write(block)
                progress.update(len(block))
        end = start + answer.raw.tell()  # as sent: blocks are longer if the server compresses
    if total is not None and end != total:
        raise requests.ConnectionError(f"the connection broke after {end:,} of {total:,} bytes")


def _reason(error: requests.RequestException) -> str:
    """Say why a request failed, without what the libraries tell each other."""
    if isinstance(error, requests.HTTPError):
        return f"the server answers {error.response.status_code} {error.response.reason}"
    cause = error.args[0] if error.args else error
    return str(getattr(cause, "reason", cause))
