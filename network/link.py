"""A device's link to the server: what it carries, each way."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """A link of constant rate, seen from the device (network.md §1, `ideal`: latency + size/share).

    Raises ValueError if a rate is not positive and finite, or the latency negative or not finite.
    """

    up: float  # bytes/s, from the device to the server
    down: float  # bytes/s, from the server to the device
    latency: float  # s, one way

    def __post_init__(self) -> None:
        for name, rate in (("up", self.up), ("down", self.down)):
            if not 0 < rate < math.inf:
                raise ValueError(f"{name} is {rate} bytes/s; a link needs a positive, finite rate")
        if not 0 <= self.latency < math.inf:
            raise ValueError(f"latency is {self.latency} s; it must be finite and at least 0")

    @classmethod
    def of(cls, up_mbit_s: float, down_mbit_s: float, latency_ms: float) -> Link:
        """A link in the units of data sheets: Mbit = 1e6 bits, and the latency is one way."""
        return cls(up_mbit_s * 1e6 / 8, down_mbit_s * 1e6 / 8, latency_ms / 1e3)
