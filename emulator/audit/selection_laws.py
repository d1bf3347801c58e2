"""Checks the choices of devices by a scenario's `selection`: each is repeated with what the server could know then.

That is: the requests of earlier lines, and the replies that count in rounds or versions that have closed before.  It is
gathered here from the record alone.  The rules themselves are those of algorithms/selection/; a user's own rule is not
called.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf

from algorithms.selection.past import Pasts, Selection
from emulator.audit.cohort_laws import digest, openings, root
from emulator.audit.expected import Declared
from emulator.audit.timeline import AuditedRound, Event, Visit
from emulator.audit.version_laws import arrivals
from emulator.audit.whole_record import Fault
from emulator.record.call import turn, version
from scenarios.builders.roster import all_names

Rounds = Mapping[int, AuditedRound]


def faults(declared: Declared, rounds: Rounds) -> Iterator[Fault]:
    """Yields a fault for each choice that is not what the selection makes of the past, and for a run.json that says
    something else.  Raises ValueError if the number of a device's examples is unknown."""
    said = declared.facts.cohort
    if (said == "chosen") != declared.chosen and rounds:
        what = f"by run.json devices are {said}; the scenario has {'a' if declared.chosen else 'no'} selection"
        yield "scenario", rounds[0].open, what
    elif declared.selection:
        laws = Choices(declared, rounds, declared.selection)
        yield from laws.versions() if declared.asynchronous else laws.rounds_()


@dataclass
class Fill:
    """A choice of an asynchronous version, which may be written as several lines: one for each time that it asked these
    devices before."""

    lines: Sequence[Event]
    place: int  # how often the version chose before

    @property
    def first(self) -> Event:
        return self.lines[0]

    @property
    def asked(self) -> list[str]:
        return [name for line in self.lines for name in line.body["asked"]]


class Choices:
    """The choices of one run, in order, and what its server knows."""

    def __init__(self, declared: Declared, rounds: Rounds, selection: Selection) -> None:
        self.declared, self.rounds, self.selection = declared, rounds, selection
        self.pasts = Pasts(self._examples)
        self.closed = [round for number, round in sorted(rounds.items()) if round.close and number == version(number)]

    def _examples(self, name: str) -> int:
        if name not in self.declared.examples:
            raise ValueError(f"split.json does not list {name}, so the choice of devices cannot be repeated")
        return self.declared.examples[name]

    def _turn(self, number: int) -> int:
        return turn(number, self.declared.needed if self.declared.asynchronous else 0, self.declared.asked)

    def learn(self, before: int) -> None:
        """Notes the replies that count in rounds which closed before this line."""
        while self.closed and self.closed[0].close and self.closed[0].close.number < before:
            round = self.closed.pop(0)
            number = round.open.round
            for name, asked in round.calls:
                did = self.rounds[asked].visits[name]
                transfers, trained = did.all("down", "up"), did.did["compute"].stop
                last = {"seconds": transfers[-1].end - transfers[0].start.t, "staleness": number - version(asked)}
                loss = trained.body.get("loss") if trained else None
                self.pasts.count(name, round=self._turn(number), loss=loss, **last)

    def judge(self, fill: Fill, names: Sequence[str], count: int) -> Iterator[Fault]:
        """Yields a fault if the selection would not have asked these devices, of `names`."""
        number, places = version(fill.first.round), [fill.place] if fill.place else []
        seed = root(self.declared.seed, number, *places)
        due = self.selection.cohort(self._turn(number), names, count, self.pasts, seed)
        if strange := sorted(set(fill.asked) ^ set(due)):
            does, would = ("asks", "not") if strange[0] in fill.asked else ("does not ask", "so")
            what = f"{does} {strange[0]!r}; from what was known then, the selection would {would}"
            yield "scenario", fill.first, what

    def rounds_(self) -> Iterator[Fault]:
        """Yields the faults of synchronous rounds."""
        for state in openings(self.declared, self.rounds):
            self.learn(state.line.number)
            fill = Fill([state.line], 0)
            for names in (state.choice(self.declared.facts, doubted) for doubted in (False, True)):
                if digest(names) == state.line.body.get("idle"):  # otherwise told by cohort_laws, or a doubt
                    yield from self.judge(fill, names, self.declared.asked)
                    break
            self.pasts.ask(fill.asked)

    def versions(self) -> Iterator[Fault]:
        """Yields the faults of versions in virtual time; over sockets the record does not show who was free."""
        if not self.declared.virtual:
            return
        fleet = Fleet(self.declared, self.rounds)
        for fill in _fills(self.rounds):
            self.learn(fill.first.number)
            names, free = fleet.free(fill)
            if names:
                yield from self.judge(fill, names, free)
            elif not fleet.doubtful(fill):
                said = fill.first.body.get("idle")
                yield "scenario", fill.first, f"idle is {said}, but other devices are online and idle by the scenario"
            self.pasts.ask(fill.asked)
            fleet.ask(fill)


class Fleet:
    """The devices of an asynchronous run: who is at work, and whose replies were taken in."""

    def __init__(self, declared: Declared, rounds: Rounds) -> None:
        self.declared, self.rounds = declared, rounds
        self.arrivals = sorted(arrivals(rounds))
        self.whole = {(arrival.device, arrival.asked) for arrival in self.arrivals}
        self.working: dict[str, tuple[int, Visit]] = {}  # by device: the round that asked it
        self.silent: dict[str, int] = {}  # by device: the last version that it did not answer soundly

    def ask(self, fill: Fill) -> None:
        """Notes that these devices are at work."""
        for line in fill.lines:
            self.working |= {name: (line.round, self.rounds[line.round].visits[name]) for name in line.body["asked"]}

    def free(self, fill: Fill) -> tuple[list[str], int]:
        """Returns the devices from which a version chose, sorted, and the number of free places; [] if no number of
        replies taken in gives those that its line says."""
        line, current = fill.first, version(fill.first.round)
        for name, (asked, visit) in list(self.working.items()):
            if (name, asked) not in self.whole and _ended(visit) < line.number:
                del self.working[name]
                self.silent[name] = version(asked)
        online = [name for name in all_names(self.declared.devices) if self._online(name, line.t)]
        waiting, busy = [arrival for arrival in self.arrivals if arrival.t <= line.t], dict(self.working)
        for taken in range(len(waiting) + 1):
            if taken:
                busy.pop(waiting[taken - 1].device, None)
            names = [name for name in online if name not in busy and self.silent.get(name) != current]
            if digest(names) == line.body.get("idle"):
                self.working, self.arrivals = busy, self.arrivals[taken:]
                return names, self.declared.asked - len(busy)
        return [], 0

    def _online(self, name: str, t: float) -> bool:
        return self.declared.always_on or self.declared.devices[name].presence.on(t)

    def doubtful(self, fill: Fill) -> bool:
        """Returns true if a device was lost at the instant of this choice: perhaps the server did not know it yet."""
        ends = (visit.last for _, visit in self.working.values())
        return any(last is not None and last.t == fill.first.t for last in ends)


def _ended(visit: Visit) -> float:
    """Returns the number of the line after which the device does nothing more; inf if there is none."""
    if not visit.over:
        return inf
    return visit.last.number if visit.last else visit.away[0].start.number if visit.away else inf


def _among(line: Event) -> tuple[float, str | None]:
    """Returns what the lines of one choice have in common: the instant, and the devices from which it chose."""
    return line.t, line.body.get("idle")


def _fills(rounds: Rounds) -> Iterator[Fill]:
    lines = {visit.asked.number: visit.asked for round in rounds.values() for visit in round.visits.values()}
    for _, of_version in groupby((lines[n] for n in sorted(lines)), key=lambda line: version(line.round)):
        place, last = 0, list[Event]()
        for line in of_version:
            if last and (_among(line) != _among(last[0]) or line.round <= last[-1].round):
                yield Fill(last, place)
                place, last = place + 1, []
            last.append(line)
        yield Fill(last, place)
