"""What work costs, as the conversation asks: it knows neither models nor records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from emulator.lab.lab import Lab
from emulator.record.tally import Bill
from emulator.record.work import Duty


class Charges(Protocol):
    """The prices of a run: its own Costs, or those of a record that is played again."""

    @property
    def lab(self) -> Lab:
        """Whose devices it is done on."""

    def duty(self, name: str, round: int, downloaded: Mapping[str, int], kept: Mapping[str, int]) -> Duty | None:
        """What `round` asks of a device, given bytes by kind and "frame"; None if nobody knows."""

    def refusal(self, name: str, round: int, duty: Duty | None) -> str | None:
        """Why the device cannot take part in this round; None if its memory is large enough."""

    def device(self, name: str, round: int, kinds: Iterable[str], memory: Iterable[str]) -> Bill:
        """What a device's half of `round` takes there, given the kinds it received and those it kept; a "frame" among
        them is none."""

    def request(self, round: int) -> Bill:
        """What opening a round takes on the server."""

    def combine(self, round: int, replies: int) -> Bill:
        """What closing it with so many replies takes."""
