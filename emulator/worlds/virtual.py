"""The world in virtual time: the clock of SimPy, stepped from asyncio.  The only file that imports simpy.

A coroutine runs as a SimPy process, and everything it awaits is in the end an event of SimPy.  The loop that steps the
clock is itself a coroutine, so that several runs share one event loop and one pool of workers.
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

BREATH = 64  # steps between two turns of the event loop; a turn costs some 10 us


@coroutine
def _wait(event: Event) -> Generator[Event, Any, Any]:
    """Waits for a SimPy event and returns its value.  A task that is cancelled while it waits here sees Cancelled,
    as under asyncio."""
    return (yield event)


def _process(work: Work, living: dict[Work, None], begin: Event | None) -> Generator[Event, Any, Any]:
    """Turns a coroutine into a generator for SimPy: sends the values of events to the coroutine, and throws their
    errors into it.

    The coroutine begins after the event `begin`, or immediately if that is None.  If it awaits anything but an event,
    TypeError is raised in the coroutine; SimPy would report the mistake far away from its cause.
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
                except GeneratorExit:  # this clock is no longer stepped
                    raise
                except BaseException as failure:  # the event's error; SimPy has made a copy of it for this process
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
    """Closes a coroutine whose world has stopped.  If its clean-up waits again, closes it at that point, and so on."""
    while True:
        try:
            return work.close()
        except (RuntimeError, Cancelled):  # "coroutine ignored GeneratorExit": it waits again, so it is closed there
            continue


def _tell(event: Event, _: Event) -> None:
    event.succeed()


class VirtualSignal(Event):
    """A signal in virtual time; see Signal in worlds/interface.py."""

    def set(self, value: Any = None) -> None:
        if not self.triggered:
            self.succeed(value)

    def fail(self, reason: Exception) -> None:  # type: ignore[override]  # SimPy's has another name for it
        if not self.triggered:
            super().fail(reason)
            self.defused = True  # a waiting process is not required

    async def wait(self) -> Any:
        return await _wait(self)


class TimedResult(Event):
    """The event of a computation's result.

    It is due when the modelled time of the computation is over, because virtual time follows declared costs alone.  The
    clock then stands until the real result arrives.  At that time the event comes after everything else that is due.
    """

    def __init__(self, env: simpy.Environment, ticket: Ticket) -> None:
        super().__init__(env)
        self.future = ticket.future

    async def collect(self) -> None:
        """Waits for the real result, and triggers the event with it or with the computation's error.

        Does nothing if no process waits for the event any more.
        """
        if not self.callbacks:
            return
        if not self.future.done():  # the event loop gets a turn only if there is something to wait for
            await _here(self.future)
        if self.future.cancelled():
            self.fail(Cancelled("cancelled"))  # type: ignore[arg-type]  # SimPy accepts any exception
        elif error := self.future.exception():  # a failed job fails its waiting process, not the loop
            self.fail(error)  # type: ignore[arg-type]
        else:
            self.succeed(self.future.result())
        self.defused = True  # the waiting process may have gone by then


class VirtualTask:
    """A task in virtual time; see Task in worlds/interface.py."""

    def __init__(self, process: Process) -> None:
        self.process, self.told = process, False  # told to end; a second time would interrupt its clean-up

    @property
    def ended(self) -> bool:
        return self.process.triggered

    async def cancel(self) -> None:
        self.tell()
        if not self.ended:
            await _wait(self.process)

    def tell(self) -> None:
        """Starts to cancel the task without waiting for its end; `cancel` also waits."""
        if not (self.ended or self.told):
            self.told = True
            self.process.interrupt()


class VirtualWorld:
    """A world in virtual time; see World in worlds/interface.py.  Time passes only in `run`, from event to event."""

    def __init__(self, executor: Executor) -> None:
        self.env = simpy.Environment(initial_time=0.0)
        self.executor = executor
        self.living: dict[Work, None] = {}  # begun and not ended, in order
        self.due: list[TimedResult] = []  # results whose modelled time has ended since the last step
        self.over = False  # time has stopped; waiting coroutines are closed

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
        """Starts `work` as a task whose error does not end the run, because the caller handles it."""
        task = self.start(work)
        task.process.defused = True
        return task

    async def _end(self, tasks: Iterable[VirtualTask]) -> None:
        """Cancels all these tasks at one instant, then waits for the clean-up of each."""
        running = [task for task in tasks if not task.ended]
        for task in running:
            task.tell()
        for task in running:
            if task.ended:
                continue
            ended = self.env.event()  # not the process, whose error from its clean-up does not concern the waiter
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

    async def settled(self) -> None:
        while not self.still():
            await self.sleep(0.0)

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
        """Lets virtual time pass until `main` has ended, and returns its result.  This coroutine itself runs in
        asyncio's loop."""
        if not inspect.iscoroutine(main):
            raise TypeError(f"run takes a coroutine, not {main!r}")
        task = self.start(main)
        try:
            await self._pass_until(task.process)
        finally:
            self.over = True
            while self.living:  # in order and here, because the garbage collector would complain
                _abandon(self.living.popitem()[0])
        if not task.process.ok:
            raise task.process.value  # type: ignore[misc]  # the value of a failed process is its exception
        return task.process.value

    async def _pass_until(self, main: Process) -> None:
        while True:
            for _ in range(BREATH):
                if main.triggered:
                    return
                if self.env.peek() == inf:
                    raise RuntimeError("the run waits for something that will never happen: no event is due")
                self.env.step()
                if self.due:  # its event comes after everything else that is due now
                    await self.due.pop().collect()
            await asyncio.sleep(0)


async def _here(future: Future[Any]) -> None:
    """Waits until the future is done, in the event loop that runs here.  Does not raise the error of the future."""
    here = asyncio.wrap_future(future)
    try:
        await asyncio.wait([here])
    finally:  # reads the error, because asyncio warns of errors that are not read
        here.cancel() or here.cancelled() or here.exception()


def at_once(work: Coroutine[Any, Any, Value]) -> Value:
    """Runs a coroutine that never has to wait for anything real, and returns its result.

    So its executor's jobs must be done when they are submitted; otherwise this raises RuntimeError.  No event loop is
    needed: starting and closing one takes longer than a short run, and fails if a signal comes meanwhile.
    """
    try:
        while work.send(None) is None:
            pass
    except StopIteration as end:
        result: Value = end.value
        return result
    raise RuntimeError("it waits for something real, which takes an event loop")
