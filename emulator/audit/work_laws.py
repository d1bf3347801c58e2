"""The laws of the cost of work: that of the declared FLOPs on the declared machine, with jitter and heat.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devices.device import Device
from devices.thermal import COLD
from emulator.audit.expected import Declared
from emulator.audit.timeline import Round, Stretch
from emulator.audit.whole_record import Fault
from emulator.pricing.bills import jitter, priced
from emulator.record.work import Pieces, steps_of

EXACT = 1e-9  # relative: what is computed from the same numbers
CLOSE = 1e-6  # what is computed from times


def faults(declared: Declared, rounds: Mapping[int, Round], written: int) -> Iterator[Fault]:
    """Judges the work of all rounds.  `written`: the number of rounds for which work.jsonl is complete."""
    for round in rounds.values():
        if round.open.round < written:
            yield from _work(declared, round)
    yield from _heat(declared, rounds)


def _work(declared: Declared, round: Round) -> Iterator[Fault]:
    """What is computed is the declared work, at the machine's rate and with this round's jitter."""
    for name, visit in round.visits.items():
        if did := visit.all("compute"):  # how that goes on: event_laws.py
            yield from _of_device(declared, name, round.open.round, did[0])
    for what, stretch in round.server.items():
        if stretch.start.body["phases"]:  # in a round with nothing to do work.jsonl has no line
            yield from _of_server(declared, what, round.open.round, stretch)


def _of_device(declared: Declared, name: str, round: int, did: Stretch) -> Iterator[Fault]:
    device, duty = declared.devices[name], declared.works.device(name, round)
    if duty:
        factors = jitter(steps_of(duty.pieces), device, declared.seed, round)
        yield from _priced(did, device, duty.pieces, factors)
    else:
        yield "scenario", did.start, "work.jsonl does not say what was asked of the device"


def _of_server(declared: Declared, what: str, round: int, did: Stretch) -> Iterator[Fault]:
    pieces = declared.works.server(what, round)
    if pieces:
        yield from _priced(did, declared.server, pieces, {})
    else:
        yield "scenario", did.start, f"work.jsonl does not say what the server's {what} is"


def _priced(stretch: Stretch, device: Device, pieces: Pieces, factors: Mapping[str, float]) -> Iterator[Fault]:
    bill = priced(pieces, device)
    body, heat = stretch.start.body, stretch.start.body.get("throttled", 1.0)
    said = body.get("jitter", {})
    if not _alike(said, factors):
        yield "scenario", stretch.start, f"jitter is {said}; this round's is {dict(factors)}"
    due = {phase: value * said.get(phase, 1.0) * heat for phase, value in bill.seconds.items()}
    for what, each in (("phases", bill.flops), ("seconds", due)):
        if not _alike(body[what], each):
            yield "scenario", stretch.start, f"{what} are {body[what]}; the work on this machine has {each}"


def _heat(declared: Declared, rounds: Mapping[int, Round]) -> Iterator[Fault]:
    """Of each machine: its rate, and how it heats up as it computes, round after round."""
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
    return said.keys() == due.keys() and all(abs(said[key] - each) <= EXACT * abs(each) for key, each in due.items())
