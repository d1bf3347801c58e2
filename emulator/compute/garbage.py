"""Settings of Python's garbage collector: it only serves cycles, and the engine leaves few."""

from __future__ import annotations

import gc

YOUNG = 20_000  # new containers between two of its rounds; Python's 700 cost 40 us a device-round


def let_stay() -> None:
    """Takes all present objects out of later collections: else a round's cost would grow with the fleet."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
