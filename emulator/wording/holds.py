"""The verdict's line on compute errors: how far seconds of computing may be off before the order changes.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emulator.results.settings import median_error
from emulator.results.units import joined
from scenarios.schema.scenario import Scenario

EVERY = "all profiles"


def held(said: Mapping[str, Any] | None, scenario: Scenario) -> list[str]:
    """Returns the line, after one on what is within the chance of full links; [] if the verdict orders nothing.

    `said`: `holds` of summary.json.
    """
    if said is None:
        return []
    drawn = [f"The {_order(said, 'within')} is within the random variation of full links."] if "within" in said else []
    return [*drawn, *([_on_errors(said, scenario)] if said["behind"] else [])]


def _on_errors(said: Mapping[str, Any], scenario: Scenario) -> str:
    if "all" not in said:
        return _not_known(said, said)
    scans = {EVERY: said["all"], **{f"{name} alone": scan for name, scan in said["alone"].items()}}
    where = min(scans, key=lambda name: scans[name]["up_to"])
    least = scans[where]
    if least["unknown"] and least["up_to"] == 1:
        return _not_known(said, least)
    return (
        f"{_up_to(least, said)}: {_ends(where, least, said)}{_critical(where, said)}{_stated(where, said, scenario)}."
    )


def _order(said: Mapping[str, Any], others: str = "behind") -> str:
    return f"order of {said['best']} before {joined(said[others])}"


def _not_known(said: Mapping[str, Any], why: Mapping[str, Any]) -> str:
    return f"It is unknown up to which compute errors the {_order(said)} holds: {why['unknown']}."


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
        return f"{off} it is unknown ({least['unknown']})"
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


def _stated(where: str, said: Mapping[str, Any], scenario: Scenario) -> str:
    """Returns for which profiles the range bears the median error that is stated; "" if none is stated.

    Each profile's error is compared with its own range, and the largest one with that of all profiles if this is the
    line's.  Seconds that are predicted too short by an error e are 1 / (1 - e) times as long in truth.
    """
    found = {group.profile: error for group in scenario.fleet if (error := median_error(group, scenario)) is not None}
    borne: dict[bool, list[str]] = {True: [], False: []}
    for profile, error in found.items():
        scan = said["alone"].get(profile, said["all"])
        if where == EVERY and error == max(found.values()):
            scan = min(scan, said["all"], key=lambda each: each["up_to"])
        borne[scan["up_to"] * (1 - error) >= 1].append(f"{profile} ({100 * error:.0f} %)")
    if borne[False]:
        return f"; it may not hold within the median error of {joined(borne[False])}"
    return f"; it holds within the median error of {joined(borne[True])}" if borne[True] else ""
