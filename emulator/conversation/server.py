"""The server's half of a run's rounds; the same code runs in virtual time and over real sockets.

A round: request (server work) -> download -> train -> upload -> combine (server work) -> stamp `time_s`; then the model
is evaluated, which takes no virtual time. rounds.py decides which replies count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from emulator.conversation.exchange import Exchange, Judge, ReplyJudge
from emulator.conversation.presences import Presences
from emulator.conversation.rounds import Round, RoundRules
from emulator.conversation.underway import Play, RunFailed, named
from emulator.lab.jobs import Opening, State, combine, request, start
from emulator.lab.lab import Lab
from emulator.lab.seeds import seed
from emulator.messages.store import NOTHING
from emulator.pricing.charges import Charges
from emulator.record.record import Record
from emulator.record.run import Run
from emulator.record.tally import Bill
from emulator.worlds.interface import Late, Parcel, ServerEnd, Task, Ticket, World
from scenarios.builders.roster import EACH

FINITE = "; a lower lr or strength may keep it finite"
GIVE_UP = 3  # failed rounds in a row

After = Callable[[Play, State], Coroutine[Any, Any, bool]]
Plan = Callable[[Play, Mapping[str, Parcel]], None]


class Server:
    """The server of one run.

    `judge` checks the replies (by default a ReplyJudge).  `plan` is called with each round and the messages that it is
    about to send, by device.
    """

    def __init__(
        self,
        world: World,
        lab: Lab,
        run: Run,
        rules: RoundRules,
        record: Record,
        costs: Charges,
        line: Callable[[str], ServerEnd],
        judge: Judge | None = None,
        plan: Plan = lambda *_: None,
    ) -> None:
        self.world, self.lab, self.run, self.rules = world, lab, run, rules
        self.record, self.costs = record, costs
        self.algorithm = lab.algorithms[run.label]
        self.selection, self.pasts = lab.selections.get(run.label), lab.pasts(run.seed)
        self.names = sorted(lab.names)
        self.always_on = lab.always_on or (
            len(self.names) <= EACH and all(device.presence.always for device in lab.fleet.values())
        )
        self.counted: dict[str, int] = {}  # by device: the last round whose reply the model has
        self.stragglers: dict[str, Play] = {}  # devices that continue after the close of their round, and that round
        self.freed = world.signal()  # set when a straggler has ended
        self.presences = Presences(world, lab.fleet, record, line, self.stragglers, patient=rules.deadline is None)
        self.exchange = Exchange(line, record, judge or ReplyJudge(lab, run))
        self.plan = plan
        self.time = 0.0  # time_s of the previous round

    async def serve(self, after: After) -> None:
        """Plays the rounds that the rules allow.

        `after` is called with the initial model (and a Play of round -1), and then after each round with its new model;
        it returns False to end the run.  Raises RunFailed if three rounds in a row fail, or if no device will be online
        again.
        """
        self.state: State = await self.world.uncharged(self.world.submit(start, self.run))
        going_on = await after(self._play_of(-1, ()), self.state)
        try:
            await self._rounds(after, going_on)
        finally:
            late = list(self.stragglers.items())
            # Presences end first: the record must not bring a device back that is about to be stopped.
            await self._end_all([play.watches[name] for name, play in late if name in play.watches])
            await self._end_all([play.asks[name] for name, play in late])
            for arrival in self.exchange.inbox:  # also of replies that came meanwhile; no model will have them
                arrival.asked.waiting.discard(arrival.device)

    async def _rounds(self, after: After, going_on: bool) -> None:
        failures = number = 0
        while going_on and number < self.rules.max:
            await self._next_cycle(number)
            play = await self._play(number)
            failures = failures + 1 if play.round.failed else 0
            going_on = await after(play, self.state)
            self.counted.update({call.device: call.round for call in play.round.calls if not play.round.failed})
            if failures == GIVE_UP:
                raise RunFailed(self._too_few(play.round))
            number += 1

    async def _next_cycle(self, number: int) -> None:
        """Waits until the data of a new time slice are there, if this round is the first to train on that slice."""
        cycle, seconds = self.lab.cycle(self.run.label, number), self.rules.cycle_seconds
        if seconds is None or not number or self.lab.cycle(self.run.label, number - 1) == cycle:
            return
        await self.world.sleep(max(0.0, cycle * seconds - self.world.now()))

    def _too_few(self, last: Round) -> str:
        advice = "allow a longer deadline_s, or ask more devices"
        if len(last.lost) > len(last.late()):
            advice = "devices went offline; look at `presence` of the fleet, or ask more devices"
        if last.refused and (refusal := self.exchange.last):
            advice = refusal.sentence + (FINITE if refusal.kind == "values" else "")
        return (
            f"{GIVE_UP} rounds in a row had fewer than min_replies = {self.rules.min_replies} replies "
            f"(the last: {len(last.late())} late, {len(last.lost)} lost, {len(last.refused)} refused); {advice}"
        )

    async def _cohort(self, number: int) -> tuple[Sequence[str], Sequence[str]]:
        """Returns the devices that this round asks, and the devices from which the algorithm chose them."""
        root = seed(self.run.seed, "cohort", number)  # without the label: all algorithms of a seed ask the same devices
        names = await self._roll_call(root, self.rules.ask if self._any_will_do else None)
        return self._chosen(number, names, self.rules.ask, root), names

    @property
    def _any_will_do(self) -> bool:
        """True if a random sample of a large fleet is as good to choose from as all of it."""
        return len(self.names) > EACH and self.algorithm.any_cohort_will_do and not self.selection

    def _chosen(self, number: int, names: Sequence[str], count: int, root: int) -> Sequence[str]:
        """Returns the devices that this round asks, at most `count` of the `names`."""
        if self.selection is None:
            return self.algorithm.cohort(number, names, count, root)
        chosen = self.selection.cohort(self.rules.turn(number), names, count, self.pasts, root)
        self.pasts.ask(chosen)
        return chosen

    async def _roll_call(self, root: int, few: int | None) -> Sequence[str]:
        """Returns the names of the devices that are online and idle, sorted; waits while there are none.

        `few`: returns this many devices of a large fleet, the first in an order that `root` draws.  So every online
        device is equally likely, and almost only the devices that are asked are built.
        """
        while True:
            if self.always_on and not self.stragglers:
                return self.names  # unchanged: the cost of a round must not grow with the fleet
            if cohort := self._present(root, few, self.stragglers):
                return cohort
            await self._someone(self._next_back(self.stragglers))

    def _present(self, root: int, few: int | None, busy: Collection[str]) -> list[str]:
        """Returns the names of the devices that are online and not `busy`, sorted; `few` as in `_roll_call`."""
        now, names = self.world.now(), iter(self.names)
        if few:
            order = np.random.default_rng(root).permutation(len(self.names))
            names = (self.names[number] for number in order)
        idle = (name for name in names if name not in busy)
        online = (name for name in idle if self.always_on or self.lab.fleet[name].presence.on(now))
        return sorted(islice(online, few))

    def _next_back(self, busy: Collection[str]) -> float:
        """Returns the seconds until the next device that is not `busy` comes back online; inf if none does."""
        now, idle = self.world.now(), (name for name in self.names if name not in busy)
        return min((self.lab.fleet[name].presence.next_on(now) for name in idle), default=math.inf) - now

    async def _someone(self, seconds: float) -> None:
        """Waits until a straggler ends, or until the next device comes back online, which is in `seconds` (inf: none
        ever does).

        Raises RunFailed if there is neither a straggler nor a device that comes back.
        """
        if seconds == math.inf and not self.stragglers:
            raise RunFailed(
                f"after second {self.world.now():.0f} no device is ever online; look at `presence` of the fleet"
            )
        self.freed = self.world.signal()
        if seconds == math.inf:
            await self.freed.wait()
            return
        try:
            await self.world.within(seconds, self.freed.wait())
        except Late:
            pass

    def _play_of(self, number: int, cohort: Sequence[str]) -> Play:
        more = len(cohort) > self.rules.ask  # the algorithm waits for all its devices
        rules = replace(self.rules, needed=len(cohort)) if more else self.rules
        round = Round(number, cohort, rules, self.world.now())
        signals = self.world.signal(), self.world.signal()
        return Play(round, self.time, *signals, self.state, self.counted, stamp=self.time)

    async def _play(self, number: int) -> Play:
        cohort, idle = await self._cohort(number)
        play = self._play_of(number, cohort)
        play.opened = self.record.open(number, cohort, self.state.weights.short, idle)
        if not self.always_on:
            self.presences.follow(play, cohort)
        opening = await self._request(play, cohort)
        play.download = opening.download.ref if self.lab.up.get(self.run.label) else NOTHING
        self.exchange.open = play
        self.exchange.take_in()
        await self._hear(play, opening)
        return await self._finish(play)

    async def _finish(self, play: Play) -> Play:
        """Closes a round and combines its replies."""
        self.time = play.closed = await self._close(play)
        if not play.round.failed:
            self.time = await self._combine(play)
        for reply in play.replies:
            if self.selection:
                trip, last = self.record.trips[reply.call], self.rules.turn(play.round.number)
                seconds, stale = trip.seconds, play.round.number - reply.call.version
                self.pasts.count(reply.device, round=last, seconds=seconds, staleness=stale, loss=reply.loss)
            reply.asked.waiting.discard(reply.device)
        play.replies.clear()
        play.stamp = self.time
        return play

    async def _request(self, play: Play, names: Sequence[str]) -> Opening:
        """Does the server's work that opens a round, and returns the messages to send to these devices.

        If the algorithm computes something here, such as the importance of each weight, the round is charged its time.
        """
        round = play.round
        new = tuple(name for name in names if name not in self.exchange.reached) if self.lab.brings_frozen else ()
        args = self.run, round.number, self.state.message, tuple(names)
        ticket = self.world.submit(request, *args, *([new] if new else []))
        # Charged once, however often an asynchronous round asks.
        bill = None if play.asks or play.bills else self.costs.request(round.number)
        opening: Opening
        if bill and bill.seconds:
            opening = await self._serve_work(play, "request", bill, ticket)
            self.record.server_end(round.number, "request", self.state.weights.short)
        else:
            opening = await self.world.uncharged(ticket)
        return opening

    async def _hear(self, play: Play, opening: Opening) -> None:
        """Sends the requests of a round to its devices, and waits until the round has closed."""
        self._send(play, opening, play.round.asked)
        if self.rules.deadline is None:
            await play.closing.wait()
            return
        left = max(0.0, play.round.opened + self.rules.deadline - self.world.now())
        try:
            await self.world.within(left, play.closing.wait())
        except Late:
            play.round.expire()

    def _send(self, play: Play, opening: Opening, names: Sequence[str]) -> None:
        """Starts to ask these devices."""
        parcels = self._parcels(play, opening, names)
        self.plan(play, parcels)
        for name, parcel in parcels.items():
            play.asks[name] = self.world.start(self._ask(play, name, parcel))

    def _parcels(self, play: Play, opening: Opening, names: Sequence[str]) -> dict[str, Parcel]:
        """Returns the request of each of these devices, by name.

        Devices with the same last counted round share one, unless the algorithm has a message of its own for a device.
        A reply that the open round has taken in counts, too, but the model does not have it yet.
        """
        asked = set(names)  # a filling asks few devices, and its buffer may hold hundreds of replies
        replies = [reply for reply in (self.exchange.open or play).replies if reply.device in asked]
        taken = {reply.device: reply.call.round for reply in replies}

        @cache
        def parcel(combined: int | None, taken: int | None, own: str | None) -> Parcel:
            message, round = opening.extra[own] if own else opening.download, play.round.number
            if taken is None:
                return Parcel.of({"round": round, "counted": combined}, message)
            return Parcel.of({"round": round, "counted": taken, "combined": combined}, message)

        def of(name: str) -> Parcel:
            return parcel(self.counted.get(name), taken.get(name), name if name in opening.extra else None)

        return {name: of(name) for name in names}

    async def _ask(self, play: Play, name: str, parcel: Parcel) -> None:
        await self.exchange.ask(play, name, parcel)
        if self.stragglers.pop(name, None):
            await self._end_all([play.watches[name]] if name in play.watches else [])
            self.freed.set()

    async def _close(self, play: Play) -> float:
        """Records the close of the round and returns its time in s.

        Devices that are still at work stop, or finish their work if the scenario has `stragglers: finish`.
        """
        running = play.running
        if self.rules.finish_stragglers:
            self.stragglers.update(dict.fromkeys(running, play))
        watches = [task for name, task in play.watches.items() if name not in self.stragglers]
        await self._end_all(watches)
        if not self.rules.finish_stragglers:
            await self._end_all([play.asks[name] for name in running])
        play.round.vanished({name for name in running if self.presences.gone(play, name)})
        play.written.set()
        return self.record.close(play.round.number, str(play.round.reason), play.round.counted)

    async def _end_all(self, tasks: Sequence[Task]) -> None:
        if tasks:
            await self.world.together([task.cancel() for task in tasks])

    async def _combine(self, play: Play) -> float:
        """Combines the replies into a new model; returns the time in s at which the model was ready."""
        number = play.round.number
        named_replies = named(play.replies)
        replies = {name: (reply.upload, reply.examples) for name, reply in named_replies.items()}
        stale = {
            name: (number - reply.call.version, reply.asked.download)
            for name, reply in named_replies.items()
            if number != reply.call.version
        }
        args = self.run, number, self.state.message, replies, play.download
        steps = {name: reply.steps for name, reply in named_replies.items() if reply.steps}
        ticket = self.world.submit(combine, *args, *([stale] if stale or steps else []), *([steps] if steps else []))
        self.state = await self._serve_work(play, "combine", self.costs.combine(number, len(replies)), ticket)
        for reply in play.replies:
            reply.asked.useful.add(reply.device)
        return self.record.server_end(number, "combine", self.state.weights.short)

    async def _serve_work(self, play: Play, what: str, bill: Bill, ticket: Ticket) -> Any:
        play.bills.append(bill)
        self.record.server_start(play.round.number, what, bill, self.lab.server.profile.fastest)
        return await self.world.work(bill.total_seconds, ticket)
