"""The virtual world: SimPy's clock, stepped from asyncio.  The only file that imports simpy.

A coroutine is a task of the clock when its innermost `await` yields a SimPy event.  The stepping loop is
itself a coroutine, so that several runs share one event loop and one pool of workers.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future
from functools import partial
from heapq import heappop, heappush
from math import inf
from types import coroutine
from typing import Any, TypeVar

import simpy
from simpy.events import NORMAL, PENDING, URGENT, Event

from emulator.lab.store import Store
from emulator.worlds.executors import Executor
from emulator.worlds.interface import Cancelled, Late, Ticket, Work

Value = TypeVar("Value")

BREATH = 64  # steps between two looks at the event loop; a look costs some 10 us


@coroutine
def _wait(event: Event) -> Generator[Event, Any, Any]:
    """Awaits a SimPy event: its value.  A task that is cancelled here sees Cancelled, as it would under asyncio."""
    return (yield event)


def _abandon(work: Work) -> None:
    """Closes a coroutine whose world has stopped.  Where its clean-up waits, for a time that will not come, it ends."""
    while True:
        try:
            return work.close()
        except (RuntimeError, Cancelled):  # "coroutine ignored GeneratorExit": it waits, so close it there
            continue


def _not_of_this_world(event: object) -> Any:
    return TypeError(f"awaited {event!r} in virtual time; await only what the world offers")


def _tell(event: Event, _: Event) -> None:
    event.succeed()


class VirtualSignal(Event):
    """See interface.Signal."""

    def set(self, value: Any = None) -> None:
        if self._value is PENDING:
            self._ok, self._value = True, value
            _schedule(self)

    def fail(self, reason: Exception) -> None:  # type: ignore[override]  # SimPy's has another name for it
        if not self.triggered:
            super().fail(reason)
            self.defused = True  # nobody need be waiting

    async def wait(self) -> Any:
        return await _wait(self)


def _schedule(event: Event, priority: int = NORMAL, delay: float = 0.0) -> None:
    """What env.schedule does, without its call: each device-round has a dozen of them."""
    env = event.env
    heappush(env._queue, (env._now + delay, priority, next(env._eid), event))  # type: ignore[misc]


class Due(Event):
    """Calls `act` after a delay, in s: SimPy's Timeout with a callback.

    What is URGENT comes before all else that is due at an instant, except what was urgent earlier.
    """

    def __init__(
        self, env: simpy.Environment, *act: Callable[[Event], None], delay: float = 0.0, priority: int = NORMAL
    ) -> None:
        self.env, self.callbacks, self._ok, self._value = env, [*act], True, None
        _schedule(self, priority, delay)


class Alarm(Event):
    """Calls `act` after a delay, in s.  Nobody waits for it or takes it back, so it needs no callbacks."""

    def __init__(self, env: simpy.Environment, act: Callable[[], None], delay: float) -> None:
        self.env, self.act = env, act
        _schedule(self, NORMAL, delay)


class Result(Due):
    """The result of a computation.  It is due when the time that this is modelled to take is over, as virtual time
    follows the declared cost alone; the clock then stands until it is here.  It comes after all that is due then.

    Raises ValueError for seconds that are negative or not a number: time would go back.
    """

    def __init__(self, env: simpy.Environment, ticket: Ticket, seconds: float) -> None:
        if not seconds >= 0:
            raise ValueError(f"a computation takes {seconds} s; it must be 0 or more")
        super().__init__(env, delay=seconds)
        self.future, self.collected = ticket.future, False

    def collect(self) -> None:
        """Takes what has come of the computation, which has ended."""
        future, self.collected = self.future, True
        self.defused = True  # the one who waits may be gone when it comes
        if future.cancelled():
            self._ok, self._value = False, Cancelled("cancelled")
        elif error := future.exception():  # a failed job fails the one who waits for it, not the loop
            self._ok, self._value = False, error
        else:
            self._value = future.result()


class VirtualTask(Event):
    """See interface.Task.  It is the event of its end, and does what SimPy's own process does, with a coroutine.

    An end for which nobody waits is no step of the clock.
    """

    def __init__(self, env: simpy.Environment, work: Work, living: dict[Work, None], priority: int) -> None:
        super().__init__(env)
        self.work, self.living = work, living
        self.target: Event = Due(env, self._resume, priority=priority)  # what it waits for
        self.told = False  # to end: a second time would break off its clean-up
        living[work] = None

    @property
    def ended(self) -> bool:
        return self.triggered

    async def cancel(self) -> None:
        self.tell()
        if not self.triggered:
            await _wait(self)

    def tell(self) -> None:
        """Starts to cancel the task; `cancel` also waits for its end."""
        if not (self.triggered or self.told):
            self.told = True
            Due(self.env, self._interrupt, priority=URGENT)

    def _interrupt(self, _: Event) -> None:
        if not self.triggered:
            self.target.callbacks.remove(self._resume)
            self._resume(_failed(self.env, Cancelled("cancelled")))

    def _resume(self, event: Event) -> None:
        """Goes on with what has come of the event that it waited for, to where it waits next, or to its end.

        To await what is not of this world raises TypeError there: SimPy alone would say so far away.
        """
        while True:
            try:
                event = self.work.send(event._value) if event._ok else self.work.throw(_copied(event))
            except StopIteration as stop:
                return self._end(stop.value)
            except Cancelled:
                return self._end(None)
            except BaseException as error:
                return self._fail(error)
            if not isinstance(event, Event):
                event = _failed(self.env, _not_of_this_world(event))
            elif event.callbacks is not None:
                event.callbacks.append(self._resume)
                self.target = event
                return None
            # else it has come already

    def _end(self, value: Any) -> None:
        self.living.pop(self.work, None)
        if self.callbacks:
            self.succeed(value)
        else:
            self._ok, self._value, self.callbacks = True, value, None  # type: ignore[assignment]  # as SimPy does

    def _fail(self, error: BaseException) -> None:
        self.living.pop(self.work, None)
        self._ok, self._value = False, error  # `fail` takes no KeyboardInterrupt
        _schedule(self)


def _failed(env: simpy.Environment, error: BaseException) -> Event:
    """An event that has come, and is this error."""
    event = Event(env)
    event._ok, event._value, event.callbacks = False, error, None  # type: ignore[assignment]  # as SimPy does
    return event


def _copied(event: Event) -> BaseException:
    """The error of a failed event, for one of those who wait for it: each has a traceback of its own."""
    event.defused = True
    error: BaseException = event._value
    copy = type(error)(*error.args)
    copy.__cause__ = error
    return copy


class VirtualWorld:
    """See interface.World.  Time passes only in `run`, from event to event."""

    def __init__(self, executor: Executor) -> None:
        self.env = simpy.Environment(initial_time=0.0)
        self.executor = executor
        self.living: dict[Work, None] = {}  # begun and not ended, in order
        self.over = False  # time passes no more; what was left waiting is closed

    @property
    def store(self) -> Store:
        return self.executor.store

    def now(self) -> float:
        return self.env._now  # its property costs as much again, and this is asked some 20 times per device-round

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
            await _wait(self.env.all_of(tasks))
        except BaseException:
            await self._end(tasks)
            raise
        return [task.value for task in tasks]

    async def within(self, seconds: float, work: Work) -> Any:
        task = self._own(work)
        try:
            await _wait(task | self.env.timeout(seconds))
        except BaseException:
            await self._end([task])
            raise
        if task.ended:
            return await _wait(task)
        await self._end([task])
        raise Late(f"not done within {seconds} s")

    def _own(self, work: Work) -> VirtualTask:
        """A task whose error is its starter's business, and nobody else's."""
        task = self.start(work)
        task.defused = True
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
            task.callbacks.append(partial(_tell, ended))
            await _wait(ended)

    def start(self, work: Work, soon: bool = True) -> VirtualTask:
        return VirtualTask(self.env, work, self.living, URGENT if soon else NORMAL)

    def signal(self) -> VirtualSignal:
        return VirtualSignal(self.env)

    def call_at(self, time: float, action: Callable[[], None]) -> None:
        Alarm(self.env, action, max(0.0, time - self.env._now))

    def still(self) -> bool:
        return not self.env._queue or self.env._queue[0][0] > self.env._now

    def submit(self, job: Callable[..., Any], *args: Any) -> Ticket:
        return Ticket(self.executor.submit(job, *args))

    async def work(self, seconds: float, ticket: Ticket) -> Any:
        return await _wait(Result(self.env, ticket, seconds))

    async def uncharged(self, ticket: Ticket) -> Any:
        return await self.work(0.0, ticket)

    async def run(self, main: Work) -> Any:
        """Lets time pass until `main` has ended; its result.  A coroutine of the asyncio loop."""
        if not inspect.iscoroutine(main):
            raise TypeError(f"run takes a coroutine, not {main!r}")
        task = self.start(main)
        try:
            await self._pass_until(task)
        finally:
            self.over = True
            while self.living:  # here and in order: else the garbage collector does it, and complains
                _abandon(self.living.popitem()[0])
        if not task.ok:
            raise task.value  # type: ignore[misc]  # of a failed task it is the exception
        return task.value

    async def _pass_until(self, task: VirtualTask) -> None:
        env, queue = self.env, self.env._queue
        while True:
            for _ in range(BREATH):
                if task._value is not PENDING:
                    return
                if not (queue and queue[0][0] < inf):
                    raise RuntimeError("the run waits for something that will never happen: no event is due")
                env._now, _, _, event = heappop(queue)  # as env.step does, without its calls
                if type(event) is Alarm:
                    event.act()
                    continue
                if type(event) is Result and event.callbacks and not event.collected:
                    if not event.future.done():  # the event loop is asked only when there is something to wait for
                        await _here(event.future)
                    event.collect()
                    if queue and queue[0][0] <= env._now:  # it comes after all else that is due now
                        _schedule(event)
                        continue
                callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
                for callback in callbacks:
                    callback(event)
                if not (event._ok or event.defused):
                    raise _copied(event)
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
