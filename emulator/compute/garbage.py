"""Settings of Python's garbage collector.  It is needed only for objects that refer to each other in a cycle, and the
emulator leaves few of them."""

from __future__ import annotations

import gc

YOUNG = 20_000  # new containers between two collections; Python's 700 cost 40 us a device-round


def let_stay() -> None:
    """Excludes all objects that exist now from later garbage collections, and makes collections rarer.  Otherwise the
    cost of a round would grow with the size of the fleet."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
