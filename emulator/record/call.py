"""Names a device-round, the subject of most lines of the record."""

from __future__ import annotations

from typing import NamedTuple


class Call(NamedTuple):
    """One device in one round."""

    device: str
    round: int
