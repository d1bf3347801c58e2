"""Sums up a round over its device-rounds (one device in one round): bytes by kind of tensor, wasted seconds and the
critical path.  Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from operator import add, attrgetter
from typing import Any, NamedTuple

from emulator.record.work import Pieces, steps_of

CUT = "cut"  # the kind of the bytes of an unfinished transfer, which belong to no whole tensor


@dataclass(slots=True)
class Transfer:
    """One transfer of a message, or of a part of it, to or from a device in a round."""

    start: float
    sizes: Mapping[str, int]  # bytes per kind and "frame"
    stop: float
    moved: int = 0  # bytes that went through
    whole: bool = False
    setup: float = 0.0  # s of round trips before the bytes flow
    since: int = 0  # its first byte in the message
    kept: bool = False  # cut, and continued by another transfer
    vain: bool = False  # cut, and sent again from the first byte

    @property
    def seconds(self) -> float:
        return self.stop - self.start

    def seconds_by_kind(self) -> dict[str, float]:
        """Returns the seconds of the transfer without its set-up, divided among the kinds of tensors in proportion to
        their bytes."""
        total, seconds = sum(self.sizes.values()), self.seconds - self.setting_up
        return {kind: seconds * size / total for kind, size in self.sizes.items()} if total else {}

    @property
    def setting_up(self) -> float:
        """The seconds that the set-up took: less than `setup` if the transfer was cut during it."""
        return min(self.setup, self.seconds)


@dataclass
class Bill:
    """The cost of a piece of work on a machine: FLOPs and seconds, by phase."""

    flops: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    pieces: Pieces = ()  # the priced work; () if unknown
    jitter: dict[str, float] = field(default_factory=dict)  # by phase, included in the seconds; {}: none
    throttled: float = 1.0  # lengthening of all phases by heat, included in the seconds

    def add(self, phase: str, flops: float, seconds: float) -> None:
        self.flops[phase] = self.flops.get(phase, 0.0) + flops
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def jittered(self, factors: Mapping[str, float]) -> Bill:
        """Returns this bill with the seconds of each phase multiplied by the phase's factor."""
        seconds = {phase: factors[phase] * seconds for phase, seconds in self.seconds.items()}
        return Bill(self.flops, seconds, self.pieces, dict(factors), self.throttled)

    def on_hot(self, throttled: float) -> Bill:
        """Returns this bill for a hot machine, which needs `throttled` times the seconds of a cold one."""
        more = throttled / self.throttled
        seconds = {phase: more * s for phase, s in self.seconds.items()}
        return Bill(self.flops, seconds, self.pieces, self.jitter, throttled)

    def part(self, share: float) -> Bill:
        """Returns this bill with its FLOPs and seconds multiplied by `share`."""
        flops, seconds = ({phase: share * n for phase, n in what.items()} for what in (self.flops, self.seconds))
        return replace(self, flops=flops, seconds=seconds)

    @cached_property
    def steps(self) -> Mapping[str, int]:
        """The number of training steps of each phase."""
        return steps_of(self.pieces)

    @property
    def cold_seconds(self) -> float:
        """The seconds of all phases on a machine that is not throttled."""
        return self.total_seconds / self.throttled

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    @property
    def total_flops(self) -> float:
        return sum(self.flops.values())


@dataclass(slots=True)
class Stint:
    """A stretch of work without interruption: all of a bill's work, or the part of it that was done before an
    absence."""

    bill: Bill
    start: float
    stop: float
    share: float = 0.0  # done share of the bill's work: 1 if it was finished
    vain: bool = False  # cut, and started again

    @property
    def seconds(self) -> float:
        return self.stop - self.start

    @property
    def flops(self) -> float:
        return self.share * self.bill.total_flops

    def seconds_by_phase(self) -> dict[str, float]:
        """Returns the seconds of each phase, in proportion to the seconds that it is charged."""
        charged = self.bill.total_seconds
        return {phase: self.seconds / charged * s for phase, s in self.bill.seconds.items()} if charged else {}


class Usage(NamedTuple):
    """The seconds of one device in one round. useful + wasted = computing + sending."""

    useful: float  # if its reply counts, without the stretches that were started again; else 0
    wasted: float
    idle: float  # all other seconds, online or offline
    computing: float
    sending: float  # and receiving


@dataclass(slots=True)
class Trip:
    """One device in one round: its transfers and its work."""

    down: Transfer | None = None
    up: Transfer | None = None
    work: list[Stint] = field(default_factory=list)  # several if absences have cut the work
    earlier: list[tuple[str, Transfer]] = field(default_factory=list)  # (way, part) that an absence cut, and continued
    busy: bool = False  # begun, with more to do
    gone: bool = False  # gone offline or disconnected, with its work lost
    restarts: int = 0  # restarts after absences

    def cut(self, why: str, then: str | None) -> None:
        """Notes that the device's transfer or work is cut.  `then`: what follows when the device is back; None:
        nothing."""
        self.restarts += then == "restart"
        if then is None:
            self.busy, self.gone = False, why != "closed"

    @property
    def transfers(self) -> list[Transfer]:
        """The transfers in both directions; those that an absence cut and that were continued come first."""
        last = [transfer for transfer in (self.down, self.up) if transfer]
        return [transfer for _, transfer in self.earlier] + last if self.earlier else last

    @property
    def seconds(self) -> float:
        """Seconds from the start of the first transfer to the end of the last."""
        transfers = self.transfers
        return transfers[-1].stop - transfers[0].start

    @property
    def nbytes(self) -> int:
        return sum([transfer.moved for transfer in self.transfers])

    @property
    def vain_bytes(self) -> int:
        """Bytes of transfers that were cut and whose messages were sent again from the beginning."""
        return sum([transfer.moved for transfer in self.transfers if transfer.vain])

    @property
    def flops(self) -> float:
        return sum([stint.flops for stint in self.work])

    def add_bytes(self, way: str, to: dict[str, int]) -> None:
        """Adds the bytes of one direction to the sums `to`, by kind of tensor; bytes of transfers that were cut count
        as CUT."""
        pieces = self._pieces(way)
        arrived = bool(pieces) and pieces[-1].whole
        if arrived:
            for kind, size in pieces[-1].sizes.items():
                to[kind] = to.get(kind, 0) + size
        for piece in pieces:
            if piece.whole or (arrived and piece.kept):
                continue  # the message's bytes include it
            if piece.moved:
                to[CUT] = to.get(CUT, 0) + piece.moved

    def seconds_by_kind(self, way: str) -> dict[str, float]:
        """Returns the seconds of the transfers in one direction, without their set-ups, by kind of tensor."""
        return _sum_of(piece.seconds_by_kind() for piece in self._pieces(way))

    def _pieces(self, way: str) -> list[Transfer]:
        """Returns the transfers in one direction: that of the whole message, or those of its parts if absences have cut
        it."""
        last: list[Transfer] = [transfer] if (transfer := getattr(self, way)) else []
        return [earlier for direction, earlier in self.earlier if direction == way] + last if self.earlier else last

    def compute_by_phase(self) -> dict[str, float]:
        """Returns the seconds of computing, by phase."""
        return _sum_of(stint.seconds_by_phase() for stint in self.work)

    def usage(self, counts: bool, opened: float | None, closed: float) -> Usage:
        """Returns the device's seconds from the round's opening to its close, or to its own last end if that is later.
        `counts`: its reply counts in a round; `opened`: None in asynchronous rounds, where these seconds begin and end
        with what the device does."""
        transfers = self.transfers
        stretches: list[Stint | Transfer] = sorted([*self.work, *transfers], key=attrgetter("start", "stop"))
        if opened is None:
            opened = closed = stretches[0].start if stretches else 0.0
        idle, t = 0.0, opened
        for stretch in stretches:
            idle += stretch.start - t
            t = stretch.stop
        idle += max(closed, t) - t
        computing, sending = sum([stint.seconds for stint in self.work]), sum([part.seconds for part in transfers])
        vain = sum([stretch.seconds for stretch in stretches if stretch.vain])
        useful = computing + sending - vain if counts else 0.0
        return Usage(useful, computing + sending - useful, idle, computing, sending)


def bytes_by_kind(trips: Iterable[Trip]) -> dict[str, dict[str, int]]:
    """Returns the sums of bytes over all trips of a round: {"down": {kind: bytes, "frame": bytes}, "up": ...}."""
    totals: dict[str, dict[str, int]] = {"down": {}, "up": {}}
    for trip in trips:
        for direction, kinds in totals.items():
            trip.add_bytes(direction, kinds)
    return {direction: dict(sorted(kinds.items())) for direction, kinds in totals.items()}


def critical(device: str | None, trip: Trip | None, server: Iterable[Bill], length: float) -> dict[str, Any]:
    """Divides the `length` seconds of a round along the critical path: what the device whose reply closed the round,
    and the server, did in it.  Returns the parts by name.

    `wait_s` is the rest, which this path does not explain: nobody was online, the deadline was awaited, or a device was
    lost.
    """
    path: dict[str, Any] = {
        "device": device,
        "setup_s": sum([transfer.setting_up for transfer in trip.transfers]) if trip else 0.0,
        "down_s": trip.seconds_by_kind("down") if trip else {},
        "compute_s": trip.compute_by_phase() if trip else {},
        "up_s": trip.seconds_by_kind("up") if trip else {},
        "server_s": _sum_of(bill.seconds for bill in server),
    }
    parts = [part.values() for part in path.values() if isinstance(part, dict)]
    known = math.fsum([path["setup_s"], *chain(*parts)])  # exact, because a replay adds them in another order
    path["wait_s"] = length - known
    return path


def together(usages: Iterable[tuple[str, Usage]]) -> dict[str, Usage]:
    """Returns the sums of the seconds of each device, which an asynchronous version may have asked several times."""
    sums: dict[str, Usage] = {}
    for name, usage in usages:
        sums[name] = Usage(*map(add, sums[name], usage)) if name in sums else usage
    return sums


def seconds(usages: Mapping[str, Usage]) -> dict[str, Any]:
    """Returns the sums of the useful, wasted and idle seconds of a round, and under "devices" these three seconds of
    each device."""
    devices = {name: [usage.useful, usage.wasted, usage.idle] for name, usage in usages.items()}
    sums = {use: math.fsum(row[n] for row in devices.values()) for n, use in enumerate(("useful", "wasted", "idle"))}
    return {**sums, "devices": devices}


def _sum_of(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for seconds in parts:
        for name, value in seconds.items():
            total[name] = total.get(name, 0.0) + value
    return total
