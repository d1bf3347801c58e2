"""Checks the laws that need the whole record: one rule for all absences, and one activity of a device at a time.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from emulator.audit.timeline import PHASES, AuditedRound, Event, Visit

TOUCH = 1e-6  # s; a shorter overlap is the rounding of float sums
WORK = {"down": "a download", "compute": "computing", "up": "an upload", "off": "being off"}
Fault = tuple[str, Event, str]  # the law, the line, a sentence
Span = tuple[float, int, float, str]  # start, its line, end, kind


def slack(t: float) -> float:
    """Returns the error in seconds that rounding may cause in a difference of two times near `t`."""
    return 1e-9 + 1e-12 * t


def absences(rounds: Iterable[AuditedRound]) -> Iterator[Fault]:
    """Yields a fault for each absence that breaks the run's rule: one rule holds for all work that absences cut, and
    one for all transfers."""
    rules: dict[bool, tuple[str, Event]] = {}
    visits = chain.from_iterable(round.visits.values() for round in rounds)
    cuts = chain.from_iterable(map(_cuts, visits))
    for cut, rule in sorted(cuts, key=lambda pair: pair[0].number):
        first, where = rules.setdefault(cut.event == "compute.cut", (rule, cut))
        if rule != first:
            yield "I7", cut, f"what is cut here is to {rule}, but what line {where.number} cuts is to {first}"


def _cuts(visit: Visit) -> Iterator[tuple[Event, str]]:
    """Yields each line in which an absence cut what a device did, and the rule that was followed: "resume", "pause",
    "restart" or "be lost".

    Skips a device that never comes back, because it loses everything by any rule.
    """
    back = {away.start.t for away in visit.away if away.stop}  # the starts of absences that ended
    for stretch in visit.all(*PHASES):
        if stretch.stop and stretch.stop.body.get("why") == "off" and (stretch.then or stretch.end in back):
            yield stretch.stop, stretch.then or "be lost"


def overlaps(rounds: Mapping[int, AuditedRound], now: float) -> Iterator[str]:
    """Yields a sentence for each device that does two things at a time.  A stretch without an end lasts until `now`,
    the end of the record."""
    spans: dict[str, list[Span]] = {}
    for device, span in _spans(rounds, now):
        spans.setdefault(device, []).append(span)
    for device, of_device in spans.items():
        yield from (f"I6: device {device!r}: {overlap}" for overlap in _overlaps(sorted(of_device)))


def _spans(rounds: Mapping[int, AuditedRound], now: float) -> Iterator[tuple[str, Span]]:
    """Yields (device, span) for each transfer, work and absence of all rounds; see `Span`."""
    asked: dict[str, float] = {}  # by device: the time of its next request, when it is online again
    for round in reversed(list(rounds.values())):
        for device, visit in round.visits.items():
            for stretch in chain(visit.earlier, visit.did.values(), visit.away):
                start = stretch.start
                what = WORK[start.event.partition(".")[0]]
                end = asked.get(device, now) if start.event == "off" else now
                yield device, (start.t, start.number, stretch.end if stretch.stop else end, what)
            asked[device] = visit.asked.t


def _overlaps(spans: Iterable[Span]) -> Iterator[str]:
    """Yields a sentence for each span of one device that begins before an earlier one has ended; a span of length 0 may
    touch another.  The spans are sorted by their start."""
    longest: Span | None = None
    for span in spans:
        start, number, end, what = span
        if longest:
            since, line, until, other = longest
            if until - start > TOUCH + slack(start) and max(start - since, end - start) > TOUCH:
                yield f"{what} from {start} (line {number}) overlaps {other} from {since} to {until} (line {line})"
        if longest is None or end > longest[2]:
            longest = span
