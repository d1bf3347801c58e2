"""Whether the parts of a scenario fit together: what no part can see by itself."""

from __future__ import annotations

from collections.abc import Iterator

from scenarios.faults import Fault, did_you_mean
from scenarios.schema import Scenario, Stop, Target
from scenarios.source import Loc


def faults(scenario: Scenario) -> list[Fault]:
    """All that is wrong with it as a whole, without reading data."""
    return [*_labels(scenario), *_rounds(scenario), *_targets(scenario), *_expected(scenario)]


def _labels(scenario: Scenario) -> Iterator[Fault]:
    """Two of the same name, where names must differ."""
    labels: list[str] = []
    for number, entry in enumerate(scenario.algorithms):
        if entry.name in labels:
            message = f"{entry.name!r} is another algorithm's name already; give this one its own `name:`"
            yield Fault(("algorithms", number), message)
        labels.append(entry.name)
    groups: list[str] = []
    for number, group in enumerate(scenario.fleet):
        if group.name in groups:
            yield Fault(("fleet", number, "name"), f"{group.name!r} is another group's name already; names must differ")
        elif any(group.name == other.profile and not other.name for other in scenario.fleet if other is not group):
            yield Fault(("fleet", number, "name"), f"{group.name!r} is what another group is called, after its profile")
        groups.extend([group.name] if group.name else [])
    if len(set(scenario.seeds)) < len(scenario.seeds):
        yield Fault(("seeds",), f"{list(scenario.seeds)} holds one of them twice")


def _rounds(scenario: Scenario) -> Iterator[Fault]:
    devices, rounds, needed = scenario.devices, scenario.rounds, scenario.needed
    if rounds.ask is not None and rounds.ask > devices:
        yield Fault(("rounds", "ask"), f"{rounds.ask} devices are asked, but the fleet has {devices}")
    elif rounds.ask is not None and rounds.ask < needed:
        message = f"{rounds.ask} devices are asked, but {needed} replies (fraction x {devices} devices) close a round"
        yield Fault(("rounds", "ask"), message)
    if rounds.min_replies > needed:
        message = f"it is {rounds.min_replies}, but {needed} replies (fraction x {devices} devices) close a round"
        yield Fault(("rounds", "min_replies"), message)


def _targets(scenario: Scenario) -> Iterator[Fault]:
    stop = scenario.rounds.stop_at
    said: list[tuple[Loc, Target]] = [(("rounds", "targets", n), t) for n, t in enumerate(scenario.rounds.targets)]
    for loc, target in [*said, *([(("rounds", "stop_at"), stop)] if stop else [])]:
        if reason := _never_seen(scenario, target.metric, target.hold > 1 or isinstance(target, Stop)):
            yield Fault(loc, f"{target.metric} {target.value:g} can never be seen: {reason}")


def _expected(scenario: Scenario) -> Iterator[Fault]:
    labels = [entry.name for entry in scenario.algorithms]
    for number, expected in enumerate(scenario.expect):
        if expected.label not in labels:
            near = did_you_mean(expected.label, labels)
            yield Fault(("expect", number, "label"), f"there is no label {expected.label!r}; {near}")
        if reason := _never_seen(scenario, expected.metric, expected.hold > 1):
            yield Fault(("expect", number), f"{expected.metric} can never be seen: {reason}")


def _never_seen(scenario: Scenario, metric: str, often: bool) -> str | None:
    if not scenario.evaluate.every:
        return "evaluate.every is 0; it must be 1 or more"
    if metric == "validation" and not scenario.data.validation:
        return "data.validation is 0; it must be above 0"
    if metric == "personalised" and not scenario.evaluate.personalise_every and often:
        return "it is looked at once, at the end; give evaluate.personalise_every"
    return None
