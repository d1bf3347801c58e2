"""Checks the cost of work: its FLOPs and seconds are those of the declared work on the declared machine, with the
machine's random jitter and its slowing by heat.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devices.device import Device
from devices.thermal import COLD
from emulator.audit.expected import Declared
from emulator.audit.timeline import AuditedRound, Stretch
from emulator.audit.whole_record import Fault
from emulator.pricing.bills import jitter, priced
from emulator.record.call import version
from emulator.record.work import Pieces, steps_of

EXACT = 1e-9  # relative error of values that are computed from the same numbers
CLOSE = 1e-6  # tolerance for values that are computed from times


def faults(declared: Declared, rounds: Mapping[int, AuditedRound], written: int) -> Iterator[Fault]:
    """Yields a fault for each piece of work that contradicts the declaration.  `written`: the number of rounds for
    which work.jsonl is complete."""
    for round in rounds.values():
        if version(round.open.round) < written:
            yield from _work(declared, round)
    yield from _heat(declared, rounds)


def _work(declared: Declared, round: AuditedRound) -> Iterator[Fault]:
    """Yields a fault for each device, and for the server, whose work in a round is not the declared work at its
    machine's speed, with the jitter that the seed draws for that round."""
    number = round.open.round
    for name, visit in round.visits.items():
        if not (did := visit.all("compute")):
            continue
        device, duty = declared.devices[name], declared.works.device(name, number)
        if duty:  # event_laws.py checks work that continues after an absence
            yield from _priced(
                did[0], device, duty.pieces, jitter(steps_of(duty.pieces), device, declared.seed, number)
            )
        else:
            yield "scenario", did[0].start, "work.jsonl does not say what the device had to do"
    for what, stretch in round.server.items():
        if not stretch.start.body["phases"]:  # work.jsonl has no line for a round without work
            continue
        if pieces := declared.works.server(what, number):
            yield from _priced(stretch, declared.server, pieces, {})
        else:
            yield "scenario", stretch.start, f"work.jsonl does not say what the server's {what} is"


def _priced(stretch: Stretch, device: Device, pieces: Pieces, factors: Mapping[str, float]) -> Iterator[Fault]:
    bill = priced(pieces, device)
    body, heat = stretch.start.body, stretch.start.body.get("throttled", 1.0)
    said = body.get("jitter", {})
    if not _alike(said, factors):
        yield "scenario", stretch.start, f"jitter is {said}; this round's is {dict(factors)}"
    due = {phase: value * said.get(phase, 1.0) * heat for phase, value in bill.seconds.items()}
    for what, priced_at in (("phases", bill.flops), ("seconds", due)):
        if not _alike(body[what], priced_at):
            yield "scenario", stretch.start, f"{what} are {body[what]}; the work on this machine has {priced_at}"


def _heat(declared: Declared, rounds: Mapping[int, AuditedRound]) -> Iterator[Fault]:
    """Yields a fault for each machine with another rate than its profile's, or slowed by heat otherwise than its
    earlier work implies."""
    for stretch in (stretch for round in rounds.values() for stretch in round.server.values()):
        yield from _rate(stretch, declared.server)
    work: dict[str, list[Stretch]] = {}
    for round in rounds.values():
        for name, visit in round.visits.items():
            work.setdefault(name, []).extend(visit.all("compute"))
    for name, stretches in work.items():
        yield from _throttled(declared, declared.devices[name], stretches)


def _rate(stretch: Stretch, device: Device) -> Iterator[Fault]:
    if stretch.start.body["rate"] != device.profile.fastest:
        said = f"the rate is {stretch.start.body['rate']} FLOP/s; the profile's is {device.profile.fastest}"
        yield "scenario", stretch.start, said


def _throttled(declared: Declared, device: Device, stretches: Sequence[Stretch]) -> Iterator[Fault]:
    throttle, heat = device.profile.throttle, COLD
    for stretch in stretches:
        yield from _rate(stretch, device)
        said, start = stretch.start.body.get("throttled", 1.0), stretch.start
        cold = stretch.charged / said
        seconds, _ = throttle.load(heat, start.t, cold)
        due = seconds / cold if cold else 1.0
        if abs(said - due) > CLOSE * due if declared.virtual else said > (1 + CLOSE) / throttle.sustained:
            yield "scenario", start, f"throttled is {said}; a machine that computed as this one did has {due}"
            return
        if stretch.stop:
            heat = throttle.loaded(throttle.rested(heat, start.t), stretch.end)


def _alike(said: Mapping[str, Any], due: Mapping[str, float]) -> bool:
    return said.keys() == due.keys() and all(abs(said[key] - value) <= EXACT * abs(value) for key, value in due.items())
