"""The virtual world: SimPy's clock, stepped from asyncio.  The only file that imports simpy.

A coroutine can be a SimPy process when its innermost `await` yields a SimPy event.  The stepping loop is
itself a coroutine, so that several runs share one event loop and one pool of workers.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from functools import partial
from typing import Any, TypeVar

import simpy
from simpy.events import Event

from emulator.study.store import Store
from emulator.worlds.executors import Executor
from emulator.worlds.interface import Cancelled, Late, Ticket, Work

Result = TypeVar("Result")

BREATH = 256  # steps between two looks at the event loop; each costs some 10 us


class Wait:
    """Awaits a SimPy event.  A task that is cancelled here sees Cancelled, as it would under asyncio."""

    __slots__ = ("event",)

    def __init__(self, event: Event) -> None:
        self.event = event

    def __await__(self) -> Generator[Event, Any, Any]:
        try:
            return (yield self.event)
        except simpy.Interrupt:
            raise Cancelled("cancelled") from None


def as_process(work: Work) -> Generator[Event, Any, Any]:
    """A coroutine as a SimPy process.

    Raises TypeError, where the mistake is, if the work awaits something that is not of this world;
    given to SimPy directly it would end in an AttributeError far away.
    """
    step, argument = work.send, None
    while True:
        try:
            event = step(argument)
        except StopIteration as stop:
            return stop.value
        except Cancelled:
            return None
        if not isinstance(event, Event):
            step, argument = work.throw, _not_of_this_world(event)
            continue
        try:
            step, argument = work.send, (yield event)
        except GeneratorExit:
            _abandon(work)
            raise
        except BaseException as error:
            step, argument = work.throw, error


def _abandon(work: Work) -> None:
    """Closes a coroutine whose world has stopped.  Where its clean-up waits, for a time that will not come, it ends."""
    while inspect.getcoroutinestate(work) != inspect.CORO_CLOSED:
        try:
            work.close()
        except (RuntimeError, Cancelled):  # "coroutine ignored GeneratorExit": it waits, so close it there
            continue


def _not_of_this_world(event: object) -> Any:
    return TypeError(f"awaited {event!r} in virtual time; await only what the world offers")


def _tell(event: Event, _: Event) -> None:
    event.succeed()


class VirtualSignal:
    """See interface.Signal."""

    __slots__ = ("event",)

    def __init__(self, env: simpy.Environment) -> None:
        self.event = env.event()

    def set(self, value: Any = None) -> None:
        if not self.event.triggered:
            self.event.succeed(value)

    def fail(self, reason: Exception) -> None:
        if not self.event.triggered:
            self.event.fail(reason)
            self.event.defused = True  # nobody need be waiting

    async def wait(self) -> Any:
        return await Wait(self.event)


class VirtualTask:
    """See interface.Task."""

    __slots__ = ("process", "told")

    def __init__(self, process: simpy.Process) -> None:
        self.process = process
        self.told = False  # to end: a second time would break off its clean-up

    @property
    def ended(self) -> bool:
        return not self.process.is_alive

    async def cancel(self) -> None:
        self.tell()
        if self.process.is_alive:
            await Wait(self.process)

    def tell(self) -> None:
        """Starts to cancel the task; `cancel` also waits for its end."""
        if self.process.is_alive and not self.told:
            self.told = True
            self.process.interrupt()


class VirtualWorld:
    """See interface.World.  Time passes only in `run`, from event to event."""

    def __init__(self, executor: Executor) -> None:
        self.env = simpy.Environment()
        self.executor = executor
        self.owed: deque[tuple[Ticket, Event]] = deque()
        self.living: dict[Work, None] = {}  # begun and not ended, in order
        self.over = False  # time passes no more; what was left waiting is closed

    @property
    def store(self) -> Store:
        return self.executor.store

    def now(self) -> float:
        return float(self.env.now)

    async def sleep(self, seconds: float) -> None:
        await Wait(self.env.timeout(seconds))

    async def together(self, works: Iterable[Work]) -> list[Any]:
        begun = list(works)
        if self.over:
            for work in begun:
                work.close()
            raise Cancelled("over")
        tasks = [self._own(work) for work in begun]
        try:
            await Wait(self.env.all_of([task.process for task in tasks]))
        except BaseException:
            await self._end(tasks)
            raise
        return [task.process.value for task in tasks]

    async def within(self, seconds: float, work: Work) -> Any:
        task = self._own(work)
        try:
            await Wait(task.process | self.env.timeout(seconds))
        except BaseException:
            await self._end([task])
            raise
        if task.ended:
            return await Wait(task.process)
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
            await Wait(ended)

    def start(self, work: Work) -> VirtualTask:
        return VirtualTask(self._process(work))

    def _process(self, work: Work) -> simpy.Process:
        process = self.env.process(as_process(work))
        self.living[work] = None
        process.callbacks.append(lambda _: self.living.pop(work, None))
        return process

    def signal(self) -> VirtualSignal:
        return VirtualSignal(self.env)

    def call_at(self, time: float, action: Callable[[], None]) -> None:
        timeout = self.env.timeout(max(0.0, time - self.env.now))
        timeout.callbacks.append(lambda _: action())

    def submit(self, job: Callable[..., Any], *args: Any) -> Ticket:
        return Ticket(self.executor.submit(job, *args))

    async def work(self, seconds: float, ticket: Ticket) -> Any:
        await self.sleep(seconds)  # virtual time follows the declared cost alone
        collected = self.env.event()
        self.owed.append((ticket, collected))
        return await Wait(collected)

    async def uncharged(self, ticket: Ticket) -> Any:
        return await self.work(0.0, ticket)

    async def run(self, main: Work) -> Any:
        """Lets time pass until `main` has ended; its result.  A coroutine of the asyncio loop."""
        if not inspect.iscoroutine(main):
            raise TypeError(f"run takes a coroutine, not {main!r}")
        process = self._process(main)
        try:
            await self._pass_until(process)
        finally:
            self.over = True
            while self.living:  # here and in order: else the garbage collector does it, and complains
                _abandon(self.living.popitem()[0])
        if not process.ok:
            raise process.value  # type: ignore[misc]  # of a failed process it is the exception
        return process.value

    async def _pass_until(self, process: simpy.Process) -> None:
        steps = 0
        while not process.triggered:
            self._step()
            steps += 1
            while self.owed:  # the clock stands until what is owed now is here, in the order it fell due
                await self._collect(*self.owed.popleft())
            if steps % BREATH == 0:
                await asyncio.sleep(0)

    def _step(self) -> None:
        if not self.env.peek() < float("inf"):
            raise RuntimeError("the run waits for something that will never happen: no event is due")
        self.env.step()

    async def _collect(self, ticket: Ticket, collected: Event) -> None:
        future = ticket.future
        if not future.done():  # the event loop is asked only when there is something to wait for
            here = asyncio.wrap_future(future)
            try:
                await asyncio.wait([here])
            finally:  # nobody may look at it here any more; asyncio wants to see that somebody has
                here.cancel() or here.cancelled() or here.exception()
        collected.defused = True  # the one who waited may be gone
        if future.cancelled():
            collected.fail(Cancelled("cancelled"))  # type: ignore[arg-type]  # any BaseException will do
        elif error := future.exception():  # a failed job fails the one who waits for it, not the loop
            collected.fail(error)  # type: ignore[arg-type]
        else:
            collected.succeed(future.result())


def at_once(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs what waits for nothing real: its executor's jobs are done when they are submitted.  Returns its result.

    It needs no event loop: to start and close one takes longer than a short run, and fails if a signal comes meanwhile.
    """
    try:
        while work.send(None) is None:
            pass
    except StopIteration as end:
        result: Result = end.value
        return result
    raise RuntimeError("it waits for something real, which takes an event loop")
