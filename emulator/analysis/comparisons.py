"""Pairwise comparisons of times to targets on one or several links, with Holm's adjustment over targets and links."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.record.targets import Target
from emulator.results.comparison import OWN, Comparison, Ranking, adjusted, compared, place
from emulator.results.times import Values, known_for


def comparisons(found: Sequence[Values], pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
    """The comparisons of each pair on each link and to each target; p-values are adjusted over a pair's targets and
    links."""
    at = {(each.link, each.target, each.label): each for each in found}
    made: list[Comparison] = []
    for label, base in pairs:
        both = [
            (mine, theirs)
            for (link, target, name), mine in at.items()
            if name == label and (theirs := at.get((link, target, base)))
        ]
        made += adjusted([compared(mine, theirs, _horizon(mine, theirs)) for mine, theirs in both])
    return made


def ranking(found: Sequence[Values], labels: Sequence[str], target: Target) -> Ranking | None:
    """The ranking of these algorithms on the study's own links; None if no run reached the target.

    Comparisons with the best algorithm are made as in `comparisons`, so a pair of the protocol has the same p-value
    here.
    """
    here = [each for each in found if (each.link, each.target) == (OWN, target) and each.label in labels]
    if not any(each.reached for each in here):
        return None
    best, *others = sorted(here, key=place)
    made = comparisons(found, [(each.label, best.label) for each in others])
    return Ranking(best, [each for each in made if (each.link, each.target) == (OWN, target)])


def _horizon(mine: Values, theirs: Values) -> float:
    """The horizon of a comparison, s: on the study's own links the common one, or that of a row that ends earlier.

    On other links the same rounds end at other times.  There two algorithms are compared for as long as both are known,
    so that a third one that ended early does not shorten their horizon.
    """
    if mine.link == OWN:
        return min(mine.tau, theirs.tau)
    return known_for(mine.times, theirs.times)
