"""Runs as they were observed on their own links, and on other links by replay.

An exact replay changes only the times at which rounds end.  So the round in which a target is reached comes from the
record, and its time is the end of that round on the other links.
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
    """One run: its rows, and the time at which each round ended."""

    rows: Sequence[Row]
    stamps: tuple[float, ...]  # s
    whole: bool = True  # False if the run failed before its end

    @classmethod
    def of(cls, rows: Sequence[Row], due: int, stopped: Target | None = None, until: float | None = None) -> Observed:
        """A run on its own links.  It is whole if it has `due` rounds, or reached `stopped`, or lasted `until`
        seconds."""
        enough = stopped is not None and reached(rows, stopped) is not None
        late = until is not None and bool(rows) and rows[-1]["time_s"] >= until
        return cls(rows, tuple(float(row["time_s"]) for row in rows), len(rows) >= due or enough or late)

    def first(self, rounds: int) -> Observed:
        """This run cut after its first `rounds` rounds."""
        return Observed(self.rows[:rounds], self.stamps[:rounds], self.whole)

    def elsewhere(self, stamps: Sequence[float]) -> Observed:
        """This run with other end times of its rounds, s."""
        return Observed(self.rows, tuple(stamps), self.whole)

    def place(self, target: Target) -> int | None:
        """The number of the round in which the run reached the target, from 0; None if it did not."""
        row = reached(self.rows, target)
        return None if row is None else int(row["round"])

    def timed(self, target: Target) -> Timed:
        """The time at which the run reached the target, and the time until which it certainly had not, s.

        If the last evaluations reach the value but are too few to show that it would be held, the second time is that
        of the first such evaluation.
        """
        place = self.place(target)
        if place is not None:
            return Timed(self.stamps[place], self.stamps[-1] if self.whole else inf)
        return Timed(None, self.stamps[self._open(target)] if self.whole and self.stamps else inf)

    def _open(self, target: Target) -> int:
        """The first round, from 0, of the unbroken series of last evaluations that reach the target's value; the last
        round if there is none."""
        began = len(self.rows) - 1
        for row in reversed(self.rows):
            value = row[target.metric]
            if value is not None and value < target.value:
                break
            began = int(row["round"]) if value is not None else began
        return began

    def crossing(self, target: Target) -> float | None:
        """The time of the first evaluation at or above the target's value, s, held or not; None if there is none."""
        place = self.place(replace(target, hold=1))
        return None if place is None else self.stamps[place]

    def rounds_until(self, time: float) -> float:
        """Rounds completed by this time, plus the elapsed fraction of the round under way."""
        before = 0.0
        for number, stamp in enumerate(self.stamps):
            if stamp >= time:
                return number + (time - before) / (stamp - before) if stamp > before else float(number + 1)
            before = stamp
        return float(len(self.stamps))

    def bytes_until(self, time: float) -> float:
        """Bytes in both directions until this time."""
        return self._until(time, [float(round_bytes(row)) for row in self.rows])

    def joules_until(self, time: float) -> float | None:
        """Joules that the devices drew until this time; None if the energy of a device is not known."""
        spent = [joules([row]) for row in self.rows]
        return None if None in spent else self._until(time, [each or 0.0 for each in spent])

    def _until(self, time: float, each: Sequence[float]) -> float:
        rounds = self.rounds_until(time)
        whole = int(rounds)
        return sum(each[:whole]) + (rounds - whole) * (each[whole] if whole < len(each) else 0.0)


Runs = Mapping[str, Mapping[int, Observed]]  # by label, by seed
