"""Damage to files, by chance."""

import random


def damaged(content: bytes, generator: random.Random, within: int | None = None) -> bytes:
    """The content cut short, or with one bit or one byte changed, which is among the first `within`."""
    if generator.random() < 0.3:
        return content[: generator.randrange(len(content))]
    changed = bytearray(content)
    change = generator.choice([1 << generator.randrange(8), generator.randrange(1, 256)])
    changed[generator.randrange(len(content[:within]))] ^= change
    return bytes(changed)
