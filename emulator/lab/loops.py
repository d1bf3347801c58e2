"""Counts the repetitions of recordings that are shorter than a run."""

from __future__ import annotations

from pathlib import PurePath

from emulator.results.caveats import TraceRepeats
from network.links.trace import Trace


class Loops:
    """The replayed recordings of link rates (traces): of each length the one with the largest offset, because it
    repeats most often."""

    def __init__(self) -> None:
        self._begun: dict[float, tuple[float, str]] = {}  # by length: offset, s, and name

    def add(self, *rates: object) -> None:
        """Adds those of the rates that are traces, with their offsets."""
        for rate in rates:
            if isinstance(rate, Trace):
                begun = rate.offset, PurePath(rate.name).name
                self._begun[rate.period] = max(self._begun.get(rate.period, begun), begun)

    def most(self, end: float) -> TraceRepeats:
        """Returns the largest number of times that a recording repeats within `end` seconds, and its name; (0, "") if
        none repeats."""
        looped = ((int((end + offset) // period), name) for period, (offset, name) in self._begun.items())
        return max((each for each in looped if each[0]), default=(0, ""))
