"""Compares algorithms in pairs by their times to targets on one or several links.  Holm's method adjusts the p-values
of a pair over its targets and links."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from math import inf

from emulator.record.targets import Target
from emulator.results.comparison import OWN, Comparison, Ranking, adjusted, compared, place
from emulator.results.times import Values, known_for, sooner


def comparisons(found: Sequence[Values], pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
    """Returns the comparisons of each pair (algorithm, base), on each link and for each target.

    `found`: the times of all algorithms.  The horizon of a comparison is the time for which the runs of both are known,
    so that a third algorithm that ended early does not shorten it.  The p-values of a pair are adjusted over all of its
    targets and links.
    """
    at = {(each.link, each.target, each.label): each for each in found}
    made: list[Comparison] = []
    for label, base in pairs:
        both = [
            (mine, theirs)
            for (link, target, name), mine in at.items()
            if name == label and (theirs := at.get((link, target, base)))
        ]
        made += adjusted([compared(mine, theirs, known_for(mine.times, theirs.times)) for mine, theirs in both])
    return made


def ranking(found: Sequence[Values], labels: Sequence[str], target: Target) -> Ranking | None:
    """Returns the ranking of the algorithms in `labels` on the study's own links; None if none of their runs reached
    the target.

    The best one has the smaller mean time of any two, over the horizon of these two; ties go as in `place`.  All others
    are compared with it by `comparisons`, so a pair of the protocol has the same p-value here.  They are in the order
    of their ratios.
    """
    here = [each for each in found if (each.link, each.target) == (OWN, target) and each.label in labels]
    if not any(each.reached for each in here):
        return None
    times = {each.label: each.times for each in sorted(here, key=lambda each: place(each)[1:])}
    first = reduce(partial(sooner, times), times)
    made = comparisons(found, [(label, first) for label in times if label != first])
    others = [each for each in made if (each.link, each.target) == (OWN, target)]
    others.sort(key=lambda each: inf if each.ratio is None else each.ratio)
    return Ranking(next(each for each in here if each.label == first), others)
