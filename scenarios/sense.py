"""Whether the parts of a scenario fit together: what no part can see by itself."""

from __future__ import annotations

from collections.abc import Iterator

from scenarios.faults import Fault
from scenarios.schema import Scenario, Stop, Target
from scenarios.source import Loc


def faults(scenario: Scenario) -> list[Fault]:
    """All that is wrong with it as a whole, without reading data."""
    return [*_rounds(scenario), *_targets(scenario), *_expected(scenario)]


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
    for number, expected in enumerate(scenario.expect):
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
