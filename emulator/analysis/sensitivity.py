"""Sensitivity: how far each factor changes the ratio of an algorithm's time to the baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.analysis.answer import Moved

AS_IT_IS = "as it is"  # the factor and the setting of the runs in which nothing is changed


@dataclass(frozen=True)
class Swing:
    """The range of a ratio over the settings of one factor, the unchanged setting included."""

    factor: str
    low: float
    high: float
    least: str  # the setting of the lowest ratio
    most: str

    @property
    def wide(self) -> float:
        """The highest ratio over the lowest."""
        return self.high / self.low


def unchanged(moved: Sequence[Moved], label: str) -> Moved | None:
    """The result of one algorithm in the runs without any change; None if there is none."""
    return next((each for each in moved if (each.factor, each.label) == (AS_IT_IS, label)), None)


def swings(moved: Sequence[Moved], label: str) -> list[Swing]:
    """The ranges of one algorithm's ratio, widest first.  Factors without an effect are left out, and so are settings
    in which a seed of either algorithm missed the target."""
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
