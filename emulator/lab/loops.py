"""Recordings that are shorter than a run, and how often they start over in it."""

from __future__ import annotations

from pathlib import PurePath

from emulator.results.caveats import TraceRepeats
from network.links.trace import Trace


class Loops:
    """The recordings that are replayed: of each length the one that began furthest into it, as it loops most often."""

    def __init__(self) -> None:
        self._begun: dict[float, tuple[float, str]] = {}  # by length: from where on, s, and the name

    def add(self, *rates: object) -> None:
        """Notes those that are traces, at the places at which their replay begins."""
        for rate in rates:
            if isinstance(rate, Trace):
                begun = rate.offset, PurePath(rate.name).name
                self._begun[rate.period] = max(self._begun.get(rate.period, begun), begun)

    def most(self, end: float) -> TraceRepeats:
        """In so many seconds of a run; (0, "") if no recording starts over."""
        looped = ((int((end + offset) // period), name) for period, (offset, name) in self._begun.items())
        return max((each for each in looped if each[0]), default=(0, ""))
