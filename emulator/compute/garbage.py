"""Settings of Python's garbage collector.  It only serves reference cycles, and the engine leaves few."""

from __future__ import annotations

import gc

YOUNG = 20_000  # new containers between two collections; Python's 700 cost 40 us a device-round


def let_stay() -> None:
    """Excludes all present objects from later collections, because otherwise a round's cost would grow with the
    fleet."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
