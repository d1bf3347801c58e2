"""The fleet that a scenario describes: devices, their links, and the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from devices.device import NEVER, Device, Profile, profiles
from devices.generated_presence import Undrawn
from devices.presence import StatedPresence
from network.links.link import Link
from scenarios.builders import absence, boards, wiring
from scenarios.builders.random_values import check_range, value
from scenarios.builders.roster import EACH, MANY, Made, Roster, sample
from scenarios.schema import hardware
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

MOST_ASKED = 10_000  # devices per round: some ten seconds of real time before any training
MOST_SHARES = 2_000_000  # devices x seeds: the examples of each take half a kilobyte or more
RADIOS = 128  # cached generated links: each takes some 4 MB


def fleet(scenario: Scenario) -> tuple[Mapping[str, Device], Mapping[str, Link]]:
    """Returns the devices and their links, both by the device's name (its group or profile, and a number), sorted.

    They are made when they are read; a sample of a large fleet is made at once, so that faults appear immediately.
    Raises BadScenario, also for more devices than this computer can play.
    """
    _check_size(scenario)
    names = roster(scenario)
    devices, links = unseen(scenario)
    for group in scenario.fleet if len(names) > EACH else ():
        link = group.link
        for what, amount in (
            ("speed", group.speed_gflop_s),
            ("memory_bandwidth", group.memory_bandwidth_gb_s),
            ("overhead", group.overhead_ms),
            ("memory", group.memory_mb),
            ("down", link.down_mbit_s),
            ("up", link.up_mbit_s),
            ("latency", link.latency_ms),
        ):
            if amount is not None:
                check_range(amount, group.name or group.profile, what)
    heard: set[int] = set()
    for name in sample(names):
        number = names.place(name)[0]
        device = devices[name]
        try:
            device.presence.next_on(0.0)
        except Undrawn as error:
            raise BadScenario(f"fleet: {device.name} is not found online: {error}") from None
        if number not in heard or not scenario.fleet[number].link.radio:
            links.get(name)
        heard.add(number)
    return devices, links


def unseen(scenario: Scenario) -> tuple[Mapping[str, Device], Mapping[str, Link]]:
    """Returns the devices and their links as `fleet` does, but without making any in advance: BadScenario is raised
    when a device is made."""
    names = roster(scenario)
    radios = any(group.link.radio for group in scenario.fleet)
    links = Made(names, partial(_link, scenario, names), RADIOS if radios else MANY)
    return Made(names, partial(_device, scenario, names)), links


def roster(scenario: Scenario) -> Roster:
    """Returns the names of the fleet's devices, each with its group."""
    return Roster(tuple((group.name or group.profile, group.count) for group in scenario.fleet))


def always_on(scenario: Scenario) -> bool:
    """Returns true if no device ever goes offline, judged by the rules of the groups, without making the devices."""
    return all(group.presence == hardware.Presence() for group in scenario.fleet)


def _device(scenario: Scenario, roster: Roster, name: str) -> Device:
    return machine(name, scenario.fleet[roster.place(name)[0]], scenario.fleet_seed, boards.known(scenario))


def _link(scenario: Scenario, roster: Roster, name: str) -> Link:
    group, number = roster.place(name)
    return wiring.link(name, number, scenario.fleet[group].link, scenario)


def server(scenario: Scenario) -> tuple[Device, Link]:
    return Device("server", boards.known(scenario)[scenario.server.profile], StatedPresence()), wiring.server(scenario)


def machine(name: str, group: hardware.Group, seed: int, known: Mapping[str, Profile] | None = None) -> Device:
    """Returns one device of a group: its hardware profile, changed by the values that the group states or draws.
    `known`: all hardware profiles; None: those of fedlapse."""
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
    # The whole group has the same value, so that each device takes only one step more.
    kind = _with_effects((known or profiles())[group.profile], group.jitter, group.throttling, group.wakeup)
    return Device(name, _profile(name, kind, values), absence.presence(name, group.presence, seed))


@lru_cache(maxsize=4096)
def _with_effects(profile: Profile, jitter: bool | float | None, throttling: bool, wakeup: bool) -> Profile:
    """Returns the hardware profile with only those effects (jitter, slowing by heat, waking of the radio) that the
    group enables."""
    return replace(
        profile,
        jitter=profile.jitter if jitter is True else float(jitter or 0.0),
        throttle=profile.throttle if throttling else NEVER,
        wakeup_s=profile.wakeup_s if wakeup else 0.0,
    )


def _check_size(scenario: Scenario) -> None:
    devices, seeds = scenario.devices, len(scenario.seeds)
    for each in (scenario, *(scenario.under(entry.name) for entry in scenario.algorithms)):
        if each.asked > MOST_ASKED:
            key = "in_flight" if each.rounds.in_flight else "ask" if each.rounds.ask else "fraction"
            message = f"{each.asked} devices are selected per round; it must be {MOST_ASKED} at most"
            raise BadScenario(message, ("rounds", key))
    if devices > MANY and scenario.data.split.kind == "draw":
        seeds = 1  # each device draws its examples on demand
    if devices * seeds > MOST_SHARES:
        raise BadScenario(f"{seeds} of them x {devices} devices; it must be {MOST_SHARES} in all at most", ("seeds",))


def _profile(device: str, of: Profile, values: dict[str, Any]) -> Profile:
    if not values:
        return of
    said = f"{of.source}; {', '.join(values)}: the scenario's"
    base = _one_speed(of) if "flops_per_s" in values else of
    # a name of its own, because equal names are priced as equal machines
    return replace(base, name=f"{of.name} of {device}", source=said, **values)


def base_name(profile: Profile) -> str:
    """Returns the name of the hardware profile that a device's profile was made from."""
    return profile.name.rpartition(" of ")[0] or profile.name


@lru_cache(maxsize=256)
def _one_speed(profile: Profile) -> Profile:
    return profile.one_speed
