"""From runs, and from when their rounds end elsewhere, to values, comparisons, reasons, cells.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from emulator.analysis.answer import Moved, Null
from emulator.analysis.cells import Cell, cell
from emulator.analysis.stamps import Stamps
from emulator.record.targets import Target
from emulator.results.comparison import OWN
from emulator.results.observed import Observed, Runs
from emulator.results.restricted import contrast
from emulator.results.times import Values, bound, mean, values
from emulator.results.why import Why, why

Variants = Mapping[str, str]  # algorithm -> the label under which its configuration was played


def chosen(runs: Runs, variants: Variants) -> Runs:
    """The runs of each algorithm in the configuration that is named."""
    return {label: runs[name] for label, name in variants.items() if name in runs}


def elsewhere(runs: Runs, stamps: Stamps) -> tuple[Runs, list[str]]:
    """The runs where their rounds end at other times; and the labels that are not known there."""
    found: dict[str, dict[int, Observed]] = {}
    lost = []
    for label, of in runs.items():
        there = {seed: stamps.get(label, {}).get(seed) for seed in of}
        if any(ends is None for ends in there.values()):
            lost.append(label)
            continue
        found[label] = {seed: run.elsewhere(there[seed] or ()) for seed, run in of.items()}
    return found, lost


def all_values(
    on: Mapping[str, Runs], targets: Sequence[Target], wanted: float | None, aside: Collection[str] = ()
) -> list[Values]:
    """On each link and to each target.  `wanted`: the horizon, s, that the protocol names for the runs' own links;
    `aside`: those that cut no times but their own.

    On other links the same rounds take other times: there all runs are known until the first one ends.
    """
    return [
        each
        for link, runs in on.items()
        for target in targets
        for each in values(link, target, runs, wanted if link == OWN else None, aside)
    ]


def reasons(found: Sequence[Values], runs: Runs, pairs: Sequence[tuple[str, str]], link: str) -> Iterator[Why]:
    """Of each pair, to each target, on the runs' own links."""
    here = {(each.label, each.target): each for each in found if each.link == link}
    for label, base in pairs:
        for target in dict.fromkeys(each.target for each in found):
            if (mine := here.get((label, target))) and (theirs := here.get((base, target))):
                tau = min(mine.tau, theirs.tau)
                yield why(replace(mine, tau=tau), replace(theirs, tau=tau), runs)


def nulls(runs: Runs, labels: Sequence[str], baseline: str) -> list[Null]:
    """Algorithms without penalty beside the baseline.  A slower one plays fewer rounds until the horizon: those that
    it did not come to are no difference."""
    return [
        _null(label, seed, run, base)
        for label in labels
        for seed, run in sorted(runs[label].items())
        if (base := runs[baseline].get(seed)) is not None
    ]


def _null(label: str, seed: int, run: Observed, base: Observed) -> Null:
    both = [(mine["accuracy"], theirs["accuracy"]) for mine, theirs in zip(run.rows, base.rows, strict=False)]
    differs = (n for n, (mine, theirs) in enumerate(both) if mine != theirs)
    return Null(label, seed, sum(mine is not None for mine, _ in both), next(differs, None))


def cells(
    places: Sequence[Mapping[str, float | str]],
    stamps: Sequence[Stamps],
    variants: Sequence[Variants],
    runs: Runs,
    target: Target,
) -> list[Cell]:
    """Who is first at each place, with the configuration that is best there.

    Of a run that reached the target, no stamps are needed of the rounds after it.
    """
    found = []
    for place, there, which in zip(places, stamps, variants, strict=True):
        known, _ = elsewhere(chosen(runs, which), renamed(there, which))
        times = {label: {seed: run.timed(target) for seed, run in of.items()} for label, of in known.items()}
        found.append(cell(place, times, which))
    return found


def renamed(stamps: Stamps, variants: Variants) -> Stamps:
    """Those of each algorithm's configuration, by the algorithm's label."""
    return {label: stamps[name] for label, name in variants.items() if name in stamps}


def moved(factor: str, setting: str, runs: Runs, baseline: str, target: Target) -> list[Moved]:
    """How long each algorithm takes in one setting, over the baseline there."""
    found = {each.label: each for each in values(OWN, target, runs, None)}
    limit = bound((each for of in found.values() for each in of.times.values()), found[baseline].tau)
    return [_moved(factor, setting, each, found[baseline], limit) for each in found.values() if each.label != baseline]


def _moved(factor: str, setting: str, mine: Values, base: Values, limit: float) -> Moved:
    """`limit`: the seconds to which times are restricted."""
    every = (*mine.times.values(), *base.times.values())
    known = mine.tau > 0 and any(each.time is not None for each in every)
    counts = mine.reached, len(mine.times), base.reached
    if not known:
        return Moved(factor, setting, mine.label, None, None, *counts)
    over, means = contrast(mine.times, base.times, mine.tau), (mean(mine.times, limit), mean(base.times, limit))
    return Moved(factor, setting, mine.label, means[0] / means[1], over, *counts, *means)
