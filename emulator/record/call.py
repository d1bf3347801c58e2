"""What a line of the record is about: a device, and a round."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """A stretch of the record that a transfer belongs to: which device, and which round it serves."""

    device: str
    round: int
