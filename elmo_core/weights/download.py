"""Download files over HTTP, resuming interrupted downloads.

During a download, `NAME.part` contains the data so far, and `NAME.part.source` the address and the server's validator of
the file (ETag or date), so that a later attempt can check that it resumes the same file. Proxies are taken from the
environment, by urllib.
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

from elmo_core.files import disk
from elmo_core.messages import UserError, log

TIMEOUT = 30.0  # seconds without data
ATTEMPTS = 3  # in a row without progress
MOST_ATTEMPTS = 50
PAUSE = 1.0  # seconds between attempts
BLOCK = 1 << 20
SPACE_FACTOR = 2  # disk space per byte: for the download and the converted model
MAGIC_BYTES = {".hdf5": b"\x89HDF", ".zip": b"PK", ".gz": b"\x1f\x8b", ".bz2": b"BZh", ".json": b"{"}
LENGTH, RANGE = re.compile(r"\d{1,18}"), re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")


class DownloadFailed(UserError):
    """Retrying this address will not help."""


def download_file(address: str, path: Path) -> None:
    """Download a file, resuming an earlier attempt. Raises DownloadFailed."""
    if not address.startswith(("http://", "https://")):
        raise DownloadFailed("not an address")
    part, failures = path.with_name(f"{path.name}.part"), 0
    for _ in range(MOST_ATTEMPTS):
        before = _file_size(part)
        try:
            return _attempt(address, path, part)
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"the server answers {error.code} {error.reason}"
            if error.code == 416 and before:
                part.unlink()
                raise DownloadFailed("the file has changed: it is not longer than the part. Try again") from error
            if error.code < 500 and error.code not in (408, 429):
                raise DownloadFailed(reason) from error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
            cause = getattr(error, "reason", error)
            reason = f"{getattr(cause, 'strerror', None) or cause or type(error).__name__}"
            if isinstance(cause, TimeoutError):
                reason = f"no data from the server for {TIMEOUT:g} s"
        failures = 0 if _file_size(part) > before else failures + 1
        if failures == ATTEMPTS:
            break
        log.info(f"{address}: {reason}. Retrying ...")
        time.sleep(PAUSE)
    progress = f". {_megabytes(_file_size(part))} downloaded; the same command resumes" if _file_size(part) else ""
    raise DownloadFailed(f"{reason}{progress}")


def _attempt(address: str, path: Path, part: Path) -> None:
    """Request the missing part, once."""
    source = part.with_name(f"{part.name}.source")
    text = source.read_text(encoding="utf-8", errors="replace") if source.is_file() else ""
    part_address, validator = [*text.split("\n"), ""][:2]  # empty after a power failure
    received = _file_size(part) if part_address == address and validator else 0
    headers = {"User-Agent": "elmo-paddle", "Accept-Encoding": "identity"}
    if received:
        headers |= {"Range": f"bytes={received}-", "If-Range": validator}
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=TIMEOUT) as response:
        received, total = _range_start(response, received)
        _check_room(part, total - received)
        block = response.read1(BLOCK) if received else _first_bytes(response, path)
        tag = response.headers.get("ETag") or ""
        # for If-Range: a strong tag, else the date of the file
        validator = tag if tag.startswith('"') else response.headers.get("Last-Modified") or ""
        source.write_text(f"{address}\n{validator}", encoding="utf-8")
        if not received:
            log.warning(f"downloading   {path.name}, {_megabytes(total)}, from {address}")
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
        raise ConnectionError(f"the connection closed after {received:,} of {total:,} bytes")
    disk.rename(part, path)
    source.unlink(missing_ok=True)


def _file_size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _range_start(response, received: int) -> tuple[int, int]:
    """The response's first position in the file, and the length of the file (0: unknown)."""
    length = response.headers.get("Content-Length") or "0"
    if response.status == 206:
        content_range = RANGE.fullmatch(response.headers.get("Content-Range") or "")
        if not received or not content_range or int(content_range[1]) != received:
            raise DownloadFailed(f"the server sent another range ({response.headers.get('Content-Range')!r:.80})")
        return received, int(content_range[3])
    if response.status != 200 or not LENGTH.fullmatch(length):
        raise DownloadFailed(f"the server answers {response.status} with a length of {length!r:.80}")
    return 0, int(length)


def _first_bytes(response, path: Path) -> bytes:
    """Read the first bytes. Raises if they are not those of such a file."""
    begin, kind = response.read(64), response.headers.get_content_type()
    expected = MAGIC_BYTES.get(path.suffix, b"")
    if not begin.lstrip().startswith(expected) or (kind == "text/html" and not expected):
        raise DownloadFailed(f"not a {path.suffix} file but {kind}, beginning with {begin[:30]!r}: a login page?")
    return begin


def _check_room(part: Path, missing: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if SPACE_FACTOR * missing > free:
        raise UserError(
            f"{part.parent}: the download takes {_megabytes(missing)}, and its conversion the same again, but only "
            f"{_megabytes(free)} are free. Free some space, or set ELMO_HOME to another folder."
        )


def _megabytes(size: int) -> str:
    if not size:
        return "of unknown size"
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} bytes"
