"""How far each factor moves the ratio of an algorithm's time to the baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.analysis.answer import Moved

AS_IT_IS = "as it is"  # the factor and the setting of the runs in which nothing is changed


@dataclass(frozen=True)
class Swing:
    """One factor, over its settings and over leaving it as it is."""

    factor: str
    low: float
    high: float
    least: str  # the setting of the lowest ratio
    most: str

    @property
    def wide(self) -> float:
        """How many times as high the highest ratio is."""
        return self.high / self.low


def unchanged(moved: Sequence[Moved], label: str) -> Moved | None:
    """The runs in which nothing is changed."""
    return next((each for each in moved if (each.factor, each.label) == (AS_IT_IS, label)), None)


def swings(moved: Sequence[Moved], label: str) -> list[Swing]:
    """Of one algorithm, the widest first; settings in which not all seeds of both get there are left out,
    and factors that change nothing."""
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
