"""Files of others for reading: gzip is recognised by its first bytes; damage names the file."""

import errno
import gzip
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from elmo_core.messages import UserError

# Numbers of errors that the content causes, not the disk: none, and that of an impossible offset.
DAMAGE = (None, errno.EINVAL)


@contextmanager
def damage_named(what: object, advice: str = "Download or create it again.") -> Iterator[None]:
    """Turn whatever damage raises in a block that reads a file into a UserError that names it.

    The block holds the reading and nothing else: any other fault in it would be reported as damage.
    """
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in DAMAGE:
            raise
        is_clear = isinstance(error, OSError | ValueError | EOFError | pickle.UnpicklingError)
        reason = str(error) if is_clear else f"{type(error).__name__} {error}"
        raise UserError(
            f"{what} cannot be read: it is truncated or damaged ({reason}). {advice}"
        ) from error


def open_file(path: Path) -> IO[bytes]:
    """Open a file, plain or gzip, whatever its name."""
    with path.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if is_gzip else path.open("rb")
