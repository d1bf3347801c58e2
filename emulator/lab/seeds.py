"""Seeds derived from names, so that a draw added in one place shifts no other."""

from __future__ import annotations

import hashlib
from functools import lru_cache


def seed(root: int, *names: str | int) -> int:
    """A 63-bit seed for one use, such as `seed(1, "train", "pi-4-03", 12)`.

    Each part is hashed with its type and length: 1 and "1" differ, and no two lists of names run together.
    """
    digest = hashlib.sha256(b"".join(map(_part, (root, *names)))).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@lru_cache(maxsize=2**14, typed=True)
def _part(name: str | int) -> bytes:
    part = f"{type(name).__name__}:{name}".encode()
    return len(part).to_bytes(4, "big") + part


def share(root: int, *names: str | int) -> float:
    """A number from 0 to below 1 for one use, as a place in a trace."""
    return (seed(root, *names) >> 10) / 2**53
