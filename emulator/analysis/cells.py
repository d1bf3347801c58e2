"""The map of a study: who is fastest on which links and devices, where that is decided at all.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise, product
from math import sqrt

from emulator.replay.conditions import Condition
from emulator.results.resampling import SLIGHT
from emulator.results.restricted import Contrast, Timed, contrast
from emulator.results.times import bound, known_for, mean
from scenarios.schema.study import Grid

UNDECIDED = "undecided"
UNKNOWN = "not known"
GUESSED = "assumed"  # the uplink of a recorded link that has none
AXES = ("up_mbit_s", "down_over_up", "round_trip_ms", "speed_gflop_s")
NEAR = 1.01  # how well the frontier is known: the ratio of uplinks between which it lies


@dataclass(frozen=True)
class Cell:
    """One point of the map, or one trace."""

    place: Mapping[str, float | str]
    means: Mapping[str, float]  # restricted mean time by algorithm, s; of those that are known
    first: str | None  # by the means; None: nobody gets there, or it is not known
    second: str | None
    contrast: Contrast | None  # the second one's time over the first one's
    chosen: Mapping[str, str]  # the configuration of each algorithm, as it is called in the record

    @property
    def winner(self) -> str:
        """The first, if the interval against the runner-up leaves 1 out."""
        if self.first is None:
            return UNKNOWN
        return self.first if self.contrast and self.contrast.decided else UNDECIDED

    @property
    def slight(self) -> bool:
        """Whether the second takes less than 1 % longer."""
        return self.contrast is not None and self.contrast.ratio < 1 + SLIGHT


def cell(
    place: Mapping[str, float | str],
    times: Mapping[str, Mapping[int, Timed]],
    chosen: Mapping[str, str],
) -> Cell:
    """Who is first among these algorithms, and who next.

    The means stand side by side, so they have one horizon; any two are compared for as long as both are known.
    """
    every = [each for of in times.values() for each in of.values()]
    tau = known_for(*times.values())
    means = {label: mean(of, bound(every, tau)) for label, of in times.items()}
    if tau == 0 or all(each.time is None for each in every):
        return Cell(place, means, None, None, None, chosen)
    missed = {label: sum(each.time is None for each in of.values()) for label, of in times.items()}
    order = sorted(times, key=lambda label: (means[label], missed[label]))
    first = reduce(partial(_sooner, times), order)
    if len(order) == 1:
        return Cell(place, means, first, None, None, chosen)
    second = reduce(partial(_sooner, times), [label for label in order if label != first])
    both = known_for(times[first], times[second])
    return Cell(place, means, first, second, contrast(times[second], times[first], both) if both > 0 else None, chosen)


def _sooner(times: Mapping[str, Mapping[int, Timed]], one: str, other: str) -> str:
    """Of two the one with the lesser mean, over the horizon of both; the first of equals."""
    limit = bound([*times[one].values(), *times[other].values()], known_for(times[one], times[other]))
    return other if mean(times[other], limit) < mean(times[one], limit) else one


def grid(said: Grid) -> list[tuple[dict[str, float], Condition]]:
    """Each point of the map, and what all devices' links and speeds are there."""
    return [
        (dict(zip(AXES, at, strict=True)), at_point(*at))
        for at in product(said.up_mbit_s, said.down_over_up, said.round_trip_ms, said.speed_gflop_s)
    ]


def at_point(up: float, ratio: float, round_trip: float, speed: float) -> Condition:
    """Rates in Mbit/s, the downlink as a multiple of the uplink, ms, GFLOP/s."""
    return Condition(
        f"{up:g} Mbit/s, {ratio:g}:1, {round_trip:g} ms, {speed:g} GFLOP/s",
        down=up * ratio * 1e6 / 8,
        up=up * 1e6 / 8,
        latency=round_trip / 2e3,
        speed=speed * 1e9,
    )


@dataclass(frozen=True)
class Border:
    """The uplink at which the faster of two algorithms changes, all else being equal."""

    place: Mapping[str, float]  # the other axes
    slower: str  # who is first on slower uplinks
    faster: str  # and on faster ones
    up_mbit_s: float


def borders(cells: Sequence[Cell], ratio: Callable[[Mapping[str, float], str, str], float]) -> Iterator[Border]:
    """Where the winner changes along the uplink, undecided cells apart; the uplink is found by bisection.

    `ratio(place, one, other)` is the mean time of one over that of the other at a place.
    """
    rows: dict[tuple[float | str, ...], list[Cell]] = {}
    for each in cells:
        rows.setdefault(tuple(each.place[axis] for axis in AXES[1:]), []).append(each)
    for others, row in rows.items():
        won = [each for each in row if each.winner not in (UNDECIDED, UNKNOWN)]
        ordered = sorted(won, key=lambda each: float(each.place[AXES[0]]))
        place = {axis: float(value) for axis, value in zip(AXES[1:], others, strict=True)}
        for low, high in pairwise(ordered):
            one, other = low.winner, high.winner
            if one != other:

                def at(up: float, place: Mapping[str, float] = place, one: str = one, other: str = other) -> float:
                    return ratio({AXES[0]: up, **place}, one, other)

                found = crossing(at, float(low.place[AXES[0]]), float(high.place[AXES[0]]))
                yield Border(place, one, other, found)


def crossing(ratio: Callable[[float], float], low: float, high: float) -> float:
    """Where a ratio that is below 1 at `low`, and above at `high`, is 1; to 1 %."""
    while high / low > NEAR:
        middle = sqrt(low * high)
        low, high = (middle, high) if ratio(middle) <= 1 else (low, middle)
    return sqrt(low * high)


def winners(cells: Sequence[Cell], always: Sequence[str] = ()) -> dict[str, int]:
    """How many cells each algorithm wins (those of `always` even where it is none), are undecided, or not known."""
    found = dict.fromkeys(always, 0)
    for each in cells:
        found[each.winner] = found.get(each.winner, 0) + 1
    return found
