"""The rows of rounds.jsonl: one for each round, once its last straggler has ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from devices.device import UNKNOWN
from devices.energy import Power
from emulator.conversation.underway import Play
from emulator.lab.jobs import Learnt, State
from emulator.play.metrics import NAMES, Metrics
from emulator.play.stage import Outcome, Row, Stage
from emulator.record.call import Call
from emulator.record.run import Run
from emulator.record.tally import Usage, bytes_by_kind, critical, seconds
from emulator.record.targets import pending, reached

Progress = Callable[[Run, Row], None]
GoingOn = Callable[[], bool]
Finish = Callable[[Row], Row]


class Diary:
    """Writes a row for each round once its last straggler has ended, and says when it is enough.

    `finish` gets each row before it is written, and returns the row that is written.
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
        self.unwritten: list[tuple[Play, dict[str, Any]]] = []
        self.measured: list[Row] = []
        self.cycles: dict[int, float] = {}  # time slice -> when its first round opened
        self.state: State | None = None

    async def after(self, play: Play, state: State) -> bool:
        """Evaluates a round that has ended.  Returns False if it was the last one."""
        self.state, number = state, play.round.number
        if number < 0:
            await self.metrics.start(state)
            return self._going_on(number)
        values: dict[str, Any] = dict.fromkeys(NAMES)
        further: Mapping[str, float | None] = {}
        conduct = self.stage.conduct
        if conduct.evaluated(number):
            found, further = await self.metrics.of(number, play.broadcast, state, self._trained(play))
            values |= found
        if conduct.personalised(number):
            values["personalised"] = await self._personalised(play)
        self.measured.append({"round": number, **values})
        enough = conduct.stop_at is not None and reached(self.measured, conduct.stop_at) is not None
        enough = enough or self._late(play.stamp)
        if enough and values["personalised"] is None and conduct.schedule.personalises:
            values["personalised"] = await self._personalised(play)
        self.unwritten.append((play, {**values, "numbers": further}))
        self.write_settled()
        return not enough and self._going_on(number) and self.stage.record.unwritten is None

    def _late(self, stamp: float) -> bool:
        """Whether the run's time is over.  A target that is held until then is waited for: else nobody would know."""
        conduct = self.stage.conduct
        over = conduct.until is not None and stamp >= conduct.until
        return over and not any(pending(self.measured, target) for target in conduct.targets)

    def _going_on(self, number: int) -> bool:
        """Notes when somebody asks the run to stop before its last round."""
        going_on, last = self.going_on(), number + 1 == self.stage.conduct.rules.max
        self.outcome.interrupted = not (going_on or last)
        if self.outcome.interrupted:
            self.stage.record.stop()
        return going_on

    async def _personalised(self, play: Play) -> float | None:
        return await self.metrics.personalised(play.round.number, play.broadcast, play.acknowledged)

    def write_settled(self) -> None:
        """Writes the rows of settled rounds, in the order of rounds; a round waits for its stragglers."""
        while self.unwritten and self.unwritten[0][0].settled:
            play, values = self.unwritten.pop(0)
            row = self.finish(self._row(play, values))
            self.outcome.rows.append(row)
            self.stage.record.row(row)
            self.progress(self.stage.run, row)

    def _trained(self, play: Play) -> list[Learnt]:
        return [self.stage.notes[Call(name, play.round.number)] for name in sorted(play.replies)]

    def _timing(self, play: Play) -> dict[str, float]:
        """Where the data drift: the time slice, and how long ago its first round opened."""
        if self.stage.lab.data.cycles == 1:
            return {}
        cycle = self.stage.lab.cycle(self.stage.run.label, play.round.number)
        self.cycles.setdefault(cycle, play.round.opened)
        return {"cycle": cycle, "cycle_time_s": play.stamp - self.cycles[cycle]}

    def _row(self, play: Play, values: Mapping[str, Any]) -> dict[str, Any]:
        round, length = play.round, play.stamp - play.began
        calls = {name: Call(name, round.number) for name in round.asked}
        trained = self._trained(play)
        leverages = [done.leverage for done in trained]
        numbers = {**self._timing(play), **_means([done.numbers for done in trained])}
        numbers |= {"not_finite": play.not_finite} if play.not_finite else {}
        trips = {name: self.stage.record.trips.pop(call) for name, call in calls.items()}
        for call in calls.values():
            self.stage.notes.pop(call, None)
        useful = () if round.failed else play.replies  # of a failed round nothing is of use: the model stays
        used = {name: trip.usage(name in useful, play.opened, play.closed) for name, trip in trips.items()}
        closer = round.counted[-1] if round.counted else None
        powers = {name: self._power(name) for name in trips}
        return {
            "round": round.number,
            "time_s": play.stamp,
            **values,
            "numbers": {**numbers, **values["numbers"]},
            "bytes": bytes_by_kind(trips.values()),
            "flops": sum(trip.flops for trip in trips.values()) + sum(bill.total_flops for bill in play.bills),
            "asked": len(round.asked),
            "counted": len(round.counted),
            "late": len(round.late()),
            "lost": len(round.lost),
            "refused": len(round.refused),
            "failed": round.failed,
            "wasted_bytes": sum(trip.vain_bytes if name in useful else trip.nbytes for name, trip in trips.items()),
            "seconds": seconds(used),
            "joules": {name: power and _joules(power, used[name]) for name, power in powers.items()},
            "watts": {name: power and [power.idle, power.compute, power.radio] for name, power in powers.items()},
            "leverage": _largest(leverages),
            "critical": critical(closer, trips.get(closer or ""), play.bills, length),
        }

    def _power(self, name: str) -> Power | None:
        """None if nobody says what the device draws."""
        power = self.stage.lab.fleet[name].profile.power
        return None if power == UNKNOWN else power


def _joules(power: Power, usage: Usage) -> float:
    return power.joules(usage.idle, usage.computing, usage.sending)


def _means(each: list[Mapping[str, float]]) -> dict[str, float]:
    """Mean of each number over the devices that tell it."""
    told = {key: [numbers[key] for numbers in each if key in numbers] for numbers in each for key in numbers}
    return {key: math.fsum(values) / len(values) for key, values in sorted(told.items())}


def _largest(leverages: list[Mapping[str, float]]) -> dict[str, float]:
    return {key: max(each[key] for each in leverages if key in each) for each in leverages for key in each}
