"""States the settings of each algorithm, and how sure the computed seconds are, for readers of results.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from devices.profiles import shipped
from emulator.results.table import Table
from emulator.results.units import durations, joined
from scenarios.schema.hardware import Group
from scenarios.schema.scenario import Scenario
from scenarios.schema.training import Training

DEFAULTS = "all defaults"
ALWAYS = ("epochs", "batch", "lr")  # of training: shown even if they are defaults
# Errors of a training step's seconds.  benchmarks/devices.py: networks left out of three phones' measurements, with one
# speed (nine cells) and with a speed for each class of layers (twelve); benchmarks/compute.py: calibrated computers.
ONE_SPEED = "measured on a phone; for models not measured, step times are off by 45 % (median), 97 % at worst"
BY_CLASS = (
    "measured on a phone by class of layer; for models not measured, step times are off by 37 % (median), 117 % at "
    "worst"
)
# benchmarks/boards.py: families of networks left out of the fit; small networks and recurrent layers were not measured
BOARDS: Mapping[str, str] = {
    "pi-4": "fitted to 28 large models on 64-bit PyTorch; for other families, step times are off by 13 % (median), "
    "50 % at worst; small models depend on overheads, which are assumed",
    "pi-5": "fitted to 11 large models on 64-bit PyTorch; for other families, step times are off by 7 % (median), "
    "31 % at worst; small models depend on overheads, which are assumed",
}
YOURS = "your own; "
OWN = f"{YOURS}its error is unknown"
# `fedlapse calibrate` writes its error so into the sources of a profile
CALIBRATED = re.compile(r"a network that is left out is off by (\d+) % in the median, (\d+) % at worst")
# The median errors above.  None for boards: theirs is that of large networks; the assumed overheads may decide.
MEDIANS: Mapping[str, float] = {ONE_SPEED: 0.45, BY_CLASS: 0.37}
ASSUMED = "assumed, not measured"
SAID = "set in the scenario"
# benchmarks/fidelity_shared.py, three lots (one draw each) and benchmarks/fidelity.py
TRANSFERS: Mapping[str, str] = {
    "windows": (
        "when several transfers share a full link, the last finish differs from real TCP by 3 to 4 % (median of single "
        "runs), by more than 15 % in 17 % of them, and by 163 % at most, or 245 % with random loss"
    ),
    "tcp": "when several transfers share a full link, the last finish differs from real TCP by 9 % (median), 50 % at "
    "most",
    "ideal": "an assumption: neither round trips nor lost segments take time",
    "lv08": "SimGrid's LV08, which was not compared with real TCP",
}


def settings(scenario: Scenario) -> Table:
    """Returns a table of the settings of each algorithm, and how they were chosen: epochs, batch and learning rate, and
    all others that are not defaults."""
    usual, trained = Training().model_dump(), scenario.training.model_dump(exclude={"stack"})
    shared = {key: said for key, said in trained.items() if key in ALWAYS or said != usual[key]}
    if model := {key: value for key, value in scenario.model if value and key not in ("name", "digest")}:
        shared["model"] = model
    hows = [scenario.tuned.get(entry.name, "") for entry in scenario.algorithms]
    once = hows[0] if len(set(hows)) == 1 else ""
    named = [
        (entry.name, _words(entry.options), "" if once else how)
        for entry, how in zip(scenario.algorithms, hows, strict=True)
    ]
    rows = [("all", _words(shared), once), *named]
    caption = "Epochs, batch and learning rate, and all other settings that are not defaults."
    if not any(how for *_, how in rows):
        caption += " None is known to be tuned; `fedlapse tune` tunes all algorithms equally."
        return Table(caption, ("algorithm", "settings"), [row[:2] for row in rows], 2)
    return Table(caption, ("algorithm", "settings", "chosen by"), rows, 3)


def _words(options: Mapping[str, Any]) -> str:
    """Returns options in words, such as `strength 5, importance sq, training.epochs 12`."""
    return ", ".join(_each("", options)) or DEFAULTS


def _each(above: str, options: Mapping[str, Any]) -> Iterator[str]:
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from _each(f"{above}{key}.", value)
        else:
            yield f"{above}{key} {f'{value:g}' if isinstance(value, float) else value}"


def how_sure(scenario: Scenario, chance: Mapping[str, Any] | None = None) -> list[str]:
    """Returns sentences on where the seconds of computing and of transfers come from, and how far off they may be.

    `chance`: as in summary.json, the ranges of mean times over draws of what is chance on full links.
    """
    groups: dict[str, list[str]] = {}
    for group in scenario.fleet:
        groups.setdefault(source(group, scenario), []).append(group.profile)
    said = [f"{joined(list(dict.fromkeys(profiles)))}: {source}" for source, profiles in groups.items()]
    return [
        f"Compute times: {'; '.join(said)}.",
        f"Transfer times: {TRANSFERS[scenario.network_model]}.",
        *([_chance(chance)] if chance else []),
    ]


def _chance(said: Mapping[str, Any]) -> str:
    shown = durations([s for ends in said["seconds"].values() for s in ends])
    bands = [f"{label} {shown(low)} to {shown(high)}" for label, (low, high) in said["seconds"].items()]
    draws = f"{said['draws']} random draws of starting times and lost segments on full links, and 3 % around them"
    return f"Mean times to {said['target']} over {draws}: {', '.join(bands)}."


def source(group: Group, scenario: Scenario) -> str:
    """Returns where a group's seconds of computing come from, and how far off they may be."""
    if group.speed_gflop_s is not None:
        return SAID
    own: Any = scenario.profiles
    if isinstance(own, dict) and group.profile in own:
        found = CALIBRATED.search(own[group.profile].source)
        return f"{YOURS}{found[0]}" if found else OWN
    if group.profile in BOARDS:
        return BOARDS[group.profile]
    said = shipped()[group.profile]
    if not said["speed"].measured:
        return ASSUMED
    return BY_CLASS if "speed_conv" in said else ONE_SPEED


def median_error(group: Group, scenario: Scenario) -> float | None:
    """Returns the median error, as a share of the true seconds, that is stated for a group's seconds of computing; None
    if none is stated."""
    said = source(group, scenario)
    found = CALIBRATED.match(said.removeprefix(YOURS))
    return int(found[1]) / 100 if found else MEDIANS.get(said)
