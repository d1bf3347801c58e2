"""What numba compiles.  In one place, as it has no types, and takes a second to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Compiled = TypeVar("Compiled", bound=Callable[..., Any])


def compiled(function: Compiled) -> Compiled:
    """The function as machine code, kept on the disk; the same bits on each machine, as nothing is fused or reordered."""
    made: Compiled = numba.njit(function, cache=True, error_model="numpy")
    return made
