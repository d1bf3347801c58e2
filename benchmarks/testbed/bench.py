"""A transfer that is predicted, and measured: what it is, how it is set up, and what both say."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

import numpy as np

from benchmarks.testbed import namespaces
from benchmarks.testbed.namespaces import BURST, LEFT, RIGHT, Pair
from network.links.rate import Rate
from network.links.tcp import Congestion, Tcp, Way, passage
from network.links.trace import Trace
from network.sharing.fluid import Fluid
from network.traces.read import read

FOREVER = 1e6  # s
INSTANT = 1e-4  # s, in which htb's burst goes
LEAD = 0.4  # s, that the receiver has to start
LATE = 0.02  # s: who begins later has another trace than it was predicted with
TRIES = 4  # for each repetition
PAUSE = 0.1  # s between two repetitions


@dataclass(frozen=True)
class Case:
    """Flows that begin together, each with so many bytes from the server to the device.

    Without `rtt` the link is a veth behind htb, which counts Ethernet's headers; with it, the relay.
    """

    group: str
    nbytes: int
    congestion: Congestion
    flows: int = 1
    rate: float = 0.0  # Mbit/s
    trace: Path | None = None  # Mahimahi, down; instead of the rate
    offset: float = 0.0  # s into the trace, at which the connection is opened
    rtt: float = 0.0  # s
    queue: int = 0  # bytes that may wait
    loss: float = 0.0
    judged: bool = True

    @property
    def label(self) -> str:
        link = f"{self.trace.name} +{self.offset:g} s" if self.trace else f"{self.rate:g} Mbit/s"
        loss = f", loss {self.loss:.1%}" if self.loss else ""
        flows = f"{self.flows} x " if self.flows > 1 else ""
        queue = "" if self.judged else f", queue {size(self.queue)}"
        return f"{flows}{size(self.nbytes)}, {link}, {self.rtt * 1e3:g} ms{queue}{loss}"

    @property
    def shaped(self) -> bool:
        """True if the kernel shapes the link, and not the relay."""
        return not self.trace and not self.rtt


@dataclass(frozen=True)
class Outcome:
    """Predicted seconds, and those of each repetition, from connect() to the last byte of each flow."""

    case: Case
    congestion: str  # as the kernel names it
    predicted: list[float]
    measured: list[list[float]]
    dropped: list[int]  # packets, by the relay

    @property
    def makespan(self) -> float:
        return statistics.median(map(max, self.measured))

    @property
    def error(self) -> float:
        """Relative error of the median makespan: predicted over measured, less 1."""
        return max(self.predicted) / self.makespan - 1

    @property
    def finish_errors(self) -> list[float]:
        """Relative error of each flow in each repetition."""
        return [p / m - 1 for ends in self.measured for p, m in zip(self.predicted, ends, strict=True)]


def size(nbytes: int) -> str:
    """The size in the units of a data sheet."""
    return f"{nbytes / 1e6:g} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:g} kB"


def link_of(case: Case) -> Rate:
    """Bytes/s that the bottleneck carries, from the moment at which the connections are opened."""
    if case.trace:
        [trace] = read(case.trace, direction="down")
        return trace.starting(case.offset)
    rate = case.rate * 1e6 / 8
    burst = BURST / INSTANT if case.shaped else 0.0
    return Trace(np.array([0.0, INSTANT, FOREVER]), np.array([rate + burst, rate]), "down", "capacity")


def predict(case: Case) -> list[float]:
    """When each flow's last byte arrives, s after connect(), by network/links/tcp.py on network/sharing/fluid.py."""
    tcp = Tcp(congestion=case.congestion, tls=0, ethernet=case.shaped)
    link, way = link_of(case), Way(case.rtt, case.loss)
    fluid = Fluid(link)
    ends: dict[Hashable, float] = {}
    for number in range(case.flows):
        flight = passage(tcp, way, link, "down", case.nbytes, 0.0)
        fluid.open(flight.delay, number, flight.wire, flight.cap(flight.delay), flight.weight)
    while len(ends) < case.flows:
        t = fluid.next_finish()
        ends.update(dict.fromkeys(fluid.advance(t), t))
    return [ends[number] for number in range(case.flows)]


@contextmanager
def testbed(case: Case) -> Iterator[tuple[Pair, Popen[str] | None]]:
    """Both namespaces with the case's link between them; and the relay's process, if it is one."""
    with namespaces.pair() as pair:
        if case.shaped:
            namespaces.join_by_wire(pair, case.rate * 1e6 / 8, case.queue)
            yield pair, None
            return
        with relayed(pair, [case.rtt], case.rate * 1e6 / 8, case.queue, case.trace, case.loss) as relay:
            yield pair, relay


@contextmanager
def relayed(
    pair: Pair,
    rtts: Sequence[float],
    rate: float,
    queue: int,
    trace: Path | None = None,
    loss: float = 0.0,
    up: tuple[float, int] | None = None,
    behind: Sequence[tuple[float, int]] = (),
) -> Iterator[Popen[str]]:
    """The process that carries packets between both: down through the link, and up through one where `up` gives the
    rate and the queue of one.  Rates in bytes/s; `rtts`, and rates and queues of links `behind` the one down, by the
    device's port, modulo their number.
    """
    rate_up, queue_up = up or (None, None)
    said = {"left": pair.left, "right": pair.right, "rtts": list(rtts), "rate": rate, "queue": queue, "loss": loss}
    said |= {"trace": str(trace) if trace else None, "up": rate_up, "queue_up": queue_up, "behind": list(behind)}
    relay = namespaces.began((sys.executable, "-m", "benchmarks.testbed.relay", json.dumps(said)))
    try:
        namespaces.heard(relay)
        namespaces.set_up(pair.left, "tun", LEFT)
        namespaces.set_up(pair.right, "tun", RIGHT)
        yield relay
    finally:
        namespaces.stop(relay)


def measure(case: Case, repetitions: int) -> Outcome:
    """Makes the link, sends the bytes so many times, and takes everything down."""
    flows = [Transfer(case.nbytes)] * case.flows
    with testbed(case) as (pair, relay):
        found = repeated(pair, relay, flows, case.congestion, repetitions, case.offset, strict=bool(case.trace))
    return Outcome(case, found.congestion, predict(case), found.ends, found.dropped)


class Transfer(NamedTuple):
    """Bytes that one connection carries."""

    nbytes: int
    start: float = 0.0  # s, when it is opened
    up: bool = False  # from the device to the server
    kind: int = 0  # which of the congestion controls its sender has


class Measured(NamedTuple):
    """The seconds of all repetitions."""

    congestion: str  # as the kernel names it
    ends: list[list[float]]  # s from the beginning to the last byte of each transfer
    dropped: list[int]  # packets, by the relay


def repeated(
    pair: Pair,
    relay: Popen[str] | None,
    flows: Sequence[Transfer],
    congestion: str,
    repetitions: int,
    offset: float = 0.0,
    strict: bool = False,
) -> Measured:
    """Sends the bytes so many times.  Raises RuntimeError if it is `strict` about when it begins, and never does."""
    found = Measured(congestion, [], [])
    server = namespaces.start(pair.left, "benchmarks.testbed.ends", "serve", congestion)
    try:
        found = found._replace(congestion=namespaces.heard(server))
        for turn in range(repetitions * TRIES):
            at = time.monotonic() + LEAD
            if relay:
                _tell(relay, at - offset)
            late, ends = _fetch(pair, flows, congestion, at, turn)
            drops = _tell(relay, time.monotonic()) if relay else 0
            if not strict or late < LATE:
                found.ends.append(ends)
                found.dropped.extend([drops] if relay else [])
            if len(found.ends) == repetitions:
                return found
            time.sleep(PAUSE)
    finally:
        namespaces.stop(server)
    raise RuntimeError(f"this machine is too busy to begin within {LATE * 1e3:g} ms of a trace's time")


def _fetch(pair: Pair, flows: Sequence[Transfer], congestion: str, at: float, turn: int) -> tuple[float, list[float]]:
    """Seconds by which the transfer began late, and the seconds of each flow."""
    arguments = (LEFT, congestion, json.dumps([flow._asdict() for flow in flows]), repr(at), str(turn))
    receiver = namespaces.start(pair.right, "benchmarks.testbed.ends", "fetch", *arguments)
    try:
        said = json.loads(namespaces.heard(receiver))
    finally:
        namespaces.stop(receiver)
    return float(said["late"]), [float(end) for end in said["ends"]]


def _tell(relay: Popen[str], zero: float) -> int:
    """When its trace begins; how many packets it has dropped since it was told before."""
    assert relay.stdin is not None
    relay.stdin.write(f"{zero!r}\n")
    relay.stdin.flush()
    return int(namespaces.heard(relay))
