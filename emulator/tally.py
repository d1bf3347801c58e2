"""What a round took, counted from its device-rounds: bytes by kind, waste, and the critical path.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

CUT = "cut"  # the kind under which bytes of an unfinished transfer are counted: they belong to no whole tensor


@dataclass
class Transfer:
    """One direction of a device-round."""

    start: float
    sizes: Mapping[str, int]  # bytes per kind and "frame"
    seconds: float = 0.0
    moved: int = 0  # bytes that went through
    whole: bool = False
    setup: float = 0.0  # s of round trips before it, beyond the way itself

    def by_kind(self) -> Mapping[str, int]:
        return self.sizes if self.whole else {CUT: self.moved} if self.moved else {}

    def seconds_by_kind(self) -> dict[str, float]:
        """Its seconds after the set-up, split in proportion to bytes."""
        total, seconds = sum(self.sizes.values()), self.seconds - self.setting_up
        return {kind: seconds * size / total for kind, size in self.sizes.items()} if total else {}

    @property
    def setting_up(self) -> float:
        """The seconds of set-up that passed: it may have been cut before."""
        return min(self.setup, self.seconds)


@dataclass
class Bill:
    """What a piece of work costs on the machine that does it, phase by phase."""

    flops: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, phase: str, flops: float, seconds: float) -> None:
        self.flops[phase] = self.flops.get(phase, 0.0) + flops
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    @property
    def total_flops(self) -> float:
        return sum(self.flops.values())


@dataclass
class Trip:
    """One device in one round."""

    down: Transfer | None = None
    up: Transfer | None = None
    bill: Bill | None = None
    compute_start: float = 0.0
    compute_seconds: float = 0.0  # as they passed
    compute_share: float = 0.0  # of the work: 1 if it was finished

    def transfers(self) -> Iterable[tuple[str, Transfer]]:
        if self.down:
            yield "down", self.down
        if self.up:
            yield "up", self.up

    @property
    def nbytes(self) -> int:
        return sum(transfer.moved for _, transfer in self.transfers())

    @property
    def flops(self) -> float:
        return self.compute_share * self.bill.total_flops if self.bill else 0.0

    def compute_by_phase(self) -> dict[str, float]:
        """The seconds that passed, in proportion to those charged (they differ by an overrun only)."""
        if not self.bill or not self.bill.total_seconds:
            return {}
        stretch = self.compute_seconds / self.bill.total_seconds
        return {phase: stretch * seconds for phase, seconds in self.bill.seconds.items()}


def bytes_by_kind(trips: Iterable[Trip]) -> dict[str, dict[str, int]]:
    """{"down": {kind: bytes, "frame": bytes}, "up": ...} over all trips of a round."""
    totals: dict[str, Counter[str]] = {"down": Counter(), "up": Counter()}
    for trip in trips:
        for direction, transfer in trip.transfers():
            totals[direction].update(transfer.by_kind())
    return {direction: dict(sorted(kinds.items())) for direction, kinds in totals.items()}


def critical(device: str | None, trip: Trip | None, server: Iterable[Bill], length: float) -> dict[str, Any]:
    """Where the seconds of a round went: the path of the device whose reply closed it.  Sums to `length`.

    `wait_s` is what this path does not explain: nobody on line, a deadline, a device that was lost.
    """
    path: dict[str, Any] = {
        "device": device,
        "setup_s": sum(transfer.setting_up for _, transfer in trip.transfers()) if trip else 0.0,
        "down_s": trip.down.seconds_by_kind() if trip and trip.down else {},
        "compute_s": trip.compute_by_phase() if trip else {},
        "up_s": trip.up.seconds_by_kind() if trip and trip.up else {},
        "server_s": _sum_seconds(server),
    }
    known = path["setup_s"] + sum(sum(part.values()) for part in path.values() if isinstance(part, dict))
    path["wait_s"] = length - known
    return path


def _sum_seconds(bills: Iterable[Bill]) -> dict[str, float]:
    total = Bill()
    for bill in bills:
        for phase, seconds in bill.seconds.items():
            total.add(phase, 0.0, seconds)
    return total.seconds
