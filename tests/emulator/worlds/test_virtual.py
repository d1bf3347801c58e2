"""Promises of virtual time alone: exact instants, one order, and errors raised where the mistake is made."""

from __future__ import annotations

import asyncio
import gc
import math
import traceback
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.worlds.interface import Late
from emulator.worlds.virtual import BREATH, VirtualWorld, at_once

few = settings(max_examples=15, deadline=None, derandomize=True)


class Later:
    """Each job is ready after some real milliseconds, the last handed in first."""

    def __init__(self) -> None:
        self.milliseconds = 30

    def submit(self, job: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.milliseconds -= 5
        asyncio.get_running_loop().call_later(self.milliseconds / 1e3, lambda: future.set_result(job(*args)))
        return future


def played(main: Callable[[VirtualWorld], Coroutine[Any, Any, Any]], executor: Any = None) -> Any:
    world = VirtualWorld(executor)
    return asyncio.run(world.run(main(world)))


async def failed(world: VirtualWorld, seconds: float) -> None:
    await world.sleep(seconds)
    raise ValueError("broken")


# --- trap 1: what is not of this world -------------------------------------------------------------------------


async def a_mistake() -> None:
    await asyncio.sleep(0.01)


def test_to_sleep_by_asyncio_is_a_type_error_at_the_line_that_does_it() -> None:
    with pytest.raises(TypeError, match="await only what the world offers") as caught:
        played(lambda world: a_mistake())
    causes = [caught.value, caught.value.__cause__]
    assert any("a_mistake" in "".join(traceback.format_tb(each.__traceback__)) for each in causes if each)


@pytest.mark.parametrize("awaited", ["sleep", "zero", "future", "task"])
def test_whatever_asyncio_offers_is_refused_and_can_be_caught_where_it_was_awaited(awaited: str) -> None:
    async def main(world: VirtualWorld) -> float:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        task = loop.create_task(asyncio.sleep(5))
        wrong: Any = {"sleep": asyncio.sleep(0.01), "zero": asyncio.sleep(0), "future": future, "task": task}
        with pytest.raises(TypeError, match="in virtual time"):
            await wrong.pop(awaited)
        for rest in wrong.values():
            rest.close() if asyncio.iscoroutine(rest) else rest.cancel()
        task.cancel()
        await world.sleep(1.0)
        return world.now()

    assert played(main) == 1.0


def test_a_mistake_in_a_started_task_ends_the_run() -> None:
    async def main(world: VirtualWorld) -> None:
        world.start(a_mistake())
        await world.sleep(1.0)

    with pytest.raises(TypeError, match="in virtual time"):
        played(main)


@pytest.mark.parametrize("wrong", [None, 3, a_mistake, "main", [1]])
def test_run_refuses_what_is_not_a_coroutine(wrong: Any) -> None:
    with pytest.raises(TypeError, match="run takes a coroutine"):
        asyncio.run(VirtualWorld(Later()).run(wrong))


def test_a_run_that_waits_for_what_never_comes_says_so() -> None:
    async def main(world: VirtualWorld) -> None:
        await world.signal().wait()

    with pytest.raises(RuntimeError, match="never happen"):
        played(main)


# --- one instant ------------------------------------------------------------------------------------------------


def test_what_ends_at_the_very_deadline_is_in_time() -> None:
    async def main(world: VirtualWorld) -> tuple[str, float]:
        async def work() -> str:
            await world.sleep(2.0)
            return "result"

        return await world.within(2.0, work()), world.now()

    assert played(main) == ("result", 2.0)


def test_what_fails_at_the_very_deadline_fails() -> None:
    """The work has not taken longer than allowed, so it is not late; and it has no result."""

    async def main(world: VirtualWorld) -> str:
        with pytest.raises(ValueError, match="broken"):
            await world.within(2.0, failed(world, 2.0))
        await world.sleep(1.0)
        return "goes on"

    assert played(main) == "goes on"


def test_a_year_passes_at_once_and_late_names_no_host_time() -> None:
    async def main(world: VirtualWorld) -> float:
        with pytest.raises(Late):
            await world.within(365 * 86400.0, world.signal().wait())
        return world.now()

    assert played(main) == 365 * 86400.0


@few
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=1, max_size=12))
def test_what_is_due_comes_by_time_and_then_in_the_order_it_was_asked_for(delays: list[float]) -> None:
    log: list[tuple[float, int]] = []

    async def main(world: VirtualWorld) -> None:
        for i, delay in enumerate(delays):
            world.call_at(delay, lambda i=i: log.append((world.now(), i)))  # type: ignore[misc]
        await world.sleep(3.0)

    played(main)
    assert log == sorted((delay, i) for i, delay in enumerate(delays))


@few
@given(st.lists(st.floats(0.0, 1e6, allow_nan=False), max_size=6))
def test_modelled_time_is_exact_and_takes_no_notice_of_the_computer(seconds: list[float]) -> None:
    class Here(Later):
        def submit(self, job: Callable[..., Any], *args: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(job(*args))
            return future

    async def main(world: VirtualWorld) -> float:
        for each in seconds:
            await world.work(each, world.submit(sum, range(1000)))
        return world.now()

    total = 0.0
    for each in seconds:
        total += each
    assert played(main, Here()) == total


@pytest.mark.parametrize("seconds", [-0.05, math.nan])
def test_no_computation_takes_time_back(seconds: float) -> None:
    async def main(world: VirtualWorld) -> None:
        await world.sleep(1.0)
        await world.work(seconds, world.submit(int, 1))

    with pytest.raises(ValueError, match="it must be 0 or more"):
        played(main, Later())


def test_a_result_comes_after_all_else_that_is_due_at_its_instant() -> None:
    """However late that was asked for: a deadline that passes as a computation ends has passed."""
    log: list[str] = []

    async def sleeper(world: VirtualWorld) -> None:
        await world.sleep(1.0)
        await world.sleep(1.0)
        log.append("slept")

    async def worker(world: VirtualWorld) -> None:
        await world.work(2.0, world.submit(int, 1))
        log.append("worked")

    async def main(world: VirtualWorld) -> None:
        await world.together([worker(world), sleeper(world)])
        with pytest.raises(Late):
            await world.within(1.0, world.work(1.0, world.submit(int, 1)))

    played(main, Later())
    assert log == ["slept", "worked"]


def test_what_is_started_soon_comes_before_all_else_that_is_due_and_what_is_not_after_it() -> None:
    async def main(world: VirtualWorld) -> list[str]:
        log: list[str] = []

        async def says(word: str) -> None:
            log.append(word)

        world.call_at(0.0, lambda: log.append("due"))
        world.start(says("later"), soon=False)
        world.start(says("soon"))
        world.call_at(0.0, lambda: log.append("due last"))
        await world.sleep(1.0)
        return log

    assert played(main) == ["soon", "due", "later", "due last"]


def test_what_is_cancelled_before_it_begins_never_begins() -> None:
    async def main(world: VirtualWorld) -> list[str]:
        log: list[str] = []

        async def says() -> None:
            log.append("begun")

        await world.start(says(), soon=False).cancel()
        await world.sleep(1.0)
        return log

    assert played(main) == []


def test_an_instant_is_still_when_nothing_else_is_due_at_it() -> None:
    async def main(world: VirtualWorld) -> list[bool]:
        found = []
        for seconds in (1.0, 1.0, 2.0):
            world.call_at(seconds, lambda: found.append(world.still()))
        world.call_at(3.0, lambda: None)
        await world.sleep(2.5)
        return found

    assert played(main) == [False, True, True]


def test_results_that_come_in_another_order_enter_in_the_order_they_fell_due() -> None:
    log: list[tuple[int, float]] = []

    async def one(world: VirtualWorld, i: int) -> None:
        result = await world.work(1.0, world.submit(int, i))
        log.append((result, world.now()))

    async def main(world: VirtualWorld) -> None:
        await world.together(one(world, i) for i in range(4))

    played(main, Later())
    assert log == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0)]


class Held:
    """Its one job is ready when somebody says so."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()

    def submit(self, job: Callable[..., Any], *args: Any) -> Future[Any]:
        return self.future


def test_several_runs_share_one_loop_and_none_waits_for_the_computations_of_another() -> None:
    held, order = Held(), list[str]()

    async def quick(world: VirtualWorld, name: str) -> float:
        for _ in range(1000):
            await world.sleep(1.0)
        order.append(name)
        if len(order) == 2:
            held.future.set_result("the others are through")
        return world.now()

    async def slow(world: VirtualWorld) -> float:
        order.append(await world.work(2.0, world.submit(int)))
        return world.now()

    async def all_three() -> list[float]:
        worlds = [VirtualWorld(held) for _ in range(3)]
        mains = [slow(worlds[0]), quick(worlds[1], "a"), quick(worlds[2], "b")]
        return list(await asyncio.gather(*(world.run(main) for world, main in zip(worlds, mains, strict=True))))

    assert asyncio.run(all_three()) == [2.0, 1000.0, 1000.0]
    assert order == ["a", "b", "the others are through"]


def test_a_run_of_many_steps_lets_the_loop_breathe() -> None:
    breaths: list[int] = []

    async def main(world: VirtualWorld) -> None:
        for _ in range(2000):
            await world.sleep(1.0)

    async def beside() -> None:
        while True:
            breaths.append(1)
            await asyncio.sleep(0)

    async def both() -> None:
        ticking = asyncio.create_task(beside())
        world = VirtualWorld(Later())
        await world.run(main(world))
        ticking.cancel()

    asyncio.run(both())
    assert len(breaths) > 3


class AtOnce:
    """Each job is done when it is handed in."""

    def submit(self, job: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(job(*args))
        return future


def test_what_waits_for_nothing_real_needs_no_event_loop() -> None:
    world = VirtualWorld(AtOnce())

    async def main() -> tuple[Any, float]:
        await world.sleep(2.0)
        for _ in range(3 * BREATH):  # time and again a look at the event loop, if there is one
            await world.sleep(0.0)
        return await world.work(3.0, world.submit(max, 5, 7)), world.now()

    assert at_once(world.run(main())) == (7, 5.0)


def test_what_waits_for_something_real_is_refused_without_an_event_loop() -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        at_once(asyncio.sleep(0.01))
    with pytest.raises(RuntimeError, match="it waits for something real"):
        at_once(something_real())


async def something_real() -> None:
    await Real()


class Real:
    def __await__(self) -> Generator[str, None, None]:
        yield "a future"


def test_a_job_that_fails_once_its_run_was_cancelled_is_no_complaint_of_asyncio() -> None:
    under_way: list[Future[Any]] = []
    complaints: list[Any] = []

    class Busy:
        def submit(self, job: Callable[..., Any], *args: Any) -> Future[Any]:
            under_way.append(Future())
            under_way[0].set_running_or_notify_cancel()  # so that it cannot be cancelled
            return under_way[0]

    async def cancelled() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        world: Any = VirtualWorld(Busy())  # type: ignore[arg-type]
        run = asyncio.ensure_future(world.run(world.uncharged(world.submit(len))))
        await asyncio.sleep(0.01)
        under_way.pop().set_exception(ArithmeticError("late"))
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(cancelled())
    gc.collect()
    assert complaints == []
