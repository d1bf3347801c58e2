"""The interface through which the exchange between server and devices asks for the cost of work, without knowing models
or records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from emulator.lab.lab import Lab
from emulator.record.tally import Bill
from emulator.record.work import Duty


class Charges(Protocol):
    """The costs that a run is charged: computed by Costs, or read from the record that is replayed."""

    @property
    def lab(self) -> Lab:
        """The lab with the devices that do the work."""

    def duty(self, name: str, round: int, downloaded: Mapping[str, int], kept: Mapping[str, int]) -> Duty | None:
        """Returns a device's work in `round` and the memory that it needs, from the bytes downloaded and kept, by kind
        and "frame" (bytes of no tensor); None if the work is unknown."""

    def refusal(self, name: str, round: int, duty: Duty | None) -> str | None:
        """Returns the reason why the device cannot take part in this round; None if its memory is large enough."""

    def device(self, name: str, round: int, kinds: Iterable[str], memory: Iterable[str]) -> Bill:
        """Returns the cost of a device's half of `round`, given the kinds of tensors that it received and keeps in
        memory; a "frame" is no kind."""

    def request(self, round: int) -> Bill:
        """Returns the cost of opening a round on the server."""

    def combine(self, round: int, replies: int) -> Bill:
        """Returns the cost of combining this many replies on the server."""
