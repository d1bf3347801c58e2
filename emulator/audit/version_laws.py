"""Checks asynchronous rounds, each of which is a version of the model: which replies count in it, and who is at work.

docs/design/async.md has the rules.  Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from math import inf, isclose
from typing import TYPE_CHECKING, NamedTuple

from emulator.audit.format import Row
from emulator.audit.timeline import AuditedRound, Event, Visit
from emulator.audit.whole_record import Fault, slack
from emulator.record.call import AGAIN, version

if TYPE_CHECKING:  # reading a scenario takes long
    from emulator.audit.expected import Declared

Rounds = Mapping[int, AuditedRound]


class Arrival(NamedTuple):
    """A whole reply, in the order in which a server takes replies in."""

    t: float
    asked: int  # the round that asked
    device: str
    doubtful: bool  # perhaps the device was gone before the server had read it


def faults(rounds: Rounds) -> Iterator[Fault]:
    """Yields a fault for each request that does not acknowledge the device's last reply that counts.

    A reply is acknowledged as soon as it is in the buffer; the record may end before that buffer is combined.
    """
    counted = {call for round in rounds.values() if not round.failed for call in round.calls}
    closed = max((round.close.number for round in rounds.values() if round.close), default=0)
    visits: dict[str, list[tuple[int, Visit]]] = {}
    for number, round in rounds.items():
        for name, visit in round.visits.items():
            visits.setdefault(name, []).append((number, visit))
    for name, of_device in visits.items():
        known: set[int | None] = {None}
        for number, visit in sorted(of_device, key=lambda pair: pair[1].asked.number):
            down = next(iter(visit.all("down")), None)
            if down and down.start.body["reply_to"] not in known:
                said = f"acknowledges round {down.start.body['reply_to']}, but the device was last counted in {known}"
                yield "I4", down.start, said
            if (name, number) in counted:
                known = {number}
            elif visit.last and visit.last.event == "up.end" and visit.last.number > closed:
                known = {*known, number}


def of_scenario(declared: Declared, rounds: Rounds, crowd: tuple[int, Event | None]) -> Iterator[Fault]:
    """Yields a fault for each breach of the rules of asynchronous rounds.  `crowd`: the most devices at work, and the
    line that asks the last of them."""
    most, line = crowd
    if line and most > declared.asked:
        yield "scenario", line, f"{most} devices are at work; the scenario says {declared.asked} at most"
    last = max((round.close.number for round in rounds.values() if round.close), default=0)
    for round in rounds.values():
        for name, visit in round.visits.items():
            if declared.virtual and not declared.devices[name].presence.on(visit.asked.t):
                yield "scenario", visit.asked, f"selects {name!r}, which is offline"
            yield from _in_time(declared, visit, last)
    if declared.virtual:
        yield from _taken_in(declared, rounds, {})


def _in_time(declared: Declared, visit: Visit, last: int) -> Iterator[Fault]:
    """Yields a fault if a device is stopped before its time is over and before the end of the run, which follows line
    `last`, or if it goes on after its time."""
    due = visit.asked.t + (declared.rounds.timeout_s or inf)
    if (cut := visit.cut("closed")) and cut.number < last and cut.t < due - slack(due):
        yield "I7", cut, "cut though the run goes on and the device has time left"
    if declared.virtual and visit.last and visit.last.t > due + slack(due):
        yield "I7", visit.last, f"{visit.last.event} after the device was to stop, at {due}"


def _taken_in(declared: Declared, rounds: Rounds, dropped: dict[int, int]) -> Iterator[Fault]:
    """Yields a fault for the first version that counts other replies than those that arrived first and are not too
    stale.  `dropped` gets the number of replies that were too stale, by version."""
    waiting = deque(sorted(arrivals(rounds)))
    limit = inf if declared.rounds.max_staleness is None else declared.rounds.max_staleness
    for number, round in rounds.items():
        if number >= AGAIN or round.close is None:
            continue
        dropped[number] = 0
        for name, asked in round.calls:
            while waiting and (waiting[0].device, waiting[0].asked) != (name, asked):
                first = waiting.popleft()
                stale = number - version(first.asked) > limit
                if not (stale or first.doubtful):
                    due = f"but the reply of {first.device!r} to {first.asked} is due"
                    yield "I3", round.close, f"aggregates the reply of {name!r}, selected in round {asked}, {due}"
                    return
                dropped[number] += stale
            if not waiting:
                yield "I3", round.close, f"aggregates {name!r}, selected in round {asked}, out of turn"
                return
            waiting.popleft()


def arrivals(rounds: Rounds) -> Iterator[Arrival]:
    """Yields all whole and sound replies, in no order."""
    for number, round in rounds.items():
        for name, visit in round.visits.items():
            if visit.last and visit.last.event == "up.end" and "compute" in visit.did and not visit.refused:
                yield Arrival(visit.last.t, number, name, visit.perhaps_lost)


def of_rows(declared: Declared, rounds: Rounds, rows: Sequence[Row]) -> Iterator[tuple[int, str]]:
    """Yields (index of the row, sentence) for each row with other weights of stale replies than the formula's, or
    another number of replies that were too stale."""
    dropped: dict[int, int] = {}
    if declared.asynchronous and declared.virtual:
        list(_taken_in(declared, rounds, dropped))  # the faults are of_scenario's
    for number, row in enumerate(rows):
        said, stale = row.get("weights", {}), declared.facts.stale
        due = {age: _weight(int(age), *stale) for age in row.get("staleness", {})} if stale else {}
        if said.keys() != due.keys() or not all(isclose(said[age], due[age], rel_tol=1e-12) for age in due):
            yield number, f"weights of stale replies are {said}; the formula says {due}"
        if row.get("stale", 0) != dropped.get(number, row.get("stale", 0)):
            yield number, f"stale is {row.get('stale')}, but {dropped[number]} replies were too stale to count"
        if ("stale" in row) != declared.asynchronous:
            yield number, "stale is a key of asynchronous rounds"


def _weight(s: int, kind: str | float, a: str | float, b: str | float) -> float:
    """Returns the weight of a reply of staleness s (FedAsync, §5.2)."""
    a, b = float(a), float(b)
    if kind == "polynomial":
        return float((1 + s) ** -a)
    return 1 / (a * max(0.0, s - b) + 1) if kind == "hinge" else 1.0
