"""The protocol of a study (the section `study:` of its scenario): which algorithms are compared, to which targets."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.record.targets import Target
from emulator.results.resampling import seeds_needed
from scenarios.schema.scenario import Scenario
from scenarios.schema.study import Protocol
from scenarios.schema.task import CLASSES, Task
from scenarios.text.faults import BadScenario, did_you_mean


def protocol_of(scenario: Scenario) -> Protocol:
    """Returns the scenario's protocol, that is, its section `study:`.

    Raises BadScenario if there is none, or if it does not fit the rest of the scenario.
    """
    said = scenario.study
    if said is None:
        raise BadScenario("the scenario has no `study:`; `fedlapse new --study NAME` writes a file that has")
    labels = [entry.name for entry in scenario.algorithms]
    others = {"controls": said.controls, "placebos": tuple(said.placebos), "nulls": said.nulls, "rows": said.rows}
    named: dict[str, Sequence[str]] = {
        **others,
        "placebos": (*said.placebos, *said.placebos.values()),
        "pairs": [name for pair in said.pairs for name in pair],
    }
    for key, names in named.items():
        for name in names:
            if name not in labels:
                raise BadScenario(f"there is no algorithm {name!r}; {did_you_mean(name, labels)}", ("study", key))
    if wrong := [key for key, names in others.items() if labels[0] in names]:
        raise BadScenario(f"{labels[0]} comes first, so it is the baseline and nothing else", ("study", wrong[0]))
    if not (said.shares or said.values):
        raise BadScenario("it has no target; shares: [0.95] is one", ("study", "shares"))
    return said


def ranked(scenario: Scenario) -> list[str]:
    """Returns the labels of the algorithms that may win: the baseline, and all others that the protocol does not list
    as a control, a placebo, a null or a row (shown for information only)."""
    said = protocol_of(scenario)
    others = {*said.controls, *said.placebos, *said.nulls, *said.rows}
    return [entry.name for entry in scenario.algorithms if entry.name not in others]


def pairs(scenario: Scenario) -> list[tuple[str, str]]:
    """Returns the pairs (algorithm, base) to compare: each algorithm except nulls with the baseline, the pairs that the
    study names, and each placebo with the algorithm that it imitates."""
    said, baseline = protocol_of(scenario), scenario.algorithms[0].name
    with_baseline = [(entry.name, baseline) for entry in scenario.algorithms[1:] if entry.name not in said.nulls]
    found = [*with_baseline, *said.pairs, *said.placebos.items()]
    return list(dict.fromkeys(found))


def duels(scenario: Scenario) -> list[tuple[str, str]]:
    """Returns those pairs that the study names in which both algorithms are ranked, so that either may win."""
    return [pair for pair in protocol_of(scenario).pairs if {*pair} <= {*ranked(scenario)}]


def targets(said: Protocol, best: float, task: Task = CLASSES) -> list[Target]:
    """Returns the targets, values of the task's first metric on test examples, the easiest first: the values that the
    study names, and its shares of `best`, the best validation value that any ranked algorithm reaches.  Where lower is
    better, a share of 0.95 is best / 0.95."""
    lower = task.is_lower(task.main)
    values = [*(round(share_of(best, share, lower), 4) for share in said.shares), *said.values]
    return [Target(task.main, value, said.hold, lower=lower) for value in sorted(dict.fromkeys(values), reverse=lower)]


def share_of(best: float, share: float, lower: bool) -> float:
    """Returns the value that is a share of the best one, on its worse side."""
    return best / share if lower == (best > 0) else best * share


def main_target(said: Protocol, best: float, among: Sequence[Target]) -> Target:
    """Returns the target that the verdict is about: of the targets `among`, the one of the study's middle share, or the
    middle target if the study names no shares.

    `best`: as in `targets`.
    """
    if not said.shares:
        return among[len(among) // 2]
    wanted = share_of(best, sorted(said.shares)[len(said.shares) // 2], among[0].lower)
    return min(among, key=lambda each: abs(each.value - wanted))


def enough_seeds(scenario: Scenario) -> bool:
    """Returns True if the scenario has enough seeds for a significant difference."""
    return len(scenario.seeds) >= seeds_needed(1)
