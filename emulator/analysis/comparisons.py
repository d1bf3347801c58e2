"""Times to targets on one or several links, compared pair by pair, with Holm's adjustment over targets and links."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.record.targets import Target
from emulator.results.comparison import OWN, Comparison, Ranking, adjusted, compared, place
from emulator.results.times import Values, known_for


def comparisons(found: Sequence[Values], pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
    """Each pair on each link and to each target; p-values are adjusted over the targets and links of a pair."""
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
    """These algorithms on the study's own links, over the one with the least mean time; None if none got there.

    Each is compared with it as in `comparisons`, so that a pair of the protocol has the same p-value here.
    """
    here = [each for each in found if (each.link, each.target) == (OWN, target) and each.label in labels]
    if not any(each.reached for each in here):
        return None
    best, *others = sorted(here, key=place)
    made = comparisons(found, [(each.label, best.label) for each in others])
    return Ranking(best, [each for each in made if (each.link, each.target) == (OWN, target)])


def _horizon(mine: Values, theirs: Values) -> float:
    """On the study's own links that of all algorithms, s, or of a row that ends before.

    On other links the rounds that were played end at times of their own: there two are compared for as long as both
    are known, so that a third that ended early decides nothing between them.
    """
    if mine.link == OWN:
        return min(mine.tau, theirs.tau)
    return known_for(mine.times, theirs.times)
