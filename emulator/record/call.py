"""Names a device-round, which most lines of a record are about."""

from __future__ import annotations

from typing import NamedTuple


class Call(NamedTuple):
    """A device-round: the part of one device in one round."""

    device: str
    round: int
