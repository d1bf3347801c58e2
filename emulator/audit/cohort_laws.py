"""Checks the cohorts, the devices that a round asks: as many of the online and idle devices as the scenario says, drawn
by the seed.

The draw is repeated here, as docs/design/record.md §2 describes it.  If run.json says that the algorithm chooses
devices by a rule of its own, the record shows only a digest of the devices from which it chose.  Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from emulator.audit.expected import Declared
from emulator.audit.stragglers import over
from emulator.audit.timeline import AuditedRound, Event
from emulator.audit.whole_record import Fault
from emulator.record.run import AlgorithmFacts
from scenarios.builders.roster import EACH, all_names


def faults(declared: Declared, rounds: Mapping[int, AuditedRound]) -> Iterator[Fault]:
    """Yields a fault for each round whose cohort breaks the law."""
    for state in openings(declared, rounds):
        for what in _asked(state):
            yield "scenario", state.line, what


def openings(declared: Declared, rounds: Mapping[int, AuditedRound]) -> Iterator[FleetState]:
    """Yields the state of the fleet at the opening of each synchronous round; use it before you take the next."""
    asked_by: dict[str, AuditedRound] = {}
    since = 0.0
    for round in rounds.values():
        yield FleetState(declared, round.open, since, asked_by)
        asked_by |= dict.fromkeys(round.visits, round)
        since = round.stamp.t if round.stamp else since


@dataclass(frozen=True)
class FleetState:
    """The state of the fleet when a round opens.

    The record does not show the order of events at the instant of the opening; over sockets, it does not show that of
    events shortly before either.  A state that depends on this order is unknown (None).
    """

    declared: Declared
    line: Event
    since: float  # the time at which the previous round was over
    asked_by: Mapping[str, AuditedRound]  # by device: the last earlier round that asked it

    def free(self, name: str) -> bool | None:
        """Returns true if a device is online and idle; None if the record leaves that open."""
        states = self._online(name), self._idle(name)
        return False if False in states else None if None in states else True

    def _online(self, name: str) -> bool | None:
        presence = self.declared.devices[name].presence
        if self.declared.virtual:
            return presence.on(self.line.t)
        if presence.on(self.since) and presence.next_off(self.since) > self.line.t:
            return True
        return None if presence.next_on(self.since) <= self.line.t else False

    def _idle(self, name: str) -> bool | None:
        before = self.asked_by.get(name)
        if before is None or before.close is None or not self.declared.finish:
            return True
        visit = before.visits[name]
        if not over(visit, self.line):
            return False
        if visit.last is None or visit.refused or name in before.counted:
            return True
        if self.declared.virtual:
            unsure = visit.last.t == self.line.t or visit.last.event == "down.end"
        else:
            unsure = visit.last.number > before.close.number
        return None if unsure else True

    def choice(self, facts: AlgorithmFacts, doubted: bool) -> Sequence[str]:
        """Returns the devices from which the round chooses, sorted.  `doubted`: devices whose state is unknown count as
        free.

        In a large fleet only some of the free devices are candidates: the first ones in an order that the seed draws.
        """

        def free(name: str) -> bool:
            state = self.free(name)
            return doubted if state is None else state

        names = all_names(self.declared.devices)
        if len(names) <= EACH or not facts.any_cohort_will_do:
            return [name for name in names if free(name)]
        if self.declared.always_on and all(map(free, self.asked_by)):
            return names
        order = np.random.default_rng(self.root).permutation(len(names))
        return sorted(islice(filter(free, (names[place] for place in order)), self.declared.asked))

    @property
    def root(self) -> int:
        """The seed of the random draws of this round's cohort."""
        return root(self.declared.seed, self.line.round)


def root(seed: int, *numbers: int) -> int:
    """Returns the seed of the random draws of a cohort; `numbers`: its round, and how often a version asked before."""
    parts = [f"int:{seed}", "str:cohort", *(f"int:{number}" for number in numbers)]
    coded = b"".join(len(part).to_bytes(4, "big") + part.encode() for part in parts)
    return int.from_bytes(hashlib.sha256(coded).digest()[:8], "big") >> 1


def digest(names: Sequence[str]) -> str:
    """Returns the digest by which `idle` names the devices from which a round chose."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def _asked(opening: FleetState) -> Iterator[str]:
    facts, asked = opening.declared.facts, list(opening.line.body["asked"])
    strange = [name for name in asked if opening.free(name) is False]  # I7 reports a busy device
    if strange:
        yield f"selects {strange[0]!r}, which is offline"
    elif facts.cohort == "drawn":
        yield from _drawn(opening, facts, asked)
    else:
        yield from _chosen(opening, facts, asked)


def _drawn(opening: FleetState, facts: AlgorithmFacts, asked: Sequence[str]) -> Iterator[str]:
    if "idle" in opening.line.body:
        yield "open has 'idle', but by run.json devices are drawn at random"
    count, least = opening.declared.asked, opening.choice(facts, doubted=False)
    due = _draw(least, count, opening.root)
    if asked == due:
        return
    most = opening.choice(facts, doubted=True)
    if not len(due) <= len(asked) <= min(count, len(most)):
        there = f"{len(least)} to {len(most)}" if len(least) < len(most) else f"{len(least)}"
        may = f"{there} are online and idle, of which the scenario selects {count} at most"
        yield f"selects {len(asked)} devices; {may}"
    elif least == most:
        said, drawn = next(pair for pair in zip(asked, due, strict=True) if pair[0] != pair[1])
        yield f"selects {said!r}, but the seed draws {drawn!r}"


def _draw(names: Sequence[str], count: int, root: int) -> list[str]:
    """Draws `count` of the names without replacement, with the seed `root`, and returns them in their order; returns
    all names if there are no more than `count`."""
    if count >= len(names):
        return list(names)
    places = np.random.default_rng(root).choice(len(names), count, replace=False, shuffle=False)
    return [names[place] for place in sorted(places)]


def _chosen(opening: FleetState, facts: AlgorithmFacts, asked: Sequence[str]) -> Iterator[str]:
    """Yields a sentence for each fault of a cohort that the algorithm chose by its own rule: it must have at most as
    many devices as the scenario asks, or all free ones, and `idle` must be the digest of the free devices."""
    count, said = opening.declared.asked, opening.line.body.get("idle")
    least, most = (opening.choice(facts, doubted) for doubted in (False, True))
    if not (1 <= len(asked) <= count or len(least) <= len(asked) <= len(most)):
        yield f"selects {len(asked)} devices; it must be {count} at most, or all {len(most)} that are online and idle"
    if said is None:
        yield "open has no 'idle', but by run.json devices are not drawn at random"
    elif least == most and said != digest(least):
        yield f"idle is {said}, but other devices are online and idle by the scenario"
