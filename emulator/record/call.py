"""What a line of the record is about: a device, and a round."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """One device in one round; most lines of the record belong to one."""

    device: str
    round: int
