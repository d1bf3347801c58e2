"""Seeds derived from names, so that a new draw does not shift any other draw."""

from __future__ import annotations

import hashlib
from functools import lru_cache


def seed(root: int, *names: str | int) -> int:
    """Returns a 63-bit seed for one use, such as `seed(1, "train", "pi-4-03", 12)`.

    Each part is hashed with its type and length: 1 and "1" differ, and so do lists of names whose concatenations are
    equal.
    """
    digest = hashlib.sha256(b"".join(map(_part, (root, *names)))).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@lru_cache(maxsize=2**14, typed=True)
def _part(name: str | int) -> bytes:
    part = f"{type(name).__name__}:{name}".encode()
    return len(part).to_bytes(4, "big") + part


def share(root: int, *names: str | int) -> float:
    """Returns a number in [0, 1) for one use, such as an offset into a trace, derived from the names as a `seed` is."""
    return (seed(root, *names) >> 10) / 2**53
