"""Compares algorithms over the regimes of a study: in which of them, and on which links, one is faster.  Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emulator.analysis.answer import Answer
from emulator.analysis.cells import UNDECIDED, UNKNOWN, Cell
from emulator.analysis.protocol import protocol_of
from emulator.results.comparison import LEVEL
from emulator.results.holm import holm
from scenarios.load import dump, parse
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

Question = tuple[str, ...]  # two algorithms that are compared alone; (): all ranked ones


@dataclass(frozen=True)
class Place:
    """A cell of the map of when an algorithm pays: one regime, on one of the links of its map."""

    question: Question
    regime: str
    cell: Cell
    adjusted: float | None  # p-value after Holm's adjustment over the question; None: not compared

    @property
    def winner(self) -> str:
        """The algorithm that is significantly faster than all others; otherwise UNDECIDED, or UNKNOWN if no run
        reached the target."""
        if self.cell.first is None:
            return UNKNOWN
        return self.cell.first if self.adjusted is not None and self.adjusted < LEVEL else UNDECIDED


def places(answers: Mapping[str, Answer]) -> list[Place]:
    """Returns the map of when an algorithm pays: for each question, a cell for each regime and each link of its map.

    `answers`: the findings by regime.  The p-values of a question are adjusted together, over all regimes and links.
    """
    found: dict[Question, list[tuple[str, Cell]]] = {}
    for regime, answer in answers.items():
        for question, cells in ({(): answer.cells} | dict(answer.duels)).items():
            found.setdefault(question, []).extend((regime, cell) for cell in cells)
    return [each for question, cells in found.items() for each in adjusted(question, cells)]


def adjusted(question: Question, cells: Sequence[tuple[str, Cell]]) -> list[Place]:
    """Returns the places of a question, whose p-values are adjusted together.  `cells`: with the names of their
    regimes."""
    ps = holm({number: cell.p for number, (_, cell) in enumerate(cells) if cell.p is not None})
    return [Place(question, regime, cell, ps.get(number)) for number, (regime, cell) in enumerate(cells)]


def scenarios(scenario: Scenario) -> dict[str, Scenario]:
    """Returns the scenario of each regime of a study, by the regime's name; {} if the study names none.

    Raises BadScenario if the changes of a regime do not fit the scenario.
    """
    said = protocol_of(scenario)
    base = dump(scenario.model_copy(update={"study": said.model_copy(update={"regimes": {}}), "small": {}}))
    found = {}
    for name, changes in said.regimes.items():
        words = [
            f"{path}={json.dumps(value)}" for path, value in {**changes, "name": f"{scenario.name}-{name}"}.items()
        ]
        try:
            found[name] = parse(base, "its scenario", words)
        except BadScenario as fault:
            raise BadScenario(f"in regime {name}, {fault}", ("study", "regimes", name)) from None
        if protocol_of(found[name]).regimes:
            raise BadScenario(f"regime {name} has study.regimes of its own; name each regime once, in the study's")
    return found
