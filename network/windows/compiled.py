"""Compilation by numba, in one place because numba has no types and takes a while to import.

The machine code is kept on disk, in a separate folder for each copy of these sources and each kind of processor.  numba
itself checks the processor, and the path and the time of a function's file, but not the files of other functions that
it calls; if a check fails, numba compiles again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding
import numba

from network.cache import cache

Compiled = TypeVar("Compiled", bound=Callable[..., Any])
COMPLETE = "complete"
UNUSED = 30 * 86400.0  # s after which the machine code of other versions is removed
ROOM = 50e6  # bytes that must be free to keep machine code, which takes 20 MB: numba fails on a full disk


def _folder() -> Path | None:
    """Returns the folder for the machine code of these sources, below `~/.cache/fedlapse/compiled/`, or under
    XDG_CACHE_HOME.

    None if the folder cannot be written, or the disk is full: then the code is compiled in each process.  Removes
    folders unused for UNUSED seconds.
    """
    of_numba: Any = numba.config
    chosen = (of_numba.CPU_NAME, of_numba.CPU_FEATURES)
    processor = (llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten(), *chosen)
    digest = hashlib.blake2b(f"{sys.version} {numba.__version__} {processor}".encode(), digest_size=8)
    for source in sorted(Path(__file__).resolve().parent.glob("*.py")):
        digest.update(f"{source} {source.stat().st_mtime_ns}".encode())
        digest.update(source.read_bytes())
    try:
        place = cache(os.environ) / "compiled" / digest.hexdigest()
        place.mkdir(parents=True, exist_ok=True)
        os.utime(place)
        for other in place.parent.iterdir():
            if other.stat().st_mtime < time.time() - UNUSED:
                shutil.rmtree(other, ignore_errors=True)
        if not (place / COMPLETE).is_file() and shutil.disk_usage(place).free < ROOM:
            return None
    except (OSError, RuntimeError):  # a full disk, or no home folder
        return None
    return place if os.access(place, os.W_OK) else None


HERE = _folder()


def ready() -> bool:
    """Returns true if the machine code of all functions is on disk.  Otherwise compiling takes 10 to 20 s."""
    if HERE is None:
        return False
    try:
        noted = json.loads((HERE / COMPLETE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(noted) and noted.items() <= _sizes(HERE).items()


def complete() -> None:
    """Records on disk that the machine code of all functions is there, for `ready`."""
    if HERE is not None:
        with suppress(OSError):  # a full disk: then it is compiled again
            (HERE / COMPLETE).write_text(json.dumps(_sizes(HERE)), encoding="utf-8")


def _sizes(place: Path) -> dict[str, int]:
    """Returns the size in bytes of each file with machine code, by its path in the folder."""
    return {path.relative_to(place).as_posix(): path.stat().st_size for path in place.glob("*/*") if path.is_file()}


def compiled(function: Compiled) -> Compiled:
    """Returns the function as machine code.  No arithmetic is fused or reordered; only powers come from the C library.

    Compiled functions make no arrays and keep none, so references are not counted: counting took five sixths of the
    time of a step.  Calls are inlined: each call would pass the arrays of a CrowdState as seventy arguments, which took
    half of the rest.
    """
    options: Any = {"_nrt": False, "forceinline": True}
    settings: Any = numba.config  # numba reads the cache folder when it sees the function
    before, settings.CACHE_DIR = settings.CACHE_DIR, str(HERE)
    try:
        made: Compiled = numba.njit(function, cache=HERE is not None, error_model="numpy", **options)
    finally:
        settings.CACHE_DIR = before
    return made
