"""The default folder of the ledger, and its default options.  This module imports nothing large, so that --help is
quick."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from network.cache import cache

FOLDER, OFF = "FEDLAPSE_LEDGER", "off"
KEEP_STATES = 10  # rounds from one kept state of the server to the next


def default_folder(environment: Mapping[str, str]) -> Path | None:
    """Returns the folder that $FEDLAPSE_LEDGER names, None if it is `off`; without this variable, fedlapse's folder in
    the user's cache (XDG base directories)."""
    named = environment.get(FOLDER)
    if named == OFF:
        return None
    return Path(named) if named else cache(environment) / "ledger"
