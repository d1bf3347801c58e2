"""The protocol of a study: which algorithms are compared, and the digest that ties records to the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from emulator.record.targets import Target
from emulator.results.summary import FEW
from scenarios.schema.scenario import Scenario
from scenarios.schema.study import Protocol
from scenarios.text.faults import BadScenario, did_you_mean

METRIC: Literal["accuracy"] = "accuracy"  # on test examples; validation examples choose settings and targets


def protocol_of(scenario: Scenario) -> Protocol:
    """The scenario's protocol.  Raises BadScenario if there is none, or if it does not fit the scenario."""
    said = scenario.study
    if said is None:
        raise BadScenario("the scenario has no `study:`; `fedlapse new --study NAME` writes a file that has")
    labels = [entry.name for entry in scenario.algorithms]
    others = {"controls": said.controls, "placebos": tuple(said.placebos), "nulls": said.nulls, "rows": said.rows}
    named: dict[str, Sequence[str]] = {
        **others,
        "placebos": (*said.placebos, *said.placebos.values()),
        "pairs": [name for pair in said.pairs for name in pair],
        "sensitivity": said.sensitivity.algorithms if said.sensitivity else (),
    }
    for key, names in named.items():
        for name in names:
            if name not in labels:
                raise BadScenario(f"there is no algorithm {name!r}; {did_you_mean(name, labels)}", ("study", key))
    if wrong := [key for key, names in others.items() if labels[0] in names]:
        raise BadScenario(f"{labels[0]} comes first, so it is the baseline and nothing else", ("study", wrong[0]))
    if not (said.shares or said.values):
        raise BadScenario("it has no target; shares: [0.95] is one", ("study", "shares"))
    if said.sensitivity and (
        both := sorted(set(said.sensitivity.seeds) & (set(scenario.tune.seeds) if scenario.tune else set()))
    ):
        raise BadScenario(f"seed {both[0]} has chosen the settings", ("study", "sensitivity"))
    return said


def ranked(scenario: Scenario) -> list[str]:
    """The algorithms that may win: the baseline, and all that are not a control, a placebo, a null or shown for
    information only."""
    said = protocol_of(scenario)
    others = {*said.controls, *said.placebos, *said.nulls, *said.rows}
    return [entry.name for entry in scenario.algorithms if entry.name not in others]


def pairs(scenario: Scenario) -> list[tuple[str, str]]:
    """The compared pairs (algorithm, base): each algorithm with the baseline, the study's own pairs, and placebos with
    their originals."""
    said, baseline = protocol_of(scenario), scenario.algorithms[0].name
    with_baseline = [(entry.name, baseline) for entry in scenario.algorithms[1:] if entry.name not in said.nulls]
    found = [*with_baseline, *said.pairs, *said.placebos.items()]
    return list(dict.fromkeys(found))


def duels(scenario: Scenario) -> list[tuple[str, str]]:
    """The study's own pairs in which both algorithms are ranked, so that either may win."""
    return [pair for pair in protocol_of(scenario).pairs if {*pair} <= {*ranked(scenario)}]


def targets(said: Protocol, best: float) -> list[Target]:
    """The targets, as test accuracies: shares of the tuned baseline's best validation accuracy, and the values that the
    study names."""
    values = [*(round(share * best, 4) for share in said.shares), *said.values]
    return [Target(METRIC, value, said.hold) for value in sorted(dict.fromkeys(values))]


def main_target(said: Protocol, best: float, among: Sequence[Target]) -> Target:
    """The target of the verdict: the one of the middle share, or without shares the middle target."""
    if not said.shares:
        return among[len(among) // 2]
    wanted = sorted(said.shares)[len(said.shares) // 2] * best
    return min(among, key=lambda each: abs(each.value - wanted))


def enough_seeds(scenario: Scenario) -> bool:
    """True if there are enough seeds for intervals."""
    return len(scenario.seeds) >= FEW
