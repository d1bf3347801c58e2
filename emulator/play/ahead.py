"""Jobs that a run is known to need next are handed in before its clock comes there.

Jobs are pure, so this changes no result, only when workers begin.  A round in which all who are asked will count leaves
nothing open once its trainings are here.  While the clock still plays its transfers, workers combine the replies, try
the new model, and train the stacks of the next round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from emulator.conversation.server import Server
from emulator.conversation.underway import Play
from emulator.lab.guarded import Faulty
from emulator.lab.jobs import Opening, State, Trained, combine, request, train_stack
from emulator.lab.store import Ref, Store
from emulator.play.metrics import trials
from emulator.play.stage import Stage
from emulator.worlds.batches import Job
from emulator.worlds.executors import Executor
from emulator.worlds.interface import Parcel, Ticket
from emulator.worlds.shared import withdrawn


class Ahead:
    """An executor of one run (worlds/executors.py), who may be given jobs before the run submits them."""

    beside = True

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.handed: list[tuple[Job, Sequence[Any], Future[Any]]] = []  # and not submitted yet

    @property
    def store(self) -> Store:
        """See Executor."""
        return self.inner.store

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        """The result of the job, which starts now unless it was handed in."""
        for place, (known, wanted, future) in enumerate(self.handed):
            if known is job and wanted == args:
                del self.handed[place]
                return future
        return self.inner.submit(job, *args)

    def hand_in(self, job: Job, *args: Any) -> Future[Any]:
        """Starts the job, which the run will submit."""
        future = self.inner.submit(job, *args)
        self.handed.append((job, args, future))
        return future

    def waits(self, future: Future[Any]) -> bool:
        """Whether the run has yet to submit this job."""
        return any(each is future for _, _, each in self.handed)

    def drop(self) -> None:
        """The run does not submit what it has not submitted by now."""
        for _, _, future in self.handed:
            future.cancel()
        self.handed.clear()

    async def begun(self) -> list[Any]:
        """Withdraws what nobody works on yet; the results of the rest, once they are here."""
        futures = [future for _, _, future in self.handed if not withdrawn(future)]
        for future in futures:
            await _done(future)
        return [future.result() for future in futures if not future.cancelled() and not future.exception()]


class Foresight:
    """Looks beyond each round of a run in virtual time, as far as nothing is open."""

    def __init__(self, ahead: Ahead, stage: Stage, server: Server) -> None:
        self.ahead, self.stage, self.server = ahead, stage, server
        self.lab, self.run, self.conduct = stage.lab, stage.run, stage.conduct
        self.looking: asyncio.Task[None] | None = None
        server.plan, stage.trainings.all_started = self._plan, self._begin

    def stop(self) -> None:
        """Looks no further, and drops what the run has not submitted."""
        self._close_eyes()
        self.ahead.drop()

    async def begun(self) -> list[Any]:
        """The run was told to stop: see Ahead.begun."""
        self._close_eyes()
        return await self.ahead.begun()

    def _close_eyes(self) -> None:
        if self.looking:
            self.looking.cancel()
            self.looking = None

    def _plan(self, play: Play, parcels: Mapping[str, Parcel]) -> None:
        self.play = play
        self.stage.plan(play, parcels)  # which submits what was handed in for this round
        self.stop()

    def _begin(self, tickets: Mapping[str, Ticket]) -> None:
        """All devices of the round have begun to train."""
        if self.server.all_count(self.play):
            self.looking = asyncio.get_running_loop().create_task(self._look(self.play, tickets))

    async def _look(self, play: Play, tickets: Mapping[str, Ticket]) -> None:
        try:
            trained = {name: await self._result(ticket.future) for name, ticket in tickets.items()}
            number = play.round.number
            if state := await self._combined(play, trained):
                if self.conduct.evaluated(number):
                    for trial in trials(self.lab, self.run, self.conduct.schedule, number, state):
                        self.ahead.hand_in(*trial)
                if self.conduct.surely(number + 1):
                    await self._next(number + 1, state, trained)
        except (_Over, Faulty):
            return

    async def _combined(self, play: Play, trained: Mapping[str, Trained]) -> State | None:
        if any(done.upload.fault for done in trained.values()):
            return None
        replies = {name: (done.upload.ref, done.examples) for name, done in sorted(trained.items())}
        number, model = play.round.number, play.broadcast.message
        state: State = await self._made(combine, self.run, number, model, replies, play.download)
        return state

    async def _next(self, number: int, state: State, trained: Mapping[str, Trained]) -> None:
        names = self.server.cohort_of_all(number)
        opening: Opening = await self._made(request, self.run, number, state.message, tuple(names))
        inputs = {name: (opening.extra.get(name, opening.download).ref, self._memory(name, trained)) for name in names}
        for args in self.stage.trainings.stacks(number, inputs):
            self.ahead.hand_in(train_stack, *args)

    def _memory(self, name: str, trained: Mapping[str, Trained]) -> Ref:
        """What the device will have kept."""
        if name in trained:
            return (trained[name].kept_if_counted or trained[name].kept).ref
        return self.stage.attendant(name).home.after(self.server.counted.get(name)).ref

    async def _made(self, job: Job, *args: Any) -> Any:
        """The result of a job that is handed in now.  Raises _Over if the run has come there meanwhile."""
        future = self.ahead.hand_in(job, *args)
        result = await self._result(future)
        if not self.ahead.waits(future):
            raise _Over
        return result

    @staticmethod
    async def _result(future: Future[Any]) -> Any:
        """Raises _Over if there is none."""
        await _done(future)
        if future.cancelled() or future.exception():
            raise _Over
        return future.result()


class _Over(Exception):  # noqa: N818
    """There is nothing more to foresee in this round."""


async def _done(future: Future[Any]) -> None:
    """Returns when the future is done; who no longer waits here cancels nothing."""
    if future.done():
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[Any]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(ended.set)

    future.add_done_callback(tell)
    await ended.wait()
