"""The virtual world: SimPy's clock, stepped from asyncio.  The only file that imports simpy.

A coroutine is a SimPy process: its innermost `await` yields an event of SimPy's.  The stepping loop is itself a
coroutine, so that several runs share one event loop and one pool of workers.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future
from functools import partial
from math import inf
from types import coroutine
from typing import Any, TypeVar

import simpy
from simpy.events import Event, Process

from emulator.compute.executor import Executor
from emulator.messages.store import Store
from emulator.worlds.interface import Cancelled, Late, Ticket, Work

Value = TypeVar("Value")

BREATH = 64  # steps between two looks at the event loop; a look costs some 10 us


@coroutine
def _wait(event: Event) -> Generator[Event, Any, Any]:
    """Awaits a SimPy event and returns its value.  A task that is cancelled here sees Cancelled, as under asyncio."""
    return (yield event)


def _process(work: Work, living: dict[Work, None], begin: Event | None) -> Generator[Event, Any, Any]:
    """The coroutine as a generator for SimPy: it sends what an event gave, and throws what it failed with.

    It begins with the event `begin`, or at once.  To await what is not of this world raises TypeError there: SimPy
    alone would say so far away.
    """
    value: Any = None
    error: BaseException | None
    try:
        event: Any = work.send(None) if begin is None else begin
        while True:
            if isinstance(event, Event):
                try:
                    value, error = (yield event), None
                except simpy.Interrupt:
                    error = Cancelled("cancelled")
                except GeneratorExit:  # nobody steps this clock any more
                    raise
                except BaseException as failure:  # the event's; SimPy has made a copy of it for this process
                    error = failure
            else:
                error = TypeError(f"awaited {event!r} in virtual time; await only what the world offers")
            event = work.throw(error) if error else work.send(value)
    except StopIteration as end:
        return end.value
    except Cancelled:
        return None
    finally:
        living.pop(work, None)


def _abandon(work: Work) -> None:
    """Closes a coroutine whose world has stopped.  Where its clean-up waits, for a time that will not come, it ends."""
    while True:
        try:
            return work.close()
        except (RuntimeError, Cancelled):  # "coroutine ignored GeneratorExit": it waits, so close it there
            continue


def _tell(event: Event, _: Event) -> None:
    event.succeed()


class VirtualSignal(Event):
    """See interface.Signal."""

    def set(self, value: Any = None) -> None:
        if not self.triggered:
            self.succeed(value)

    def fail(self, reason: Exception) -> None:  # type: ignore[override]  # SimPy's has another name for it
        if not self.triggered:
            super().fail(reason)
            self.defused = True  # nobody need be waiting

    async def wait(self) -> Any:
        return await _wait(self)


class TimedResult(Event):
    """The result of a computation.

    It is due when the time that this is modelled to take is over, as virtual time follows the declared cost alone; the
    clock then stands until it is here.  It comes after all that is due then.
    """

    def __init__(self, env: simpy.Environment, ticket: Ticket) -> None:
        super().__init__(env)
        self.future = ticket.future

    async def collect(self) -> None:
        """Triggers the event with what comes of the computation, unless nobody waits for it any more."""
        if not self.callbacks:
            return
        if not self.future.done():  # the event loop is asked only when there is something to wait for
            await _here(self.future)
        if self.future.cancelled():
            self.fail(Cancelled("cancelled"))  # type: ignore[arg-type]  # as SimPy takes whatever can be raised
        elif error := self.future.exception():  # a failed job fails the one who waits for it, not the loop
            self.fail(error)  # type: ignore[arg-type]
        else:
            self.succeed(self.future.result())
        self.defused = True  # the one who waits may be gone when it comes


class VirtualTask:
    """See interface.Task."""

    def __init__(self, process: Process) -> None:
        self.process, self.told = process, False  # to end: a second time would break off its clean-up

    @property
    def ended(self) -> bool:
        return self.process.triggered

    async def cancel(self) -> None:
        self.tell()
        if not self.ended:
            await _wait(self.process)

    def tell(self) -> None:
        """Starts to cancel the task; `cancel` also waits for its end."""
        if not (self.ended or self.told):
            self.told = True
            self.process.interrupt()


class VirtualWorld:
    """See interface.World.  Time passes only in `run`, from event to event."""

    def __init__(self, executor: Executor) -> None:
        self.env = simpy.Environment(initial_time=0.0)
        self.executor = executor
        self.living: dict[Work, None] = {}  # begun and not ended, in order
        self.due: list[TimedResult] = []  # whose modelled time is over since the last step
        self.over = False  # time passes no more; what was left waiting is closed

    @property
    def store(self) -> Store:
        return self.executor.store

    def now(self) -> float:
        return self.env.now

    async def sleep(self, seconds: float) -> None:
        await _wait(self.env.timeout(seconds))

    async def together(self, works: Iterable[Work]) -> list[Any]:
        begun = list(works)
        if self.over:
            for work in begun:
                work.close()
            raise Cancelled("over")
        tasks = [self._own(work) for work in begun]
        try:
            await _wait(self.env.all_of([task.process for task in tasks]))
        except BaseException:
            await self._end(tasks)
            raise
        return [task.process.value for task in tasks]

    async def within(self, seconds: float, work: Work) -> Any:
        task = self._own(work)
        try:
            await _wait(task.process | self.env.timeout(seconds))
        except BaseException:
            await self._end([task])
            raise
        if task.ended:
            return await _wait(task.process)
        await self._end([task])
        raise Late(f"not done within {seconds} s")

    def _own(self, work: Work) -> VirtualTask:
        """A task whose error is its starter's business, and nobody else's."""
        task = self.start(work)
        task.process.defused = True
        return task

    async def _end(self, tasks: Iterable[VirtualTask]) -> None:
        """Cancels all at one instant, then waits for the clean-up of each."""
        running = [task for task in tasks if not task.ended]
        for task in running:
            task.tell()
        for task in running:
            if task.ended:
                continue
            ended = self.env.event()  # not the process: its error, if its clean-up has one, is not ours
            task.process.callbacks.append(partial(_tell, ended))
            await _wait(ended)

    def start(self, work: Work, soon: bool = True) -> VirtualTask:
        self.living[work] = None
        begin = None if soon else self.env.timeout(0)
        return VirtualTask(self.env.process(_process(work, self.living, begin)))

    def signal(self) -> VirtualSignal:
        return VirtualSignal(self.env)

    def call_at(self, time: float, action: Callable[[], None]) -> None:
        self.env.timeout(max(0.0, time - self.env.now)).callbacks.append(lambda _: action())

    def still(self) -> bool:
        return self.env.peek() > self.env.now

    def submit(self, job: Callable[..., Any], *args: Any) -> Ticket:
        return Ticket(self.executor.submit(job, *args))

    async def work(self, seconds: float, ticket: Ticket) -> Any:
        if not seconds >= 0:
            raise ValueError(f"a computation takes {seconds} s; it must be 0 or more")
        result = TimedResult(self.env, ticket)
        self.env.timeout(seconds).callbacks.append(lambda _: self.due.append(result))
        return await _wait(result)

    async def uncharged(self, ticket: Ticket) -> Any:
        return await self.work(0.0, ticket)

    async def run(self, main: Work) -> Any:
        """Lets time pass until `main` has ended; its result.  A coroutine of the asyncio loop."""
        if not inspect.iscoroutine(main):
            raise TypeError(f"run takes a coroutine, not {main!r}")
        task = self.start(main)
        try:
            await self._pass_until(task.process)
        finally:
            self.over = True
            while self.living:  # here and in order: else the garbage collector does it, and complains
                _abandon(self.living.popitem()[0])
        if not task.process.ok:
            raise task.process.value  # type: ignore[misc]  # of a failed process it is the exception
        return task.process.value

    async def _pass_until(self, main: Process) -> None:
        while True:
            for _ in range(BREATH):
                if main.triggered:
                    return
                if self.env.peek() == inf:
                    raise RuntimeError("the run waits for something that will never happen: no event is due")
                self.env.step()
                if self.due:  # its event comes after all else that is due now
                    await self.due.pop().collect()
            await asyncio.sleep(0)


async def _here(future: Future[Any]) -> None:
    """Returns when the future is done, whatever has come of it."""
    here = asyncio.wrap_future(future)
    try:
        await asyncio.wait([here])
    finally:  # nobody may look at it here any more; asyncio wants to see that somebody has
        here.cancel() or here.cancelled() or here.exception()


def at_once(work: Coroutine[Any, Any, Value]) -> Value:
    """Runs what waits for nothing real: its executor's jobs are done when they are submitted.  Returns its result.

    It needs no event loop: to start and close one takes longer than a short run, and fails if a signal comes meanwhile.
    """
    try:
        while work.send(None) is None:
            pass
    except StopIteration as end:
        result: Value = end.value
        return result
    raise RuntimeError("it waits for something real, which takes an event loop")
