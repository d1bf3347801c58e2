"""Computes a study's findings from its runs, and from the times at which their rounds end on other links: times to
targets, reasons for differences, and the cells of the map.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from emulator.analysis.answer import Null
from emulator.analysis.cells import Cell, cell
from emulator.analysis.stamps import Stamps
from emulator.record.targets import Target
from emulator.results.observed import Observed, Runs
from emulator.results.times import Values, known_for, values
from emulator.results.why import Why, why

Variants = Mapping[str, str]  # algorithm -> the label under which its configuration was played


def chosen(runs: Runs, variants: Variants) -> Runs:
    """Returns, by algorithm, its runs in one configuration.

    `variants` names, by algorithm, the label of the runs with that configuration, by which `runs` has them.
    """
    return {label: runs[name] for label, name in variants.items() if name in runs}


def elsewhere(runs: Runs, stamps: Stamps) -> tuple[Runs, list[str]]:
    """Returns the runs as they are on other links, and the labels that are left out, because not all of their runs have
    an exact replay there.

    `stamps`: the times at which rounds end there, s, by label and seed.
    """
    found: dict[str, dict[int, Observed]] = {}
    lost = []
    for label, of in runs.items():
        there = {seed: stamps.get(label, {}).get(seed) for seed in of}
        if any(ends is None for ends in there.values()):
            lost.append(label)
            continue
        found[label] = {seed: run.elsewhere(there[seed] or ()) for seed, run in of.items()}
    return found, lost


def all_values(on: Mapping[str, Runs], targets: Sequence[Target]) -> list[Values]:
    """Returns the times of all algorithms on each link to each target, each up to the algorithm's own horizon, which is
    the end of the first of its runs that missed the target.

    `on`: runs by link.
    """
    each = ((link, target, label, of) for link, runs in on.items() for target in targets for label, of in runs.items())
    return [found for link, target, label, of in each for found in values(link, target, {label: of}, None)]


def reasons(found: Sequence[Values], runs: Runs, pairs: Sequence[tuple[str, str]], link: str) -> Iterator[Why]:
    """Yields the reasons for the ratio of two algorithms' times on one link, for each pair and each target.

    `found`: the times of algorithms.  `runs`: their runs on this link.
    """
    here = {(each.label, each.target): each for each in found if each.link == link}
    for label, base in pairs:
        for target in dict.fromkeys(each.target for each in found):
            if (mine := here.get((label, target))) and (theirs := here.get((base, target))):
                tau = known_for(mine.times, theirs.times)
                yield why(replace(mine, tau=tau), replace(theirs, tau=tau), runs)


def nulls(runs: Runs, labels: Sequence[str], baseline: str) -> list[Null]:
    """Compares nulls (algorithms without their penalty) with the baseline, seed by seed.

    `labels`: the nulls.  Only rounds that both have played are compared, because a slower algorithm plays fewer rounds
    until the horizon.
    """
    return [
        _null(label, seed, run, base)
        for label in labels
        for seed, run in sorted(runs[label].items())
        if (base := runs[baseline].get(seed)) is not None
    ]


def _null(label: str, seed: int, run: Observed, base: Observed) -> Null:
    mine, theirs = ([(row["accuracy"], row.get("loss")) for row in each.rows] for each in (run, base))
    differs = (n for n, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other)
    known = sum(each != (None, None) for each, _ in zip(mine, theirs, strict=False))
    return Null(label, seed, known, next(differs, None))


def cells(
    places: Sequence[Mapping[str, float | str]],
    stamps: Sequence[Stamps],
    variants: Sequence[Variants],
    runs: Runs,
    target: Target,
) -> list[Cell]:
    """Returns one cell for each place, with the algorithm that reaches the target first there.

    `places`: the coordinates of each place (a point of the map or a recorded link).  `stamps`: the times at which
    rounds end there, by label and seed; those after the target was reached may be missing.  `variants`: by algorithm,
    the label of the runs with the configuration that is best there.
    """
    found = []
    for place, there, which in zip(places, stamps, variants, strict=True):
        known, _ = elsewhere(chosen(runs, which), renamed(there, which))
        times = {label: {seed: run.timed(target) for seed, run in of.items()} for label, of in known.items()}
        found.append(cell(place, times, which))
    return found


def renamed(stamps: Stamps, variants: Variants) -> Stamps:
    """Returns, by algorithm, the stamps (times at which rounds end) of the configuration that `variants` names."""
    return {label: stamps[name] for label, name in variants.items() if name in stamps}
