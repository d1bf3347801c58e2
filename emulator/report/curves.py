"""Combines the curves of several seeds, such as accuracy over time, into a median and a band.  Pure functions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from emulator.results.summary import band

Item = TypeVar("Item")


@dataclass(frozen=True)
class Curve:
    """The curve of one seed, a step function: y[i] holds from x[i] to x[i + 1], and the last y until `end`."""

    x: Sequence[float]  # rising
    y: Sequence[float]
    end: float  # no value is known later

    def at(self, x: float) -> float | None:
        """Returns the value of the curve at `x`; None before its first value and after its end."""
        number = bisect_right(self.x, x)
        return self.y[number - 1] if number and x <= self.end else None


@dataclass(frozen=True)
class Point:
    x: float
    median: float
    low: float
    high: float
    seeds: int  # seeds with a value here
    of: int  # seeds with a value anywhere


def merged(curves: Sequence[Curve]) -> list[Point]:
    """Returns a point with median and band for every x at which the curve of any seed changes or ends.

    A point covers the seeds that have a value at its x.  If they are five or more, its band goes from the lower to the
    upper quartile of their values; otherwise from the smallest to the largest value.
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
    """Returns at most `most` of the items, evenly spaced, with the first and the last one; `most` below 2 counts as
    2."""
    if len(items) <= most:
        return list(items)
    most = max(2, most)
    return [items[round(number * (len(items) - 1) / (most - 1))] for number in range(most)]
