"""The interface through which the conversation asks for the cost of work, without knowing models or records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from emulator.lab.lab import Lab
from emulator.record.tally import Bill
from emulator.record.work import Duty


class Charges(Protocol):
    """The prices of a run: its own Costs, or those of a replayed record."""

    @property
    def lab(self) -> Lab:
        """The lab with the devices that do the work."""

    def duty(self, name: str, round: int, downloaded: Mapping[str, int], kept: Mapping[str, int]) -> Duty | None:
        """A device's task in `round`, given bytes by kind and "frame"; None if it is unknown."""

    def refusal(self, name: str, round: int, duty: Duty | None) -> str | None:
        """The reason why the device cannot take part in this round; None if its memory is large enough."""

    def device(self, name: str, round: int, kinds: Iterable[str], memory: Iterable[str]) -> Bill:
        """The cost of a device's half of `round`, given the kinds it received and kept; a "frame" is no kind."""

    def request(self, round: int) -> Bill:
        """The cost of opening a round on the server."""

    def combine(self, round: int, replies: int) -> Bill:
        """The cost of combining so many replies on the server."""
