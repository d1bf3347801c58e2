"""Checks a record against the laws, from the files in a run's folder and beside it.  It computes every sum again.

    seal      the files equal their digests in the seal, and a sealed record is whole; seal_laws.py
    form      every line has its keys, of the right type, and finite numbers; format.py
    rounds    0, 1, 2, ... each opened, closed and combined before the next
    I1-I8     as in docs/design/record.md §1; event_laws.py, whole_record.py, stragglers.py
    rows      rounds.jsonl agrees with the events
    scenario  devices, links and rules follow OUT/scenario.yaml, if there is one; scenario_laws.py

A record without a seal may end anywhere, because a run may be stopped; up to there it must obey.  A folder of results
has laws of its own: results_laws.py.  Reads files, and changes nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from emulator.audit.event_laws import Timeline, near
from emulator.audit.format import PARTS, USES, Row, malformed, misformed
from emulator.audit.seal_laws import ends, of_run
from emulator.audit.timeline import AuditedRound, Event, Stretch, Visit, losses
from emulator.audit.whole_record import slack
from emulator.record.call import version
from emulator.record.lines import read_lines
from emulator.record.record import FILES
from emulator.record.seal import read_seal

CUT = "cut"  # kind of the bytes of transfers that were cut, in a row


RECORD = ("events.jsonl", "rounds.jsonl")


@dataclass(frozen=True)
class Audit:
    """The result of checking the record of a run, or a folder of results."""

    faults: list[str]  # one sentence for each broken law
    unjudged: str | None = None  # reason why the laws of the scenario were not applied
    sealed: bool = False  # a seal exists, intact, damaged or lost; an interrupted run has none


def audit(folder: Path) -> Audit:
    """Checks the record of the run in `folder`.  The laws of the scenario are applied only if the record obeys all
    others.

    A file that is missing, or that is not lines of JSON objects, breaks the law of form; then no other law is applied.
    """
    from emulator.audit import expected, scenario_laws

    sealed, seal_faults = None, of_run(folder)
    with suppress(ValueError):  # `of_run` reports a damaged seal
        sealed = read_seal(folder)
    told, has_seal = [f"seal: {what}" for what in seal_faults], sealed is not None or bool(seal_faults)
    for name in RECORD:
        if not (folder / name).is_file():  # if it was sealed, the seal reports it
            due = f"form: {name} is missing; the record of a run is {' and '.join(RECORD)} in one folder"
            return Audit([*told, *([] if sealed and name in sealed.files else [due])], None, has_seal)
    timeline, faults, unjudged, known = Timeline(), list[str](), None, None
    try:
        lines, rows = (_objects(folder / name) for name in RECORD)
    except ValueError as error:
        return Audit([*told, f"form: {error}"], None, has_seal)
    try:
        known = expected.declared(folder)
    except (OSError, ValueError) as error:
        unjudged = str(error)
    for number, body in enumerate(lines, 1):
        wrong = list(malformed(body))
        faults += (f"form: line {number}: {what}" for what in wrong)
        if not wrong:
            timeline.read(Event(number, body["event"], body["round"], body["t"], body))
    timeline.finish(known.finish if known else None)
    faults += [*_work(folder), *timeline.faults, *_judge(rows, timeline), *ends(folder, sealed, timeline, rows)]
    if known and not faults and all((folder / name).is_file() for name in FILES if sealed):
        try:
            faults += scenario_laws.faults(known, timeline, rows)
            faults += scenario_laws.length(known, rows) if sealed and sealed.failure is None else ()
        except ValueError as error:  # a link or a log that is read on demand
            unjudged = str(error)
    return Audit([*told, *faults], unjudged, has_seal)


def _work(folder: Path) -> Iterator[str]:
    from emulator.audit import expected

    try:
        expected.works_of(folder)
    except (OSError, ValueError) as error:
        yield f"form: {error}"


def _objects(path: Path) -> list[Row]:
    try:
        return list(read_lines(path, repeated_keys=False))
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply to be a record") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _judge(rows: list[Row], timeline: Timeline) -> Iterator[str]:
    """Yields a sentence for each law that rounds.jsonl breaks.  It may have fewer rows than the events have rounds: a
    round's row is written only when its last straggler has ended."""
    before: float | None = 0.0
    watts: dict[str, Any] = {}  # by device, as in its first row
    for place, row in enumerate(rows):
        wrong = list(misformed(row))
        yield from (f"form: row {place}: {what}" for what in wrong)
        if wrong:
            before = None
            continue
        for name, draw in row["watts"].items():
            if (known := watts.setdefault(name, draw)) != draw:
                yield f"I6: row {place}: {name!r} draws {draw} W; it was {known} before, and no machine changes its own"
        if row["round"] != place:
            yield f"rows: row {place} is of round {row['round']}; they must be 0, 1, 2, ..."
        yield from (f"{law}: row {place}: {what}" for law, what in _row(row, before, timeline.rounds))
        before = row["time_s"]


def _row(row: Row, before: float | None, rounds: Mapping[int, AuditedRound]) -> Iterator[tuple[str, str]]:
    round = rounds.get(row["round"])
    if round is None or round.stamp is None:
        yield "rows", f"there is a row of round {row['round']}, but the events do not end that round"
        return
    for device, visit in chain.from_iterable(each.visits.items() for each in round.all):
        if visit.pending:
            start = visit.pending.start
            yield (
                "I5",
                f"{start.event} of {device!r} in line {start.number} has neither end nor cut, but the round has a row",
            )
    if not near(row["time_s"], round.stamp.t, 1e-9):
        yield "rows", f"time_s is {row['time_s']}, but line {round.stamp.number} ends the round at {round.stamp.t}"
    if before is not None and row["time_s"] < before:
        yield "I7", f"time_s goes back from {before} to {row['time_s']}"
    yield from (("I5", what) for what in _numbers(row, round))
    yield from (("rows", what) for what in _critical(row, before, round))


def _numbers(row: Row, round: AuditedRound) -> Iterator[str]:
    visits = [(visit, name in each.useful) for each in round.all for name, visit in each.visits.items()]
    refused, ages = sum(visit.refused for visit, _ in visits), Counter(_ages(round))
    told = {"asked": len(visits), "counted": ages[0], "refused": refused, "failed": round.failed}
    told["wasted_bytes"] = sum(
        sum(stretch.moved for stretch in visit.vain if stretch.phase != "compute") if useful else visit.moved
        for visit, useful in visits
    )
    for key, value in told.items():
        if row[key] != value:
            yield f"{key} is {row[key]}, but the events say {value}"
    told_ages = round.stale or round.asynchronous
    staleness = {str(age): ages[age] for age in sorted({*_ages(round)})} if told_ages else {}
    if row.get("staleness", {}) != staleness:
        yield f"staleness is {row.get('staleness', {})}, but the events say {staleness}"
    least, most = (
        map(sum, zip(*(losses(each) for each in round.all), strict=True)) if round.asynchronous else round.lost
    )
    if not least <= row["lost"] <= most:
        yield f"lost is {row['lost']}, but the events say {least}" + (f" to {most}" if most > least else "")
    if row["asked"] != row["counted"] + row["late"] + row["lost"] + row["refused"]:
        yield (
            f"asked is {row['asked']}, but counted + late + lost + refused is "
            f"{row['counted']} + {row['late']} + {row['lost']} + {row['refused']}"
        )
    if (sums := _bytes(round)) != _without_zeros(row["bytes"]):
        yield f"bytes is {row['bytes']}, but the events say {sums}"
    stretches = chain(*(visit.all("compute") for visit, _ in visits), round.server.values())
    if not near(row["flops"], flops := sum(stretch.flops for stretch in stretches), 1e-9):
        yield f"flops is {row['flops']}, but the events say {flops}"
    yield from _seconds(row, round)


def _ages(round: AuditedRound) -> list[int]:
    """Returns the staleness of each reply that counts in the round."""
    return [round.open.round - version(asked) for _, asked in round.calls]


def _seconds(row: Row, round: AuditedRound) -> Iterator[str]:
    """Yields a sentence for each device whose seconds or joules in a round's row differ from the events.  They count
    from the opening of the round to its close, or to the device's last end if that is later."""
    said, spent = row["seconds"], round.spent()
    for what, keys in (("seconds.devices", said["devices"]), ("joules", row["joules"]), ("watts", row["watts"])):
        if keys.keys() != spent.keys():
            yield f"{what} name the devices {sorted(keys)}, but {sorted(spent)} were selected"
            return
    margin = slack(row["time_s"]) * 6
    for name, own in spent.items():
        due = [own.useful, own.wasted, own.idle]
        if any(abs(a - b) > 1e-9 * b + margin for a, b in zip(said["devices"][name], due, strict=True)):
            yield f"seconds of {name!r} are {said['devices'][name]}, but the events say {due}"
        yield from _joules(name, row, [own.idle, own.computing, own.sending])
    for number, use in enumerate(USES):
        total = sum(seconds[number] for seconds in said["devices"].values())
        if not near(said[use], total, 1e-9):
            yield f"seconds.{use} is {said[use]}, but those of the devices sum to {total}"


def _joules(name: str, row: Row, seconds: list[float]) -> Iterator[str]:
    """Yields a sentence unless a device's joules in a row are its watts times its seconds, summed over idling,
    computing and sending; `seconds` has these three."""
    joules, watts = row["joules"][name], row["watts"][name]
    due = None if watts is None else sum(a * b for a, b in zip(watts, seconds, strict=True))
    if (joules is None) != (due is None) or (due is not None and not near(joules, due, 1e-6)):
        yield f"joules of {name!r} are {joules}, but {watts} W in {seconds} s make {due}"


def _bytes(round: AuditedRound) -> dict[str, dict[str, int]]:
    sums: dict[str, Counter[str]] = {"down": Counter(), "up": Counter()}
    for visit in chain.from_iterable(each.visits.values() for each in round.all):
        for way in sums:
            pieces = visit.all(way)
            arrived = bool(pieces) and pieces[-1].whole
            cut = [piece.moved for piece in pieces if not piece.whole and not (arrived and piece.then == "resume")]
            sums[way].update({CUT: sum(cut), **(pieces[-1].start.body["bytes"] if arrived else {})})
    return _without_zeros(sums)


def _without_zeros(sums: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {way: {kind: size for kind, size in sorted(sizes.items()) if size} for way, sizes in sums.items()}


def _critical(row: Row, before: float | None, round: AuditedRound) -> Iterator[str]:
    """Yields a sentence for each part of a row's critical path (the path of the device whose reply closed the round)
    that differs from the events, and one if the parts do not add up to the round.  `before`: the end of the last round,
    s; None if unknown."""
    path = row["critical"]
    fresh = {each.open.round: each for each in round.all}
    last = [(name, fresh[asked].visits.get(name)) for name, asked in round.calls if asked in fresh][-1:]
    closer, visit = last[0] if last else (None, None)
    if path["device"] != closer:
        yield f"critical is the path of {path['device']!r}, but {closer!r} was counted last"
        return
    visit = visit or Visit(round.open)
    for part, told in _parts(visit, round).items():
        said = path[part]
        if not (said.keys() == told.keys() and all(near(said[key], told[key], 1e-9) for key in told)):
            yield f"critical.{part} is {said}, but the events say {told}"
    setup = sum(stretch.setup for stretch in visit.all("down", "up"))
    if not near(path["setup_s"], setup, 1e-9):
        yield f"critical.setup_s is {path['setup_s']}, but the events say {setup}"
    yield from _length(row, before)


def _length(row: Row, before: float | None) -> Iterator[str]:
    path, margin = row["critical"], slack(row["time_s"])
    parts = chain.from_iterable(path[part].values() for part in PARTS)
    seconds, wait = [path["setup_s"], *parts], path["wait_s"]
    if min(wait, *seconds) < -margin:
        yield f"critical holds {min(wait, *seconds)} s; no part of a round is negative"
    if before is None:
        return
    due = row["time_s"] - before - math.fsum(seconds)
    if abs(wait - due) > margin:
        yield f"critical.wait_s is {wait}, but the other parts leave {due} s of the round"


def _parts(visit: Visit, round: AuditedRound) -> dict[str, dict[str, float]]:
    server: Counter[str] = Counter()
    for stretch in round.server.values():
        server.update(stretch.start.body["seconds"])
    return {
        "down_s": _split(visit.all("down"), "bytes"),
        "compute_s": _split(visit.all("compute"), "seconds"),
        "up_s": _split(visit.all("up"), "bytes"),
        "server_s": dict(server),
    }


def _split(stretches: list[Stretch], key: str) -> dict[str, float]:
    """Divides the seconds of the stretches, without their set-up, among the names in `key` ("bytes" or "seconds") of
    the line that starts each stretch, in proportion to their values there.  Returns the sums by name."""
    sums: Counter[str] = Counter()
    for stretch in stretches:
        shares = stretch.start.body[key]
        if total := sum(shares.values()):
            seconds = stretch.seconds - stretch.setup
            sums.update({name: seconds * share / total for name, share in shares.items()})
    return dict(sums)
