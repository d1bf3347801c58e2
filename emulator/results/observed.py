"""Runs of a study as they were observed, on their own links and, by replay, on others.

A replay that is exact changes only when rounds end: so the round in which a target is reached is the record's, and its
time that round's end on those links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from emulator.record.targets import Target, reached
from emulator.results.restricted import Timed
from emulator.results.summary import joules, round_bytes

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Observed:
    """One run: its rounds, and when each of them ended."""

    rows: Sequence[Row]
    stamps: tuple[float, ...]  # s
    whole: bool = True  # whether it was played to its end; one that failed before never reaches anything

    @classmethod
    def of(cls, rows: Sequence[Row], due: int, stopped: Target | None = None, until: float | None = None) -> Observed:
        """On its own links.  It should have `due` rounds, unless it reached `stopped`, or second `until`, before."""
        enough = stopped is not None and reached(rows, stopped) is not None
        late = until is not None and bool(rows) and rows[-1]["time_s"] >= until
        return cls(rows, tuple(float(row["time_s"]) for row in rows), len(rows) >= due or enough or late)

    def first(self, rounds: int) -> Observed:
        """Its first rounds alone."""
        return Observed(self.rows[:rounds], self.stamps[:rounds], self.whole)

    def elsewhere(self, stamps: Sequence[float]) -> Observed:
        """The same run where its rounds end at other times."""
        return Observed(self.rows, tuple(stamps), self.whole)

    def place(self, target: Target) -> int | None:
        """Number of the round in which it reached the target, from 0."""
        row = reached(self.rows, target)
        return None if row is None else int(row["round"])

    def timed(self, target: Target) -> Timed:
        """When it reached the target, and until when it is known not to have done so, s.

        If the last evaluations are enough, but too few to tell whether the target would have been held, that is known
        until the first of them.
        """
        place = self.place(target)
        if place is not None:
            return Timed(self.stamps[place], self.stamps[-1] if self.whole else inf)
        return Timed(None, self.stamps[self._open(target)] if self.whole and self.stamps else inf)

    def _open(self, target: Target) -> int:
        """The first round of those at the end whose evaluations are enough, from 0; the last if there are none."""
        began = len(self.rows) - 1
        for row in reversed(self.rows):
            value = row[target.metric]
            if value is not None and value < target.value:
                break
            began = int(row["round"]) if value is not None else began
        return began

    def crossing(self, target: Target) -> float | None:
        """When an evaluation was first at or above the target, s, whether or not the next ones were."""
        place = self.place(replace(target, hold=1))
        return None if place is None else self.stamps[place]

    def rounds_until(self, time: float) -> float:
        """How many rounds fit into this time; of the round under way its share."""
        before = 0.0
        for number, stamp in enumerate(self.stamps):
            if stamp >= time:
                return number + (time - before) / (stamp - before) if stamp > before else float(number + 1)
            before = stamp
        return float(len(self.stamps))

    def bytes_until(self, time: float) -> float:
        """Bytes both ways until then."""
        return self._until(time, [float(round_bytes(row)) for row in self.rows])

    def joules_until(self, time: float) -> float | None:
        """What the devices drew until then; None if that of one of them is not known."""
        spent = [joules([row]) for row in self.rows]
        return None if None in spent else self._until(time, [each or 0.0 for each in spent])

    def _until(self, time: float, each: Sequence[float]) -> float:
        rounds = self.rounds_until(time)
        whole = int(rounds)
        return sum(each[:whole]) + (rounds - whole) * (each[whole] if whole < len(each) else 0.0)


Runs = Mapping[str, Mapping[int, Observed]]  # by label, by seed
