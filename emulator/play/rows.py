"""Writes the rows of rounds.jsonl: one for each round, once its last straggler has ended."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from algorithms.staleness import Stale
from devices.device import UNKNOWN
from emulator.conversation.underway import Play
from emulator.lab.jobs import State
from emulator.lab.training import Learnt
from emulator.play.metrics import NAMES, Metrics
from emulator.play.stage import Outcome, Row, Stage
from emulator.record.call import Call
from emulator.record.run import Run
from emulator.record.tally import bytes_by_kind, critical, seconds, together
from emulator.record.targets import pending, reached

Progress = Callable[[Run, Row], None]
GoingOn = Callable[[], bool]
Finish = Callable[[Row], Row]


class Diary:
    """The writer of a run's rows: one for each round, once its last straggler has ended.  It also decides when the run
    ends.

    `finish` gets each row before it is written, and returns the row to write.
    """

    def __init__(
        self,
        stage: Stage,
        outcome: Outcome,
        going_on: GoingOn = lambda: True,
        progress: Progress = lambda _run, _row: None,
        finish: Finish = lambda row: row,
    ) -> None:
        self.stage, self.outcome = stage, outcome
        self.going_on, self.progress, self.finish = going_on, progress, finish
        self.metrics = Metrics(stage.world, stage.lab, stage.run, stage.conduct.schedule, stage.attendants)
        self.unwritten: list[tuple[Play, dict[str, Any], list[Learnt]]] = []
        self.measured: list[Row] = []
        self.cycles: dict[int, float] = {}  # by time slice: s, opening of its first round
        self.state: State | None = None

    async def after(self, play: Play, state: State) -> bool:
        """Evaluates the model after a completed round.  Returns false if that round was the last one."""
        self.state, number = state, play.round.number
        if number < 0:
            await self.metrics.start(state)
            return self._going_on(number)
        values: dict[str, Any] = dict.fromkeys(NAMES)
        trained = self._trained(play)
        further: Mapping[str, float | None] = {}
        conduct = self.stage.conduct
        if conduct.evaluated(number):
            metrics, further = await self.metrics.of(number, play.broadcast, state, trained)
            values |= metrics
        if conduct.personalised(number):
            values["personalised"] = await self._personalised(play)
        self.measured.append({"round": number, "time_s": play.stamp, **values, "numbers": further})
        enough = conduct.stop_at is not None and reached(self.measured, conduct.stop_at) is not None
        if conduct.until is not None and play.stamp >= conduct.until:
            # Waits for a target that may just be held: otherwise the record could not tell.
            enough = enough or not any(pending(self.measured, target) for target in conduct.targets)
        if enough and values["personalised"] is None and conduct.schedule.personalises:
            values["personalised"] = await self._personalised(play)
        self.unwritten.append((play, {**values, "numbers": further}, trained))
        self.write_settled()
        return not enough and self._going_on(number) and self.stage.record.unwritten is None

    def _going_on(self, number: int) -> bool:
        """Returns false if the run must stop after this round.  A stop before the last round marks the run as
        interrupted."""
        going_on, last = self.going_on(), number + 1 == self.stage.conduct.rules.max
        self.outcome.interrupted = not (going_on or last)
        if self.outcome.interrupted:
            self.stage.record.stop()
        return going_on

    async def _personalised(self, play: Play) -> float | None:
        return await self.metrics.personalised(play.round.number, play.broadcast, play.acknowledged)

    def write_settled(self) -> None:
        """Writes the rows of rounds without stragglers at work, in the order of rounds; stops at the first round
        that has some."""
        while self.unwritten and self.unwritten[0][0].settled:
            row = self.finish(self._row(*self.unwritten.pop(0)))
            self.outcome.rows.append(row)
            self.stage.record.row(row)
            self.progress(self.stage.run, row)

    def _trained(self, play: Play) -> list[Learnt]:
        return [self.stage.notes[call] for call in sorted(play.round.calls)]

    def _numbers(self, play: Play, trained: Sequence[Learnt]) -> dict[str, float]:
        """Returns the further numbers of a row, by name: means over the devices that reported a number, the time
        slice of drifting data and the seconds since it began, and how many replies had values that are not finite."""
        numbers: dict[str, float] = {}
        if self.stage.lab.data.cycles > 1:
            cycle = self.stage.lab.cycle(self.stage.run.label, play.round.number)
            numbers = {"cycle": cycle, "cycle_time_s": play.stamp - self.cycles.setdefault(cycle, play.round.opened)}
        for key in sorted({key for learnt in trained for key in learnt.numbers}):
            values = [learnt.numbers[key] for learnt in trained if key in learnt.numbers]
            numbers[key] = math.fsum(values) / len(values)
        return numbers | ({"not_finite": play.not_finite} if play.not_finite else {})

    def _row(self, play: Play, values: Mapping[str, Any], trained: Sequence[Learnt]) -> dict[str, Any]:
        round, length = play.round, play.stamp - play.began
        requests = [play, *play.again]
        # A failed round leaves the model, so all its work is wasted.
        useful = {Call(name, each.round.number) for each in requests for name in each.useful}
        calls = [Call(name, each.round.number) for each in requests for name in each.round.asked]
        leverages = [done.leverage for done in trained]
        numbers = self._numbers(play, trained)
        trips = {call: self.stage.record.trips.pop(call) for call in calls}
        for call in calls:
            self.stage.notes.pop(call, None)
        opened = None if round.rules.asynchronous else play.opened
        used = together((call.device, trip.usage(call in useful, opened, play.closed)) for call, trip in trips.items())
        fresh = [call for call in round.calls if call.version == round.number]
        closer = fresh[-1] if fresh else None
        powers = {name: self.stage.lab.fleet[name].profile.power for name in used}
        known = {name: None if power == UNKNOWN else power for name, power in powers.items()}
        ages = Counter(round.number - call.version for call in round.calls)
        lost = sum(len(each.round.lost) for each in requests)
        refused = sum(len(each.round.refused) for each in requests)
        said = round.rules.asynchronous or ages.keys() - {0}
        staleness = {str(age): ages[age] for age in sorted(ages)} if said else {}
        stale = self.stage.record.stale
        weights = {age: Stale(*stale).weight(int(age)) for age in staleness} if stale else {}
        return {
            "round": round.number,
            "time_s": play.stamp,
            **values,
            "numbers": {**numbers, **values["numbers"]},
            "bytes": bytes_by_kind(trips.values()),
            "flops": sum(trip.flops for trip in trips.values()) + sum(bill.total_flops for bill in play.bills),
            "asked": len(calls),
            "counted": len(fresh),
            "late": len(calls) - len(fresh) - lost - refused,
            "lost": lost,
            "refused": refused,
            "failed": round.failed,
            **({"staleness": staleness} if staleness else {}),
            **({"weights": weights} if weights else {}),
            **({"stale": play.dropped} if round.rules.asynchronous else {}),
            "wasted_bytes": sum(trip.vain_bytes if call in useful else trip.nbytes for call, trip in trips.items()),
            "seconds": seconds(used),
            "joules": {
                name: power and power.joules(used[name].idle, used[name].computing, used[name].sending)
                for name, power in known.items()
            },
            "watts": {name: power and [power.idle, power.compute, power.radio] for name, power in known.items()},
            "leverage": {key: max(of[key] for of in leverages if key in of) for of in leverages for key in of},
            "critical": critical(closer and closer.device, closer and trips[closer], play.bills, length),
        }
