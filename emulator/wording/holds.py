"""The verdict's line on compute errors: how far seconds of computing may be off before the order changes.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from emulator.results.settings import MEDIANS, source
from emulator.results.units import joined
from scenarios.schema.scenario import Scenario

EVERY = "all profiles"


def held(said: Mapping[str, Any] | None, scenario: Scenario) -> list[str]:
    """Returns the line; [] if the verdict orders nothing.  `said`: `holds` of summary.json."""
    if said is None:
        return []
    if "all" not in said:
        return [_not_known(said, said)]
    scans = {EVERY: said["all"], **{f"{name} alone": scan for name, scan in said["alone"].items()}}
    where = min(scans, key=lambda name: scans[name]["up_to"])
    least = scans[where]
    if least["unknown"] and least["up_to"] == 1:
        return [_not_known(said, least)]
    return [f"{_up_to(least, said)}: {_ends(where, least, said)}{_critical(where, said)}{_stated(least, scenario)}."]


def _order(said: Mapping[str, Any]) -> str:
    return f"order of {said['best']} before {joined(said['behind'])}"


def _not_known(said: Mapping[str, Any], why: Mapping[str, Any]) -> str:
    return f"Up to which compute errors the {_order(said)} holds is not known: {why['unknown']}."


def _up_to(least: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    order = f"The {_order(said)}"
    if least["up_to"] == 1:
        return f"{order} does not hold for compute errors of {said['tried'][0]:g}x"
    return f"{order} holds for compute errors up to {least['up_to']:g}x, slower or faster"


def _ends(where: str, least: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    """Returns what ends the range: `with pi-4 alone 2x as slow, b is faster than a`."""
    times = least["times"]
    if times is None:
        alone = " and with each alone" if said["alone"] else ""
        return f"with {EVERY}{alone}, and no larger error was tried"
    off = f"with {where} {times:g}x as slow" if times > 1 else f"with {where} {1 / times:g}x as fast"
    if least["unknown"]:
        return f"{off} it is not known ({least['unknown']})"
    return f"{off}, {least['first']} is faster than {said['best']}"


def _critical(where: str, said: Mapping[str, Any]) -> str:
    """Returns which profile matters most if the range ends with all of them at once."""
    if where != EVERY or said["all"]["times"] is None or not said["alone"]:
        return ""
    most = min(said["alone"], key=lambda name: said["alone"][name]["up_to"])
    scan = said["alone"][most]
    if scan["times"] is None:
        return f"; no profile alone changes it up to {scan['up_to']:g}x"
    return f"; alone, {most} matters most: up to {scan['up_to']:g}x"


def _stated(least: Mapping[str, Any], scenario: Scenario) -> str:
    """Returns how the median errors stated for the scenario's profiles compare with the range; "" if none is stated.

    Seconds that are predicted too short by an error e are 1 / (1 - e) times as long in truth.
    """
    larger, smaller = ([*_errors(scenario, least["up_to"], beyond)] for beyond in (True, False))
    if larger:
        return f"; that is less than the median error of {joined(larger)}, so the order is not sure"
    return f"; that is more than the median error of {joined(smaller)}" if smaller else ""


def _errors(scenario: Scenario, up_to: float, beyond: bool) -> Iterator[str]:
    found = {group.profile: MEDIANS.get(source(group, scenario)) for group in scenario.fleet}
    for profile, error in found.items():
        if error is not None and (1 / (1 - error) > up_to) is beyond:
            yield f"{profile} ({100 * error:.0f} %)"
