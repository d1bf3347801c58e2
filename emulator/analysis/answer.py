"""All that a study has found, as data: what its tables, its page and its figures are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from emulator.analysis.cells import Border, Cell
from emulator.analysis.protocol import main_target, protocol_of
from emulator.record.targets import Target
from emulator.results.comparison import OWN, Comparison
from emulator.results.restricted import Contrast
from emulator.results.times import Values
from emulator.results.why import Pace, Why
from emulator.tuning.results import Founds
from scenarios.schema.scenario import Scenario


@dataclass(frozen=True)
class Moved:
    """One setting of one factor: how long an algorithm takes there, over the baseline."""

    factor: str
    setting: str
    label: str
    ratio: float | None  # of restricted means; None: nobody gets there
    contrast: Contrast | None  # None: below 5 seeds
    reached: int
    of: int
    base_reached: int  # seeds of the baseline that got there, of as many
    mean: float | None = None  # s, restricted
    base_mean: float | None = None  # s, the baseline's

    @property
    def whole(self) -> bool:
        """Whether all seeds of both got there: otherwise the ratio depends on where times were cut."""
        return self.ratio is not None and self.reached == self.base_reached == self.of


@dataclass(frozen=True)
class Null:
    """An algorithm without its penalty beside the baseline, under one seed."""

    label: str
    seed: int
    rounds: int  # that both have played, and after which they were evaluated
    differs: int | None  # the first of them, from 0, after which their accuracies differ: there must be none


@dataclass(frozen=True)
class Answer:
    """What a study has found; see each part's own class."""

    scenario: Scenario
    digest: str
    exploratory: bool
    founds: Founds
    best: float  # validation accuracy of the tuned baseline
    targets: Sequence[Target]
    values: Sequence[Values]
    comparisons: Sequence[Comparison]
    whys: Sequence[Why]
    paces: Sequence[Pace]
    nulls: Sequence[Null] = ()
    unknown: Sequence[str] = ()  # sentences: what could not be replayed
    cells: Sequence[Cell] = ()
    duels: Mapping[tuple[str, str], Sequence[Cell]] = field(default_factory=dict)  # the map between two alone
    borders: Sequence[Border] = ()
    traces: Sequence[Cell] = ()
    trace_duels: Mapping[tuple[str, str], Sequence[Cell]] = field(default_factory=dict)
    assumptions: Sequence[str] = ()  # about traces
    moved: Sequence[Moved] = ()
    warnings: Sequence[str] = ()  # what a reader must know of the runs

    @property
    def main(self) -> Target:
        """The target that the verdict is about."""
        return main_target(protocol_of(self.scenario), self.best, self.targets)

    @property
    def baseline(self) -> str:
        """The first algorithm."""
        return self.scenario.algorithms[0].name

    def value(self, label: str, target: Target, link: str = OWN) -> Values | None:
        """One algorithm's times."""
        return next((v for v in self.values if (v.label, v.target, v.link) == (label, target, link)), None)

    def compared(self, label: str, base: str, target: Target, link: str = OWN) -> Comparison | None:
        """One comparison."""
        at = (label, base, target, link)
        return next((c for c in self.comparisons if (c.label, c.base, c.target, c.link) == at), None)
