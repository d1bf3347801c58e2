"""Jobs under way that several want: each has its own result, and nothing is held once it is here."""

import gc
import weakref
from concurrent.futures import Future

from emulator.worlds.remembering import Shared, Waiter


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
