"""The laws of what goes on after the close of a round: nothing, or with `stragglers: finish` all that was begun.  Pure.

One rule holds for a whole run, the scenario's.  A device that is cut by a close shows it, or a line of one after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from emulator.audit.timeline import Event, Round, Visit
from emulator.audit.whole_record import Fault


def faults(rounds: Mapping[int, Round], finish: bool | None = None) -> Iterator[Fault]:
    """Judges all rounds.

    `finish`: whether devices may finish after the close; None if only the record can show it.
    """
    stopped = [cut for round in rounds.values() for cut in _stopped(round)]
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


def _go_on(rounds: Mapping[int, Round], why: str) -> Iterator[Fault]:
    """What devices did after the closes that stopped them."""
    for round in rounds.values():
        for line in _late(round):
            yield "I7", line, f"{line.event} after the close, but {why}"
        for visit in round.visits.values():
            if round.close and visit.pending and not _after(round, visit):
                start = visit.pending.start
                said = f"{start.event} has neither end nor cut, though the round has closed"
                yield "I5", start, said


def _asked_before_it_is_over(rounds: Mapping[int, Round]) -> Iterator[Fault]:
    """Who may finish is not asked before he has: else his seconds would count in two rounds."""
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
    """Whether the device had nothing more to do at the close.  If it went off after its request, that may be lost."""
    if visit.last is None or visit.last.number > by.number:
        return visit.last is None
    lost = visit.last.event == "down.end" and visit.away and visit.away[-1].start.t >= visit.last.t
    return visit.over or bool(lost)


def _ends_before_the_run(rounds: Mapping[int, Round]) -> Iterator[Fault]:
    """Who may finish is cut by the end of the run alone."""
    lines = chain.from_iterable(map(_of_server, rounds.values()))
    last = max(lines, key=_number, default=None)
    for round in rounds.values():
        for cut in _cuts(round):
            if last and cut.number < last.number and not _by_the_close(cut, round):
                said = f"it goes on with {last.event} in line {last.number}"
                yield "I7", cut, f"cut as the run ends, but {said}"


def _stopped(round: Round) -> list[Event]:
    """Where the close has cut a device."""
    return [cut for cut in _cuts(round) if _by_the_close(cut, round)]


def _cuts(round: Round) -> list[Event]:
    """Where a device was cut by the close or by the end of the run."""
    cuts = [visit.cut("closed") for visit in round.visits.values()]
    return [cut for cut in cuts if cut]


def _by_the_close(cut: Event, round: Round) -> bool:
    return round.close is not None and cut.number < round.close.number


def _late(round: Round) -> list[Event]:
    """Lines of its devices after the close."""
    return sorted(chain.from_iterable(_after(round, visit) for visit in round.visits.values()), key=_number)


def _after(round: Round, visit: Visit) -> list[Event]:
    """What it did last, and its comings and goings, if they are after the close."""
    lines = list(chain.from_iterable(away.lines for away in visit.away))
    if visit.last:
        lines.append(visit.last)
    return [line for line in lines if round.close and line.number > round.close.number]


def _of_server(round: Round) -> Iterator[Event]:
    yield round.open
    if round.close:
        yield round.close
    for stretch in round.server.values():
        yield from stretch.lines


def _number(line: Event) -> int:
    return line.number
