"""Energy: the power draw of a device that is idle, computes or uses its radio, times the seconds in that state."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Power:
    """Total power draw of a device in watts while it is idle, computes, and sends or receives.

    Raises ValueError for a number that is negative or not finite.  Source: docs/design/devices.md §3.
    """

    idle: float = 0.0
    compute: float = 0.0
    radio: float = 0.0

    def __post_init__(self) -> None:
        for what in ("idle", "compute", "radio"):
            value = getattr(self, what)
            if not 0 <= value < math.inf:
                raise ValueError(f"{what} power is {value} W; it must be 0 or more, and finite")

    def joules(self, idle: float, compute: float, radio: float) -> float:
        """Returns the energy in joules of a device that has been idle, has computed and has used its radio for these
        seconds.  The caller counts a second in two states once: as computing before radio, and as radio before idle.

        Raises ValueError for seconds that are negative or not finite.
        """
        for what, seconds in (("idle", idle), ("compute", compute), ("radio", radio)):
            if not 0 <= seconds < math.inf:
                raise ValueError(f"{what} lasts {seconds} s; it must be 0 or more, and finite")
        return self.idle * idle + self.compute * compute + self.radio * radio
