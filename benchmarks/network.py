"""Measures the cost of shared links: the engines of network/sharing/fluid.py, without a clock and without a world.

A flow event is an opening, an end, or a round trip of slow start at which a clock must look, each with the questions to
the engine that follow it.  The bars, without and with slow start:

With 1,000 flows behind one bottleneck an event takes at most 20 us, and with 10,000 at most 1.5 times that.  With a
full link for every 20 flows, behind one that is full too, it takes at most 60 us (120 under slow start), and with
10,000 at most twice that.  With the Wi-Fi of 250 homes of 4 devices behind a server that is full, it takes at most 500
us. 10,000 flows open at one instant in 0.5 s.  No sample of a trace is looked at where no link can be full.  Ten flows
on traces of 1 ms, also under slow start, behind 100 Mbit/s for 10 virtual seconds take at most 1 s.

Seconds are those of this process, not of the wall, and the best of the repetitions.  Windows are measured in a single
run: 100 flows that fill 20 or 100 Mbit/s for 100 virtual seconds at 50 ms take at most 2 s, and 5 us a flow and round
trip (8 of bbr).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.verdict import judge
from emulator.compute.garbage import let_stay
from network.links.ramp import Ramp
from network.links.rate import Constant
from network.links.tcp import Congestion, Tcp, Way, passage
from network.links.trace import Floats, Trace
from network.sharing.flow import SharedLink
from network.sharing.fluid import Fluid
from network.windows.crowd import compile_all
from network.windows.windows import Windows

STAR, TREE, AIR = "one bottleneck", "access points of 20", "Wi-Fi in homes of 4"
SLOW_START = ", slow start"
# s per flow event with JUDGED flows, and how many times that with the most
BARS = {STAR: (20e-6, 1.5), STAR + SLOW_START: (20e-6, 1.5), TREE: (60e-6, 2.0), TREE + SLOW_START: (120e-6, 2.0)}
JUDGED = 1_000
ON_AIR = 500e-6  # s per flow event, with as many
AT_ONCE = 0.5  # s to open as many flows as there can be, behind access points
SLOW = 1.0  # s for ten traces
FLOWS = (10, 100, 1_000, 10_000)
EVENTS = 1_000  # in one measurement, at full scale
SECONDS = 10.0  # virtual, of the traces
REPETITIONS = 7
KINDS: tuple[Congestion, ...] = ("cubic", "bbr")
RATES = (20, 100, 1_000)  # Mbit/s, of the link that windows fill
WINDOWED = 100.0  # s that they do
TURNS = 20  # for what is judged: the best counts, for neighbours who use the cache only add


@dataclass(frozen=True)
class Cost:
    """Seconds per flow event."""

    what: str
    flows: int
    seconds: float


class Churn:
    """So many flows at any time: one that ends is followed by a new one at once.  Links from 0.1 to 10 MB/s.

    With slow start each begins with ten segments, and round trips from 10 to 200 ms are its weight.
    """

    def __init__(self, flows: int, shared: dict[str, SharedLink] | None = None, slow_start: bool = False) -> None:
        self.count, self.slow_start = 0, slow_start
        draws = np.random.default_rng(flows)
        self.draws = draws.uniform((1e6, 1e5, 0.01), (1e7, 1e7, 0.2), (2**14, 3)).tolist()  # bytes, bytes/s, s
        self.vias: list[str | None] = [*(shared or {None: None})]
        self.fluid = Fluid(0.5e6 * flows, shared)  # a tenth of what their caps sum to
        for flow in range(flows):
            self.open(flow)
        self.fluid.next_finish()

    def open(self, flow: Hashable) -> None:
        self.count += 1
        nbytes, cap, rtt = self.draws[self.count % len(self.draws)]
        via, now = self.vias[self.count % len(self.vias)], self.fluid.now
        if self.slow_start:
            ramp = Ramp(Constant(cap), now, rtt, 15_000, nbytes=nbytes)
            self.fluid.open(now, flow, nbytes, ramp, 1 / rtt, via)
        else:
            self.fluid.open(now, flow, nbytes, cap, via=via)


class Homes:
    """Flows on Wi-Fi: four devices in each home, of which one uploads; radios from 1 to 10 MB/s.

    The server is full in both directions, and the air of some homes is.
    """

    def __init__(self, flows: int) -> None:
        self.count = 0
        draws = np.random.default_rng(flows)
        self.draws = draws.uniform((1e6, 1e5), (1e7, 1e7), (2**14, 2)).tolist()  # bytes, bytes/s
        self.radios = draws.uniform(1e6, 1e7, flows).tolist()  # bytes/s
        homes = {f"home {k}": SharedLink(1.0, airtime=True) for k in range(math.ceil(flows / 4))}
        self.fluid = Fluid(0.6e6 * flows, homes, (0.15e6 * flows, homes))
        for device in range(flows):
            self.open(device)
        self.fluid.next_finish()

    def open(self, device: Hashable) -> None:
        self.count += 1
        nbytes, cap = self.draws[self.count % len(self.draws)]
        home, place = divmod(int(str(device)), 4)
        radio = self.radios[4 * home + place]
        self.fluid.open(self.fluid.now, device, nbytes, cap, via=f"home {home}", radio=radio, back=place == 0)


def play(churn: Churn | Homes, events: int) -> float:
    """Seconds per event."""
    began, done = time.process_time(), 0
    while done < events:
        done += 1
        for flow in churn.fluid.advance(churn.fluid.next_finish()):
            churn.open(flow)
            done += 1
    return (time.process_time() - began) / done


def access_points(flows: int) -> dict[str, SharedLink]:
    """One for every 20 flows, of 0.8 to 1.25 times what the root has for them: some are full now and then."""
    return {f"point {k}": SharedLink((0.8 + k % 10 / 20) * 20 * 0.5e6) for k in range(max(1, flows // 20))}


def trace(seed: int) -> Trace:
    """5 Mbit/s in packets of 1500 bytes, up to several in each millisecond and often none."""
    counts = np.random.default_rng(seed).poisson(5e6 / 8 / 1500 / 1000, size=20_000)
    return Trace(np.arange(20_001) / 1000, counts * 1500 / 1e-3, "down", "capacity")


@dataclass(frozen=True)
class Watched:
    """A trace that knows how often it was asked for a sample."""

    trace: Trace
    asked: list[float]

    @property
    def peak(self) -> float:
        return self.trace.peak

    def at(self, t: float) -> float:
        self.asked.append(t)
        return self.trace.at(t)

    def change(self, t: float) -> float:
        self.asked.append(t)
        return self.trace.change(t)

    def ahead(self, t: float, count: int) -> tuple[Floats, Floats]:
        self.asked.append(t)
        return self.trace.ahead(t, count)

    def under(self, ceiling: float) -> Trace:
        return self.trace.under(ceiling)

    def carried(self, begin: float, end: float) -> float:
        return self.trace.carried(begin, end)

    def finish(self, begin: float, nbytes: float) -> float:
        return self.trace.finish(begin, nbytes)


def replay(
    traces: Sequence[Any], capacity: float, nbytes: float, until: float, slow_start: bool = False
) -> tuple[float, int]:
    """Seconds, and how often a clock would look; one flow on each trace."""
    began, looks = time.process_time(), 0
    fluid = Fluid(capacity)
    for flow, each in enumerate(traces):
        fluid.open(0.0, flow, nbytes, Ramp(each, 0.0, 0.04, 15_000) if slow_start else each)
    while (due := fluid.next_finish()) < until:
        fluid.advance(due)
        looks += 1
    return time.process_time() - began, looks


def asked_in_vain() -> int:
    """Samples looked at where ten traces together cannot fill the link."""
    asked: list[float] = []
    replay([Watched(trace(k), asked) for k in range(10)], math.inf, 5e6, math.inf)
    return len(asked)


def best(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(REPETITIONS))


def costs(events: int) -> list[Cost]:
    """Costs by number of flows: one bottleneck, and access points, each without and with slow start; then homes."""
    found = []
    for slow_start, how in ((False, ""), (True, SLOW_START)):
        for what in (STAR, TREE):
            links = {flows: access_points(flows) if what == TREE else None for flows in FLOWS}
            churns = {flows: Churn(flows, links[flows], slow_start) for flows in FLOWS}
            times = dict.fromkeys(FLOWS, math.inf)
            for _ in range(TURNS):
                times = {flows: min(times[flows], play(churn, events)) for flows, churn in churns.items()}
            found += [Cost(what + how, flows, seconds) for flows, seconds in times.items()]
    homes = Homes(JUDGED)
    return [*found, Cost(AIR, JUDGED, min(play(homes, events) for _ in range(TURNS)))]


def opening(flows: int) -> float:
    """Seconds to open so many flows behind access points at one instant."""
    began = time.process_time()
    Churn(flows, access_points(flows))
    return time.process_time() - began


def missed(found: Sequence[Cost], opened: float, traced: float, asked: int) -> list[str]:
    """The bars that were missed, a sentence each."""
    faults = []
    for what, (most, growth) in BARS.items():
        cost = {each.flows: each.seconds for each in found if each.what == what}
        each, times = cost[JUDGED], cost[FLOWS[-1]] / cost[JUDGED]
        if each > most:
            faults.append(
                f"{what}: {JUDGED:,} flows cost {each * 1e6:.1f} us per event; at most {most * 1e6:.0f} allowed"
            )
        if times > growth:
            faults.append(f"{what}: {FLOWS[-1]:,} flows cost {times:.2f} times as much as {JUDGED:,}; at most {growth}")
    on_air = next(each.seconds for each in found if each.what == AIR)
    if on_air > ON_AIR:
        faults.append(
            f"{AIR}: {JUDGED:,} flows cost {on_air * 1e6:.0f} us per event; at most {ON_AIR * 1e6:.0f} allowed"
        )
    if opened > AT_ONCE:
        faults.append(f"to open {FLOWS[-1]:,} flows at once took {opened:.2f} s; at most {AT_ONCE} are allowed")
    if traced > SLOW:
        faults.append(f"ten traces took {traced:.2f} s for {SECONDS:.0f} s; at most {SLOW} are allowed")
    if asked:
        faults.append(f"{asked} samples were looked at where no link can be full; none is allowed")
    return faults


def table(found: Sequence[Cost]) -> str:
    """A line for each cost."""
    lines = [f"{'':31} flows  us per event  x the same with 1,000"]
    for cost in found:
        judged = next(other.seconds for other in found if other.what == cost.what and other.flows == JUDGED)
        lines.append(f"{cost.what:30} {cost.flows:6,} {cost.seconds * 1e6:13.1f} {cost.seconds / judged:22.2f}")
    return "\n".join(lines)


def windowed(mbit_s: float, congestion: Congestion, seconds: float) -> tuple[float, float]:
    """Seconds of this process for 100 flows that fill a link for so long, and seconds per flow and round trip."""
    rate, rtt, flows = mbit_s * 1e6 / 8, 0.05, 100
    windows, tcp, own = (
        Windows((rate, {}), (math.inf, {}), (rate * rtt, 0.0)),
        Tcp(congestion=congestion),
        Constant(1e9),
    )
    starts = np.random.default_rng(1).uniform(0, 1, flows).tolist()
    began, ends = time.process_time(), dict[Hashable, float]()

    def play(until: float) -> None:
        while (t := windows.next_finish()) < until:
            ends.update(dict.fromkeys(windows.advance(t), t))

    for number, t in enumerate(sorted(starts)):
        play(t)
        sent = passage(tcp, Way(rtt), own, "down", max(1448, round(rate * seconds / flows)), t)
        windows.open(t, number, sent.wire, sent.cap(t), 1.0, None, own, False, sent.sending)
    play(math.inf)
    took = time.process_time() - began
    return took, took / ((sum(ends.values()) - sum(starts)) / rtt)


def slow(crowds: Mapping[tuple[Congestion, int], tuple[float, float]]) -> list[str]:
    """The bars of windows that were missed, a sentence each; at 1 Gbit/s windows are large, and nothing is judged."""
    return [
        f"windows of {kind} at {rate} Mbit/s take {took:.2f} s, {each * 1e6:.1f} us; at most 2 s and 5 us are allowed"
        for (kind, rate), (took, each) in crowds.items()
        if rate < RATES[-1] and (took > 2 or each > (5e-6 if kind == "cubic" else 8e-6))
    ]


def main(
    scale: Annotated[float, typer.Option(min=0, help="Share of the work; below 1 nothing is judged.")] = 1.0,
) -> None:
    """Measures the cost of shared links per flow event, and of replaying traces per virtual second."""
    let_stay()  # as the commands do
    found = costs(max(2, round(scale * EVENTS)))
    traces, seconds = [trace(k) for k in range(10)], SECONDS * min(scale, 1.0)
    changes = sum(int(np.count_nonzero(np.diff(each.rates[each.edges[:-1] < seconds]))) for each in traces)
    traced = max(best(lambda slow=slow: replay(traces, 100e6 / 8, 1e9, seconds, slow)[0]) for slow in (False, True))
    full = best(lambda: replay(traces, 20e6 / 8, 1e9, seconds)[0])
    opened = min(opening(round(scale * FLOWS[-1])) for _ in range(3))
    looks, asked = replay(traces, 100e6 / 8, 1e9, seconds)[1], asked_in_vain()
    typer.echo(f"network: best of {REPETITIONS}, seconds of this process\n{table(found)}")
    typer.echo(f"{round(scale * FLOWS[-1]):,} flows open at once behind access points in {opened:.2f} s")
    typer.echo(
        f"ten traces of 1 ms for {seconds:.0f} s, {changes:,} changes: {traced:.3f} s and {looks} looks behind "
        f"100 Mbit/s, {full:.3f} s behind 20 Mbit/s; {asked} samples looked at where no link can be full"
    )
    compile_all()
    crowds = {(kind, rate): windowed(rate, kind, WINDOWED * min(scale, 1.0)) for kind in KINDS for rate in RATES}
    for (kind, rate), (took, each) in crowds.items():
        typer.echo(
            f"100 flows of {kind} fill {rate:,} Mbit/s for {WINDOWED * min(scale, 1.0):.0f} s, 50 ms: {took:.2f} s, "
            f"{each * 1e6:.1f} us a flow and round trip"
        )
    judge([*missed(found, opened, traced, asked), *slow(crowds)] if scale >= 1 else [])


if __name__ == "__main__":
    typer.run(main)
