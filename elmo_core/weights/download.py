"""A file over HTTP. What broke off is resumed where it stopped; what cannot be the file is refused.

While it is fetched, `NAME.part` holds what has come, and `NAME.part.source` its address and the server's mark of the file's
state (its ETag or date), without which a later attempt could not know that it goes on with the same file. The proxies of the
environment are used, as urllib does.
"""

import http.client
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError, log

TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 3  # without a byte of progress
MOST_ATTEMPTS = 50
PAUSE = 1.0  # seconds between them
BLOCK = 1 << 20
SPARE = 2  # times the file: it is converted beside what was fetched
BEGINNINGS = {".hdf5": b"\x89HDF", ".zip": b"PK", ".gz": b"\x1f\x8b", ".bz2": b"BZh", ".json": b"{"}
RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class Refused(UserError):
    """Trying this address again is of no use."""


def fetch(address: str, path: Path) -> None:
    """Fetch the file at an address, going on with what an earlier attempt has left. Raises Refused."""
    if not address.startswith(("http://", "https://")):
        raise Refused("this is no address")
    part, failures = path.with_name(f"{path.name}.part"), 0
    for _ in range(MOST_ATTEMPTS):
        before = _size(part)
        try:
            return _attempt(address, path, part)
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"the server answers {error.code} {error.reason}"
            if error.code == 416 and before:
                part.unlink()
                raise Refused(
                    "the server's file is not longer than what has come: it has changed. Try again"
                ) from error
            if error.code < 500 and error.code not in (408, 429):
                raise Refused(reason) from error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
            reason = _why(error)
        failures = 0 if _size(part) > before else failures + 1
        if failures == ATTEMPTS:
            break
        log.info(f"{address}: {reason}. Trying again ...")
        time.sleep(PAUSE)
    come = f". {_megabytes(_size(part))} have come; the same command resumes" if _size(part) else ""
    raise Refused(f"{reason}{come}")


def _attempt(address: str, path: Path, part: Path) -> None:
    """One request, for what is missing."""
    source = part.with_name(f"{part.name}.source")
    noted = source.read_text(encoding="utf-8") if source.is_file() else ""
    known, mark = [*noted.split("\n"), ""][:2]  # a power failure may have left it empty
    received = _size(part) if known == address and mark else 0
    headers = {"User-Agent": "elmo-paddle", "Accept-Encoding": "identity"}
    if received:
        headers |= {"Range": f"bytes={received}-", "If-Range": mark}
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=TIMEOUT) as response:
        received, total = _place(response, received)
        _check_room(part, total - received)
        block = response.read1(BLOCK) if received else _begin(response, path)
        source.write_text(f"{address}\n{_mark(response.headers)}", encoding="utf-8")
        if not received:
            log.warning(f"fetching      {path.name}, {_megabytes(total)}, from {address}")
        with (
            part.open("ab" if received else "wb") as file,
            tqdm(total=total or None, initial=received, unit="B", unit_scale=True, disable=None, leave=False) as bar,
        ):
            while block:
                file.write(block)
                received += len(block)
                bar.update(len(block))
                block = response.read1(BLOCK)
    if received < total or not received:
        raise ConnectionError(f"the connection ended after {received:,} of {total:,} bytes")
    disk.rename(part, path)
    source.unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return f"the server was silent for {TIMEOUT:g} s"
    return f"{getattr(reason, 'strerror', None) or reason or type(error).__name__}"


def _place(response, received: int) -> tuple[int, int]:
    """Where the response begins in the file, and how long the file is (0: the server does not tell)."""
    length = response.headers.get("Content-Length") or "0"
    if response.status == 206:
        found = RANGE.fullmatch(response.headers.get("Content-Range") or "")
        if not received or not found or int(found[1]) != received:
            raise Refused(f"the server sends another part than was asked for ({response.headers.get('Content-Range')})")
        return received, int(found[3])
    if response.status != 200 or not length.isdecimal():
        raise Refused(f"the server answers {response.status} with a length of {length!r}")
    return 0, int(length)


def _mark(headers) -> str:
    """What `If-Range` may be asked with: a strong ETag or else the file's date; empty if there is neither."""
    tag = headers.get("ETag") or ""
    return tag if tag.startswith('"') else headers.get("Last-Modified") or ""


def _begin(response, path: Path) -> bytes:
    """The first bytes, which must be those of such a file."""
    begin, kind = response.read(64), response.headers.get_content_type()
    expected = BEGINNINGS.get(path.suffix, b"")
    if not begin.lstrip().startswith(expected) or (kind == "text/html" and not expected):
        raise Refused(f"it is not a {path.suffix} file but {kind}, beginning with {begin[:30]!r}: a page, or a login?")
    return begin


def _check_room(part: Path, missing: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if SPARE * missing > free:
        raise UserError(
            f"{part.parent}: {_megabytes(missing)} are to be fetched and as much again is needed to convert them, but "
            f"the disk has only {_megabytes(free)} free. Make room, or set ELMO_HOME to a folder elsewhere."
        )


def _megabytes(size: int) -> str:
    if not size:
        return "of unknown size"
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} bytes"
