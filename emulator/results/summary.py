"""Summarises the runs of several algorithms and seeds: time, rounds and bytes to each target.  Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Any

from emulator.record.targets import Target, reached, value_of
from emulator.results import divergence, leverage
from emulator.results.pace import best, rounds_at_pace

Rows = Sequence[Mapping[str, Any]]
Spread = dict[str, float | None]  # mean, low, high; None: never

MEASURES = ("time_s", "rounds", "bytes")
FINALS = ("accuracy", "initial", "personalised")
FATES = ("asked", "counted", "late", "lost", "refused")
USES = ("useful", "wasted", "idle")  # uses of a device's seconds
FEW = 5  # seeds; with fewer the range is shown, otherwise the quartiles


def summarise(
    runs: Mapping[str, Mapping[int, Rows]],
    targets: Sequence[Target],
    momentum: Mapping[str, float | None],
    classes: Mapping[str, int] | None = None,
    metrics: Sequence[str] = ("accuracy",),
) -> dict[str, Any]:
    """Returns the summary of `runs`, rows of rounds by label and seed, without comparisons of algorithms.  The first
    label is the baseline.

    Warnings depend on each algorithm's `momentum` and on the number of `classes` in its data set.  `metrics`: those
    measured on test examples.
    """
    baseline, known = next(iter(runs)), classes or {}
    labels = {
        label: _label(seeds, targets, momentum[label], known.get(label, 0), metrics) for label, seeds in runs.items()
    }
    return {"baseline": baseline, "labels": labels}


def to_target(rows: Rows, target: Target) -> dict[str, float] | None:
    """Returns the virtual seconds, rounds, bytes and, if known, joules until the target was reached; None if it never
    was."""
    row = reached(rows, target)
    if row is None:
        return None
    so_far = [earlier for earlier in rows if earlier["round"] <= row["round"]]
    reached_at = {"time_s": row["time_s"], "rounds": row["round"] + 1, "bytes": sum(map(round_bytes, so_far))}
    spent = joules(so_far)
    return reached_at if spent is None else {**reached_at, "joules": spent}


def joules(rows: Rows) -> float | None:
    """Returns the joules that the devices which were asked drew in these rounds; None if the energy of a device is not
    known."""
    return _sum(value for row in rows for value in row.get("joules", {"": None}).values())


def _sum(each: Iterable[float | None]) -> float | None:
    held = list(each)
    known = [value for value in held if value is not None]
    return math.fsum(known) if len(known) == len(held) else None


def round_bytes(row: Mapping[str, Any]) -> int:
    """Returns the bytes of a round in both directions, including those of transfers that were cut."""
    return sum(size for kinds in row["bytes"].values() for size in kinds.values())


def spread(values: Iterable[float | None]) -> Spread:
    """Returns mean, low and high of values of all seeds.  None stands for a seed that never reached the target, and
    counts as infinite."""
    known = [inf if value is None else value for value in values]
    low, _, high = band(known)
    return {"mean": _finite(math.fsum(known) / len(known)), "low": _finite(low), "high": _finite(high)}


def band(values: Iterable[float]) -> tuple[float, float, float]:
    """Returns low, median and high of the values.  Below 5 values low and high are the extremes, otherwise the
    quartiles."""
    known = sorted(values)
    median = _quantile(known, 0.5)
    if len(known) < FEW:
        return known[0], median, known[-1]
    return _quantile(known, 0.25), median, _quantile(known, 0.75)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below, above = ordered[int(place)], ordered[min(int(place) + 1, len(ordered) - 1)]
    part = place - int(place)
    return below if part == 0 or below == above else below + part * (above - below)


def _finite(value: float) -> float | None:
    return None if value == inf else value


def _label(
    seeds: Mapping[int, Rows], targets: Sequence[Target], momentum: float | None, classes: int, metrics: Sequence[str]
) -> dict[str, Any]:
    finals = [rows[-1] for rows in seeds.values() if rows]
    rounds = [row for rows in seeds.values() for row in rows]
    spent = [joules(rows) for rows in seeds.values()]
    warned = (*leverage.warnings(rounds, momentum), *divergence.warnings(seeds, classes))
    return {
        "seeds": sorted(seeds),
        "rounds": {str(seed): len(rows) for seed, rows in sorted(seeds.items())},
        "targets": {target.name: _target(seeds, target) for target in targets},
        "final": {
            metric: spread([value_of(row, metric) for row in finals]) if finals else None
            for metric in (*metrics, *FINALS[1:])
            if all(value_of(row, metric) is not None for row in finals)
        },
        "numbers": {name: of for name, of in _numbers(finals).items() if name not in metrics},
        "time_s": spread([row["time_s"] for row in finals]) if finals else None,
        "bytes": spread([float(sum(map(round_bytes, rows))) for rows in seeds.values()]),
        "joules": None if None in spent else spread(spent),
        "joules_of_devices": _of_devices(seeds),
        "device_seconds": device_seconds(seeds),
        "device_rounds": fates(rounds),
        **({"staleness": found} if (found := staleness(seeds)) else {}),
        "warnings": [each._asdict() for each in warned],
    }


def fates(rows: Rows) -> dict[str, int]:
    """Returns the number of asked devices by fate, over all rows.  A reply that was late for its own round counts if it
    is in the model of a later one."""
    found = {fate: sum(row[fate] for row in rows) for fate in FATES}
    later = sum(sum(row["staleness"].values()) - row["counted"] for row in rows if row.get("staleness"))
    return {**found, "counted": found["counted"] + later, "late": found["late"] - later}


def staleness(seeds: Mapping[int, Rows]) -> dict[str, Any] | None:
    """Returns the staleness of all replies that are in a model, in rounds or versions: its mean, the largest, the
    number of replies by staleness, and the number that were too stale; and `at_work`, the mean number of devices at
    work.  None if no reply may be stale."""
    rounds, counts = list(chain.from_iterable(seeds.values())), Counter[int]()
    if not any("staleness" in row for row in rounds):
        return None
    for row in rounds:
        if not row["failed"]:
            counts.update({int(age): number for age, number in row.get("staleness", {"0": row["counted"]}).items()})
    if not counts.total():
        return None
    seconds = sum(rows[-1]["time_s"] for rows in seeds.values() if rows)
    used, runs = device_seconds(seeds), sum(bool(rows) for rows in seeds.values())
    return {
        "mean": sum(value * replies for value, replies in counts.items()) / counts.total(),
        "largest": max(counts),
        "counts": {str(value): replies for value, replies in sorted(counts.items())},
        "rejected": sum(row.get("stale", 0) for row in rounds),
        "at_work": sum(used.values()) * runs / seconds if used and seconds else None,
    }


def _of_devices(seeds: Mapping[int, Rows]) -> dict[str, float | None]:
    """Returns, by device, the joules in the rounds in which it was asked, summed over a run, as the mean over all
    seeds; None if the device's energy is not known."""
    each: dict[str, list[float | None]] = {}
    for rows in seeds.values():
        for row in rows:
            for name, spent in row.get("joules", {}).items():
                each.setdefault(name, []).append(spent)
    sums = {name: _sum(spent) for name, spent in sorted(each.items())}
    return {name: None if total is None else total / len(seeds) for name, total in sums.items()}


def device_seconds(seeds: Mapping[int, Rows]) -> dict[str, float] | None:
    """Returns the useful, wasted and idle seconds of whole runs, summed over all asked devices, as the mean over the
    seeds that have rounds.

    None if no round was completed, or if the record lacks these seconds.
    """
    rounds = list(chain.from_iterable(seeds.values()))
    known = [row["seconds"] for row in rounds if row.get("seconds")]
    if not rounds or len(known) < len(rounds):
        return None
    runs = sum(bool(rows) for rows in seeds.values())
    return {use: math.fsum(seconds[use] for seconds in known) / runs for use in USES}


def _numbers(finals: Rows) -> dict[str, Spread]:
    """Returns the spread over seeds of numbers that algorithms report in the last round of a run, such as drift and the
    penalty's share.  A number is left out unless all seeds have it."""
    told = [row.get("numbers", {}) for row in finals]
    names = sorted(set.intersection(*(set(numbers) for numbers in told))) if told else []
    return {name: spread([numbers[name] for numbers in told]) for name in names}


def _target(seeds: Mapping[int, Rows], target: Target) -> dict[str, Any]:
    found = {seed: to_target(rows, target) for seed, rows in sorted(seeds.items())}
    there = [at for at in found.values() if at is not None]
    metered = bool(there) and all("joules" in at for at in there)
    return {
        **{measure: _over_seeds(found.values(), measure) for measure in MEASURES},
        "joules": _over_seeds(found.values(), "joules") if metered else None,
        "reached": len(there),
        "of": len(found),
        "best": _best(seeds, target),
        "at_pace": None if there else rounds_at_pace([*seeds.values()], target),
        "seeds": {str(seed): at for seed, at in found.items()},
    }


def last(rows: Rows, metric: str) -> float | None:
    """Returns the value of the metric when it was last evaluated; None if it never was."""
    return next((value for row in reversed(rows) if (value := value_of(row, metric)) is not None), None)


def _best(seeds: Mapping[int, Rows], target: Target) -> Spread | None:
    """Returns the spread over seeds of the best value of the metric in a run; None if a seed was never evaluated."""
    tops = [best(rows, target) for rows in seeds.values()]
    return None if None in tops else spread(tops)


def _over_seeds(each: Iterable[Mapping[str, float] | None], measure: str) -> Spread:
    """Returns the spread over seeds of a measure at the target; `each` has None for a seed that did not reach the
    target."""
    return spread([None if at is None else at[measure] for at in each])
