"""The groups of a fleet, as `check` shows them: devices, presence, links, and a round of one device alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from devices.device import UNKNOWN, Device
from devices.presence import share_online
from devices.traces import DAY
from emulator.forecast.deadline import Alone, all_alone
from emulator.lab.jobs import message_sizes
from emulator.lab.lab import Lab
from emulator.lab.loops import Loops
from emulator.pricing.memory import Footprint
from emulator.record.run import Run
from emulator.results.caveats import LOOPED, TraceRepeats, unmetered
from scenarios.builders.roster import by_group

PARTS = ("down", "compute", "up", "seconds")  # fields of `Alone`


@dataclass(frozen=True)
class Span:
    """The smallest and the largest value of a quantity in a group."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Span:
        held = list(values)
        return cls(min(held), max(held))


@dataclass(frozen=True)
class FleetGroup:
    """The devices of one entry of the scenario's fleet, or of several entries with the same name."""

    name: str
    count: int
    sometimes_off: int  # devices that are offline at some time
    never_on: int  # devices that are always offline
    online_day: float  # share of the first day, mean over devices
    online_run: float  # share of the longest run
    flops_per_s: Span
    memory_bytes: Span
    down: Span  # bytes/s, of recordings the mean
    up: Span
    repeats: float | None  # s; period of the shortest recording; None if rates are constant
    loops: int  # repetitions of that recording within the longest run
    latency: Span  # s, one way
    examples: Span
    alone: Mapping[str, Mapping[str, Span]]  # label -> down, compute, up and seconds of one device's round


def groups_of(lab: Lab, seed: int, span: float) -> list[FleetGroup]:
    """Returns the groups of the fleet; `span`: the duration of the longest run, s."""
    alone = {
        label: all_alone(lab, label, seed, algorithm.downloads, message_sizes(lab, Run(label, seed))[0])
        for label, algorithm in lab.algorithms.items()
    }
    return [
        _group(lab, seed, span, called, members, count, alone)
        for called, (members, count) in by_group(lab.fleet).items()
    ]


def _group(
    lab: Lab,
    seed: int,
    span: float,
    called: str,
    names: Sequence[str],
    count: int,
    alone: Mapping[str, Mapping[str, Alone]],
) -> FleetGroup:
    """Returns the group of `count` devices, of which `names` are a sample."""
    devices = [lab.fleet[name] for name in names]
    placed, loops = lab.placed(seed), Loops()
    links = [placed.links[name] for name in names]
    for link in links:
        loops.add(link.down, link.up)
    period = min(link.repeats for link in links)
    return FleetGroup(
        name=called,
        count=count,
        sometimes_off=_of_all(count, [not device.presence.always for device in devices]),
        never_on=_of_all(count, [device.presence.next_on(0.0) == math.inf for device in devices]),
        online_day=_online(devices, DAY),
        online_run=_online(devices, span),
        flops_per_s=Span.of(device.profile.flops_per_s for device in devices),
        memory_bytes=Span.of(device.profile.memory_bytes for device in devices),
        down=Span.of(link.mean("down") for link in links),
        up=Span.of(link.mean("up") for link in links),
        repeats=None if period == math.inf else period,
        loops=loops.most(span)[0],
        latency=Span.of(link.mean_latency for link in links),
        examples=Span.of(len(lab.held(seed, name)) for name in names),
        alone={
            label: {part: Span.of(getattr(found[name], part) for name in names) for part in PARTS}
            for label, found in alone.items()
        },
    )


def _online(devices: Sequence[Device], until: float) -> float:
    return fmean(share_online(device.presence, until) for device in devices)


def _of_all(count: int, those: Sequence[bool]) -> int:
    """Returns how many of `count` devices have a property, extrapolated from a sample (`those`)."""
    return sum(those) * count // len(those)


def absent(lab: Lab, span: float) -> Iterator[str]:
    """Yields a line on each group that has no device online within the first `span` seconds."""
    for called, (members, _) in by_group(lab.fleet).items():
        begins = min(lab.fleet[name].presence.next_on(0.0) for name in members)
        if begins == math.inf:
            yield f"group {called} is never online; look at its `presence`"
        elif begins >= span:
            yield f"group {called} is offline until {begins:g} s, and the longest run takes about {span:.3g} s"


def too_short(groups: Sequence[FleetGroup], shared: TraceRepeats) -> Iterator[str]:
    """Yields a line on each group whose recordings repeat often within the longest run, and one on the link in
    `shared` if it does."""
    for group in groups:
        if group.loops > LOOPED:
            yield (
                f"{group.name}: a trace of {group.repeats:.3g} s starts over {group.loops} times within the longest "
                "run; use a longer one"
            )
    times, name = shared
    if times > LOOPED:
        yield f"{name}, which devices share, starts over {times} times within the longest run; use a longer trace"


def too_large(groups: Sequence[FleetGroup], memory: Mapping[str, Footprint]) -> list[str]:
    return [
        f"{label} needs {found.total / 1e6:.3g} MB on a device; {group.name} has {group.memory_bytes.low / 1e6:.3g} MB"
        for label, found in memory.items()
        for group in groups
        if found.total > group.memory_bytes.low
    ]


def without_power(lab: Lab) -> list[str]:
    """Returns the lines, at most one, on the groups that have devices with an unknown power draw."""
    names = []
    for called, (members, _) in by_group(lab.fleet).items():
        if any(lab.fleet[name].profile.power == UNKNOWN for name in members):
            names.append(called)
    return unmetered(names)
