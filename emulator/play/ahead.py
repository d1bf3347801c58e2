"""Jobs that a run is known to need next are handed in before its clock comes to them.

A round in which all who are asked will count leaves nothing open once its trainings are here.  While the clock still
plays its transfers, workers combine the replies, evaluate the new model, and train the stacks of the next round.  Jobs
are pure, so this changes no result, only when workers begin.  It is in vain where the run is told to stop, and where an
algorithm says that a device used more examples than it holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

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
    """An executor for one run (worlds/executors.py).  Jobs may be handed in before the run submits them."""

    beside = True

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.handed: list[tuple[Job, Sequence[Any], Future[Any]]] = []  # handed in, and not yet submitted by the run
        self.taken: dict[tuple[Job, int], Future[Any]] = {}  # submitted by the run: `combine` and `request`, by round

    @property
    def store(self) -> Store:
        """See Executor."""
        return self.inner.store

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        """The result of the job, which starts now unless it was handed in."""
        future = self._handed(job, args) or self.inner.submit(job, *args)
        if job in (combine, request):
            self.taken[job, args[1]] = future
        return future

    def hand_in(self, job: Job, *args: Any) -> Future[Any]:
        """Starts a job that the run will submit."""
        future = self.inner.submit(job, *args)
        self.handed.append((job, args, future))
        return future

    def drop(self) -> None:
        """Cancels what the run has not submitted: it never will."""
        for _, _, future in self.handed:
            future.cancel()
        self.handed.clear()
        self.taken.clear()

    async def begun(self) -> list[Any]:
        """Cancels what nobody works on yet; the results of the rest, once they are here."""
        futures = [future for _, _, future in self.handed if not withdrawn(future)]
        for future in futures:
            await _done(future)
        return [future.result() for future in futures if not future.cancelled() and not future.exception()]

    def _handed(self, job: Job, args: Sequence[Any]) -> Future[Any] | None:
        for place, (known, wanted, future) in enumerate(self.handed):
            if known is job and wanted == args:
                del self.handed[place]
                return future
        return None


class Foresight:
    """Looks beyond each round of a run in virtual time, as far as nothing is open."""

    def __init__(self, ahead: Ahead, stage: Stage) -> None:
        self.ahead, self.stage = ahead, stage
        self.play: Play | None = None  # the round that was planned last
        self.looking: asyncio.Task[None] | None = None
        stage.trainings.all_started = self._begin

    def plan(self, play: Play, parcels: Mapping[str, Parcel]) -> None:
        """See Stage.plan."""
        self.stage.plan(play, parcels)  # which submits what was handed in for this round
        self.stop()
        self.play = play

    def stop(self) -> None:
        """Looks no further, and drops what the run has not submitted."""
        self._look_away()
        self.ahead.drop()

    async def begun(self) -> list[Any]:
        """The run was told to stop: see Ahead.begun."""
        self._look_away()
        return await self.ahead.begun()

    def _look_away(self) -> None:
        looking, self.looking, self.play = self.looking, None, None
        if looking and not looking.cancel():
            looking.result()  # a mistake of ours must not be lost

    def _begin(self, tickets: dict[str, Ticket]) -> None:
        """All devices of the round have begun to train."""
        if self.play and self.play.following:
            self.looking = asyncio.get_running_loop().create_task(self._look(self.play, tickets))

    async def _look(self, play: Play, tickets: dict[str, Ticket]) -> None:
        try:
            trained: dict[str, Trained] = {name: await _result(ticket.future) for name, ticket in tickets.items()}
            tickets.clear()  # nothing that a round has made stays longer than the round needs it
            state, memories = self._combined(play, trained), _memories(trained)
            trained.clear()
            if state:
                await self._beyond(play, state, memories)
        except (_Over, Faulty):  # of which the run will hear itself
            return

    def _combined(self, play: Play, trained: Mapping[str, Trained]) -> Future[State] | None:
        """The state after this round; None if a reply of it will be refused."""
        if any(done.upload.fault for done in trained.values()):
            return None
        replies = {name: (done.upload.ref, done.examples) for name, done in sorted(trained.items())}
        return self._made(combine, play.round.number, play.broadcast.message, replies, play.download)

    async def _beyond(self, play: Play, combined: Future[State], memories: Mapping[str, Ref]) -> None:
        number, state, lab, conduct = play.round.number, await _result(combined), self.stage.lab, self.stage.conduct
        if conduct.evaluated(number) and (combine, number) not in self.ahead.taken:
            for trial in trials(lab, self.stage.run, conduct.schedule, number, play.broadcast, state):
                self.ahead.hand_in(*trial)
        if conduct.surely(number + 1):
            await self._next(play, state, memories)

    async def _next(self, play: Play, state: State, memories: Mapping[str, Ref]) -> None:
        assert play.following
        number, names = play.round.number + 1, play.following()
        opening: Opening = await _result(self._made(request, number, state.message, tuple(names)))
        inputs = {
            name: (opening.extra.get(name, opening.download).ref, memories.get(name) or self._memory(play, name))
            for name in names
        }
        for args in self.stage.trainings.stacks(number, inputs):
            self.ahead.hand_in(train_stack, *args)

    def _memory(self, play: Play, name: str) -> Ref:
        """What a device keeps that is not in this round."""
        return self.stage.attendant(name).home.after(play.acknowledged.get(name)).ref

    def _made(self, job: Job, number: int, *args: Any) -> Future[Any]:
        """The result of a job of this round; the run may have come to it first."""
        return self.ahead.taken.get((job, number)) or self.ahead.hand_in(job, self.stage.run, number, *args)


class _Over(Exception):  # noqa: N818
    """There is nothing more to foresee in this round."""


async def _result(future: Future[Any]) -> Any:
    """Raises _Over if there is none."""
    await _done(future)
    if future.cancelled() or future.exception():
        raise _Over
    return future.result()


async def _done(future: Future[Any]) -> None:
    """Returns when the future is done.  To stop waiting does not cancel it."""
    if future.done():
        return
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[Any]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(tell)
    await done.wait()


def _memories(trained: Mapping[str, Trained]) -> dict[str, Ref]:
    """What these devices will have kept once they have been counted."""
    return {name: (done.kept_if_counted or done.kept).ref for name, done in trained.items()}
