"""From runs, and from the times at which their rounds end on other links, to values, comparisons, reasons and cells.
Pure."""

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
    """The runs of each algorithm in the configuration that `variants` names, by the algorithm's label."""
    return {label: runs[name] for label, name in variants.items() if name in runs}


def elsewhere(runs: Runs, stamps: Stamps) -> tuple[Runs, list[str]]:
    """The runs with other end times of their rounds, and the labels for which these times are not known."""
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
    """Values on each link and to each target.

    `wanted`: the protocol's horizon on the runs' own links, s.  `aside`: algorithms whose runs shorten only their own
    horizon.  On other links rounds take other times, so there the horizon is the end of the first run.
    """
    return [
        each
        for link, runs in on.items()
        for target in targets
        for each in values(link, target, runs, wanted if link == OWN else None, aside)
    ]


def reasons(found: Sequence[Values], runs: Runs, pairs: Sequence[tuple[str, str]], link: str) -> Iterator[Why]:
    """The reasons for each pair's ratio of times, to each target, on one link."""
    here = {(each.label, each.target): each for each in found if each.link == link}
    for label, base in pairs:
        for target in dict.fromkeys(each.target for each in found):
            if (mine := here.get((label, target))) and (theirs := here.get((base, target))):
                tau = min(mine.tau, theirs.tau)
                yield why(replace(mine, tau=tau), replace(theirs, tau=tau), runs)


def nulls(runs: Runs, labels: Sequence[str], baseline: str) -> list[Null]:
    """Compares algorithms without their penalty with the baseline.  A slower one plays fewer rounds until the horizon;
    the missing rounds do not count as a difference."""
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
    """The ranking at each place, with the configurations that are best there.

    Rounds after the one in which a run reached the target need no stamps.
    """
    found = []
    for place, there, which in zip(places, stamps, variants, strict=True):
        known, _ = elsewhere(chosen(runs, which), renamed(there, which))
        times = {label: {seed: run.timed(target) for seed, run in of.items()} for label, of in known.items()}
        found.append(cell(place, times, which))
    return found


def renamed(stamps: Stamps, variants: Variants) -> Stamps:
    """The stamps of the configurations in `variants`, by the algorithm's label."""
    return {label: stamps[name] for label, name in variants.items() if name in stamps}


def moved(factor: str, setting: str, runs: Runs, baseline: str, target: Target) -> list[Moved]:
    """The ratio of each algorithm's time to the baseline's in one setting of a factor."""
    found = {each.label: each for each in values(OWN, target, runs, None)}
    limit = bound((each for of in found.values() for each in of.times.values()), found[baseline].tau)
    return [_moved(factor, setting, each, found[baseline], limit) for each in found.values() if each.label != baseline]


def _moved(factor: str, setting: str, mine: Values, base: Values, limit: float) -> Moved:
    """One algorithm's ratio to the baseline; `limit`: the horizon of its means, s."""
    every = (*mine.times.values(), *base.times.values())
    known = mine.tau > 0 and any(each.time is not None for each in every)
    counts = mine.reached, len(mine.times), base.reached
    if not known:
        return Moved(factor, setting, mine.label, None, None, *counts)
    over, means = contrast(mine.times, base.times, mine.tau), (mean(mine.times, limit), mean(base.times, limit))
    return Moved(factor, setting, mine.label, means[0] / means[1], over, *counts, *means)
