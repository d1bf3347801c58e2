"""The map of a study: the fastest algorithm for each link and device, where one is significantly faster.  Pure."""

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
GUESSED = "assumed"  # a recorded link has no uplink, so one was assumed
AXES = ("up_mbit_s", "down_over_up", "round_trip_ms", "speed_gflop_s")
NEAR = 1.01  # precision of a border: the ratio of the two uplinks that enclose it


@dataclass(frozen=True)
class Cell:
    """One point of the map, or one recorded link."""

    place: Mapping[str, float | str]
    means: Mapping[str, float]  # restricted mean time of each known algorithm, s
    first: str | None  # the algorithm with the least mean; None: no run reached the target, or replays are not exact
    second: str | None
    contrast: Contrast | None  # the runner-up's time over the winner's
    chosen: Mapping[str, str]  # the label of each algorithm's configuration in the record

    @property
    def winner(self) -> str:
        """The fastest algorithm if the interval against the runner-up excludes 1; else UNDECIDED or UNKNOWN."""
        if self.first is None:
            return UNKNOWN
        return self.first if self.contrast and self.contrast.decided else UNDECIDED

    @property
    def slight(self) -> bool:
        """True if the runner-up takes less than 1 % longer."""
        return self.contrast is not None and self.contrast.ratio < 1 + SLIGHT


def cell(
    place: Mapping[str, float | str],
    times: Mapping[str, Mapping[int, Timed]],
    chosen: Mapping[str, str],
) -> Cell:
    """The cell of a place: the fastest of these algorithms and the runner-up.

    All means share one horizon, so that they can be shown together; two algorithms are compared for as long as both are
    known.
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
    """The algorithm of the two with the smaller mean over their common horizon; `one` if they are equal."""
    limit = bound([*times[one].values(), *times[other].values()], known_for(times[one], times[other]))
    return other if mean(times[other], limit) < mean(times[one], limit) else one


def grid(said: Grid) -> list[tuple[dict[str, float], Condition]]:
    """The points of the map, each with the links and the speed of all devices there."""
    return [
        (dict(zip(AXES, at, strict=True)), at_point(*at))
        for at in product(said.up_mbit_s, said.down_over_up, said.round_trip_ms, said.speed_gflop_s)
    ]


def at_point(up: float, ratio: float, round_trip: float, speed: float) -> Condition:
    """The condition at a point: uplink in Mbit/s, downlink as a multiple of it, round trip in ms, speed in GFLOP/s."""
    return Condition(
        f"{up:g} Mbit/s, {ratio:g}:1, {round_trip:g} ms, {speed:g} GFLOP/s",
        down=up * ratio * 1e6 / 8,
        up=up * 1e6 / 8,
        latency=round_trip / 2e3,
        speed=speed * 1e9,
    )


@dataclass(frozen=True)
class Border:
    """The uplink at which the faster of two algorithms changes, with all else equal."""

    place: Mapping[str, float]  # values of the other axes
    slower: str  # the faster algorithm on slower uplinks
    faster: str  # the faster algorithm on faster uplinks
    up_mbit_s: float


def borders(cells: Sequence[Cell], ratio: Callable[[Mapping[str, float], str, str], float]) -> Iterator[Border]:
    """Borders along the uplink between cells with different winners; undecided cells are skipped.  Bisection finds the
    uplink.

    `ratio(place, one, other)`: the mean time of `one` over that of `other` at a place.
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
    """The value, to 1 %, at which a ratio reaches 1; it is below 1 at `low` and above 1 at `high`."""
    while high / low > NEAR:
        middle = sqrt(low * high)
        low, high = (middle, high) if ratio(middle) <= 1 else (low, middle)
    return sqrt(low * high)


def winners(cells: Sequence[Cell], always: Sequence[str] = ()) -> dict[str, int]:
    """The number of cells by winner, UNDECIDED and UNKNOWN included; algorithms in `always` are listed even with
    none."""
    found = dict.fromkeys(always, 0)
    for each in cells:
        found[each.winner] = found.get(each.winner, 0) + 1
    return found
