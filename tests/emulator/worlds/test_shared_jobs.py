"""Jobs under way that several want: each has its own result, and nothing is held once it is here."""

import gc
import weakref
from concurrent.futures import CancelledError, Future
from operator import itemgetter
from threading import Timer

from emulator.worlds.shared import Shared, Waiter, pass_on


def two():
    shared = Shared(Future())
    return shared.done, Waiter(shared), Waiter(shared)


def test_all_who_want_a_job_get_its_result():
    done, *waiters = two()
    done.set_result(7)
    assert [waiter.result() for waiter in waiters] == [7, 7]


def test_a_job_is_cancelled_when_the_last_one_drops_it():
    done, first, second = two()
    first.cancel()
    assert not done.cancelled()
    second.cancel()
    assert done.cancelled()


def test_to_drop_a_job_twice_takes_it_from_nobody_else():
    done, first, second = two()
    first.cancel()
    first.cancel()
    done.set_result(7)
    assert first.cancelled()
    assert second.result() == 7


def test_a_result_goes_with_its_last_user_and_waits_for_no_garbage_collector():
    gc.disable()
    try:
        done, first, second = two()
        done.set_result(7)
        gone = weakref.ref(first)
        del done, first, second
        assert gone() is None
    finally:
        gc.enable()


def in_each_state():
    """A future of Python's and one of ours, which have ended in each way, by how."""
    for end in ("result", "error", "cancelled", "dropped", "open"):
        plain, job = Future(), Future()
        waiter = Waiter(Shared(job))
        for future in (plain, job):
            if end == "result":
                future.set_result(7)
            elif end == "error":
                future.set_exception(ValueError("no"))
            elif end == "cancelled":
                future.cancel()
        if end == "dropped":
            plain.cancel(), waiter.cancel()
        yield end, plain, waiter


def said(future, what, *args):
    """What it answers, or raises."""
    try:
        return getattr(future, what)(*args)
    except BaseException as error:
        return type(error)


def test_a_waiter_answers_as_pythons_future_does():
    for end, plain, waiter in in_each_state():
        for what, *args in (
            ["done"],
            ["cancelled"],
            ["running"],
            ["result", 0.001],
            ["cancel"],
            ["done"],
            ["cancelled"],
        ):
            assert said(waiter, what, *args) == said(plain, what, *args), (end, what)


def test_callbacks_are_called_once_whether_they_come_before_or_after():
    for _, plain, waiter in in_each_state():
        for future in (plain, waiter):
            told = []
            future.add_done_callback(told.append)
            future.cancel()
            future.add_done_callback(told.append)
            assert told == [future, future]


def test_who_asks_too_early_waits():
    done, waiter, _ = two()
    timer = Timer(0.01, done.set_result, [7])
    timer.start()
    assert waiter.result(timeout=5) == 7
    timer.join()


def test_each_gets_its_part_and_holds_no_other():
    class Kept:
        pass

    shared, made = Shared(Future()), [Kept(), Kept()]
    waiters = [Waiter(shared, itemgetter(place)) for place in (0, 1)]
    shared.done.set_result(made)
    gone = [weakref.ref(each) for each in made]
    made.clear()
    del shared, waiters[0]
    assert gone[0]() is None
    assert waiters[0].result() is gone[1]()


def test_what_is_brought_first_and_then_cancelled_ends_for_who_waits():
    future, done = Future(), Future()
    future.set_running_or_notify_cancel()
    done.cancel()
    pass_on(future, done)
    assert isinstance(future.exception(timeout=0), CancelledError)
