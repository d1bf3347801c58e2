"""The map of a study: for many links and device speeds, the fastest algorithm, if it is significantly faster than the
next one.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import pairwise, product
from math import sqrt

from emulator.replay.conditions import Condition
from emulator.results.comparison import LEVEL
from emulator.results.resampling import SLIGHT
from emulator.results.restricted import Contrast, Timed, contrast
from emulator.results.times import bound, known_for, mean, sooner
from scenarios.schema.study import Grid

UNDECIDED = "undecided"
UNKNOWN = "not known"
GUESSED = "assumed"  # a recorded link has no uplink, so one was assumed
AXES = ("up_mbit_s", "down_over_up", "round_trip_ms", "speed_gflop_s")
NEAR = 1.01  # precision of a border: the ratio of the two uplinks that enclose it


@dataclass(frozen=True)
class Cell:
    """The ranking of algorithms at one place: a point of the map, or a recorded link."""

    place: Mapping[str, float | str]
    means: Mapping[str, float]  # restricted mean time of each known algorithm, s
    first: str | None  # the algorithm with the least mean; None: no run reached the target, or replays are not exact
    second: str | None
    contrast: Contrast | None  # the runner-up's time over the winner's
    chosen: Mapping[str, str]  # the label of each algorithm's configuration in the record
    rest: Sequence[Contrast | None] = ()  # times of all others but the runner-up over the winner's
    times: Mapping[str, Mapping[int, Timed]] = field(default_factory=dict)  # to the target, by label and seed

    @property
    def p(self) -> float | None:
        """The largest p-value of the comparisons of `first` with all others; None if the runner-up has none.

        It is fastest only if each of the others is slower (an intersection-union test), so one that is not slower, or
        not known to be, counts as 1.
        """
        if self.contrast is None:
            return None
        return max(each.p if each and each.ratio > 1 else 1.0 for each in (self.contrast, *self.rest))

    @property
    def winner(self) -> str:
        """The fastest algorithm, if all others take significantly longer, without adjustment.

        Otherwise UNDECIDED; but UNKNOWN if no run reached the target, or replays are not exact.
        """
        if self.first is None:
            return UNKNOWN
        return self.first if self.p is not None and self.p < LEVEL else UNDECIDED

    @property
    def slight(self) -> bool:
        """True if the runner-up takes less than 1 % longer."""
        return self.contrast is not None and self.contrast.ratio < 1 + SLIGHT


def cell(
    place: Mapping[str, float | str],
    times: Mapping[str, Mapping[int, Timed]],
    chosen: Mapping[str, str],
) -> Cell:
    """Returns the cell of a place, with the fastest of these algorithms and the runner-up.

    `times`: times to the target, by label and seed.  `chosen`: as in `Cell`.  All means have the same horizon, so that
    they can be shown together.  The comparison of two algorithms has the longer horizon for which both are known.
    """
    every = [each for of in times.values() for each in of.values()]
    tau = known_for(*times.values())
    means = {label: mean(of, bound(every, tau)) for label, of in times.items()}
    if tau == 0 or all(each.time is None for each in every):
        return Cell(place, means, None, None, None, chosen, times=times)
    missed = {label: sum(each.time is None for each in of.values()) for label, of in times.items()}
    order = sorted(times, key=lambda label: (means[label], missed[label]))
    first = reduce(partial(sooner, times), order)
    if len(order) == 1:
        return Cell(place, means, first, None, None, chosen, times=times)
    second = reduce(partial(sooner, times), [label for label in order if label != first])

    def over(label: str) -> Contrast | None:
        both = known_for(times[label], times[first])
        return contrast(times[label], times[first], both) if both > 0 else None

    rest = [over(label) for label in order if label not in (first, second)]
    return Cell(place, means, first, second, over(second), chosen, rest, times)


def grid(said: Grid) -> list[tuple[dict[str, float], Condition]]:
    """Returns the points of the map: the coordinates of each, by axis, and its links and device speed for replays.  An
    axis without values has no coordinate, and its links or speeds stay as they are."""
    axes = [(axis, values) for axis in AXES if (values := getattr(said, axis))]
    places = [dict(zip((axis for axis, _ in axes), at, strict=True)) for at in product(*(values for _, values in axes))]
    return [(place, at_point(place)) for place in places]


def at_point(place: Mapping[str, float]) -> Condition:
    """Returns the links and device speed at a point of the map, from its coordinates: `up_mbit_s`, and where they are
    given `down_over_up`, the downlink as a multiple of the uplink, `round_trip_ms`, and `speed_gflop_s` of all
    devices."""
    up, ratio, trip, speed = (place.get(axis) for axis in AXES)
    assert up is not None
    given = {" Mbit/s": up, ":1": ratio, " ms": trip, " GFLOP/s": speed}
    return Condition(
        ", ".join(f"{value:g}{unit}" for unit, value in given.items() if value is not None),
        down=None if ratio is None else up * ratio * 1e6 / 8,
        up=up * 1e6 / 8,
        latency=None if trip is None else trip / 2e3,
        speed=None if speed is None else speed * 1e9,
    )


@dataclass(frozen=True)
class Border:
    """An uplink rate at which the fastest algorithm changes from one to another, if nothing but the uplink changes."""

    place: Mapping[str, float]  # values of the other axes
    slower: str  # the faster algorithm on slower uplinks
    faster: str  # the faster algorithm on faster uplinks
    up_mbit_s: float


def borders(cells: Sequence[Cell], ratio: Callable[[Mapping[str, float], str, str], float]) -> Iterator[Border]:
    """Yields the borders between cells that differ only in the uplink and have different winners.

    Cells without a winner are skipped.  Bisection finds the uplink rate of each border.  `ratio(place, one, other)`
    returns the mean time of `one` over the mean time of `other` at a place.
    """
    rows: dict[tuple[tuple[str, float | str], ...], list[Cell]] = {}
    for each in cells:
        rows.setdefault(tuple((axis, each.place[axis]) for axis in AXES[1:] if axis in each.place), []).append(each)
    for others, row in rows.items():
        won = [each for each in row if each.winner not in (UNDECIDED, UNKNOWN)]
        ordered = sorted(won, key=lambda each: float(each.place[AXES[0]]))
        place = {axis: float(value) for axis, value in others}
        for low, high in pairwise(ordered):
            one, other = low.winner, high.winner
            if one != other:

                def at(up: float, place: Mapping[str, float] = place, one: str = one, other: str = other) -> float:
                    return ratio({AXES[0]: up, **place}, one, other)

                found = crossing(at, float(low.place[AXES[0]]), float(high.place[AXES[0]]))
                yield Border(place, one, other, found)


def crossing(ratio: Callable[[float], float], low: float, high: float) -> float:
    """Returns the argument, to within 1 %, at which the function `ratio` reaches 1.

    The function must be below 1 at `low` and above 1 at `high`.
    """
    while high / low > NEAR:
        middle = sqrt(low * high)
        low, high = (middle, high) if ratio(middle) <= 1 else (low, middle)
    return sqrt(low * high)


def winners(cells: Sequence[Cell], always: Sequence[str] = ()) -> dict[str, int]:
    """Returns the number of cells by winner, which may also be UNDECIDED or UNKNOWN.

    `always`: algorithms that get an entry even if they win no cell.
    """
    found = dict.fromkeys(always, 0)
    for each in cells:
        found[each.winner] = found.get(each.winner, 0) + 1
    return found
