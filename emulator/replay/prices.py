"""The prices of work in a replay: as recorded, or, on other hardware, computed for the recorded work on that
hardware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TypeVar

from emulator.lab.lab import Lab
from emulator.pricing.bills import jittered, priced
from emulator.record.call import version
from emulator.record.tally import Bill
from emulator.record.work import Duty, Pieces
from emulator.replay.bare import Setting
from emulator.replay.script import DeviceScript, RoundScript, Script, Sizes, Unsaid

Thing = TypeVar("Thing", bound=Hashable)
NO_PART = DeviceScript()


class Prices:
    """The bills of one replay (see Charges in emulator/pricing/charges.py).

    A device that computed in the record, and has the same profile in the replay, has the recorded bill.  `lab`: of the
    replay; `own`: the setting of the record.
    """

    def __init__(self, lab: Lab, script: Script, own: Setting) -> None:
        self.lab, self.script, self.own = lab, script, own
        self.assumed: set[tuple[str, str, int]] = set()  # values taken from elsewhere: what, device, round
        self.same: dict[str, bool] = {}  # devices with unchanged hardware
        self.same_server = own.server.profile == lab.server.profile
        self.borrowed: dict[tuple[str, int], Duty | None] = {}
        self.bills: dict[tuple[str, Pieces], Bill] = {}

    def duty(self, name: str, round: int, *_: Mapping[str, int]) -> Duty | None:
        """Returns the work that a round requests of a device, as recorded.

        If it is not in the record: the device's work in the nearest round with the phases that are usual in this round,
        otherwise the work of another device in this round.  None if there is neither.
        """
        written = self.script.at(round)
        said = written.parts.get(name, NO_PART).duty
        if said is not None:
            return said
        if (name, round) not in self.borrowed:
            phases = _usual(part.duty.phases for part in written.parts.values() if part.duty)
            own = (part.duty for part in self._nearest(name, written.number) if part.duty)
            nearest = next((duty for duty in own if phases in (None, duty.phases)), None)
            found = nearest or self._of_another(name, written)
            if found:
                self.assumed.add(("work", name, written.number))
            self.borrowed[name, round] = found
        return self.borrowed[name, round]

    def _of_another(self, name: str, written: RoundScript) -> Duty | None:
        held = self.script.examples
        others = {other: part.duty for other, part in written.parts.items() if part.duty and other in held}
        if name not in held or not others:
            return None
        return others[min(others, key=lambda other: abs(held[other] - held[name]))]

    def _nearest(self, name: str, round: int) -> Iterator[DeviceScript]:
        """Yields the device's parts in other rounds, the nearest round first."""
        rounds, round = self.script.rounds, version(round)
        for far in range(1, len(rounds)):
            for number in (round - far, round + far):
                if 0 <= number < len(rounds) and name in rounds[number].parts:
                    yield rounds[number].parts[name]

    def refusal(self, name: str, round: int, duty: Duty | None) -> str | None:
        """Returns the reason why the device cannot take part in the round; None if it can."""
        if duty is not None:
            return duty.refusal(self.script.label, self.lab.fleet[name].profile.memory_bytes)
        said = self.script.at(round).parts.get(name, NO_PART)
        refuses = said.up is not None and said.bill is None
        if not refuses:
            return None
        return said.refused.why if said.refused else "its memory is too small"  # the refusal did not arrive

    def device(self, name: str, round: int, kinds: Iterable[str], memory: Iterable[str]) -> Bill:  # noqa: ARG002
        """Returns the bill of the device's work in this round.  Raises Unsaid if the record has no such work."""
        said = self.script.at(round).parts.get(name, NO_PART).bill
        if said is not None and self._same(name):
            return said
        duty = self.duty(name, round)
        if duty is None:
            raise Unsaid(f"what {name} computes, because it took part in no round")
        device = self.lab.fleet[name]
        key = device.profile.name, duty.pieces
        if key not in self.bills:
            self.bills[key] = priced(duty.pieces, device)
        return jittered(self.bills[key], device, self.script.seed, round)

    def _same(self, name: str) -> bool:
        if name not in self.same:
            self.same[name] = self.own.fleet[name].profile == self.lab.fleet[name].profile
        return self.same[name]

    def loss(self, name: str, round: int) -> float | None:
        """Returns the loss in a device's reply, as recorded, else that in the nearest round; None if there is none."""
        said = self.script.at(round).parts.get(name, NO_PART)
        parts = chain([said], self._nearest(name, round))
        return next((part.loss for part in parts if part.loss is not None), None)

    def request(self, round: int) -> Bill:
        """Returns the server's bill for opening this round."""
        said = self.script.at(round).server.get("request")
        return self._served(said.bill) if said else Bill()  # no work recorded: it computes nothing

    def combine(self, round: int, replies: int) -> Bill:
        """Returns the server's bill for combining this number of replies in the round.

        If the record of the round has another number of replies, takes the bill of the most similar round.  Raises
        Unsaid if the server combined in no round.
        """
        written = self.script.at(round)
        if len(written.counted) != replies or "combine" not in written.server:
            written = self._closed(written, replies)
            self.assumed.add(("combine", "", round))
        return self._served(written.server["combine"].bill)

    def _closed(self, written: RoundScript, replies: int) -> RoundScript:
        """Returns the recorded round with the most similar number of replies, if possible among those with the same
        phases of work."""
        done = [each for each in self.script.rounds if "combine" in each.server]
        if not done:
            raise Unsaid("what the server computes, because no round had enough replies")
        own = written.server.get("combine")

        def unlike(each: RoundScript) -> tuple[bool, int, int]:
            other = own is not None and each.server["combine"].bill.flops.keys() != own.bill.flops.keys()
            return other, abs(len(each.counted) - replies), abs(each.number - written.number)

        return min(done, key=unlike)

    def _served(self, bill: Bill) -> Bill:
        return bill if self.same_server else priced(bill.pieces, self.lab.server)

    def down(self, name: str, round: int) -> Sizes:
        """Returns the bytes of the request to a device, by kind.  Raises Unsaid if the record has nothing similar."""
        return self._sizes("down", name, round)

    def up(self, name: str, round: int) -> Sizes:
        """Returns the bytes of a device's reply that is no refusal, by kind.  Raises Unsaid if the record has
        nothing similar."""
        return self._sizes("up", name, round)

    def _sizes(self, way: str, name: str, round: int) -> Sizes:
        """Returns the recorded bytes of a message, by kind.

        If the message is not in the record: the most frequent sizes in this round, whose devices usually get equal
        messages; otherwise those of the device in the nearest round.  Raises Unsaid if there are none.
        """
        written = self.script.at(round)
        said = _sent(written.parts.get(name, NO_PART), way)
        if said is not None:
            return said
        self.assumed.add((way, name, round))
        usual = _usual(tuple(sorted(sizes.items())) for part in written.parts.values() if (sizes := _sent(part, way)))
        if usual:
            return dict(usual)
        nearest = (sizes for part in self._nearest(name, round) if (sizes := _sent(part, way)))
        found = next(nearest, None)
        if found is None:
            raise Unsaid(f"what {name} {'receives' if way == 'down' else 'sends'}, nor anything like it")
        return found


def _sent(part: DeviceScript, way: str) -> Sizes | None:
    """Returns the bytes of the message that a device received or sent in a round; None if it was not sent, or was a
    refusal."""
    if way == "down":
        return part.down
    return part.up if part.bill else None


def _usual(each: Iterable[Thing]) -> Thing | None:
    """Returns the most frequent item; None if there are no items."""
    counts = Counter(each)
    return counts.most_common(1)[0][0] if counts else None
