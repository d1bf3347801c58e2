"""Checks of a scenario that involve several of its parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from algorithms.tasks.task import METRICS
from scenarios.builders import absence
from scenarios.builders.roster import EACH
from scenarios.schema.link_keys import Links, listed
from scenarios.schema.scenario import DEEPEST, Expect, Published, Scenario
from scenarios.schema.task import OF_MAIN
from scenarios.schema.training import Rounds, Stop, Target
from scenarios.schema.tuning import Aim
from scenarios.text.faults import Fault, as_share, did_you_mean, faults_of
from scenarios.text.yaml_source import Loc


def faults(scenario: Scenario) -> list[Fault]:
    """Returns all faults in the combination of a scenario's parts that can be found without reading data."""
    if wrong := [*_own_rounds(scenario)]:
        return wrong  # otherwise nobody knows the rounds of all algorithms
    return [
        *_rounds(scenario, ("rounds",)),
        *(fault for where, of in _others(scenario) for fault in _rounds(of, where)),
        *_targets(scenario),
        *_topology(scenario),
        *_windows(scenario),
        *_behind(scenario),
        *_presence(scenario),
    ]


def _own_rounds(scenario: Scenario) -> Iterator[Fault]:
    """Yields the faults of algorithms' own rules of rounds."""
    for n, entry in enumerate(scenario.algorithms):
        where = ("algorithms", n, entry.key, "rounds")
        try:
            scenario.under(entry.name)
        except ValidationError as error:
            yield from faults_of(error, Rounds, where)
        except ValueError as error:
            yield Fault(where, str(error))


def _others(scenario: Scenario) -> Iterator[tuple[Loc, Scenario]]:
    """Yields for each algorithm with rounds of its own their place, and the scenario with these rounds."""
    for n, entry in enumerate(scenario.algorithms):
        if entry.options.get("rounds"):
            yield ("algorithms", n, entry.key, "rounds"), scenario.under(entry.name)


def _rounds(scenario: Scenario, where: Loc) -> Iterator[Fault]:
    """Yields the faults of a scenario's rounds, whose keys are at `where`."""
    devices, rounds, needed = scenario.devices, scenario.rounds, scenario.needed
    if rounds.ask is not None and rounds.ask > devices:
        yield Fault((*where, "ask"), f"{rounds.ask} devices are selected, but the fleet has {devices}")
    elif rounds.ask is not None and rounds.ask < needed:
        closing = f"{needed} replies (fraction x {devices} devices) close a round"
        yield Fault((*where, "ask"), f"{rounds.ask} devices are selected, but {closing}")
    if rounds.in_flight is not None and rounds.in_flight > devices:
        yield Fault((*where, "in_flight"), f"{rounds.in_flight} devices at work, but the fleet has {devices}")
    if rounds.min_replies > needed:
        message = f"it is {rounds.min_replies}, but {needed} replies (fraction x {devices} devices) close a round"
        yield Fault((*where, "min_replies"), message)


def _targets(scenario: Scenario) -> Iterator[Fault]:
    stop = scenario.rounds.stop_at
    said: list[tuple[Loc, Target]] = [(("rounds", "targets", n), t) for n, t in enumerate(scenario.rounds.targets)]
    said += [(("rounds", "stop_at"), stop)] if stop else []
    named: list[tuple[Loc, Target | Expect, str]] = [(loc, each, f"{each.metric} {each.value:g}") for loc, each in said]
    named += [(("expect", n), each, each.metric) for n, each in enumerate(scenario.expect)]
    stated = [(("published", n), each, each.metric) for n, each in enumerate(scenario.published)]
    for loc, metric, values in [
        *((loc, each.metric, _values(each)) for loc, each, _ in [*named, *stated]),
        *((("task", "metrics", n), metric, {}) for n, metric in enumerate(scenario.task.metrics)),
        *_aims(scenario),
    ]:
        yield from _metric(scenario, loc, metric, values)
    for loc, each, name in named:
        if reason := _never_seen(scenario, each.metric, each.hold > 1 or isinstance(each, Stop)):
            yield Fault(loc, f"{name} can never be seen: {reason}")
        elif reason := _too_often(scenario, each.metric, each.hold):
            yield Fault((*loc, "hold"), reason)


def _aims(scenario: Scenario) -> Iterator[tuple[Loc, str, Mapping[str | int, float]]]:
    """Yields the places of the values that a search or a study aims at, with their metric."""
    if scenario.tune and isinstance(scenario.tune.target, Aim):
        yield ("tune", "target"), "validation", {"value": scenario.tune.target.value}
    if scenario.study:
        yield ("study", "values"), scenario.task.main, dict(enumerate(scenario.study.values))


def _values(each: Target | Expect | Published) -> dict[str | int, float]:
    said = {key: getattr(each, key, None) for key in ("value", "reach", "final")}
    return {key: value for key, value in said.items() if value is not None}


def _metric(scenario: Scenario, loc: Loc, metric: str, values: Mapping[str | int, float]) -> Iterator[Fault]:
    """Yields a fault if the task has no such metric, or if a value of it is impossible."""
    task, general = scenario.task, () if loc[0] == "task" else ("loss", *OF_MAIN[:2], OF_MAIN[3])
    known = (*METRICS.get(task.name, ()), *general)
    if task.name in METRICS and metric not in known:
        place = loc if loc[0] == "task" else (*loc, "metric")
        yield Fault(place, f"{task.name} has no metric {metric!r}; {did_you_mean(metric, known)}")
    for key, value in values.items():
        if task.is_share(metric) and not 0 < value <= 1:
            said = f"it is {value:g}, but {metric} is a share; it must be above 0, and at most 1{as_share(value)}"
            yield Fault((*loc, key), said)


def _never_seen(scenario: Scenario, metric: str, often: bool) -> str | None:
    if not scenario.evaluate.every:
        return "evaluate.every is 0; it must be 1 or more"
    if metric != "validation" and not scenario.evaluate.test:
        return "evaluate.test is false; it must be true, or the metric validation"
    if metric == "validation" and not scenario.data.validation:
        return "data.validation is 0; it must be above 0"
    if metric == "personalised" and scenario.evaluate.personalise_every == "never":
        return "evaluate.personalise_every is never; it must be a number of rounds, or 0 for the end"
    if metric == "personalised" and not scenario.evaluate.personalise_every and often:
        return "it is looked at once, at the end; give evaluate.personalise_every"
    return None


def _too_often(scenario: Scenario, metric: str, hold: int) -> str | None:
    if hold == 1 or hold <= (seen := _evaluations(scenario, metric)):
        return None
    rounds = scenario.rounds.max
    return f"it is {hold}, but a run of {rounds} rounds evaluates {metric} {seen} times; it must be {seen} or less"


def _evaluations(scenario: Scenario, metric: str) -> int:
    """Returns the number of evaluations of a metric in a run of full length: in the scheduled rounds, and at the
    end."""
    last, often = scenario.rounds.max, scenario.evaluate.personalise_every
    personalised = {last, *range(often, last, often)} if isinstance(often, int) and often else {last}
    due = range(scenario.evaluate.every, last, scenario.evaluate.every)
    return len(personalised if metric == "personalised" else personalised.union(due))


def _topology(scenario: Scenario) -> Iterator[Fault]:
    shared = scenario.topology
    for name, link in shared.items():
        above, seen = link.behind, [name]
        while above is not None:
            if above not in shared:
                yield Fault(("topology", name, "behind"), f"there is no {above!r}; {did_you_mean(above, shared)}")
                break
            if above in seen:
                yield Fault(("topology", name, "behind"), f"{' -> '.join([*seen, above])}: no way leads to the server")
                break
            if shared[above].airtime:
                yield Fault(("topology", name, "behind"), f"{above} shares airtime, so only devices can be behind it")
            seen.append(above)
            above = shared[above].behind


def _windows(scenario: Scenario) -> Iterator[Fault]:
    """Yields a fault for each part that does not support the network model windows, if the scenario asks for it."""
    if scenario.network.model != "windows":
        return
    for name, link in scenario.topology.items():
        if link.airtime:
            message = "airtime is shared without windows and queues; say `network: {model: tcp}`, or auto"
            yield Fault(("topology", name, "airtime"), message)
    if scenario.depth > DEEPEST:
        message = f"a device is behind {scenario.depth} links; windows take {DEEPEST} at most; say `tcp`, or auto"
        yield Fault(("network", "model"), message)
    for number, group in enumerate(scenario.fleet):
        if group.link.model not in (None, "tcp"):
            message = f"links of the model {group.link.model} have no windows; say `network: {{model: tcp}}`, or auto"
            yield Fault(("fleet", number, "link", "model"), message)


def _behind(scenario: Scenario) -> Iterator[Fault]:
    for number, group in enumerate(scenario.fleet):
        loc = ("fleet", number, "link")
        for name in listed(group.link.via):
            if name not in scenario.topology:
                topology = scenario.topology
                hint = did_you_mean(name, topology) if topology else "topology names none"
                yield Fault((*loc, "via"), f"there is no {name!r}; {hint}")
        if group.link.via:
            yield from _shares_already(group.link, loc)


def _shares_already(link: Links, loc: Loc) -> Iterator[Fault]:
    """Yields a fault if a link behind a shared cell has rates that were measured by a single device, because these are
    already a share of a cell."""
    if link.trace and link.trace.capacity == "device":
        message = "a recording of one phone contains its share of the cell"
        yield Fault((*loc, "trace"), f"{message}; leave via out, or say `capacity: cell`")
    if link.radio:
        message = "generated rates are those of one device, with its share of the cell"
        yield Fault((*loc, "radio"), f"{message}; leave via out")


def _presence(scenario: Scenario) -> Iterator[Fault]:
    """Yields a fault for each group whose presence would have to be drawn session by session up to a time too far in
    the future."""
    rounds = scenario.rounds
    jumps = (rounds.max - 1) // rounds.per_cycle if rounds.per_cycle and rounds.cycle_s else 0
    slices = jumps * (rounds.cycle_s or 0.0)
    for number, group in enumerate(scenario.fleet):
        back = max((end for _, end in group.presence.off if end < math.inf), default=0.0)
        until, what = max((back, "off ends at"), (slices, "rounds.cycle_s leads to"))
        if until and (reason := absence.too_many(group.presence, until, min(group.count, EACH))):
            yield Fault(("fleet", number, "presence"), f"{what} second {until:g}, and {reason}")
