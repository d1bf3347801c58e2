"""The server's half of the conversation, written once for both worlds.

A round: request (server work) -> download -> train -> upload -> combine (server work) -> stamp `time_s`;
then the model is evaluated, in no time.  Who counts is decided in rounds.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from emulator.conversation.exchange import Exchange, Judge, Soundness
from emulator.conversation.presences import Presences
from emulator.conversation.rounds import Round, RoundRules
from emulator.conversation.underway import Play, RunFailed
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
    """Serves the rounds of one run.  `judge` says which replies are sound; `plan` is told what each round sends."""

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
        self.names = sorted(lab.names)
        self.always_on = lab.always_on or (
            len(self.names) <= EACH and all(device.presence.always for device in lab.fleet.values())
        )
        self.counted: dict[str, int] = {}  # device -> its last counted round
        self.stragglers: dict[str, Play] = {}  # devices that work on after the close of their round
        self.freed = world.signal()  # a straggler has ended
        self.presences = Presences(world, lab.fleet, record, line, self.stragglers, patient=rules.deadline is None)
        self.exchange = Exchange(line, record, judge or Soundness(lab, run))
        self.plan = plan
        self.time = 0.0  # time_s of the round before

    async def serve(self, after: After) -> None:
        """Plays the rounds that the rules allow.  `after` gets each round with the model that came out of it, and first
        of all the initial model (with a Play of round -1); it returns False to end the run.

        Raises RunFailed if three rounds in a row fail, or if no device will ever be online again.
        """
        self.state: State = await self.world.uncharged(self.world.submit(start, self.run))
        going_on = await after(self._play_of(-1, ()), self.state)
        try:
            await self._rounds(after, going_on)
        finally:
            late = list(self.stragglers.items())
            # No line may say that a device is back while it is stopped: nothing of it would go on.
            await self._end_all([play.watches[name] for name, play in late if name in play.watches])
            await self._end_all([play.asks[name] for name, play in late])

    async def _rounds(self, after: After, going_on: bool) -> None:
        failures = number = 0
        while going_on and number < self.rules.max:
            await self._next_cycle(number)
            play = await self._play(number)
            failures = failures + 1 if play.round.failed else 0
            going_on = await after(play, self.state)
            self.counted.update(dict.fromkeys(play.replies, number) if not play.round.failed else {})
            if failures == GIVE_UP:
                raise RunFailed(self._too_few(play.round))
            number += 1

    async def _next_cycle(self, number: int) -> None:
        """Waits for the time slice whose data this round is the first to train on, if it is yet to come."""
        training = self.algorithm.training
        cycle, seconds = training.cycle(number), self.rules.cycle_seconds
        if seconds is None or not number or training.cycle(number - 1) == cycle:
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
        """The devices that this round asks, and those among which it chose."""
        root = seed(self.run.seed, "cohort", number)  # without the label: all algorithms of a seed ask the same devices
        few = self.rules.ask if len(self.names) > EACH and self.algorithm.any_cohort_will_do else None
        names = await self._roll_call(root, few)
        return self.algorithm.cohort(number, names, self.rules.ask, root), names

    async def _roll_call(self, root: int, few: int | None) -> Sequence[str]:
        """The devices that are online and idle, sorted; waits while there are none.

        Of a large fleet, where that does for the algorithm, `few` of them: the first in an order that `root` draws, so
        that any of those online are as likely to be asked as any others, and hardly any others are made.
        """
        while True:
            if self.always_on and not self.stragglers:
                return self.names  # as it is: the cost of a round must not grow with the fleet
            now = self.world.now()
            if names := self._online(now, root, few):
                return names
            await self._someone(self._next_on(now) - now)

    def _online(self, now: float, root: int, few: int | None) -> list[str]:
        names = self._shuffled(root) if few else self.names
        fleet = self.lab.fleet
        idle = (name for name in names if name not in self.stragglers)
        online = (name for name in idle if self.always_on or fleet[name].presence.on(now))
        return sorted(islice(online, few))

    def _shuffled(self, root: int) -> Iterable[str]:
        order = np.random.default_rng(root).permutation(len(self.names))
        return (self.names[number] for number in order)

    def _next_on(self, now: float) -> float:
        """When the first of the idle devices is online; inf if none ever is."""
        fleet = self.lab.fleet
        idle = (name for name in self.names if name not in self.stragglers)
        return min((fleet[name].presence.next_on(now) for name in idle), default=math.inf)

    async def _someone(self, seconds: float) -> None:
        """Waits until a device comes back, or a straggler ends."""
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
        more = len(cohort) > self.rules.ask  # the algorithm wants them all, not only the first
        rules = replace(self.rules, needed=len(cohort)) if more else self.rules
        round = Round(number, cohort, rules, self.world.now())
        signals = self.world.signal(), self.world.signal()
        return Play(round, self.time, *signals, self.state, self.counted, stamp=self.time)

    async def _play(self, number: int) -> Play:
        cohort, idle = await self._cohort(number)
        play = self._play_of(number, cohort)
        play.opened = self.record.open(number, cohort, self.state.weights.short, idle)
        if not self.always_on:
            self.presences.follow(play)
        opening = await self._request(play)
        play.download = opening.download.ref if self.lab.up.get(self.run.label) else NOTHING
        await self._hear(play, opening)
        self.time = play.closed = await self._close(play)
        if not play.round.failed:
            self.time = await self._combine(play)
        play.uploads.clear()  # they are needed no more
        play.stamp = self.time
        return play

    async def _request(self, play: Play) -> Opening:
        """Opens the round on the server; an importance that is estimated is charged to this round."""
        round = play.round
        ticket = self.world.submit(request, self.run, round.number, self.state.message, tuple(round.asked))
        bill = self.costs.request(round.number)
        opening: Opening
        if bill.seconds:
            opening = await self._serve_work(play, "request", bill, ticket)
            self.record.server_end(round.number, "request", self.state.weights.short)
        else:
            opening = await self.world.uncharged(ticket)
        return opening

    async def _hear(self, play: Play, opening: Opening) -> None:
        """Asks the cohort; returns when the round has closed."""
        parcels = self._parcels(play, opening)
        self.plan(play, parcels)
        for name, parcel in parcels.items():
            play.asks[name] = self.world.start(self._ask(play, name, parcel))
        if self.rules.deadline is None:
            await play.closing.wait()
            return
        left = max(0.0, play.round.opened + self.rules.deadline - self.world.now())
        try:
            await self.world.within(left, play.closing.wait())
        except Late:
            play.round.expire()

    def _parcels(self, play: Play, opening: Opening) -> dict[str, Parcel]:
        """The requests, by device; most get the same."""

        @cache
        def parcel(counted: int | None, own: str | None) -> Parcel:
            message = opening.extra[own] if own else opening.download
            return Parcel.of({"round": play.round.number, "counted": counted}, message)

        asked = play.round.asked
        return {name: parcel(self.counted.get(name), name if name in opening.extra else None) for name in asked}

    async def _ask(self, play: Play, name: str, parcel: Parcel) -> None:
        await self.exchange.ask(play, name, parcel)
        if self.stragglers.pop(name, None):
            await self._end_all([play.watches[name]] if name in play.watches else [])
            self.freed.set()

    async def _close(self, play: Play) -> float:
        """Tells the others to stop, or with `stragglers: finish` lets them end, and writes who counted; its time."""
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
        """Closes the round on the server: the new model; when it was there."""
        number = play.round.number
        replies = {name: (play.uploads[name], play.replies[name]) for name in sorted(play.replies)}
        ticket = self.world.submit(combine, self.run, number, self.state.message, replies, play.download)
        self.state = await self._serve_work(play, "combine", self.costs.combine(number, len(replies)), ticket)
        return self.record.server_end(number, "combine", self.state.weights.short)

    async def _serve_work(self, play: Play, what: str, bill: Bill, ticket: Ticket) -> Any:
        play.bills.append(bill)
        self.record.server_start(play.round.number, what, bill, self.lab.server.profile.fastest)
        return await self.world.work(bill.total_seconds, ticket)
