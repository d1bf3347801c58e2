"""Weights of stale replies: how much less a reply counts that started from an older model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

from algorithms import option_checks
from algorithms.algorithm import Reply


@dataclass(frozen=True)
class Stale:
    """Options for the weight w(s) of a reply of staleness s, the number of versions since the one from which its device
    started; w(0) = 1.  Raises ValueError if a field is out of its range.

    An algorithm names it before FedAvg among its bases.
    """

    staleness: Literal["constant", "polynomial", "hinge"] = "polynomial"
    """Weight w(s): constant: 1; polynomial: (1 + s)^-a; hinge: 1 up to s = b, then 1 / (a (s - b) + 1) (Xie et al.
    2019, §5.2)."""
    a: float = 0.5
    """Steepness a of the weight; 0.5 makes the polynomial 1 / √(1 + s)."""
    b: float = 4.0
    """Staleness b up to which the hinge is 1."""

    def __post_init__(self) -> None:
        option_checks.check(self, a=(0, inf), b=(0, inf))

    def weight(self, s: int) -> float:
        """Returns w(s) of a reply of staleness s, which is counted before the version rises: a fresh one has 0."""
        if self.staleness == "constant" or (self.staleness == "hinge" and s <= self.b):
            return 1.0
        if self.staleness == "polynomial":
            return float((1 + s) ** -self.a)
        return 1 / (self.a * (s - self.b) + 1)


def device_of(name: str, replies: Mapping[str, Reply]) -> str:
    """Returns the device that sent the reply of this name.  An asynchronous version may have several replies of a
    device: then the newest has the device's name, and the older ones are named `device@round`."""
    device = name.rpartition("@")[0]
    return device if device in replies else name


def newest(replies: Mapping[str, Reply]) -> dict[str, Reply]:
    """Returns the newest reply of each device, in the order of the devices' names."""
    return {name: replies[name] for name in sorted(replies) if device_of(name, replies) == name}
