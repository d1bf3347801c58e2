"""Sensitivity: how far each factor changes the ratio of an algorithm's time to the baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.analysis.answer import Moved

AS_IT_IS = "as it is"  # the factor and the setting of the runs in which nothing is changed


@dataclass(frozen=True)
class Swing:
    """The range of an algorithm's ratio of times to the baseline over the settings of one factor and the unchanged
    setting."""

    factor: str
    low: float
    high: float
    least: str  # the setting of the lowest ratio
    most: str

    @property
    def wide(self) -> float:
        """The highest ratio divided by the lowest."""
        return self.high / self.low


def unchanged(moved: Sequence[Moved], label: str) -> Moved | None:
    """Returns an algorithm's ratio to the baseline in the setting without any change; None if it is not in `moved`."""
    return next((each for each in moved if (each.factor, each.label) == (AS_IT_IS, label)), None)


def swings(moved: Sequence[Moved], label: str) -> list[Swing]:
    """Returns the ranges of one algorithm's ratio to the baseline, one for each factor, widest first.

    Settings in which a seed of the algorithm or of the baseline missed the target do not count.  Factors that change
    nothing, or of which no setting counts, are left out.
    """
    base = unchanged(moved, label)
    found = []
    for factor in dict.fromkeys(each.factor for each in moved if each.factor != AS_IT_IS):
        settings = [each for each in moved if (each.factor, each.label) == (factor, label)]
        beside = [*([base] if base else []), *settings]
        known = {each.setting: each.ratio for each in beside if each.whole and each.ratio}
        if not any(each.whole for each in settings) or (base and {*known.values()} == {base.ratio}):
            continue
        least, most = min(known, key=lambda name: known[name]), max(known, key=lambda name: known[name])
        found.append(Swing(factor, known[least], known[most], least, most))
    return sorted(found, key=lambda each: -each.wide)
