"""Where the ledger lies and how much it keeps, if nobody says.  Nothing is imported here, so that --help is quick."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FOLDER, OFF = "FEDLAPSE_LEDGER", "off"
KEEP_STATES = 10  # every so many rounds the server's state is kept


def default_folder(environment: Mapping[str, str]) -> Path | None:
    """$FEDLAPSE_LEDGER (`off`: None), or fedlapse's place in the user's cache (XDG base directories)."""
    said = environment.get(FOLDER)
    if said == OFF:
        return None
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(said) if said else Path(cache) / "fedlapse" / "ledger"
