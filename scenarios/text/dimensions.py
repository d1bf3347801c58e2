"""Numbers with units on a command line: `100Mbit/s`, `6.65MB`, `10s`, `0.1..100Mbit/s`.

In a scenario the unit is in the key: `up_mbit_s: 100`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

NUMBER = r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?"
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
PREFIXES = {**DECIMAL, **BINARY}


@dataclass(frozen=True)
class UnitKind:
    """A kind of quantity, such as a rate, with its units and the size of each in SI units."""

    name: str
    units: Mapping[str, float]
    example: str
    least: float = 0.0  # exclusive lower bound; -1 allows 0

    def value(self, text: str) -> float:
        """Returns the number with a unit in a text as a number in SI units.  Raises ValueError, with one sentence, for
        another text."""
        found = re.fullmatch(rf"\s*({NUMBER})\s*(\S+)\s*", text)
        if not found or found[2] not in self.units:
            usual = ", ".join(unit for unit in self.units if unit[:2] not in BINARY)
            raise ValueError(f"{text!r} is not a {self.name}; write it as {self.example} ({usual})")
        value = float(found[1]) * self.units[found[2]]
        if not self.least < value < math.inf:
            raise ValueError(f"a {self.name} of {text} is out of range; it must be positive and finite")
        return value

    def span(self, text: str) -> tuple[float, float]:
        """Returns both ends of a range like `0.1..100Mbit/s`, in SI units.  The first number may have its own unit; a
        single value is both ends.

        Raises ValueError, in one sentence.
        """
        low, dots, high = text.partition("..")
        hyphen = re.fullmatch(rf"\s*({NUMBER})\s*(\S*?)\s*-\s*({NUMBER})\s*(\S+)\s*", text)
        if hyphen and {hyphen[2], hyphen[4]} <= {"", *self.units}:
            raise ValueError(f"{text!r} is not a range; write it as {hyphen[1]}{hyphen[2]}..{hyphen[3]}{hyphen[4]}")
        if not dots:
            return self.value(low), self.value(low)
        ends = self.value(high)
        unit = re.sub(rf"\s*(?:{NUMBER})\s*", "", high, count=1)
        begins = self.value(low + unit if re.fullmatch(rf"\s*(?:{NUMBER})\s*", low) else low)
        if not begins < ends:
            raise ValueError(f"{text}: a range goes from the smaller to the larger {self.name}")
        return begins, ends


RATE = UnitKind(
    "rate",  # bytes/s
    {
        f"{prefix}{unit}/s": size * one
        for unit, one in (("bit", 0.125), ("B", 1.0))
        for prefix, size in PREFIXES.items()
    },
    "100Mbit/s",
)
SIZE = UnitKind("size", {f"{prefix}B": size for prefix, size in PREFIXES.items()}, "6.65MB")  # bytes
SECONDS = UnitKind("time", {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0}, "10s", least=-1.0)  # s
SPEED = UnitKind("speed", {f"{prefix}FLOP/s": size for prefix, size in {**DECIMAL, "T": 1e12}.items()}, "1GFLOP/s")
KEYS = {  # endings of keys with a unit: the quantity, and that unit in SI units
    "mbit_s": (RATE, 125e3),
    "gb_s": (RATE, 1e9),
    "gflop_s": (SPEED, 1e9),
    "ms": (SECONDS, 1e-3),
    "mb": (SIZE, 1e6),
    "kb": (SIZE, 1e3),
    "s": (SECONDS, 1.0),
}


def without_unit(key: str, text: str) -> str | None:
    """Returns the number in a text without its unit, if it is the unit in the key's name: `2` for `2Mbit/s` and
    `up_mbit_s`."""
    dimension, one = next((KEYS[ending] for ending in KEYS if f"_{key}".endswith(f"_{ending}")), (None, 1.0))
    if dimension is None:
        return None
    try:
        return f"{dimension.value(text.replace('bps', 'bit/s')) / one:g}"
    except ValueError:
        return None
