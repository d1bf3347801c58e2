"""The path of fedlapse's folder in the user's cache.  Its content takes long to make, and may be removed at any
time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache(environment: Mapping[str, str]) -> Path:
    """Returns `~/.cache/fedlapse`, or the folder below $XDG_CACHE_HOME (XDG base directories).

    Raises RuntimeError if the user has no home.
    """
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedlapse"
