"""Checks transfers: their headers and round trips are those of the link, and their bytes are not faster than the link.
Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from devices.device import Device
from emulator.audit.expected import Declared
from emulator.audit.timeline import AuditedRound, Stretch
from emulator.audit.whole_record import Fault, slack
from emulator.lab.links import places
from network.links.link import Link
from network.links.tcp import Connection, Passage
from network.links.trace import Direction

CLOSE = 1e-6  # relative error of values that are computed from times


def faults(declared: Declared, rounds: Mapping[int, AuditedRound]) -> Iterator[Fault]:
    """Yields a fault for each transfer that contradicts the device's link.  Each device is followed over all rounds,
    because a connection that stays open also serves the next transfer."""
    did: dict[str, list[Stretch]] = {}
    for round in rounds.values():
        for name, visit in round.visits.items():
            transfers = sorted(visit.all("down", "up"), key=lambda transfer: transfer.start.number)
            did.setdefault(name, []).extend(transfers)
    for name, stretches in did.items():
        link = declared.links[name].starting(places(declared.seed)(name))
        yield from _transfers(declared, declared.devices[name], link, stretches)


def _transfers(declared: Declared, device: Device, link: Link, stretches: Sequence[Stretch]) -> Iterator[Fault]:
    connection: Connection | None = None
    silent = -math.inf  # the end of the device's last transfer
    for stretch in stretches:
        start, left = stretch.start, stretch.announced - stretch.since
        if connection and device.presence.next_off(silent) < start.t:
            connection = None
        waking = device.profile.waking(start.t - silent)
        way: Direction = "down" if stretch.phase == "down" else "up"
        latency = declared.server_link.latency
        passage = link.passage(way, left, start.t + waking, latency, connection)
        if (wire := start.body.get("wire", left)) != passage.wire:
            yield "scenario", start, f"{wire} bytes are on the wire; of {left} the link makes {passage.wire}"
        if declared.virtual:
            due = waking + (passage.delay - passage.rtt / 2 if passage.rtt else 0.0)
            said = stretch.start.body.get("setup", 0.0)
            if abs(said - due) > CLOSE * due + slack(stretch.start.t):
                yield "scenario", stretch.start, f"the set-up takes {said} s; on this link it is {due}"
            yield from _pace(declared, stretch, waking, passage)
        connection = passage.after(stretch.end) if stretch.whole else None
        if stretch.end >= start.t + waking:
            silent = stretch.end


def _pace(declared: Declared, stretch: Stretch, waking: float, passage: Passage) -> Iterator[Fault]:
    """Yields a fault if a transfer is faster than it would be alone on the device's link and the server's."""
    if stretch.stop is None or not stretch.moved:
        return
    server = declared.server_link.rate("up" if stretch.phase == "down" else "down")
    wire = passage.wire * stretch.moved / (stretch.announced - stretch.since)
    least = waking + passage.delay + wire / min(passage.link.peak, server.peak)
    if stretch.seconds < least * (1 - CLOSE) - slack(stretch.end):
        said = f"{stretch.moved} bytes went through in {stretch.seconds} s"
        yield "scenario", stretch.stop, f"{said}; the links take {least} s at least"
