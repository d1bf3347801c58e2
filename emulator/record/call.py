"""Names a device-round, which most lines of a record are about."""

from __future__ import annotations

from typing import NamedTuple

AGAIN = 10**9  # added to a version for each further request to a device; more than any run has rounds


class Call(NamedTuple):
    """A device-round: the part of one device in one round.

    `round` is the round that asks the device.  An asynchronous version may ask a device that has replied to it once
    more: then `round` is the version, plus AGAIN for each earlier time.
    """

    device: str
    round: int

    @property
    def version(self) -> int:
        """The round whose model the device started from."""
        return version(self.round)


def version(round: int) -> int:
    """Returns the round whose model a device-round with this `round` (see Call) started from."""
    return round % AGAIN


def place(round: int) -> tuple[int, int]:
    """Returns the place of a device-round with this `round` (see Call) among those of its device, which come one after
    the other: its version, and how often that version had asked before."""
    return round % AGAIN, round // AGAIN


def turn(round: int, buffer: int, asked: int) -> int:
    """Returns the number of the round, as algorithms and schedules count rounds, in which a device-round or a version
    falls.

    Synchronous (`buffer` = 0): the round itself.  Asynchronous: as many replies make a round as devices are at work
    (`asked`), so versions of `buffer` replies are parts of rounds.
    """
    return version(round) * buffer // asked if buffer else round
