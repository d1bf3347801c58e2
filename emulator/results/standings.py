"""Who got to a target when, over one horizon, and how that compares with the baseline and with the first.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import inf
from typing import Any

from emulator.record.targets import Target
from emulator.results.holm import holm
from emulator.results.observed import Observed
from emulator.results.restricted import Contrast, contrast
from emulator.results.summary import Rows
from emulator.results.times import Values, values

Runs = Mapping[str, Mapping[int, Rows]]  # {label: {seed: rows}}
LEVEL = 0.05
OWN = "own links"


def observed(runs: Runs) -> dict[str, dict[int, Observed]]:
    """Runs as far as they were played; those that have no round yet say nothing."""
    found = {
        label: {seed: Observed(rows, tuple(float(row["time_s"]) for row in rows)) for seed, rows in of.items() if rows}
        for label, of in runs.items()
    }
    return {label: of for label, of in found.items() if of}


def standings(seen: Mapping[str, Mapping[int, Observed]], target: Target) -> list[Values]:
    """The least restricted mean time first; of equal ones, that which got there more often, or sooner."""
    return sorted(values(OWN, target, seen, None), key=_place)


def _place(each: Values) -> tuple[float, float, float]:
    known = [found.time for found in each.times.values() if found.time is not None]
    return each.mean, -len(known) / len(each.times), sum(known) / len(known) if known else inf


def against(each: Values, base: Values) -> Contrast | None:
    """The ratio of restricted mean times with its interval; None below 5 shared seeds, or if nothing is known."""
    return contrast(each.times, base.times, each.tau) if each.tau > 0 else None


def differing(contrasts: Mapping[str, Contrast | None]) -> set[str]:
    """Those whose ratio is not 1, after Holm's adjustment over all of them."""
    adjusted = holm({label: each.p for label, each in contrasts.items() if each})
    return {label for label, p in adjusted.items() if p < LEVEL}


def with_intervals(summary: Mapping[str, Any], runs: Runs, targets: Sequence[Target]) -> dict[str, Any]:
    """The summary with the restricted mean time at each target, s, as `mean_s`, and as `paired` its ratio to the
    baseline's; None where they are not known."""
    seen = observed(runs)
    baseline = summary["baseline"]
    labels = {label: {**said, "targets": dict(said["targets"])} for label, said in summary["labels"].items()}
    for target in targets:
        found = {each.label: each for each in standings(seen, target)}
        for label, said in labels.items():
            ratio = against(found[label], found[baseline]) if label in found and baseline in found else None
            more: dict[str, Any] = {"mean_s": found[label].mean if ratio else None}
            if label != baseline:
                more["paired"] = _plain(ratio)
            said["targets"][target.name] = {**said["targets"][target.name], **more}
    return {**summary, "labels": labels}


def _plain(ratio: Contrast | None) -> dict[str, Any] | None:
    """As summary.json has it: `tau` is null where every run reached the target."""
    return {**asdict(ratio), "tau": None if ratio.tau == inf else ratio.tau} if ratio else None
