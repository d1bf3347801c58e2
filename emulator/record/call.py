"""What a line of the record is about: a device, and a round."""

from __future__ import annotations

from typing import NamedTuple


class Call(NamedTuple):
    """One device in one round; most lines of the record belong to one."""

    device: str
    round: int
