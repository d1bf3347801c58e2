"""Workers on Ray: actors, each a process on one of its nodes.

One that dies is replaced, and its batches are done again.

Ray's own retries are off: for them it would remember every job of a run, and make again what a lost node had from the
very beginning.  Here a batch is sent again, and what came of it is brought to the command's own node.
"""

from __future__ import annotations

import platform
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from time import perf_counter
from typing import Any

import ray
from ray.exceptions import RayActorError

from emulator.compute import gpus
from emulator.compute.batches import AHEAD, Done, Orders
from emulator.compute.executors import quiet_torch
from emulator.compute.signals import ENDING
from emulator.compute.workers import KILLED, Gone
from emulator.lab.lab import Lab
from emulator.ledger.key import Keys, watch_own
from emulator.ledger.probe import probe
from emulator.messages.boxes import Box, Lent, Object, Put, Shelf
from scenarios.builders import reads

TRIES = 3  # times that a batch is sent, or that one worker after the other does not even start

Kind = Mapping[str, str]  # what a worker's results depend on beside the jobs


class Worker:
    """What runs in a process of Ray."""

    def __init__(self, lab: Lab, place: str) -> None:
        for number in ENDING:  # the command hears them
            signal.signal(number, signal.SIG_IGN)
        quiet_torch()
        gpus.use(place)
        self.lab = replace(lab, trains_on=(place,))
        watch_own(self.lab)

    def kind(self) -> Kind:
        """Workers that say the same compute the same bits."""
        keys = Keys(self.lab, probe(self.lab, Shelf([])))
        code = {f"the code of {label or 'fedlapse'}": str(digest) for label, digest in keys.sources.items()}
        return {"Python": platform.python_version(), **keys.machine, **code}

    def do(self, orders: Orders, *boxes: Box) -> tuple[Done | Exception, Box]:
        """What came of a batch, or what its first job has raised; and the messages that its jobs have put."""
        began, results = perf_counter(), list[tuple[Any, Sequence[Any]]]()
        shelf = Shelf(boxes)
        for job, args in orders:
            shelf.put_now = []
            try:
                results.append((job(self.lab, shelf, *args), shelf.put_now))
            except Exception as error:
                if not results:
                    return error, {}
                break
        return Done(results, perf_counter() - began, reads.fresh()), shelf.made


@dataclass(eq=False)
class Call:
    """A batch, and the boxes with what its jobs read."""

    orders: Orders
    boxes: Sequence[Object]
    future: Future[Done] = field(default_factory=Future)
    tries: int = 0


@dataclass(eq=False)
class Hired:
    """A worker as the command knows it."""

    actor: Any
    ready: bool = False
    calls: int = 0  # that it has and that have not come back


class Actors:
    """A pool of workers."""

    def __init__(self, hire: Callable[[], Any], count: int, near: bool) -> None:
        """`hire` starts a worker, for which Ray may have no room yet.  `near`: this process is on a node of Ray."""
        self.hire, self.near = hire, near
        self.waiting: deque[Call] = deque()
        self.under_way: set[Call] = set()
        self.kind: Kind | None = None  # of all workers
        self.in_vain = 0  # workers in turn that did not start
        self.gone: Exception | None = None  # why nothing is computed any more
        self.lock = RLock()  # held by nobody who sets a future: who waits for that may hold a lock, too
        # Ray calls back in a thread that it needs itself for whatever is asked of it there.
        self.aside = ThreadPoolExecutor(1)
        self.hired: list[Hired] = []
        with self.lock:
            self.hired += [self._new() for _ in range(count)]

    def submit(self, orders: Orders, boxes: Sequence[Object]) -> Future[Done]:
        """Raises what has ended the workers."""
        call = Call(orders, boxes)
        with self.lock:
            if self.gone:
                raise self.gone
            self.waiting.append(call)
            self._send()
        return call.future

    def stop(self) -> None:
        """Ends the workers now, not after their jobs."""
        self._end(Gone("the workers were stopped"))

    def close(self) -> None:
        """Waits for what is under way, and ends the workers."""
        with self.lock:
            waiting, self.waiting = self.waiting, deque()
            under_way = [call.future for call in self.under_way]
        for call in waiting:
            call.future.cancel()
        wait(under_way)
        self.stop()
        self.aside.shutdown(cancel_futures=True)

    # --- workers --------------------------------------------------------------------------------------------------

    def _new(self) -> Hired:
        hired = Hired(self.hire())
        self._hear([hired.actor.kind.remote()], partial(self._came, hired))
        return hired

    def _came(self, hired: Hired, said: list[Kind] | Exception) -> None:
        """Only now it gets work: it may have waited for room until then."""
        if isinstance(said, Exception):
            self.in_vain += 1
            if self.in_vain == TRIES:
                self._end(Gone(f"no worker starts on Ray: {_last_line(said)}"))
            self._replace(hired)
            return
        self.in_vain, self.kind = 0, self.kind or said[0]
        if said[0] != self.kind:
            self._end(Gone(_difference(said[0], self.kind)))
        with self.lock:
            hired.ready = True
            self._send()

    def _replace(self, dead: Hired) -> None:
        with self.lock:
            if not self.gone and dead in self.hired:  # not yet seen to be dead
                self.hired.remove(dead)
                self.hired.append(self._new())

    def _end(self, why: Exception) -> None:
        with self.lock:
            if self.gone:
                return
            self.gone = why
            calls = [*self.under_way, *self.waiting]
            self.under_way.clear()
            self.waiting.clear()
            for hired in self.hired:
                ray.kill(hired.actor)
        for call in calls:
            call.future.set_exception(why)

    # --- their work -----------------------------------------------------------------------------------------------

    def _send(self) -> None:
        """What waits goes to whoever has least to do."""
        ready = [hired for hired in self.hired if hired.ready]
        while self.waiting and ready and not self.gone:
            hired = min(ready, key=lambda each: each.calls)
            if hired.calls == AHEAD:
                return
            call = self.waiting.popleft()
            self.under_way.add(call)
            hired.calls += 1
            call.tries += 1
            done, box = hired.actor.do.options(num_returns=2).remote(call.orders, *call.boxes)
            # Once the messages are on this node, too, they outlive the other.
            self._hear([done, box] if self.near else [done], partial(self._back, hired, call, box))

    def _back(self, hired: Hired, call: Call, box: Object, came: list[Any] | Exception) -> None:
        with self.lock:
            hired.calls -= 1
            if call not in self.under_way:  # all has ended meanwhile
                return
            self.under_way.remove(call)
        if isinstance(came, Exception):
            self._again(hired, call, came)
        else:
            _deliver(call, box, *came)
        with self.lock:
            self._send()

    def _again(self, hired: Hired, call: Call, error: Exception) -> None:
        """The worker has died, or something that Ray needs for it."""
        with self.lock:
            self.waiting.appendleft(call)
        if call.tries == TRIES:
            self._end(Gone(KILLED if isinstance(error, RayActorError) else f"Ray: {_last_line(error)}"))
        elif isinstance(error, RayActorError):
            self._replace(hired)

    # --- Ray ------------------------------------------------------------------------------------------------------

    def _hear(self, objects: Sequence[Object], say: Callable[[Any], None], *known: Any) -> None:
        """Says, aside, what these objects are, or why one of them never comes."""

        def called(first: Future[Any]) -> None:
            try:
                self.aside.submit(self._heard, first, objects[1:], say, *known)
            except RuntimeError:  # it is closed: nobody waits
                pass

        objects[0].future().add_done_callback(called)

    def _heard(self, first: Future[Any], rest: Sequence[Object], say: Callable[[Any], None], *known: Any) -> None:
        try:
            if error := first.exception():
                say(error)
            elif rest:
                self._hear(rest, say, *known, first.result())
            else:
                say([*known, first.result()])
        except Exception as error:  # ours: whoever waits must learn of it
            self._end(error)


def _deliver(call: Call, object_: Object, done: Done | Exception, box: Box | None = None) -> None:
    if isinstance(done, Exception):
        call.future.set_exception(done)
        return
    lent = Lent(object_, box)
    results = [(result, [Put(ref, lent) for ref in put]) for result, put in done.results]
    call.future.set_result(Done(results, done.seconds, done.read))


def _difference(one: Kind, other: Kind) -> str:
    name = next(name for name in one if one[name] != other.get(name))
    return (
        f"workers of Ray differ: {name} is {one[name]} on one, and {other.get(name)} on another; "
        "results would depend on which of them computes what, so make all nodes alike"
    )


def _last_line(error: BaseException) -> str:
    return str(error).strip().rpartition("\n")[2]
