"""The findings of a study as data, from which its tables, page and figures are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from emulator.analysis.cells import Border, Cell
from emulator.analysis.protocol import main_target, protocol_of
from emulator.record.targets import Target
from emulator.results.comparison import OWN, Comparison
from emulator.results.leverage import Leverage
from emulator.results.times import Values
from emulator.results.why import Pace, Why
from emulator.tuning.results import Founds
from scenarios.schema.scenario import Scenario


@dataclass(frozen=True)
class Null:
    """A comparison of the baseline with a null, which is an algorithm without its penalty, under one seed.  Both must
    have equal accuracies and losses."""

    label: str
    seed: int
    rounds: int  # number of rounds that both algorithms have played, and the null has evaluated
    differs: int | None  # the first of these rounds, from 0, in which these differ; must be None


@dataclass(frozen=True)
class Answer:
    """The findings of a study, from which its tables, figures and page are made."""

    scenario: Scenario
    digest: str
    exploratory: bool
    founds: Founds
    best: float  # best validation accuracy of any tuned algorithm that is ranked
    targets: Sequence[Target]
    values: Sequence[Values]
    comparisons: Sequence[Comparison]
    whys: Sequence[Why]
    paces: Sequence[Pace]
    leverages: Sequence[Leverage] = ()
    nulls: Sequence[Null] = ()
    unknown: Sequence[str] = ()  # sentences: replays that were not possible
    cells: Sequence[Cell] = ()
    duels: Mapping[tuple[str, str], Sequence[Cell]] = field(default_factory=dict)  # the map for each pair alone
    borders: Sequence[Border] = ()
    traces: Sequence[Cell] = ()
    trace_duels: Mapping[tuple[str, str], Sequence[Cell]] = field(default_factory=dict)
    assumptions: Sequence[str] = ()  # about traces
    warnings: Sequence[str] = ()  # about the runs

    @property
    def main(self) -> Target:
        """The main target, which the verdict is about."""
        return main_target(protocol_of(self.scenario), self.best, self.targets)

    @property
    def baseline(self) -> str:
        """The label of the baseline, which is the scenario's first algorithm."""
        return self.scenario.algorithms[0].name

    def value(self, label: str, target: Target, link: str = OWN) -> Values | None:
        """Returns the times of one algorithm to a target on a link; None if the study does not have them."""
        return next((v for v in self.values if (v.label, v.target, v.link) == (label, target, link)), None)

    def compared(self, label: str, base: str, target: Target, link: str = OWN) -> Comparison | None:
        """Returns the comparison of algorithm `label` with `base` for a target on a link; None if there is none."""
        at = (label, base, target, link)
        return next((c for c in self.comparisons if (c.label, c.base, c.target, c.link) == at), None)

    def why(self, label: str, base: str, target: Target) -> Why | None:
        """Returns why algorithm `label` takes another time than `base` to a target; None if the study does not have
        it."""
        return next((w for w in self.whys if (w.label, w.base, w.target) == (label, base, target)), None)
