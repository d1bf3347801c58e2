"""The fleet that a scenario describes: devices, their links, and the server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from devices.device import Device, Profile, profiles
from devices.presence import Presence
from network.link import Link
from scenarios import hardware, wiring
from scenarios.drawing import value
from scenarios.faults import BadScenario, did_you_mean
from scenarios.schema import Scenario

MOST_ASKED = 10_000  # devices in a round: some ten seconds of real time before anything is trained
MOST_SHARES = 2_000_000  # devices x seeds: each holds its examples, in half a kilobyte or more


def fleet(scenario: Scenario) -> tuple[dict[str, Device], dict[str, Link]]:
    """Devices and their links by name (of the group or profile, and a number), sorted.

    Raises BadScenario for more of them than this computer can play.
    """
    _check_size(scenario)
    devices: dict[str, Device] = {}
    links: dict[str, Link] = {}
    for number, (name, group) in enumerate(_named(scenario)):
        devices[name] = machine(name, group, scenario.fleet_seed)
        links[name] = wiring.link(name, number, group.link, scenario)
    return dict(sorted(devices.items())), dict(sorted(links.items()))


def server(scenario: Scenario) -> tuple[Device, Link]:
    said = scenario.server.link
    link = Link.of(said.up_mbit_s, said.down_mbit_s, said.latency_ms)  # what is sent on it, the devices' links say
    return Device("server", profiles()[scenario.server.profile], Presence()), link


def machine(name: str, group: hardware.Group, seed: int) -> Device:
    """One device of a group: its profile, with what the group says or draws instead."""
    changed = {
        "flops_per_s": (group.speed_gflop_s, "speed", 1e9),
        "memory_bytes_per_s": (group.memory_bandwidth_gb_s, "memory_bandwidth", 1e9),
        "overhead_s": (group.overhead_ms, "overhead", 1e-3),
        "memory_bytes": (group.memory_mb, "memory", 1e6),
    }
    values: dict[str, Any] = {}
    for quantity, (amount, what, unit) in changed.items():
        if amount is not None:
            values[quantity] = value(amount, name, what, seed) * unit
    if "memory_bytes" in values:
        values["memory_bytes"] = round(values["memory_bytes"])
    return Device(name, _profile(name, group.profile, values), _presence(group.presence.off))


def _check_size(scenario: Scenario) -> None:
    devices, seeds, rounds = scenario.devices, len(scenario.seeds), scenario.rounds
    asked, key = (rounds.ask, "ask") if rounds.ask else (scenario.needed, "fraction")
    if asked > MOST_ASKED:
        raise BadScenario(f"rounds.{key}: {asked} devices are asked in a round; it must be {MOST_ASKED} at most")
    if devices * seeds > MOST_SHARES:
        raise BadScenario(f"seeds: {seeds} of them x {devices} devices; it must be {MOST_SHARES} in all at most")


def _named(scenario: Scenario) -> Iterator[tuple[str, hardware.Group]]:
    """Each device's name and group; groups of one profile without names of their own are numbered through."""
    totals: dict[str, int] = {}
    for group in scenario.fleet:
        called = group.name or group.profile
        totals[called] = totals.get(called, 0) + group.count
    numbers = dict.fromkeys(totals, 0)
    for group in scenario.fleet:
        called = group.name or group.profile
        width = len(str(totals[called] - 1))
        for _ in range(group.count):
            yield f"{called}-{numbers[called]:0{width}}", group
            numbers[called] += 1


def _profile(device: str, name: str, values: dict[str, Any]) -> Profile:
    known = profiles()
    if name not in known:
        raise BadScenario(f"there is no profile {name!r}; {did_you_mean(name, known)}")
    if not values:
        return known[name]
    said = f"{known[name].source}; {', '.join(values)}: the scenario's"
    base = known[name].one_speed if "flops_per_s" in values else known[name]
    # a name of its own: equal names are priced as equal machines
    return replace(base, name=f"{name} of {device}", source=said, **values)


@lru_cache(maxsize=16)
def _presence(off: tuple[tuple[float, float], ...]) -> Presence:
    """One for all devices of a group: its stretches may be thousands."""
    return Presence(off)
