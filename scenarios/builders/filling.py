"""Predicts whether a link that devices share may be used to its full capacity, because only then TCP's windows and
queues matter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from network.links.trace import Direction
from scenarios.builders.machines import roster
from scenarios.builders.random_values import highest, value
from scenarios.builders.recordings import MBIT
from scenarios.builders.roster import EACH
from scenarios.builders.wiring import WAYS
from scenarios.schema import link_keys
from scenarios.schema.draws import Draw
from scenarios.schema.entries import Entry
from scenarios.schema.scenario import Scenario
from scenarios.schema.training import Rounds

ROUNDING = 1e-9  # relative: rates whose sum exactly fits


@dataclass(frozen=True)
class Peaks:
    """The highest rates of links in bytes/s, in place of the scenario's; None: as the scenario says."""

    down: float | None = None  # rate of each device
    up: float | None = None
    server: float | None = None  # each way


AS_IT_IS = Peaks()


def may_fill(scenario: Scenario, peaks: Peaks = AS_IT_IS) -> bool:
    """Returns true if simultaneous transfers may need the full capacity of a shared link.

    Also true if windows matter for other reasons, which are losses and BBR, and if rates vary and are not known in
    advance.
    """
    if scenario.network.congestion == "bbr" or any(group.link.loss for group in scenario.fleet):
        return True
    at_once = max(_at_once(scenario.under(entry.name)) for entry in scenario.algorithms)
    return any(
        _sum(_wanted(scenario, name, way, peaks), at_once) > _least(scenario, name, way, peaks) * (1 - ROUNDING)
        for name in (None, *scenario.topology)
        for way in WAYS
    )


def _at_once(scenario: Scenario) -> int:
    """Returns how many devices may be at work at the same time."""
    rounds = scenario.rounds
    return rounds.in_flight or (scenario.devices if rounds.stragglers != "stop" else rounds.ask or scenario.needed)


def by_all_at_once(scenario: Scenario) -> Scenario:
    """Returns a copy of the scenario in which all devices may transfer at the same time, whichever devices a round
    asks."""
    plain = tuple(Entry(key=entry.key, options={}, name=entry.name) for entry in scenario.algorithms)
    return scenario.model_copy(update={"rounds": Rounds(stragglers="finish"), "algorithms": plain})


def _sum(rates: Sequence[tuple[float, int]], at_once: int) -> float:
    """Returns the largest possible total rate of `at_once` devices in bytes/s; `rates`: (rate of a device, number of
    devices)."""
    total, left = 0.0, at_once
    for rate, count in sorted(rates, reverse=True):
        total += rate * min(count, left) if left else 0.0
        left -= min(count, left)
    return total


def _wanted(scenario: Scenario, name: str | None, way: Direction, peaks: Peaks) -> list[tuple[float, int]]:
    """Returns (highest rate in bytes/s, number of devices) for the devices behind the shared link `name`; None: the
    server's."""
    found = []
    for number, group in enumerate(scenario.fleet):
        stations = link_keys.listed(group.link.via) or (None,)
        behind = sum(name in _upwards(scenario, station) for station in stations)
        if behind:
            in_turn = behind * math.ceil(group.count / len(stations))
            found += [(rate, min(count, in_turn)) for rate, count in _rates(scenario, number, way, peaks)]
    return found


def _rates(scenario: Scenario, number: int, way: Direction, peaks: Peaks) -> list[tuple[float, int]]:
    """Returns (highest rate in bytes/s, number of devices) for the devices of the group with this number; inf for rates
    that are not known in advance."""
    group = scenario.fleet[number]
    given, said = (peaks.down, group.link.down_mbit_s) if way == "down" else (peaks.up, group.link.up_mbit_s)
    if given is not None:
        return [(given, group.count)]
    if said is None or group.link.trace or group.link.radio:
        return [(math.inf, group.count)]
    if isinstance(said, Draw) and scenario.devices <= EACH:
        names = roster(scenario)
        mine = (name for name in names if names.place(name)[0] == number)
        return [(value(said, name, way, scenario.fleet_seed) * MBIT, 1) for name in mine]
    return [(highest(said) * MBIT, group.count)]


def _upwards(scenario: Scenario, name: str | None) -> Iterator[str | None]:
    """Yields the names of a shared link and of all links between it and the server, and at last None for the server's
    link."""
    while name is not None:
        yield name
        name = scenario.topology[name].behind
    yield None


def _least(scenario: Scenario, name: str | None, way: Direction, peaks: Peaks) -> float:
    """Returns the lowest rate of the shared link `name` in bytes/s, None being the server's; 0 if it is not known in
    advance."""
    if name is None:
        if peaks.server is not None:
            return peaks.server
        said = scenario.server.link
        return ((said.up_mbit_s if way == "down" else said.down_mbit_s) or 0.0) * MBIT  # it sends up what goes down
    shared = scenario.topology[name]
    return ((shared.down_mbit_s if way == "down" else shared.up_mbit_s) or 0.0) * MBIT
