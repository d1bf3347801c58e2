"""Jobs under way that several want: each has its own result, and nothing is held once it is here."""

import gc
import weakref
from concurrent.futures import CancelledError, Future
from operator import itemgetter

import pytest

from emulator.compute.futures import SharedJob, ended, pass_on


def two():
    shared = SharedJob(Future())
    return shared.job, shared.result(), shared.result()


def test_what_has_ended_has_its_result_or_its_error():
    assert ended(7).result(timeout=0) == 7
    error = ended(error=ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        error.result(timeout=0)


def test_all_who_want_a_job_get_its_result():
    job, *wanting = two()
    job.set_result(7)
    assert [each.result(timeout=0) for each in wanting] == [7, 7]


def test_all_who_want_a_job_get_its_error():
    job, *wanting = two()
    job.set_exception(ValueError("no"))
    assert [str(each.exception(timeout=0)) for each in wanting] == ["no", "no"]


def test_all_who_want_a_job_are_told_that_it_is_cancelled():
    job, *wanting = two()
    job.cancel()
    assert [each.cancelled() for each in wanting] == [True, True]


def test_a_job_is_cancelled_when_the_last_one_drops_it():
    job, first, second = two()
    first.cancel()
    assert not job.cancelled()
    second.cancel()
    assert job.cancelled()


def test_to_drop_a_job_twice_takes_it_from_nobody_else():
    job, first, second = two()
    first.cancel()
    first.cancel()
    job.set_result(7)
    assert first.cancelled()
    assert second.result(timeout=0) == 7


def test_a_job_that_runs_when_it_is_dropped_is_there_for_who_comes_then():
    shared = SharedJob(Future())
    shared.job.set_running_or_notify_cancel()
    shared.result().cancel()
    later = shared.result()
    shared.job.set_result(7)
    assert later.result(timeout=0) == 7


def test_who_comes_when_a_job_has_ended_gets_its_result():
    assert SharedJob(ended(7)).result().result(timeout=0) == 7


def test_a_result_goes_with_its_last_user_and_waits_for_no_garbage_collector():
    gc.disable()
    try:
        job, first, second = two()
        job.set_result(7)
        gone = [weakref.ref(each) for each in (job, first, second)]
        del job, first, second
        assert [each() for each in gone] == [None, None, None]
    finally:
        gc.enable()


def test_each_gets_its_part_and_holds_no_other():
    class Kept:
        pass

    shared, made = SharedJob(Future()), [Kept(), Kept()]
    wanting = [shared.result(itemgetter(place)) for place in (0, 1)]
    shared.job.set_result(made)
    gone = [weakref.ref(each) for each in made]
    made.clear()
    del shared, wanting[0]
    assert gone[0]() is None
    assert wanting[0].result() is gone[1]()


def test_what_is_brought_first_and_then_cancelled_ends_for_who_waits():
    future, done = Future(), Future()
    future.set_running_or_notify_cancel()
    done.cancel()
    pass_on(future, done)
    assert isinstance(future.exception(timeout=0), CancelledError)
