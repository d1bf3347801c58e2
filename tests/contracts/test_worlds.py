"""The promises of every world: one suite, played in virtual time and in real time (five hundred times as fast)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, cast

import pytest

from emulator.worlds.interface import Cancelled, Late, Lost, World
from emulator.worlds.sockets import GRACE, SocketWorld
from emulator.worlds.virtual import VirtualWorld
from tests.all_of import all_of

SPEEDUP = 500.0  # modelled seconds in one real second
SLACK = 5000.0  # modelled seconds that a busy machine may be late: ten real ones

Main = Callable[[World], Coroutine[Any, Any, Any]]


class Here:
    """Runs each job at once."""

    def submit(self, job: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(job(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class Slowly:
    """Each job is ready some real seconds later."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def submit(self, job: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def compute() -> None:
            try:
                future.set_result(job(*args))
            except Exception as error:
                future.set_exception(error)

        asyncio.get_running_loop().call_later(self.seconds, compute)
        return future


class Never:
    """Accepts jobs and does not begin them, as a pool whose workers are all busy."""

    def submit(self, job: Callable[..., Any], *args: Any) -> Future[Any]:
        return Future()


@dataclass
class Theatre:
    """Plays a coroutine in one of the worlds."""

    kind: str

    def world(self, executor: Any) -> Any:
        return VirtualWorld(executor) if self.kind == "virtual" else SocketWorld(executor, SPEEDUP)

    def __call__(self, main: Main, executor: Any = None) -> Any:
        unseen: list[dict[str, Any]] = []  # errors that nobody looked at: asyncio would print them

        async def conducted() -> Any:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
            world = self.world(executor or Here())
            return await world.run(main(world))

        try:
            return asyncio.run(asyncio.wait_for(conducted(), 60.0))
        finally:
            assert unseen == []

    def is_time(self, found: float, expected: float) -> bool:
        """Virtual time is exact; a real clock is never early."""
        if self.kind == "virtual":
            return found == expected
        return expected - 1e-6 <= found < expected + SLACK


@pytest.fixture(params=["virtual", "sockets"])
def play(request: pytest.FixtureRequest) -> Theatre:
    return Theatre(request.param)


async def returned(world: World, seconds: float, value: Any) -> Any:
    await world.sleep(seconds)
    return value


async def failed(world: World, seconds: float, error: Exception) -> None:
    await world.sleep(seconds)
    raise error


async def noted(world: World, log: list[Any], name: Any, seconds: float) -> None:
    await world.sleep(seconds)
    log.append(name)


async def tidy(world: World, log: list[Any], cleanup: float, name: Any = "clean") -> None:
    """Would go on for ever; when stopped, it cleans up for a while and then says when it was done."""
    try:
        await world.sleep(10_000.0)
    finally:
        began = world.now()
        await world.sleep(cleanup)
        log.append((name, began, world.now()))


# --- the clock --------------------------------------------------------------------------------------------------


def test_the_clock_begins_at_zero_and_shows_what_was_slept(play: Theatre) -> None:
    async def main(world: World) -> list[float]:
        times = [world.now()]
        for seconds in (2.0, 0.0, 3.5):
            await world.sleep(seconds)
            times.append(world.now())
        return times

    assert all_of(map(play.is_time, play(main), [0.0, 2.0, 2.0, 5.5]))


def test_equal_sleeps_end_in_the_order_in_which_they_began(play: Theatre) -> None:
    log: list[int] = []

    async def main(world: World) -> None:
        await world.together(noted(world, log, i, 1.0) for i in range(20))

    play(main)
    assert log == list(range(20))


def test_shorter_sleeps_end_first(play: Theatre) -> None:
    log: list[float] = []

    async def main(world: World) -> None:
        await world.together(noted(world, log, seconds, seconds) for seconds in (3.0, 1.0, 2.0))

    play(main)
    assert log == [1.0, 2.0, 3.0]


# --- together ---------------------------------------------------------------------------------------------------


def test_together_returns_results_in_the_order_given_whatever_ends_first(play: Theatre) -> None:
    async def main(world: World) -> tuple[list[Any], float]:
        results = await world.together(returned(world, seconds, seconds) for seconds in (3.0, 1.0, 2.0))
        return results, world.now()

    results, took = play(main)
    assert results == [3.0, 1.0, 2.0]
    assert play.is_time(took, 3.0)  # the longest, not the sum


def test_together_of_nothing_is_nothing(play: Theatre) -> None:
    assert play(lambda world: world.together([])) == []


def test_together_of_works_that_never_wait_returns_their_results(play: Theatre) -> None:
    async def at_once(value: int) -> int:
        return value

    assert play(lambda world: world.together([at_once(1), at_once(2)])) == [1, 2]


def test_if_one_raises_the_others_are_cancelled_and_have_cleaned_up(play: Theatre) -> None:
    log: list[Any] = []

    async def main(world: World) -> float:
        with pytest.raises(ValueError, match="^broken$"):
            await world.together(
                [tidy(world, log, 0.0), failed(world, 2.0, ValueError("broken")), tidy(world, log, 3.0)]
            )
        log.append("after")
        return world.now()

    took = play(main)
    assert log[-1] == "after"
    assert [entry[0] for entry in log[:-1]] == ["clean", "clean"]
    assert play.is_time(took, 5.0)


def test_if_one_raises_all_others_are_cancelled_at_that_instant(play: Theatre) -> None:
    """One that takes long to clean up gives the next no time to work on."""
    log: list[Any] = []

    async def main(world: World) -> None:
        works = [tidy(world, log, 20.0, name) for name in "abc"]
        with pytest.raises(ValueError, match="broken"):
            await world.together([*works, failed(world, 2.0, ValueError("broken"))])

    play(main)
    assert [name for name, _, _ in log] == ["a", "b", "c"]
    assert max(began for _, began, _ in log) < min(ended for _, _, ended in log)
    assert all_of(play.is_time(began, 2.0) for _, began, _ in log)


def test_of_two_that_raise_together_over_sockets_none_is_complained_of_later() -> None:
    """asyncio prints the error of a task whose error nobody has seen, when the task is forgotten."""
    complaints: list[dict[str, Any]] = []

    async def broken() -> None:
        raise ValueError("broken")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        with pytest.raises(ValueError, match="broken"):
            await SocketWorld(cast(Any, Here())).together([broken(), broken()])
        gc.collect()

    asyncio.run(main())
    assert complaints == []


def test_two_that_raise_at_one_instant_are_one_error_that_can_be_caught(play: Theatre) -> None:
    async def main(world: World) -> str:
        with pytest.raises(ValueError, match="first"):
            await world.together(failed(world, 1.0, ValueError(text)) for text in ("first", "second"))
        await world.sleep(1.0)
        return "goes on"

    assert play(main) == "goes on"


def test_who_is_cancelled_while_together_cancels_all_of_them(play: Theatre) -> None:
    log: list[Any] = []

    async def both(world: World) -> None:
        await world.together([tidy(world, log, 1.0), tidy(world, log, 2.0)])

    async def main(world: World) -> int:
        task = world.start(both(world))
        await world.sleep(1.0)
        await task.cancel()
        return len(log)

    assert play(main) == 2


# --- within -----------------------------------------------------------------------------------------------------


def test_within_returns_the_result(play: Theatre) -> None:
    async def main(world: World) -> tuple[str, float]:
        return await world.within(500.0, returned(world, 1.0, "result")), world.now()

    result, took = play(main)
    assert result == "result"
    assert play.is_time(took, 1.0)


def test_within_raises_late_when_the_time_is_over(play: Theatre) -> None:
    async def main(world: World) -> float:
        with pytest.raises(Late):
            await world.within(2.0, world.sleep(500.0))
        return world.now()

    assert play.is_time(play(main), 2.0)


def test_late_comes_only_after_the_clean_up_even_one_that_waits(play: Theatre) -> None:  # trap 4
    log: list[Any] = []

    async def main(world: World) -> float:
        with pytest.raises(Late):
            await world.within(2.0, tidy(world, log, 3.0))
        log.append("late")
        return world.now()

    took = play(main)
    assert [log[0][0], log[1]] == ["clean", "late"]
    assert play.is_time(took, 5.0)


def test_within_no_time_at_all_takes_what_has_happened_already(play: Theatre) -> None:
    async def main(world: World) -> str:
        signal = world.signal()
        signal.set("already")
        result: str = await world.within(0.0, signal.wait())
        return result

    assert play(main) == "already"


def test_an_error_of_the_work_comes_through_within(play: Theatre) -> None:
    async def main(world: World) -> str:
        with pytest.raises(ValueError, match="^broken$"):
            await world.within(500.0, failed(world, 1.0, ValueError("broken")))
        await world.sleep(1.0)
        return "goes on"

    assert play(main) == "goes on"


def test_who_is_cancelled_within_cancels_the_work(play: Theatre) -> None:
    log: list[Any] = []

    async def bounded(world: World) -> None:
        await world.within(5000.0, tidy(world, log, 1.0))

    async def main(world: World) -> int:
        task = world.start(bounded(world))
        await world.sleep(1.0)
        await task.cancel()
        return len(log)

    assert play(main) == 1


# --- tasks ------------------------------------------------------------------------------------------------------


def test_a_started_task_runs_beside_its_starter(play: Theatre) -> None:
    log: list[Any] = []

    async def main(world: World) -> tuple[bool, bool]:
        task = world.start(noted(world, log, "task", 1.0))
        log.append("starter")
        before = task.ended
        await world.sleep(30.0)
        return before, task.ended

    assert play(main) == (False, True)
    assert log == ["starter", "task"]


def test_cancel_returns_when_the_clean_up_has_ended(play: Theatre) -> None:
    log: list[Any] = []

    async def main(world: World) -> tuple[bool, bool, float]:
        task = world.start(tidy(world, log, 3.0))
        await world.sleep(1.0)
        running = not task.ended
        await task.cancel()
        return running, task.ended, world.now()

    running, ended, took = play(main)
    assert (running, ended, len(log)) == (True, True, 1)
    assert play.is_time(took, 4.0)


def test_to_cancel_a_task_that_has_ended_is_harmless(play: Theatre) -> None:
    async def main(world: World) -> str:
        done, stopped = world.start(world.sleep(1.0)), world.start(world.sleep(500.0))
        await world.sleep(30.0)
        for task in (done, stopped, stopped, done):
            await task.cancel()
        return "goes on"

    assert play(main) == "goes on"


def test_a_cancelled_task_is_stopped_where_it_waits(play: Theatre) -> None:
    """Whatever it waits for: a sleep, a signal, a task of its own, several at once, a computation."""
    log: list[str] = []

    async def waits(name: str, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except Cancelled:
            log.append(name)
            raise

    async def main(world: World) -> None:
        works = {
            "sleep": world.sleep(500.0),
            "signal": world.signal().wait(),
            "within": world.within(500.0, world.sleep(500.0)),
            "together": world.together([world.sleep(500.0)]),
            "work": world.work(500.0, world.submit(int)),
        }
        tasks = [world.start(waits(name, work)) for name, work in works.items()]
        await world.sleep(1.0)
        for task in tasks:
            await task.cancel()

    play(main)
    assert log == ["sleep", "signal", "within", "together", "work"]


def test_the_cancelled_can_swallow_it_and_end_in_peace(play: Theatre) -> None:
    log: list[str] = []

    async def stubborn(world: World) -> None:
        try:
            await world.sleep(500.0)
        except Cancelled:
            log.append("swallowed")
        await world.sleep(1.0)
        log.append("ended")

    async def main(world: World) -> bool:
        task = world.start(stubborn(world))
        await world.sleep(1.0)
        await task.cancel()
        return task.ended

    assert play(main) is True
    assert log == ["swallowed", "ended"]


def test_a_started_task_that_raises_ends_the_run_with_that_error(play: Theatre) -> None:
    async def main(world: World) -> None:
        world.start(failed(world, 1.0, ValueError("broken")))
        await world.sleep(500.0)

    with pytest.raises(ValueError, match="^broken$"):
        play(main)


def test_an_error_of_the_main_work_ends_the_run(play: Theatre) -> None:
    with pytest.raises(Lost, match="^gone$"):
        play(lambda world: failed(world, 1.0, Lost("gone")))


def test_run_takes_a_coroutine_and_nothing_else(play: Theatre) -> None:  # trap 1
    with pytest.raises(TypeError):
        play(lambda world: world.sleep)  # type: ignore[arg-type, return-value]


# --- signals ----------------------------------------------------------------------------------------------------


def test_a_signal_reaches_all_who_wait_in_their_order(play: Theatre) -> None:
    log: list[Any] = []

    async def waiter(world: World, signal: Any, name: int) -> None:
        log.append((name, await signal.wait(), world.now()))

    async def main(world: World) -> None:
        signal = world.signal()
        world.call_at(2.0, lambda: signal.set("value"))
        await world.together(waiter(world, signal, i) for i in range(3))

    play(main)
    assert [entry[:2] for entry in log] == [(0, "value"), (1, "value"), (2, "value")]
    assert all_of(play.is_time(when, 2.0) for _, _, when in log)


def test_a_signal_that_was_set_before_does_not_make_one_wait(play: Theatre) -> None:
    async def main(world: World) -> tuple[Any, Any, float]:
        signal = world.signal()
        signal.set(7)
        return await signal.wait(), await signal.wait(), world.now()

    first, second, when = play(main)
    assert (first, second) == (7, 7)
    assert play.is_time(when, 0.0)


@pytest.mark.parametrize("again", ["set", "fail"])
def test_a_second_word_of_a_signal_changes_nothing(play: Theatre, again: str) -> None:
    async def main(world: World) -> Any:
        signal = world.signal()
        signal.set("first")
        signal.set("second") if again == "set" else signal.fail(Lost("second"))
        return await signal.wait()

    assert play(main) == "first"


def test_a_signal_that_fails_raises_in_all_who_wait_now_or_later(play: Theatre) -> None:
    log: list[str] = []

    async def waiter(signal: Any) -> None:
        try:
            await signal.wait()
        except Lost as lost:
            log.append(str(lost))

    async def main(world: World) -> None:
        signal = world.signal()
        world.call_at(1.0, lambda: signal.fail(Lost("off")))
        await world.together([waiter(signal), waiter(signal)])
        signal.set("too late")
        await waiter(signal)

    play(main)
    assert log == ["off", "off", "off"]


def test_a_signal_that_fails_with_nobody_waiting_is_harmless(play: Theatre) -> None:
    async def main(world: World) -> str:
        world.signal().fail(Lost("off"))
        await world.sleep(1.0)
        return "goes on"

    assert play(main) == "goes on"


def test_one_who_stops_waiting_does_not_end_it_for_the_others(play: Theatre) -> None:
    async def main(world: World) -> Any:
        signal = world.signal()
        impatient = world.start(signal.wait())
        await world.sleep(1.0)
        await impatient.cancel()
        world.call_at(world.now() + 1.0, lambda: signal.set("value"))
        return await signal.wait()

    assert play(main) == "value"


# --- call_at ----------------------------------------------------------------------------------------------------


def test_calls_come_in_the_order_of_their_times(play: Theatre) -> None:
    log: list[tuple[str, float]] = []

    async def main(world: World) -> None:
        for name, time in (("c", 30.0), ("a", 10.0), ("b", 20.0)):
            world.call_at(time, lambda name=name: log.append((name, world.now())))  # type: ignore[misc]
        await world.sleep(40.0)

    play(main)
    assert [name for name, _ in log] == ["a", "b", "c"]
    assert all_of(play.is_time(when, time) for (_, when), time in zip(log, (10.0, 20.0, 30.0), strict=True))


def test_calls_at_one_time_come_in_the_order_in_which_they_were_made(play: Theatre) -> None:
    log: list[int] = []

    async def main(world: World) -> None:
        for i in range(8):
            world.call_at(1.0, lambda i=i: log.append(i))  # type: ignore[misc]
        await world.sleep(30.0)

    play(main)
    assert log == list(range(8))


def test_a_call_in_the_past_comes_at_once_but_after_what_is_due(play: Theatre) -> None:
    log: list[str] = []

    async def main(world: World) -> float:
        await world.sleep(5.0)
        for name, time in (("a", 5.0), ("b", 4.0), ("c", 0.0)):
            world.call_at(time, lambda name=name: log.append(name))  # type: ignore[misc]
        log.append("not yet")
        before = world.now()
        await world.sleep(1.0)
        return before

    assert play.is_time(play(main), 5.0)
    assert log == ["not yet", "a", "b", "c"]


# --- computations -----------------------------------------------------------------------------------------------


def test_work_returns_the_result_of_the_job_after_the_modelled_time(play: Theatre) -> None:
    async def main(world: World) -> tuple[int, float]:
        return await world.work(3.0, world.submit(pow, 2, 10)), world.now()

    result, took = play(main)
    assert result == 1024
    assert play.is_time(took, 3.0)


def test_the_computation_starts_when_it_is_handed_in(play: Theatre) -> None:
    log: list[str] = []

    async def main(world: World) -> None:
        ticket = world.submit(log.append, "computed")
        log.append("handed in")
        await world.work(1.0, ticket)

    play(main)
    assert log == ["computed", "handed in"]


def test_computations_that_are_slow_to_come_change_no_result(play: Theatre) -> None:
    async def main(world: World) -> list[int]:
        return await world.together(world.work(1.0, world.submit(pow, 2, i)) for i in range(4))

    assert play(main, Slowly(0.02)) == [1, 2, 4, 8]


def test_a_job_that_fails_fails_the_one_who_waits_and_nobody_else(play: Theatre) -> None:
    async def main(world: World) -> tuple[str, int]:
        healthy = world.start(world.work(2.0, world.submit(int)))
        with pytest.raises(ValueError, match="invalid literal"):
            await world.work(1.0, world.submit(int, "many"))
        result = await world.work(1.0, world.submit(int, "7"))
        await healthy.cancel()
        return "goes on", result

    assert play(main) == ("goes on", 7)


def test_a_job_that_fails_late_fails_only_the_one_who_waits(play: Theatre) -> None:
    async def main(world: World) -> str:
        with pytest.raises(ValueError, match="invalid literal"):
            await world.work(1.0, world.submit(int, "many"))
        return "goes on"

    assert play(main, Slowly(0.02)) == "goes on"


def test_a_job_that_fails_when_nobody_waits_any_more_harms_nobody(play: Theatre) -> None:
    """The one who waited is stopped at the very instant at which the result falls due."""

    async def main(world: World) -> str:
        task = world.start(world.work(1.0, world.submit(int, "many")))
        await world.sleep(0.0)  # so that the task's second begins before ours
        await world.sleep(1.0)
        await task.cancel()
        await world.sleep(1.0)
        return "goes on"

    assert play(main) == "goes on"


def test_who_waits_for_a_cancelled_ticket_is_cancelled_and_nobody_else(play: Theatre) -> None:
    log: list[str] = []

    async def waiter(world: World, ticket: Any) -> None:
        try:
            await world.work(2.0, ticket)
        except Cancelled:
            log.append("cancelled")
            raise

    async def main(world: World) -> str:
        ticket = world.submit(int)
        world.start(waiter(world, ticket))
        await world.sleep(1.0)
        ticket.cancel()
        await world.sleep(30.0)
        return "goes on"

    assert play(main, Never()) == "goes on"
    assert log == ["cancelled"]


def test_a_ticket_that_nobody_collects_is_dropped(play: Theatre) -> None:
    async def main(world: World) -> str:
        world.submit(int).cancel()
        await world.sleep(1.0)
        return "goes on"

    assert play(main, Never()) == "goes on"
    assert play(main) == "goes on"


def test_the_uncharged_costs_no_time(play: Theatre) -> None:
    async def main(world: World) -> tuple[int, float]:
        await world.sleep(1.0)
        return await world.uncharged(world.submit(pow, 2, 5)), world.now()

    result, now = play(main, Slowly(0.05))  # 25 modelled seconds, if they were charged
    assert result == 32
    assert now == 1.0 if play.kind == "virtual" else 1.0 <= now < 25.0


def test_the_clock_stands_while_the_uncharged_is_computed(play: Theatre) -> None:
    async def main(world: World) -> tuple[float, float, float]:
        await world.sleep(1.0)
        return world.now(), await world.uncharged(world.submit(world.now)), world.now()

    before, meanwhile, after = play(main, Slowly(0.05))
    assert before <= meanwhile <= after < before + 25.0


def test_the_clock_never_goes_back(play: Theatre) -> None:
    seen: list[float] = []

    async def watch(world: World) -> None:
        while True:
            seen.append(world.now())
            await world.sleep(2.0)

    async def main(world: World) -> None:
        watching = world.start(watch(world))
        await world.sleep(5.0)
        seen.append(world.now())
        await world.uncharged(world.submit(int))
        seen.append(world.now())
        await world.sleep(5.0)
        await watching.cancel()

    play(main, Slowly(0.05))
    assert len(seen) > 2
    assert seen == sorted(seen)


def test_while_the_clock_stands_no_call_comes_early(play: Theatre) -> None:
    async def main(world: World) -> float:
        called: list[float] = []
        world.call_at(40.0, lambda: called.append(world.now()))
        await world.uncharged(world.submit(int))
        await world.sleep(50.0)
        return called[0]

    assert play.is_time(play(main, Slowly(0.05)), 40.0)


def test_while_the_clock_stands_nobody_gets_late(play: Theatre) -> None:
    """30 of 40 s are needed; the evaluation beside it takes real time, but none of these."""

    async def main(world: World) -> str:
        _, result = await world.together(
            [world.uncharged(world.submit(int)), world.within(40.0, returned(world, 30.0, "in time"))]
        )
        return str(result)

    assert play(main, Slowly(0.05)) == "in time"


def test_the_uncharged_may_fail_and_the_run_go_on(play: Theatre) -> None:
    async def main(world: World) -> str:
        with pytest.raises(ValueError, match="invalid literal"):
            await world.uncharged(world.submit(int, "many"))
        await world.sleep(1.0)
        return "goes on"

    assert play(main) == "goes on"


# --- exceptions -------------------------------------------------------------------------------------------------


def test_one_except_catches_a_cancellation_in_both_worlds(play: Theatre) -> None:
    log: list[str] = []

    async def work(world: World) -> None:
        try:
            await world.sleep(500.0)
        except Exception:
            log.append("an Exception: a careless except would swallow it")
            raise
        except Cancelled:
            log.append("cancelled")
            raise

    async def main(world: World) -> None:
        task = world.start(work(world))
        await world.sleep(1.0)
        await task.cancel()

    play(main)
    assert log == ["cancelled"]


@pytest.mark.parametrize("kind", [Late, Lost])
def test_our_exceptions_keep_their_one_message_on_their_way(play: Theatre, kind: type[Exception]) -> None:  # trap 3
    async def main(world: World) -> list[Exception]:
        signal, caught = world.signal(), []
        signal.fail(kind("why it was"))
        works = (
            lambda: failed(world, 1.0, kind("why it was")),
            lambda: world.together([failed(world, 1.0, kind("why it was"))]),
            lambda: world.within(500.0, failed(world, 1.0, kind("why it was"))),
            lambda: world.within(500.0, world.together([world.within(500.0, signal.wait())])),
        )
        for work in works:
            try:
                await work()
            except Exception as error:
                caught.append(error)
        return caught

    caught = play(main)
    assert [type(error) for error in caught] == [kind] * 4
    assert [error.args for error in caught] == [("why it was",)] * 4


# --- only over sockets ------------------------------------------------------------------------------------------


def test_a_computation_that_outlasts_its_model_is_an_overrun_and_says_what_the_host_keeps() -> None:
    """10 modelled seconds at 500 are 20 ms; the job takes 500 ms, which a speed-up of 20 would allow."""

    async def conducted() -> SocketWorld:
        world = SocketWorld(Slowly(0.5), SPEEDUP)

        async def main() -> None:
            await world.work(10.0, world.submit(int))

        await world.run(main())
        return world

    world = asyncio.run(conducted())
    assert len(world.overruns) == 1
    assert GRACE * SPEEDUP < world.overruns[0] < 0.5 * SPEEDUP + SLACK  # 500 ms less 20, when the timers are exact
    assert 0 < world.keeps <= 20.0 * 1.05


def test_a_computation_that_is_given_up_after_its_model_is_an_overrun() -> None:
    """10 modelled seconds at 500 are 20 ms; a deadline ends the job after 200 ms."""

    async def conducted() -> SocketWorld:
        world = SocketWorld(Slowly(0.5), SPEEDUP)

        async def main() -> None:
            with pytest.raises(Late):
                await world.within(0.2 * SPEEDUP, world.work(10.0, world.submit(int)))

        await world.run(main())
        return world

    world = asyncio.run(conducted())
    assert len(world.overruns) == 1
    assert 0 < world.keeps <= 50.0 * 1.05


def test_a_computation_that_is_ready_in_time_is_no_overrun() -> None:
    async def conducted() -> SocketWorld:
        world = SocketWorld(Slowly(0.0), SPEEDUP)

        async def main() -> None:
            await world.work(50.0, world.submit(int))

        await world.run(main())
        return world

    world = asyncio.run(conducted())
    assert world.overruns == []
    assert world.keeps == float("inf")


def test_what_was_started_is_cancelled_when_the_run_over_sockets_ends() -> None:
    log: list[Any] = []

    async def main(world: World) -> str:
        world.start(tidy(world, log, 1.0))
        await world.sleep(1.0)
        return "over"

    assert Theatre("sockets")(main) == "over"
    assert len(log) == 1
