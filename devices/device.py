"""A device, and how long it computes."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from devices.presence import Presence

UNITS = {  # quantity -> (its unit in profiles.csv, what one of it is in our units)
    "speed": ("GFLOP/s", 1e9),
    "memory_bandwidth": ("GB/s", 1e9),
    "overhead": ("ms", 1e-3),
    "memory": ("MB", 1e6),
}


@dataclass(frozen=True)
class Profile:
    """What a kind of hardware achieves in training, and where the numbers come from.

    Raises ValueError for a rate or memory that is not positive, or a negative overhead.
    """

    name: str
    flops_per_s: float  # effective, in training: not the peak of a data sheet
    memory_bytes_per_s: float
    overhead_s: float  # fixed, of every training step
    memory_bytes: int
    source: str  # "assumed" stands beside every number that nobody measured

    def __post_init__(self) -> None:
        for what in ("flops_per_s", "memory_bytes_per_s", "memory_bytes"):
            value = getattr(self, what)
            if not 0 < value < math.inf:
                raise ValueError(f"{what} of {self.name} is {value}; it must be positive and finite")
        if not 0 <= self.overhead_s < math.inf:
            raise ValueError(f"overhead_s of {self.name} is {self.overhead_s}; it must be 0 or more")


@dataclass(frozen=True)
class Device:
    """One computer of the fleet."""

    name: str
    profile: Profile
    presence: Presence = field(default_factory=Presence)

    def seconds(self, flops: float, floats: float, steps: int) -> float:
        """The time of `steps` training steps, each of `flops` FLOPs that move `floats` 4-byte numbers.

        A step's operations run one after another, some bound by computing (matrix products) and some by
        memory (optimiser, penalties), so the two add up, plus the profile's overhead.  The greater of the two,
        as in network.md §5, would let a penalty of the size of the model cost nothing wherever computing takes
        longer; measured steps say otherwise (benchmarks/compute.py).
        Raises ValueError for a count that is negative or not finite.
        """
        for what, value in (("flops", flops), ("floats", floats), ("steps", steps)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{what} is {value}; a step's cost must be 0 or more, and finite")
        computing = flops / self.profile.flops_per_s
        moving = 4 * floats / self.profile.memory_bytes_per_s
        return steps * (computing + moving + self.profile.overhead_s)


@cache
def profiles() -> dict[str, Profile]:
    """The named profiles of devices/profiles.csv."""
    text = resources.files("devices").joinpath("profiles.csv").read_text(encoding="utf-8")
    return read_profiles(text.splitlines())


def read_profiles(lines: Iterable[str]) -> dict[str, Profile]:
    """Profiles from CSV lines `name,quantity,value,unit,source,date`, four quantities each (see `UNITS`).

    Raises ValueError for an unknown quantity or unit, and for one that is missing or given twice.
    """
    table: dict[str, dict[str, float]] = {}
    sources: dict[str, list[str]] = {}
    for row in csv.DictReader(lines):
        name, quantity = row["name"], row["quantity"]
        if quantity not in UNITS or row["unit"] != UNITS[quantity][0]:
            known = ", ".join(f"{known} in {unit}" for known, (unit, _) in UNITS.items())
            raise ValueError(f"{name}: {quantity} in {row['unit']}; a profile gives {known}")
        if quantity in table.setdefault(name, {}):
            raise ValueError(f"{name}: {quantity} is given twice; one value is right")
        table[name][quantity] = float(row["value"]) * UNITS[quantity][1]
        sources.setdefault(name, []).append(f"{quantity}: {row['source']} ({row['date']})")
    return {name: _profile(name, values, "; ".join(sources[name])) for name, values in table.items()}


def _profile(name: str, values: dict[str, float], source: str) -> Profile:
    missing = UNITS.keys() - values.keys()
    if missing:
        raise ValueError(f"{name}: {', '.join(sorted(missing))} missing; a profile has {', '.join(UNITS)}")
    return Profile(
        name=name,
        flops_per_s=values["speed"],
        memory_bytes_per_s=values["memory_bandwidth"],
        overhead_s=values["overhead"],
        memory_bytes=round(values["memory"]),
        source=source,
    )
