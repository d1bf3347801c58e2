"""Several seeds' curves as one: a median and a band.  Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from emulator.results.summary import band

Item = TypeVar("Item")


@dataclass(frozen=True)
class Curve:
    """One seed: values known from `x` on, until `end`.  A model stays what it is until the next one is there."""

    x: Sequence[float]  # rising
    y: Sequence[float]
    end: float  # what comes after it is not known

    def at(self, x: float) -> float | None:
        """The latest value; None before the first, and beyond the end."""
        number = bisect_right(self.x, x)
        return self.y[number - 1] if number and x <= self.end else None


@dataclass(frozen=True)
class Point:
    x: float
    median: float
    low: float
    high: float
    seeds: int  # that have a value here
    of: int  # so many that have one anywhere


def merged(curves: Sequence[Curve]) -> list[Point]:
    """Median and band at every x where any seed changes; over the seeds that have a value there.

    Below 5 seeds that have one the band is the extremes, from 5 on the quartiles.
    """
    known = [curve for curve in curves if curve.x]
    changes = {x for curve in known for x in (*curve.x, curve.end)}
    points = []
    for x in sorted(changes):
        here = [curve.at(x) for curve in known]
        values = [value for value in here if value is not None]
        low, median, high = band(values)
        points.append(Point(x, median, low, high, len(values), len(known)))
    return points


def thinned(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of them (2 or more), evenly spaced, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    most = max(2, most)
    return [items[round(number * (len(items) - 1) / (most - 1))] for number in range(most)]
