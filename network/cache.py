"""The path of fedlapse's folder in the user's cache.  Its content takes long to make, and may be removed at any
time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache(environment: Mapping[str, str]) -> Path:
    """Returns the path of fedlapse's cache: `$XDG_CACHE_HOME/fedlapse` if that variable is set, otherwise
    `~/.cache/fedlapse` (XDG base directories).

    Raises RuntimeError if the user has no home.
    """
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedlapse"
