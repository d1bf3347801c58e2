"""Checks the events after the close of a round: there are none, or, with the rule `stragglers: finish`, devices go on
until all that they do has ended.

The whole run has one rule.  If the scenario is unknown, the record shows the rule: by a device that a close cuts, or by
an event of a device after a close.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from operator import attrgetter

from emulator.audit.timeline import AuditedRound, Event, Visit
from emulator.audit.whole_record import Fault

NUMBER = attrgetter("number")


def faults(rounds: Mapping[int, AuditedRound], finish: bool | None = None) -> Iterator[Fault]:
    """Yields a fault for each event of all rounds that breaks the rule.

    `finish`: true if devices may finish after the close, false if not; None if the scenario is unknown, so that only
    the record can show it.
    """
    stopped = [cut for round in rounds.values() for cut in _cuts(round) if _by_the_close(cut, round)]
    if finish:
        for cut in stopped:
            yield "I7", cut, "cut by the close, but the scenario lets stragglers finish"
        yield from _asked_before_it_is_over(rounds)
    elif finish is False:
        yield from _go_on(rounds, "the scenario says that stragglers stop")
    elif stopped:
        yield from _go_on(rounds, f"line {stopped[-1].number} shows that stragglers stop")
    elif any(map(_late, rounds.values())):
        yield from _asked_before_it_is_over(rounds)
    yield from _ends_before_the_run(rounds)


def _go_on(rounds: Mapping[int, AuditedRound], why: str) -> Iterator[Fault]:
    """Yields a fault for each event of a device after the close, and for each transfer or work that the close did not
    cut, although stragglers are stopped; `why` says how that is known."""
    for round in rounds.values():
        for line in _late(round):
            yield "I7", line, f"{line.event} after the close, but {why}"
        for visit in round.visits.values():
            if round.close and visit.pending and not _after(round, visit):
                start = visit.pending.start
                yield "I5", start, f"{start.event} has neither end nor cut, though the round has closed"


def _asked_before_it_is_over(rounds: Mapping[int, AuditedRound]) -> Iterator[Fault]:
    """Yields a fault for each device that a round asks before it has finished what it does for an earlier round: its
    seconds would count in both rounds."""
    before: dict[str, Visit] = {}
    for round in rounds.values():
        for device, visit in round.visits.items():
            busy = before.get(device)
            if busy and not over(busy, round.open):
                assert busy.last
                said = f"asks {device!r}, which is not done with what it does for round {busy.last.round}"
                yield "I7", round.open, said
            before[device] = visit


def over(visit: Visit, by: Event) -> bool:
    """Returns true if the device had nothing more to do in its round at line `by`.  It also counts as done if it went
    offline after its download and before any work, because its request may be lost."""
    if visit.last is None or visit.last.number > by.number:
        return visit.last is None
    lost = visit.last.event == "down.end" and visit.away and visit.away[-1].start.t >= visit.last.t
    return visit.over or bool(lost)


def _ends_before_the_run(rounds: Mapping[int, AuditedRound]) -> Iterator[Fault]:
    """Yields a fault for each device that was cut as if the run had ended, although the run goes on.  Devices that may
    finish are cut only by the end of the run."""
    served = (line for round in rounds.values() for stretch in round.server.values() for line in stretch.lines)
    ends = (line for round in rounds.values() for line in (round.open, round.close) if line)
    last = max(chain(served, ends), key=NUMBER, default=None)
    for round in rounds.values():
        for cut in _cuts(round):
            if last and cut.number < last.number and not _by_the_close(cut, round):
                yield "I7", cut, f"cut as the run ends, but it goes on with {last.event} in line {last.number}"


def _cuts(round: AuditedRound) -> list[Event]:
    """Returns, for a round, the lines in which its close or the end of the run cut a device."""
    return [cut for visit in round.visits.values() if (cut := visit.cut("closed"))]


def _by_the_close(cut: Event, round: AuditedRound) -> bool:
    return round.close is not None and cut.number < round.close.number


def _late(round: AuditedRound) -> list[Event]:
    """Returns the events of a round's devices that come after its close, in order."""
    return sorted(chain.from_iterable(_after(round, visit) for visit in round.visits.values()), key=NUMBER)


def _after(round: AuditedRound, visit: Visit) -> list[Event]:
    """Returns those events of a device that come after the round's close: its last one, and when it went offline or
    came back."""
    lines = list(chain.from_iterable(away.lines for away in visit.away))
    if visit.last:
        lines.append(visit.last)
    return [line for line in lines if round.close and line.number > round.close.number]
