"""The fastest algorithm at each point of a grid of uplinks, latencies and speeds.  Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from emulator.replay.conditions import Condition
from emulator.replay.findings import TIED, Finding, Times
from emulator.results.resampling import Bound

AXES = {  # name: title, unit, and that unit in the program's own units
    "uplink": ("uplink", "Mbit/s", 1e6 / 8),
    "latency": ("latency, one way", "ms", 1e-3),
    "speed": ("speed", "GFLOP/s", 1e9),
}


@dataclass(frozen=True)
class Axis:
    """One quantity of the grid and its values, which rise by the same factor from each to the next."""

    name: str  # name of an axis, in AXES
    values: Sequence[float]

    @classmethod
    def over(cls, name: str, span: tuple[float, float], points: int) -> Axis:
        """Returns the axis over a range, with one value if both ends are equal.

        Raises ValueError for fewer than 2 points, or for a range that does not begin above 0.
        """
        low, high = span
        if low == high:
            return cls(name, (low,))
        if points < 2 or not low > 0:
            raise ValueError(f"{name}: a range begins above 0 and has 2 points or more")
        factor = (high / low) ** (1 / (points - 1))
        return cls(name, (low, *(low * factor**number for number in range(1, points - 1)), high))

    @property
    def title(self) -> str:
        title, unit, _ = AXES[self.name]
        return f"{title}, {unit}"

    def at(self, value: float) -> float | None:
        """Returns where a value is on the axis of cells, on which the one with index i spans i to i + 1; None if it is
        outside.  The only value of an axis stands for all."""
        low, *others = self.values
        if not others:
            return 0.5
        place = 0.5 + math.log(value / low) / math.log(others[0] / low) if value > 0 else -1.0
        return place if 0 <= place <= len(self.values) else None

    def shown(self, value: float) -> float:
        return float(f"{value / AXES[self.name][2]:.3g}")


@dataclass(frozen=True)
class MapCell:
    """One point of the grid, and the fastest algorithm there."""

    place: Mapping[str, int]  # by axis: index of its value
    winner: str | None  # None: unknown, or no run reaches the target
    runner_up: str | None
    ratio: float | None  # the runner-up's mean time over the winner's
    agree: bool  # every single seed has this winner
    times: Mapping[str, float | None]  # means in s by label; None: never, or unknown
    known: bool  # all means are known
    assumed: bool = False  # a mean uses accuracies from after a decision that differed
    tie: bool = False  # the first two are within 1 %, or enough seeds show no fastest algorithm
    tied: Sequence[str] = ()  # in a tie: the winner, and all that it is not ahead of
    why: str = ""  # if unknown: where a replay of this point ends; otherwise where one stops being exact
    bound: Bound | None = None  # how the ratio compares with the true one, if runs were cut off

    @property
    def first(self) -> str | None:
        """The fastest algorithm as the map shows it: its label, TIED, or None if it is unknown or no run reaches the
        target."""
        return TIED if self.tie else self.winner

    @property
    def plain(self) -> dict[str, Any]:
        return {**vars(self), "place": dict(self.place), "tied": list(self.tied), "times": dict(self.times)}


Point = tuple[Mapping[str, int], Condition]  # its place on the axes, and the links of all devices there


def conditions(axes: Sequence[Axis], base: Condition, symmetric: bool) -> Iterator[Point]:
    """Yields each point of the grid with its condition, in the order of nested loops with the last axis innermost.

    `symmetric`: the downlink equals the uplink.
    """
    for numbers in product(*(range(len(axis.values)) for axis in axes)):
        place = {axis.name: number for axis, number in zip(axes, numbers, strict=True)}
        at = {axis.name: axis.values[number] for axis, number in zip(axes, numbers, strict=True)}
        yield (
            place,
            Condition(
                ", ".join(f"{name} {value:g}" for name, value in at.items()),
                down=at.get("uplink") if symmetric else base.down,
                up=at.get("uplink", base.up),
                latency=at.get("latency", base.latency),
                server_rate=base.server_rate,
                speed=at.get("speed"),
                assumptions=base.assumptions,
            ),
        )


def cell(place: Mapping[str, int], found: Finding, target: str) -> MapCell:
    """Returns the map's cell for one point: the algorithm with the least mean time over seeds, and its lead over the
    next."""
    times = found.times[target]
    known = all(each.known for each in times.values())
    assumed = known and any(each.assumed for each in times.values())
    ranked = found.ranking(target)
    if ranked is None:
        return MapCell(place, None, None, None, True, _shown(times), known, assumed, why=_why(found, known))
    winner, second = ranked.best.label, ranked.others[0] if ranked.others else None
    agree, tie = _agree(found, target, winner), found.first(target) == TIED
    lead, next_, cut = (second.ratio, second.label, second.bound) if second else (None, None, None)
    behind = [label for label in times if label != winner and not found.ahead(target, winner, label)]
    tied = tuple(dict.fromkeys([winner, next_ or winner, *behind])) if tie else ()
    return MapCell(place, winner, next_, lead, agree, _shown(times), known, assumed, tie, tied, _why(found, known), cut)


def _why(found: Finding, known: bool) -> str:
    notes = found.partings if known else (*found.failures, *found.partings)
    return str(notes[0]) if notes else ""


def _shown(times: Mapping[str, Times]) -> dict[str, float | None]:
    """Returns the mean times in s, by label; None if an algorithm never reaches the target or its time is unknown."""
    return {label: each.spread["mean"] if each.known else None for label, each in times.items()}


def _agree(found: Finding, target: str, winner: str) -> bool:
    """Returns true if `winner` is the fastest in each seed in which any run reaches the target."""
    seeds = found.times[target][winner].seeds
    return all(_first(found, target, seed) in (None, winner) for seed in seeds)


def _first(found: Finding, target: str, seed: int) -> str | None:
    """Returns the fastest algorithm in one seed alone; None if no run reaches the target in that seed."""
    at = {label: each.time for label, of in found.times[target].items() if (each := of.seeds.get(seed))}
    known = {label: time for label, time in at.items() if time is not None}
    return min(known, key=lambda label: known[label]) if known else None  # ties go to the first in the scenario


def frontier(cells: Sequence[MapCell], x: str, y: str) -> list[tuple[float, float, float, float]]:
    """Returns the sides (x1, y1, x2, y2) between neighbouring cells of the map with different winners.

    The cell with index i on an axis spans i to i + 1.
    """
    winners = {(each.place.get(x, 0), each.place.get(y, 0)): each.first for each in cells}
    sides = []
    for (i, j), winner in sorted(winners.items()):
        if (i + 1, j) in winners and winners[i + 1, j] != winner:
            sides.append((i + 1.0, float(j), i + 1.0, j + 1.0))
        if (i, j + 1) in winners and winners[i, j + 1] != winner:
            sides.append((float(i), j + 1.0, i + 1.0, j + 1.0))
    return sides
