"""Writes seconds, bytes and joules for people, with one unit for all values that are compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

CLOCK = (("s", 1.0), ("min", 60.0), ("h", 3600.0))
SIGNIFICANT = 3  # digits of seconds, bytes and joules
NEVER = "not reached"
APART = 100.0  # times: values that differ so much are not told in one unit
TIMES = "×"
NONE = "–"

Spread = Mapping[str, float | None]  # mean, low, high


@dataclass(frozen=True)
class Unit:
    """A unit in which a column or an axis counts, such as MB."""

    name: str
    size: float  # in seconds or bytes
    digits: int | None = 1  # after the point, at most; None: one, if it is not 0
    significant: int | None = None  # digits in all, at most, of a value that has some after the point

    def show(self, value: float) -> str:
        """Returns the value in this unit as text, without the unit: `1,234.5`."""
        number = value / self.size
        if self.digits is None:
            return f"{round(number, 1):,g}"
        digits = self.digits
        while digits and self.significant and round(abs(number), digits) >= 10 ** (self.significant - digits):
            digits -= 1
        return f"{number:,.{digits}f}"

    def some(self, value: float) -> str:
        """Returns a value that is not 0 as text, without the unit; one that would be rounded to 0 reads `under 0.1`."""
        least = self.size * 10.0 ** -(self.digits or 0)
        return self.show(value) if value >= least / 2 else f"under {self.show(least)}"

    def full(self, value: float) -> str:
        return f"{self.show(value)} {self.name}"


def joined(words: Sequence[str]) -> str:
    """Returns the words as one text: `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


Choice = Callable[[Iterable[float | None]], Unit]  # a unit for values


def of_time(values: Iterable[float | None]) -> Unit:
    """Returns s, min or h: the largest unit of which the largest value has at least ten."""
    return _unit(values, CLOCK, 10.0, 0.0)


def of_bytes(values: Iterable[float | None]) -> Unit:
    """Returns the unit for these values: B, kB, MB or GB, in powers of 1000."""
    return _unit(values, (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)), 1.0, 1e6)


def of_energy(values: Iterable[float | None]) -> Unit:
    """Returns the unit for these values: J, kJ or MJ."""
    return _unit(values, (("J", 1.0), ("kJ", 1e3), ("MJ", 1e6)), 1.0, 1.0)


def of_rounds(_: Iterable[float | None]) -> Unit:
    """Returns the unit of numbers of rounds, which has no name."""
    return Unit("", 1.0, None)


def spread(values: Spread, unit: Unit) -> str:
    """Returns mean, low and high as text, `12.5 [11.0, 14.0]`, with ∞ for a value that is infinite because a seed never
    reached the target; one number if all three read the same."""
    mean, low, high = (values[key] for key in ("mean", "low", "high"))
    if low is None:
        return NEVER
    shown = ["∞" if value is None else unit.show(value) for value in (mean, low, high)]
    return shown[0] if len(set(shown)) == 1 else f"{shown[0]} [{shown[1]}, {shown[2]}]"


def of_rows(rows: Sequence[Iterable[float | None]], choose: Choice) -> tuple[Unit | None, list[Unit]]:
    """Returns one unit for all rows of a column, None if they differ a hundredfold; and a unit for each row."""
    largest = [max((abs(value) for value in row if value is not None), default=None) for row in rows]
    if _apart(largest):
        return None, [choose([value]) for value in largest]
    unit = choose(largest)
    return unit, [unit] * len(rows)


def column(rows: Sequence[Spread | None], choose: Choice) -> tuple[str, list[str]]:
    """Returns the unit for a column's heading, and the text of its cells.  If rows differ a hundredfold, the heading
    has no unit ("") and each cell names its own.

    None is a row of which nothing is known.
    """
    unit, each = of_rows([row.values() if row else () for row in rows], choose)
    cells = [spread(row, own) if row else NONE for row, own in zip(rows, each, strict=True)]
    if unit:
        return unit.name, cells
    return "", [
        cell if cell in (NONE, NEVER) else f"{cell} {own.name}".rstrip() for cell, own in zip(cells, each, strict=True)
    ]


def ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}{TIMES}"


def _apart(values: Iterable[float | None]) -> bool:
    known = [value for value in values if value]
    return bool(known) and max(known) >= APART * min(known)


def _unit(values: Iterable[float | None], units: Sequence[tuple[str, float]], least: float, usual: float) -> Unit:
    largest = max((abs(value) for value in values if value is not None), default=usual)
    name, size = max((unit for unit in units if largest >= least * unit[1]), key=lambda unit: unit[1], default=units[0])
    return Unit(name, size, 0 if name == "B" else 2, SIGNIFICANT)


def counted(number: int, what: str) -> str:
    """Returns a number with its noun, in the plural unless it is 1: `1 device`, `3 devices`."""
    return f"{number} {what}{'s' * (number != 1)}"


def under(network: str) -> str:
    """Returns the start of a sentence that names the model of the network by which times were computed."""
    return f"Times are computed with network model {network}"


def durations(seconds: Sequence[float]) -> Callable[[float], str]:
    """Returns a function that writes each of these times, s, as text: all in one unit, or, if they differ a
    hundredfold, each in a fitting one."""
    return duration if _apart(seconds) else partial(duration, unit=of_time(seconds))


def duration(seconds: float, unit: Unit | None = None) -> str:
    """Returns one time, given in s, as text: `41.2 s`, `131 s`, `12.1 min`, `3.2 h`."""
    unit = unit or of_time([seconds])
    return f"{seconds:.0f} s" if unit.name == "s" and seconds >= 99.95 else f"{seconds / unit.size:.1f} {unit.name}"


def rounded_up(seconds: float) -> float:
    """Returns the value rounded up to two digits, 9.3 for 9.21, so that the shown value is enough if the given one
    is."""
    step = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return float(f"{math.ceil(seconds / step) * step:.12g}")
