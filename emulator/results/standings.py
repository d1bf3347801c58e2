"""Adds to a summary the mean times to targets, restricted to one horizon, and their ratios to the baseline's.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import inf
from statistics import fmean
from typing import Any

from emulator.record.targets import Target
from emulator.results.comparison import OWN, compared, observed, rankings
from emulator.results.resampling import as_bound
from emulator.results.summary import MEASURES, Rows
from emulator.results.times import Values, values
from emulator.results.why import until

Runs = Mapping[str, Mapping[int, Rows]]  # {label: {seed: rows}}


def with_means(summary: Mapping[str, Any], runs: Runs, targets: Sequence[Target], pairs: bool = True) -> dict[str, Any]:
    """Returns the summary with the `mean` of time, rounds, bytes and, where known, joules for each target.  They count
    up to the second in which the target was reached, or up to the horizon.  `ratio_to_baseline` has the ratios of these
    means.

    `bound` says if these ratios are bounds, because runs were cut off at the horizon (`resampling.as_bound`).  `paired`
    is the ratio of times with its interval; `ranking` compares all algorithms at the hardest target that was reached.
    Without `pairs` these two are None, because the seeds of runs of different lengths are no pairs.
    """
    seen, baseline = observed(runs), summary["baseline"]
    labels = {label: {**said, "targets": dict(said["targets"])} for label, said in summary["labels"].items()}
    for target in targets:
        found = {each.label: each for each in values(OWN, target, seen, None)}
        reached = any(timed.time is not None for each in found.values() for timed in each.times.values())
        means = {label: _means(each, seen) for label, each in found.items()} if reached else {}
        base = means.get(baseline, {})
        for label, said in labels.items():
            entry, own = dict(said["targets"][target.name]), means.get(label, {})
            for measure in (*MEASURES, "joules"):
                if entry[measure]:
                    entry[measure] = {**entry[measure], "mean": own.get(measure)}
            entry["ratio_to_baseline"] = {m: _ratio(own.get(m), base.get(m)) for m in MEASURES}
            if label != baseline:
                both = [found[each] for each in (label, baseline) if each in found] if means else []
                entry["bound"] = as_bound(*(each.cut for each in both)) if len(both) == 2 else None
                entry["paired"] = paired = _paired(*both) if pairs and len(both) == 2 else None
                if paired:
                    entry["ratio_to_baseline"]["time_s"] = paired["ratio"]
            said["targets"][target.name] = entry
    ranked = rankings(seen, targets) if pairs else []
    return {**summary, "labels": labels, "ranking": ranked[0].plain if ranked else None}


def _means(found: Values, seen: Mapping[str, Any]) -> dict[str, float | None]:
    """Returns the means over seeds of the seconds, rounds, bytes and joules spent until the restricted time, by name;
    None for one that is not known for every seed. {} if the horizon is 0."""
    if not found.bound:
        return {}
    spent = until(found, seen)
    return {name: _mean(each.values()) for name, each in spent.items()}


def _mean(values: Iterable[float | None]) -> float | None:
    held = list(values)
    known = [value for value in held if value is not None]
    return fmean(known) if len(known) == len(held) else None


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None


def _paired(mine: Values, base: Values) -> dict[str, Any] | None:
    """Returns the ratio of times to the baseline's with its interval, as summary.json holds it; None if there is none.
    `tau`, the horizon, is None if every run reached the target."""
    ratio = compared(mine, base, mine.tau).contrast
    return {**asdict(ratio), "tau": None if ratio.tau == inf else ratio.tau} if ratio else None
