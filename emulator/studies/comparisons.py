"""Times to targets on one or several links, compared pair by pair, with Holm's adjustment over targets and links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from emulator.record.targets import Target
from emulator.results.holm import holm
from emulator.results.restricted import Contrast, contrast
from emulator.results.times import Values, known_for
from emulator.studies.protocol import OWN

LEVEL = 0.05
SOME = 3  # seeds of either that must get there before a ratio is worth showing


@dataclass(frozen=True)
class Comparison:
    """One algorithm's time over another's, to one target on one link."""

    link: str
    target: Target
    label: str
    base: str
    contrast: Contrast | None  # None: below 5 seeds, or unknown there
    adjusted: float | None = None  # its p-value after Holm's adjustment

    @property
    def too_few(self) -> bool:
        """Whether so few seeds got there that little is known."""
        return self.contrast is None or max(self.contrast.reached, self.contrast.base_reached) < SOME

    @property
    def decided(self) -> bool:
        """Whether the two differ, over all targets and links together."""
        return self.adjusted is not None and self.adjusted < LEVEL

    @property
    def sooner(self) -> str | None:
        """Who is sooner; None if that is not decided."""
        if not self.decided or self.contrast is None:
            return None
        return self.label if self.contrast.ratio < 1 else self.base


def comparisons(found: Sequence[Values], pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
    """Each pair on each link and to each target; p-values are adjusted over the targets and links of a pair."""
    at = {(each.link, each.target, each.label): each for each in found}
    made = []
    for label, base in pairs:
        mine = list(_of_pair(at, label, base))
        adjusted = holm({n: each.contrast.p for n, each in enumerate(mine) if each.contrast})
        made += [replace(each, adjusted=adjusted.get(n)) for n, each in enumerate(mine)]
    return made


def _of_pair(at: Mapping[tuple[str, Target, str], Values], label: str, base: str) -> Iterator[Comparison]:
    for (link, target, name), mine in at.items():
        theirs = at.get((link, target, base))
        if name != label or theirs is None:
            continue
        tau = _horizon(mine, theirs)
        yield Comparison(link, target, label, base, contrast(mine.times, theirs.times, tau) if tau > 0 else None)


def _horizon(mine: Values, theirs: Values) -> float:
    """On the study's own links that of all algorithms, s, or of a row that ends before.

    On other links the rounds that were played end at times of their own: there two are compared for as long as both
    are known, so that a third that ended early decides nothing between them.
    """
    if mine.link == OWN:
        return min(mine.tau, theirs.tau)
    return known_for(mine.times, theirs.times)
