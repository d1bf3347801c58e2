"""Who gets there first, over a grid of uplinks, latencies and speeds.  Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from emulator.replay.conditions import Condition
from emulator.replay.findings import TIE, TIED, Finding, Times, ratio

AXES = {  # name: title, unit, what one of it is in ours
    "uplink": ("uplink", "Mbit/s", 1e6 / 8),
    "latency": ("latency, one way", "ms", 1e-3),
    "speed": ("speed", "GFLOP/s", 1e9),
}


@dataclass(frozen=True)
class Axis:
    """One quantity of the grid: its values, rising, each the same factor above the one before."""

    name: str  # of AXES
    values: Sequence[float]

    @classmethod
    def over(cls, name: str, span: tuple[float, float], points: int) -> Axis:
        """One value if the span has no length.  Raises ValueError for fewer than 2 points or a span from 0."""
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

    def shown(self, value: float) -> float:
        return float(f"{value / AXES[self.name][2]:.3g}")


@dataclass(frozen=True)
class Cell:
    """One point of the grid."""

    place: Mapping[str, int]  # by axis: number of its value
    winner: str | None  # None: not known, or nobody gets there
    runner_up: str | None
    ratio: float | None  # the runner-up's time over the winner's; None: it never gets there
    agree: bool  # whether each seed by itself has this winner
    times: Mapping[str, float | None]  # medians in s by label; None: never, or not known
    known: bool  # whether all of them are known
    assumed: bool = False  # whether one of them rests on accuracies from after a decision that came out otherwise
    why: str = ""  # if it is not known: where a replay of this point ends; else where one stops being exact

    @property
    def tie(self) -> bool:
        """Whether the first two are so near that neither wins."""
        return self.ratio is not None and self.ratio < TIE

    @property
    def first(self) -> str | None:
        """Who wins, as the map shows it."""
        return TIED if self.tie else self.winner

    @property
    def plain(self) -> dict[str, Any]:
        return {**vars(self), "tie": self.tie, "place": dict(self.place), "times": dict(self.times)}


Point = tuple[Mapping[str, int], Condition]  # its place on the axes, and what all devices' links are there


def conditions(axes: Sequence[Axis], base: Condition, symmetric: bool) -> Iterator[Point]:
    """A condition for each point, the last axis fastest."""
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


def cell(place: Mapping[str, int], found: Finding, target: str) -> Cell:
    """Who wins at a point: by the median over seeds, and by how much."""
    times = found.times[target]
    known = all(each.known for each in times.values())
    assumed = known and any(each.assumed for each in times.values())
    winner, second = (*(found.order(target) or ()), None, None)[:2]
    lead = ratio(times[winner].median, times[second].median) if winner and second else None
    agree = winner is None or _agree(found, target, winner)
    shown, why = _shown(times), _why(found, known)
    return Cell(place, winner, second, lead, agree, shown, known, assumed, why)


def _why(found: Finding, known: bool) -> str:
    notes = found.partings if known else (*found.failures, *found.partings)
    return str(notes[0]) if notes else ""


def _shown(times: Mapping[str, Times]) -> dict[str, float | None]:
    """Medians in s by label; None: never, or not known."""
    return {label: each.spread["median"] if each.known else None for label, each in times.items()}


def _agree(found: Finding, target: str, winner: str) -> bool:
    """True if no single seed has another winner."""
    seeds = found.times[target][winner].seeds
    return all(_first(found, target, seed) in (None, winner) for seed in seeds)


def _first(found: Finding, target: str, seed: int) -> str | None:
    """Who wins in one seed alone; None if nobody gets there."""
    at = {label: value for label, each in found.times[target].items() if (value := each.seeds.get(seed)) is not None}
    if not at or min(at.values()) == math.inf:
        return None
    return min(at, key=lambda label: at[label])  # ties: in the scenario's order


def frontier(cells: Sequence[Cell], x: str, y: str) -> list[tuple[float, float, float, float]]:
    """The sides (x1, y1, x2, y2) between neighbours with different winners; cell i lies from i to i + 1."""
    winners = {(each.place.get(x, 0), each.place.get(y, 0)): each.first for each in cells}
    sides = []
    for (i, j), winner in sorted(winners.items()):
        if (i + 1, j) in winners and winners[i + 1, j] != winner:
            sides.append((i + 1.0, float(j), i + 1.0, j + 1.0))
        if (i, j + 1) in winners and winners[i, j + 1] != winner:
            sides.append((float(i), j + 1.0, i + 1.0, j + 1.0))
    return sides
