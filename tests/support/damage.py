"""Random damage to files."""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from elmo_core.messages import UserError


def damaged(content: bytes, generator: random.Random, within: int | None = None) -> bytes:
    """The content cut short, or with one bit or byte changed, which is among the first `within`."""
    if generator.random() < 0.3:
        return content[: generator.randrange(len(content))]
    changed = bytearray(content)
    change = generator.choice([1 << generator.randrange(8), generator.randrange(1, 256)])
    changed[generator.randrange(len(content[:within]))] ^= change
    return bytes(changed)


def accepted(
    path: Path,
    read: Callable[[], Any],
    times: int = 200,
    within: int | None = None,
    message: str = ".{21}",
) -> Iterator[tuple[int, Any]]:
    """Damage a file repeatedly, every other time within its first bytes, and read it.

    Yields the length of the file and the result whenever reading succeeds; otherwise it must raise
    a UserError with the message, a pattern. Some damage must be noticed.
    """
    content = path.read_bytes()
    generator = random.Random(0)
    n_accepted = 0
    for number in range(times):
        changed = damaged(content, generator, within if number % 2 else None)
        path.write_bytes(changed)
        try:
            result = read()
        except UserError as error:
            assert re.search(message, str(error), re.S)
        else:
            n_accepted += 1
            yield len(changed), result
    path.write_bytes(content)
    assert n_accepted < times, "no damage was noticed"
