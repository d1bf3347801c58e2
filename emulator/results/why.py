"""Explains why an algorithm takes longer or less: by more rounds or longer ones, and by what their seconds, bytes and
joules are spent on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any

from emulator.record.targets import Target
from emulator.results.observed import Observed, Runs
from emulator.results.resampling import Interval, as_bound
from emulator.results.restricted import TimeRatio, restricted, split
from emulator.results.restricted import ratio as ratio_of_means
from emulator.results.times import Values

Row = Mapping[str, Any]
PHASES = {"setup_s": "set-up", "down_s": "download", "compute_s": "compute", "up_s": "upload", "server_s": "server"}
WAIT = "wait_s"


@dataclass(frozen=True)
class Why:
    """The ratio of two algorithms' times to a target, split into rounds and seconds per round, and the ratios of their
    bytes and joules."""

    target: Target
    label: str
    base: str
    split: TimeRatio | None  # None: below 5 seeds
    bytes: Interval | None
    joules: Interval | None


def why(mine: Values, theirs: Values, runs: Runs) -> Why:
    """Returns the explanation for `mine` against `theirs` on the runs' own links, counted in each run up to its
    restricted time."""
    own, base = until(mine, runs), until(theirs, runs)
    known, cut = None not in (*own["joules"].values(), *base["joules"].values()), as_bound(mine.cut, theirs.cut)
    return Why(
        mine.target,
        mine.label,
        theirs.label,
        split(
            (_all(own["time_s"]), _all(base["time_s"])),
            (_all(own["rounds"]), _all(base["rounds"])),
            cut,
        ),
        ratio_of_means(_all(own["bytes"]), _all(base["bytes"]), cut),
        ratio_of_means(_all(own["joules"]), _all(base["joules"]), cut) if known else None,
    )


def _all(amounts: Mapping[int, float | None]) -> dict[int, float]:
    return {seed: value for seed, value in amounts.items() if value is not None}


def until(found: Values, runs: Runs) -> dict[str, dict[int, float | None]]:
    """Returns, by name and then by seed, the seconds up to the restricted time (`time_s`), and the `rounds`, `bytes`
    and `joules` spent until then.

    If a seed reached the target, its rounds are exactly those that it took.  Joules that are not known are None.
    """
    times = restricted(list(found.times.values()), found.bound)
    ends = dict(zip(found.times, map(float, times), strict=True))
    own = runs[found.label]
    return {
        "time_s": {**ends},
        "rounds": {seed: own[seed].rounds_until(end) for seed, end in ends.items()},
        "bytes": {seed: own[seed].bytes_until(end) for seed, end in ends.items()},
        "joules": {seed: own[seed].joules_until(end) for seed, end in ends.items()},
    }


@dataclass(frozen=True)
class Pace:
    """What an average round of an algorithm consists of: means over all rounds and seeds."""

    label: str
    seconds: Mapping[str, float]  # by what: download weights, compute fisher, upload, ...
    bytes: Mapping[str, float]  # by way and kind
    joules: float | None

    @property
    def total(self) -> float:
        """Seconds of an average round."""
        return fsum(self.seconds.values())


def pace(label: str, runs: Mapping[int, Observed]) -> Pace:
    """Returns the average round of an algorithm.  Its seconds are those of the critical path: of transfers by kind of
    tensor, in proportion to their bytes, and of computing by phase."""
    rows = [row for run in runs.values() for row in run.rows]
    seconds: dict[str, float] = defaultdict(float)
    carried: dict[str, float] = defaultdict(float)
    for row in rows:
        for what, share in _parts(row["critical"]):
            seconds[what] += share
        for way, kinds in row["bytes"].items():
            for kind, size in kinds.items():
                carried[f"{way} {kind}"] += size
    spent = [value for row in rows for value in row.get("joules", {"": None}).values()]
    count = max(1, len(rows))
    energy = None if None in spent else fsum(value or 0.0 for value in spent) / count
    return Pace(
        label,
        {what: total / count for what, total in sorted(seconds.items())},
        {what: total / count for what, total in sorted(carried.items())},
        energy,
    )


def _parts(critical: Row) -> Iterator[tuple[str, float]]:
    """Yields (what, seconds) for each part of a round's critical path, such as ("upload weights", 1.2)."""
    for key, what in PHASES.items():
        found = critical[key]
        if isinstance(found, Mapping):
            for kind, seconds in found.items():
                yield f"{what} {kind}", float(seconds)
        else:
            yield what, float(found)
    yield "waiting", float(critical[WAIT])
