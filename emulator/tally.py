"""What a round took, counted from its device-rounds: bytes by kind, waste, and the critical path.  Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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
    since: int = 0  # the byte of its message with which it begins
    kept: bool = False  # it was cut, and another transfer goes on from the byte that was reached
    vain: bool = False  # it was cut, and another one starts again from the first byte

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
    steps: dict[str, float] = field(default_factory=dict)  # batches; not known of recorded work
    jitter: dict[str, float] = field(default_factory=dict)  # factors that are in the seconds; {}: none
    throttled: float = 1.0  # another, of all phases: the machine is hot

    def add(self, phase: str, flops: float, seconds: float, steps: float = 0.0) -> None:
        self.flops[phase] = self.flops.get(phase, 0.0) + flops
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds
        self.steps[phase] = self.steps.get(phase, 0.0) + steps

    def jittered(self, factors: Mapping[str, float]) -> Bill:
        """The same where each phase takes so many times its seconds."""
        seconds = {phase: factors[phase] * seconds for phase, seconds in self.seconds.items()}
        return replace(self, seconds=seconds, jitter=dict(factors))

    def on_hot(self, throttled: float) -> Bill:
        """The same on a machine that takes so many times the seconds of a cold one."""
        more = throttled / self.throttled
        return replace(self, seconds={phase: more * s for phase, s in self.seconds.items()}, throttled=throttled)

    def part(self, share: float) -> Bill:
        """Such a part of the same."""
        flops, seconds = ({phase: share * n for phase, n in what.items()} for what in (self.flops, self.seconds))
        return replace(self, flops=flops, seconds=seconds)

    @property
    def cold_seconds(self) -> float:
        """What it takes on a machine that is not throttled."""
        return self.total_seconds / self.throttled

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    @property
    def total_flops(self) -> float:
        return sum(self.flops.values())


@dataclass(frozen=True)
class Usage:
    """The seconds of one device in one round: useful + wasted + idle, which is computing + sending + idle."""

    useful: float  # of a device that was counted, without what was started again
    wasted: float
    idle: float  # also while off line
    computing: float
    sending: float  # and receiving


@dataclass
class Trip:
    """One device in one round."""

    down: Transfer | None = None
    up: Transfer | None = None
    bill: Bill | None = None
    compute_start: float = 0.0
    compute_seconds: float = 0.0  # as they passed
    compute_share: float = 0.0  # of the work: 1 if it was finished
    compute_vain: bool = False  # it was cut, and started again
    earlier: list[tuple[str, Transfer]] = field(default_factory=list)  # cut while the device was off, and gone on with
    worked: list[Trip] = field(default_factory=list)  # the same of its work: trips that only compute

    def transfers(self) -> Iterable[tuple[str, Transfer]]:
        yield from self.earlier
        if self.down:
            yield "down", self.down
        if self.up:
            yield "up", self.up

    @property
    def nbytes(self) -> int:
        return sum(transfer.moved for _, transfer in self.transfers())

    @property
    def vain_bytes(self) -> int:
        """Those that were sent once more."""
        return sum(transfer.moved for _, transfer in self.transfers() if transfer.vain)

    @property
    def flops(self) -> float:
        own = self.compute_share * self.bill.total_flops if self.bill else 0.0
        return own + sum(trip.flops for trip in self.worked)

    def by_kind(self, way: str) -> Counter[str]:
        """Bytes of a message that has arrived; the others, of transfers that were cut, are of no kind."""
        pieces = [transfer for direction, transfer in self.transfers() if direction == way]
        arrived = bool(pieces) and pieces[-1].whole
        of_kinds = pieces[-1].sizes if arrived else {}
        cut = sum(piece.moved for piece in pieces if not piece.whole and not (arrived and piece.kept))
        return Counter({**of_kinds, **({CUT: cut} if cut else {})})

    def seconds_by_kind(self, way: str) -> dict[str, float]:
        """The seconds of transfers after their set-ups."""
        pieces = [transfer for direction, transfer in self.transfers() if direction == way]
        return _sum_of(piece.seconds_by_kind() for piece in pieces)

    def compute_by_phase(self) -> dict[str, float]:
        """The seconds that passed, in proportion to those charged (they differ by an overrun only)."""
        return _sum_of([*(trip.compute_by_phase() for trip in self.worked), self._own_by_phase()])

    def _own_by_phase(self) -> dict[str, float]:
        if not self.bill or not self.bill.total_seconds:
            return {}
        stretch = self.compute_seconds / self.bill.total_seconds
        return {phase: stretch * seconds for phase, seconds in self.bill.seconds.items()}

    def usage(self, counted: bool, opened: float, closed: float) -> Usage:
        """Where its seconds went from the round's opening to its close, or to its own last end if that is later."""
        works = [trip for trip in (*self.worked, self) if trip.bill]
        computing = sum(trip.compute_seconds for trip in works)
        sending = sum(transfer.seconds for _, transfer in self.transfers())
        vain = sum(trip.compute_seconds for trip in works if trip.compute_vain)
        vain += sum(transfer.seconds for _, transfer in self.transfers() if transfer.vain)
        ends = [trip.compute_start + trip.compute_seconds for trip in works]
        ends += [transfer.start + transfer.seconds for _, transfer in self.transfers()]
        length, busy = max([closed, *ends]) - opened, computing + sending
        useful = busy - vain if counted else 0.0
        return Usage(useful, busy - useful, max(0.0, length - busy), computing, sending)


def bytes_by_kind(trips: Iterable[Trip]) -> dict[str, dict[str, int]]:
    """{"down": {kind: bytes, "frame": bytes}, "up": ...} over all trips of a round."""
    totals: dict[str, Counter[str]] = {"down": Counter(), "up": Counter()}
    for trip in trips:
        for direction, kinds in totals.items():
            kinds.update(trip.by_kind(direction))
    return {direction: dict(sorted(kinds.items())) for direction, kinds in totals.items()}


def critical(device: str | None, trip: Trip | None, server: Iterable[Bill], length: float) -> dict[str, Any]:
    """Where the seconds of a round went: the path of the device whose reply closed it.  Sums to `length`.

    `wait_s` is what this path does not explain: nobody on line, a deadline, a device that was lost.
    """
    path: dict[str, Any] = {
        "device": device,
        "setup_s": sum(transfer.setting_up for _, transfer in trip.transfers()) if trip else 0.0,
        "down_s": trip.seconds_by_kind("down") if trip else {},
        "compute_s": trip.compute_by_phase() if trip else {},
        "up_s": trip.seconds_by_kind("up") if trip else {},
        "server_s": _sum_seconds(server),
    }
    known = path["setup_s"] + sum(sum(part.values()) for part in path.values() if isinstance(part, dict))
    path["wait_s"] = length - known
    return path


def seconds(usages: Iterable[Usage]) -> dict[str, float]:
    """Over all devices of a round."""
    held = list(usages)
    return {what: math.fsum(getattr(usage, what) for usage in held) for what in ("useful", "wasted", "idle")}


def _sum_seconds(bills: Iterable[Bill]) -> dict[str, float]:
    return _sum_of(bill.seconds for bill in bills)


def _sum_of(each: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for seconds in each:
        for name, value in seconds.items():
            total[name] = total.get(name, 0.0) + value
    return total
