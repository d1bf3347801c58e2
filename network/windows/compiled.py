"""What numba compiles.  In one place, as it has no types and takes a while to import.

The machine code is kept on the disk under a digest of all sources here: numba itself looks only at the file that a
function stands in, and would go on with old code of another that it calls.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

Compiled = TypeVar("Compiled", bound=Callable[..., Any])


def folder() -> Path:
    """Where the machine code of these sources is kept: `~/.cache/fedlapse/compiled/`, or under XDG_CACHE_HOME."""
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "fedlapse" / "compiled" / digest.hexdigest()


def _usable(place: Path) -> bool:
    """Whether it can be written to.  Makes it, and takes away what other versions left."""
    try:
        if not place.is_dir():
            for old in place.parent.glob("*"):
                shutil.rmtree(old, ignore_errors=True)
            place.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # nobody's home, or a full disk: it is compiled each time
        return False
    return os.access(place, os.W_OK)


HERE = folder()
KEPT = _usable(HERE)


def ready() -> bool:
    """Whether the machine code of these sources is on the disk; it takes about 20 s to make."""
    return any(HERE.glob("*/*.nbi")) or any(HERE.glob("*.nbi"))


def compiled(function: Compiled) -> Compiled:
    """The function as machine code; the same bits on each machine, as nothing is fused or reordered."""
    settings: Any = numba.config  # where to keep it is read as the function is looked at
    before, settings.CACHE_DIR = settings.CACHE_DIR, str(HERE)
    try:
        made: Compiled = numba.njit(function, cache=KEPT, error_model="numpy")
    finally:
        settings.CACHE_DIR = before
    return made
