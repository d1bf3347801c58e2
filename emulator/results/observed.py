"""Runs with the times at which their rounds ended, as they were played on their own links, or as a replay computes them
for other links.

An exact replay changes only the times at which rounds end.  So the round in which a target is reached comes from the
record, and its time is the end of that round on the other links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from emulator.record.targets import Target, reached, value_of
from emulator.results.restricted import Timed
from emulator.results.summary import joules, round_bytes

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Observed:
    """One run: the rows of its rounds, and the time in s at which each round ended."""

    rows: Sequence[Row]
    stamps: tuple[float, ...]  # s
    whole: bool = True  # False if the run failed before its end

    @classmethod
    def of(cls, rows: Sequence[Row], due: int, stopped: Target | None = None, until: float | None = None) -> Observed:
        """Returns the observation of a run from its rows, one a round, at the times in the rows.  It is whole if it
        has all `due` rounds, or ended early as planned: it reached the target `stopped`, or lasted `until` s."""
        enough = stopped is not None and reached(rows, stopped) is not None
        late = until is not None and bool(rows) and rows[-1]["time_s"] >= until
        return cls(rows, tuple(float(row["time_s"]) for row in rows), len(rows) >= due or enough or late)

    def first(self, rounds: int) -> Observed:
        """Returns this run without the rounds after the first `rounds`."""
        return Observed(self.rows[:rounds], self.stamps[:rounds], self.whole)

    def elsewhere(self, stamps: Sequence[float]) -> Observed:
        """Returns this run with `stamps` as the times in s at which its rounds ended, such as those on other links."""
        return Observed(self.rows, tuple(stamps), self.whole)

    def place(self, target: Target) -> int | None:
        """Returns the index, from 0, of the round in which the run reached the target; None if it did not."""
        row = reached(self.rows, target)
        return None if row is None else int(row["round"])

    def rounds_to(self, target: Target) -> int | None:
        """Returns the number of rounds that the run took to the target; None if it did not reach it."""
        place = self.place(target)
        return None if place is None else place + 1

    def timed(self, target: Target) -> Timed:
        """Returns the time in s at which the run reached the target, and the time in s until which it was observed.

        Without the target, the second is the time until which the run certainly had not reached it.  If the last
        evaluations are at the value or better, but too few to show that it is held, that is the time of the first of
        them.
        """
        place = self.place(target)
        if place is not None:
            return Timed(self.stamps[place], self.stamps[-1] if self.whole else inf)
        return Timed(None, self.stamps[self._open(target)] if self.whole and self.stamps else inf)

    def _open(self, target: Target) -> int:
        """Returns the index, from 0, of the first of the last evaluated rounds that are all at the target's value or
        better; that of the last round if there are none."""
        began = len(self.rows) - 1
        for row in reversed(self.rows):
            value = value_of(row, target.metric)
            if value is not None and not target.met(value):
                break
            began = int(row["round"]) if value is not None else began
        return began

    def crossing(self, target: Target) -> float | None:
        """Returns the time in s of the first evaluation at the target's value or better, even if it was not held; None
        if there is none."""
        place = self.place(replace(target, hold=1))
        return None if place is None else self.stamps[place]

    def rounds_until(self, time: float) -> float:
        """Returns the number of rounds completed by this time (s), plus the elapsed fraction of the round under way."""
        before = 0.0
        for number, stamp in enumerate(self.stamps):
            if stamp >= time:
                return number + (time - before) / (stamp - before) if stamp > before else float(number + 1)
            before = stamp
        return float(len(self.stamps))

    def bytes_until(self, time: float) -> float:
        """Returns the bytes sent in both directions until this time (s)."""
        return self._until(time, [float(round_bytes(row)) for row in self.rows])

    def joules_until(self, time: float) -> float | None:
        """Returns the joules that the devices drew until this time (s); None if the energy of a device is not known."""
        spent = [joules([row]) for row in self.rows]
        return None if None in spent else self._until(time, [each or 0.0 for each in spent])

    def _until(self, time: float, each: Sequence[float]) -> float:
        rounds = self.rounds_until(time)
        whole = int(rounds)
        return sum(each[:whole]) + (rounds - whole) * (each[whole] if whole < len(each) else 0.0)


Runs = Mapping[str, Mapping[int, Observed]]  # by label, by seed
