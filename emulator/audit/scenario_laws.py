"""Checks a record against its scenario: its devices, links and rules are the declared ones.

    rules      the close follows the rules, and what an absence cuts is resumed, restarted or lost as they say
    presence   devices go off and come back at the declared times
    watts      are those of the device's profile
    evaluate   models are evaluated when the scenario says so
    cohort_laws.py: which devices a round asks; selection_laws.py: by a `selection`
    work_laws.py, transfer_laws.py: the cost of work on a machine, and of transfers on a link

In virtual time, events happen exactly when they are due; over sockets they may be late, and never early.  Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from devices.device import UNKNOWN
from devices.presence import Availability
from emulator.audit import cohort_laws, selection_laws, transfer_laws, version_laws, work_laws
from emulator.audit.event_laws import Timeline
from emulator.audit.expected import Declared
from emulator.audit.format import Row
from emulator.audit.stragglers import over
from emulator.audit.timeline import PHASES, AuditedRound, Visit
from emulator.audit.whole_record import Fault, slack
from emulator.record.call import version
from emulator.record.targets import Target, pending, reached


def faults(declared: Declared, timeline: Timeline, rows: Sequence[Row]) -> Iterator[str]:
    """Yields a sentence for each breach of the scenario by a record that obeys all other laws.  Raises ValueError if a
    device or link of the scenario cannot be made."""
    asked = {name for round in timeline.rounds.values() for name in round.visits}
    if strange := sorted(name for name in asked if name not in declared.devices):
        yield f"scenario: asks {strange[0]!r}, and the scenario has no such device"
        return
    for place, row in enumerate(rows):
        for name, draw in row["watts"].items():
            power = declared.devices[name].profile.power
            due = None if power == UNKNOWN else [power.idle, power.compute, power.radio]
            if draw != due:
                said = f"{name!r} draws {draw} W idle, computing and with its radio; its profile says {due}"
                yield f"scenario: row {place}: {said}"
    laws = chain(evaluations(declared, rows), version_laws.of_rows(declared, timeline.rounds, rows))
    yield from (f"scenario: row {place}: {what}" for place, what in laws)
    for law, line, what in _of_events(declared, timeline, len(rows)):
        yield f"{law}: {line.where}: {what}"


def length(declared: Declared, rows: Sequence[Row]) -> Iterator[str]:
    """Yields a sentence if the number of rounds is wrong: a run plays all, or stops with the first round that reaches
    `stop_at` or ends after `until_s`."""
    rules = declared.rounds
    if rows and not (is_enough(declared, rows) and not is_enough(declared, rows[:-1])):
        due = f"{declared.last} at most" if rules.stop_at or rules.until_s else declared.last
        yield f"scenario: {len(rows)} rounds were played; the scenario says {due}"


def _of_events(declared: Declared, timeline: Timeline, written: int) -> Iterator[Fault]:
    """Yields a fault for each event that contradicts the scenario.  `written`: the number of rounds for which
    work.jsonl is complete.

    Links are checked late, because a link may be a recording that is not on this machine; that ends the check.
    """
    rounds, now = timeline.rounds, timeline.latest.t if timeline.latest else 0.0
    for round in rounds.values():
        yield from _rules(declared, round)
        for name, visit in round.visits.items():
            yield from _policies(declared, name, visit)
            yield from _presence(declared, name, visit, round, now)
    yield from (
        version_laws.of_scenario(declared, rounds, timeline.crowd)
        if declared.asynchronous
        else cohort_laws.faults(declared, rounds)
    )
    yield from work_laws.faults(declared, rounds, written)
    yield from transfer_laws.faults(declared, rounds)
    yield from selection_laws.faults(declared, rounds)


def _rules(declared: Declared, round: AuditedRound) -> Iterator[Fault]:
    close, rules, counted = round.close, declared.rounds, len(round.counted)
    if close is None:
        return
    if close.round != round.open.round:  # a further request of an asynchronous version
        return
    oldest = max((round.open.round - version(asked) for _, asked in round.stale), default=0)
    may = rules.stragglers == "count" or declared.asynchronous
    if oldest and not (may and (rules.max_staleness is None or oldest <= rules.max_staleness)):
        yield "I3", close, f"aggregates a reply to the round {oldest} before, which the scenario does not allow"
    if round.failed != (counted + len(round.stale) < rules.min_replies):
        yield (
            "scenario",
            close,
            f"closed for {close.body['reason']!r} with {counted}; min_replies is {rules.min_replies}",
        )
    counted += len(round.stale) if declared.asynchronous else 0
    if close.body["reason"] == "first" and counted != declared.needed:
        yield "scenario", close, f"closed for 'first' with {counted} replies; it takes {declared.needed}"
    expired = close.body["reason"] == "deadline"
    if rules.deadline_s is None:
        if expired:
            yield "scenario", close, "closed for 'deadline'; the scenario has none"
    elif declared.virtual:
        due, began = round.open.t + rules.deadline_s, round.server.get("request")
        latest = max(due, began.end if began else due)
        if close.t > latest + slack(latest) or (expired and close.t < due - slack(due)):
            yield "scenario", close, f"closed for {close.body['reason']!r}; the deadline was {due}"


def _policies(declared: Declared, name: str, visit: Visit) -> Iterator[Fault]:
    """Yields a fault for each stretch of work or transfer that an absence cut and that is not continued, restarted or
    lost as the scenario says.  A device that never comes back may lose it under any rule."""
    presence = declared.devices[name].presence
    for stretch in visit.all(*PHASES):
        if stretch.stop is None or stretch.stop.body.get("why") != "off":
            continue
        rule = declared.rounds.when_off if stretch.phase == "compute" else declared.rounds.transfers
        due = {None if rule == "lose" else rule}
        gone = presence.next_off(stretch.end)  # the recorded time may be smaller by rounding
        if presence.next_on(gone) == math.inf:
            due.add(None)
        if stretch.then not in due:
            said = f"is to {stretch.then}" if stretch.then else "is lost"
            yield "scenario", stretch.stop, f"what is cut here {said}; the scenario says {rule!r}"


def _presence(declared: Declared, name: str, visit: Visit, round: AuditedRound, now: float) -> Iterator[Fault]:
    """Yields a fault if a device goes offline or comes back at another time than the scenario says.  `now`: the
    record's end."""
    presence, t = declared.devices[name].presence, visit.asked.t
    for away in visit.away:
        for line in away.lines:
            t = _next(presence, line.event, t)
            if not _timely(declared, line.t, t):
                yield "scenario", line, f"goes {line.event} at {line.t}; the scenario says {t}"
                return
    change = "on" if visit.off else "off"
    due, until = _next(presence, change, t), _watched(declared, visit, round, now)
    if declared.virtual and due < until - slack(until):
        yield "scenario", round.open, f"{name!r} goes {change} at {due}, before {until}, and no line says so"


def _next(presence: Availability, change: str, t: float) -> float:
    """Returns the time of the first change to `change` ("off" or "on") from `t` on, s."""
    return presence.next_off(t) if change == "off" else presence.next_on(t)


def _timely(declared: Declared, at: float, due: float) -> bool:
    """Returns true if an event at `at` is neither earlier nor later than `due`; over sockets it may be later."""
    early, late = at < due - slack(at), at > due + slack(at)
    return not (early or (late and declared.virtual))


def _watched(declared: Declared, visit: Visit, round: AuditedRound, now: float) -> float:
    """Returns the time until which the record shows whether a device is online: the close of the round, or the device's
    last event if that is later because it may finish after the close.  `now`: the record's end."""
    if declared.asynchronous and visit.last:
        return visit.last.t if visit.over else now
    if round.close is None:
        return now
    if not declared.finish or over(visit, round.close):
        return round.close.t
    assert visit.last
    return max(round.close.t, visit.last.t) if visit.over else now


VALIDATION = "validation"
METRICS = ("accuracy", "loss", VALIDATION, "initial", "personalised_participants")  # metrics of an evaluated round
TRAINED = "personalised"  # in fewer rounds, because every device trains once more for it


def evaluations(declared: Declared, rows: Sequence[Row]) -> Iterator[tuple[int, str]]:
    """Yields (index of the row, sentence) for each metric that has a value in a round without an evaluation, or lacks
    one in a round with an evaluation, by the schedule of the scenario."""
    evaluate, last = declared.evaluate, len(rows) - 1
    often = evaluate.personalise_every if evaluate.test and evaluate.every else "never"
    for place, row in enumerate(rows):
        final = place + 1 == declared.last
        trained = often != "never" and (final or declared.falls(often, place))
        evaluated = bool(evaluate.every) and (final or declared.falls(evaluate.every, place) or trained)
        for metric in METRICS:
            due = evaluated and (evaluate.test or metric == VALIDATION)
            if declared.task.is_share(metric) and not 0 <= (row[metric] or 0) <= 1:
                yield place, f"{metric} is {row[metric]}; it must be a number from 0 to 1"
            if row[metric] is not None and not due:
                yield place, f"{metric} is {row[metric]}, but by `evaluate` it is not known after this round"
        if place == last and often != "never":  # the run knows that it ends here before the devices train for it
            trained = trained or is_enough(declared, [*rows[:-1], row | {TRAINED: None}])
        if row[TRAINED] is not None and not trained:
            yield place, f"{TRAINED} is {row[TRAINED]}, but {_said(evaluate.personalise_every)}"
        if row[TRAINED] is None and trained and None not in (row["initial"], row["personalised_participants"]):
            yield place, f"{TRAINED} is null, but {_said(evaluate.personalise_every)}"


def is_enough(declared: Declared, rows: Sequence[Row]) -> bool:
    """Returns true if a run ends with the last of these rows: it has all rounds, has reached `stop_at`, or has lasted
    `until_s`."""
    rules = declared.rounds
    stop, until = rules.stop_at, rules.until_s
    held = any(pending(rows, Target.of(target, declared.task)) for target in rules.targets)
    late = bool(until and rows and rows[-1]["time_s"] >= until) and not held
    return len(rows) == declared.last or late or bool(stop and reached(rows, Target.of(stop, declared.task)))


def _said(often: int | str) -> str:
    due = "never due" if often == "never" else f"due every {often} rounds and at the end" if often else "due at the end"
    return f"it is {due} (evaluate.personalise_every is {often})"
