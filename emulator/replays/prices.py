"""What work costs in a replay: what the record says, and on other hardware what the declared work costs there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from math import isclose

from emulator.costs import Costs
from emulator.replays.bare import Setting
from emulator.replays.script import Part, Script, Sizes, Written
from emulator.run import study_of
from emulator.study import Study
from emulator.tally import Bill
from scenarios.schema import Scenario


class Unsaid(Exception):  # noqa: N818  what it is, not what went wrong
    """The record does not say what a replay needs; the message says what."""


class Workshop:
    """The scenario's real study, which is built, and its data read, only when work must be priced anew."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.known: Study | None = None
        self.costs: dict[tuple[str, int], Costs] = {}

    @property
    def study(self) -> Study:
        """Raises BadScenario if the data are not there."""
        if self.known is None:
            self.known = study_of(self.scenario)
        return self.known

    def own(self, label: str, seed: int) -> Costs:
        """Prices on the record's own devices."""
        if (label, seed) not in self.costs:
            self.costs[label, seed] = Costs(self.study, label, seed)
        return self.costs[label, seed]

    def on(self, setting: Setting, label: str, seed: int) -> Costs:
        """Prices on other devices; the model is measured once."""
        costs = Costs(replace(self.study, fleet=setting.fleet, server=setting.server), label, seed)
        costs.meter = self.own(label, seed).meter
        return costs


class Prices:
    """Bills of one replay, in the place of emulator.costs.Costs.

    Where a device computed in the record, and has the same profile now, its bill is the recorded one.
    """

    def __init__(self, study: Study, script: Script, own: Setting, setting: Setting, workshop: Workshop) -> None:
        self.study, self.script, self.own, self.setting, self.workshop = study, script, own, setting, workshop
        self.assumed: set[tuple[str, str, int]] = set()  # what was taken from elsewhere: what, device, round
        self.new: Costs | None = None  # on other devices
        self.same_server = own.server.profile == setting.server.profile

    def device(self, name: str, round: int, kinds: Iterable[str], memory: Iterable[str]) -> Bill:  # noqa: ARG002
        """What a device computes in this round.  Raises Unsaid."""
        written = self.script.rounds[round]
        said = written.parts.get(name) or Part()
        known = self._recorded(name, written, said)
        if known is None:
            raise Unsaid(f"what {name} computes: it did so in no round of the record")
        if self._same(name):
            return known
        return self._anew(name, round, said.kinds or _usual_kinds(written), known)

    def _same(self, name: str) -> bool:
        was, now = self.own.fleet[name].profile, self.setting.fleet[name].profile
        return was is now or was == now

    def _recorded(self, name: str, written: Written, said: Part) -> Bill | None:
        """The recorded bill, or that of the nearest round in which the device had such phases to compute."""
        if said.bill is not None:
            return said.bill
        self.assumed.add(("work", name, written.number))
        phases = _usual(part.bill.flops for part in written.parts.values() if part.bill)
        found = [
            part.bill
            for part in self._nearest(name, written.number)
            if part.bill and (phases is None or part.bill.flops.keys() == phases)
        ]
        return found[0] if found else None

    def _nearest(self, name: str, round: int) -> Iterator[Part]:
        """What the device did in other rounds, the nearest first."""
        for written in sorted(self.script.rounds, key=lambda each: abs(each.number - round)):
            if name in written.parts:
                yield written.parts[name]

    def _anew(self, name: str, round: int, kinds: Collection[str], known: Bill) -> Bill:
        costs = self.workshop.own(self.script.label, self.script.seed)
        for memory in _memories(costs):
            if _alike(costs.device(name, round, kinds, memory), known):
                return self._costs.device(name, round, kinds, memory)
        raise Unsaid(f"what {name} computes on other hardware: its recorded work is not what this version declares")

    @property
    def _costs(self) -> Costs:
        if self.new is None:
            self.new = self.workshop.on(self.setting, self.script.label, self.script.seed)
        return self.new

    def refusal(self, name: str, round: int, downloaded: Mapping[str, int], kept: Mapping[str, int]) -> str | None:  # noqa: ARG002
        """Why the device cannot take part: as recorded; with another memory, worked out anew."""
        said = self.script.rounds[round].parts.get(name) or Part()
        has, had = (setting.fleet[name].profile.memory_bytes for setting in (self.setting, self.own))
        if has == had or (has > had and said.up and said.bill):
            refuses = said.up is not None and said.bill is None
            return (said.refused or f"{name} refuses").removeprefix(f"{name} refuses: ") if refuses else None
        down = {kind: size for kind, size in self.down(name, round).items() if kind != "frame"}
        return self._costs.refusal(name, round, down, {})

    def request(self, round: int) -> Bill:
        said = self.script.rounds[round].server.get("request")
        if said is None:  # it computes nothing
            return Bill()
        return said.bill if self.same_server else self._costs.request(round)

    def combine(self, round: int, replies: int) -> Bill:
        written = self.script.rounds[round]
        said = written.server.get("combine")
        if said is not None and self.same_server and len(written.counted) == replies:
            return said.bill
        return self._costs.combine(round, replies)

    def down(self, name: str, round: int) -> Sizes:
        """The bytes of a request.  Raises Unsaid."""
        return self._sizes("down", name, round)

    def up(self, name: str, round: int) -> Sizes:
        """The bytes of a reply.  Raises Unsaid."""
        return self._sizes("up", name, round)

    def _sizes(self, way: str, name: str, round: int) -> Sizes:
        """As recorded; else those of most others in this round, of whom the same is asked."""
        written = self.script.rounds[round]
        said: Sizes | None = getattr(written.parts.get(name) or Part(), way)
        if said is not None:
            return said
        self.assumed.add((way, name, round))
        usual = Counter(
            tuple(sorted(sizes.items())) for part in written.parts.values() if (sizes := getattr(part, way))
        )
        if usual:
            return dict(usual.most_common(1)[0][0])
        nearest = (sizes for part in self._nearest(name, round) if (sizes := getattr(part, way)))
        found: Sizes | None = next(nearest, None)
        if found is None:
            raise Unsaid(f"what {name} {'receives' if way == 'down' else 'sends'}: the record has nothing like it")
        return found


def _usual(flops: Iterable[Mapping[str, float]]) -> frozenset[str] | None:
    """The phases that most have; None if there are none."""
    counts = Counter(frozenset(each) for each in flops)
    return counts.most_common(1)[0][0] if counts else None


def _usual_kinds(written: Written) -> frozenset[str]:
    return _usual(dict.fromkeys(part.kinds, 0.0) for part in written.parts.values() if part.down) or frozenset()


def _memories(costs: Costs) -> Iterator[frozenset[str]]:
    """What a device may have kept, of that on which declared work depends: the record does not say."""
    kinds = {*costs.algorithm.uploads, *costs.algorithm.downloads}
    yield frozenset()
    yield frozenset(kinds)
    yield from (frozenset({kind}) for kind in sorted(kinds))


def _alike(one: Bill, other: Bill) -> bool:
    """Equal but for the order of phases, and for the heat in which it was recorded."""
    if one.flops != other.flops or one.seconds.keys() != other.seconds.keys():
        return False
    if other.throttled == 1:
        return one.seconds == other.seconds
    return all(isclose(other.throttled * seconds, other.seconds[name]) for name, seconds in one.seconds.items())
