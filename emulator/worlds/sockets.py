"""The world in real time: the clock of asyncio, and real sockets on loopback at the pace of the modelled links.

It cannot be faster than real training.  A computation that takes longer than its modelled time is an overrun: it is
counted, recorded, and reported with the largest speed-up that this host can keep.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from heapq import heappop, heappush
from typing import Any

from emulator.compute.executor import Executor
from emulator.messages.store import Store
from emulator.worlds.interface import Late, Ticket, Work

PATIENCE = 0.5  # s of real time for the final clean-up, which may wait for a device that is gone
GRACE = 0.02  # s of real time: a longer delay is an overrun, a shorter one is timer noise


class RealSignal:
    """A signal on asyncio; see Signal in worlds/interface.py."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def set(self, value: Any = None) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, reason: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(reason)
            self.future.exception()  # a waiting task is not required

    async def wait(self) -> Any:
        return await asyncio.shield(self.future)  # a cancelled waiter does not cancel the signal for others


class RealTask:
    """A task on asyncio; see Task in worlds/interface.py."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.told = False  # told to end; a second time would interrupt its clean-up

    @property
    def ended(self) -> bool:
        return self.task.done()

    async def cancel(self) -> None:
        if not self.told:
            self.told = True
            self.task.cancel()
        await asyncio.wait([self.task])


class SocketWorld:
    """A world in real time, on asyncio; see World in worlds/interface.py.

    `speedup` modelled seconds pass in one real second.
    """

    def __init__(self, executor: Executor, speedup: float = 1.0) -> None:
        self.executor = executor
        self.speedup = speedup
        self.loop = asyncio.get_running_loop()
        self.zero = self.loop.time()  # loop time at which the modelled clock showed 0
        self.stood = 0.0  # the time since which the clock stands, if it does
        self.standing = 0  # number of current computations that cost no time
        self.calls: list[tuple[float, int, Callable[[], None]]] = []  # a heap: time, number, action
        self.called = 0
        self.alarm: asyncio.TimerHandle | None = None
        self.tasks: set[asyncio.Task[Any]] = set()
        self.failed: asyncio.Future[None] = self.loop.create_future()
        self.overruns: list[float] = []  # modelled seconds
        self.keeps = float("inf")  # the largest speed-up without an overrun of any job

    @property
    def store(self) -> Store:
        return self.executor.store

    def now(self) -> float:
        return ((self.stood if self.standing else self.loop.time()) - self.zero) * self.speedup

    async def sleep(self, seconds: float) -> None:
        await self._at(self.now() + seconds)

    async def together(self, works: Iterable[Work]) -> list[Any]:
        tasks = [asyncio.ensure_future(work) for work in works]
        if not tasks:
            return []
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                if task.done():
                    task.result()  # raises the task's error
            return [task.result() for task in tasks]
        finally:
            await _cancel(tasks)

    async def within(self, seconds: float, work: Work) -> Any:
        task, late = asyncio.ensure_future(work), self._at(self.now() + seconds)
        try:
            await asyncio.wait([task, late], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        finally:
            await _cancel([task])
        raise Late(f"not done within {seconds} s")

    def start(self, work: Work, soon: bool = True) -> RealTask:  # noqa: ARG002  a real clock knows no instants
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return RealTask(task)

    def signal(self) -> RealSignal:
        return RealSignal()

    def call_at(self, time: float, action: Callable[[], None]) -> None:
        self.called += 1
        heappush(self.calls, (max(time, self.now()), self.called, action))
        self._set_alarm()

    def still(self) -> bool:
        return False

    async def settled(self) -> None:
        await asyncio.sleep(GRACE)  # what is less apart is of one instant, as nothing tells it from noise

    def _at(self, time: float) -> asyncio.Future[None]:
        """Returns a future that is done at this modelled time."""
        future: asyncio.Future[None] = self.loop.create_future()
        self.call_at(time, lambda: None if future.done() else future.set_result(None))
        return future

    def _set_alarm(self) -> None:
        """Sets one timer of asyncio for the earliest of all planned calls.

        A timer for each call would not keep their order, and would not stop when the modelled clock stands.
        """
        if self.alarm:
            self.alarm.cancel()
            self.alarm = None
        if self.calls and not self.standing:
            self.alarm = self.loop.call_at(self.zero + self.calls[0][0] / self.speedup, self._ring)

    def _ring(self) -> None:
        while self.calls and self.calls[0][0] <= self.now():
            heappop(self.calls)[2]()
        self._set_alarm()

    def submit(self, job: Callable[..., Any], *args: Any) -> Ticket:
        return Ticket(self.executor.submit(job, *args))

    async def work(self, seconds: float, ticket: Ticket) -> Any:
        began = self.now()
        await self.sleep(seconds)
        due = self.now()
        try:
            return await asyncio.wrap_future(ticket.future)
        finally:  # also if the round ended meanwhile
            late = self.now() - due
            if late > GRACE * self.speedup:
                self.overruns.append(late)
                self.keeps = min(self.keeps, self.speedup * seconds / (self.now() - began))

    async def uncharged(self, ticket: Ticket) -> Any:
        if not self.standing:
            self.stood = self.loop.time()
        self.standing += 1
        self._set_alarm()
        try:
            return await asyncio.wrap_future(ticket.future)
        finally:
            self.standing -= 1
            if not self.standing:
                self.zero += self.loop.time() - self.stood
            self._set_alarm()

    async def run(self, main: Work) -> Any:
        """Runs `main` and returns its result.  Every task that it started is cancelled when it ends."""
        self.zero = self.loop.time()
        task = asyncio.ensure_future(main)
        try:
            await asyncio.wait([task, self.failed], return_when=asyncio.FIRST_COMPLETED)
            if self.failed.done():
                self.failed.result()
            return task.result()
        finally:
            await self.end(task)

    async def end(self, *more: asyncio.Task[Any]) -> None:
        """Cancels all running tasks, and does so again every PATIENCE seconds until all have ended.

        A cancelled task may wait in its clean-up for another task that has ended already.
        """
        running = {task for task in (*more, *self.tasks) if not task.done()}
        while running:
            for task in running:
                task.cancel()
            _, running = await asyncio.wait(running, timeout=PATIENCE)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not self.failed.done():
            self.failed.set_exception(error)


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # of several that fail one is raised; asyncio wants to see that the others are known
