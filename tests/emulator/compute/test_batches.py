"""Jobs on their way to workers: each is done once and comes out as if it had been sent alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from emulator.compute.batches import AHEAD, LONGEST, Batches, Done
from emulator.messages.files import Draft, Drafts, Files
from scenarios.builders import reads
from scenarios.builders.reads import Read

WORKERS = 2
Orders = Sequence[tuple[Callable[..., Any], Sequence[Any]]]


class Pool:
    """Batches lie here until the test says what becomes of them."""

    def __init__(self) -> None:
        self.sent: list[tuple[Orders, Future[Done]]] = []
        self.shut = False

    def send(self, orders: Orders) -> Future[Done]:
        if self.shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self.sent.append((orders, Future()))
        return self.sent[-1][1]

    def sizes(self) -> list[int]:
        return [len(orders) for orders, _ in self.sent]

    def work(self, seconds: float = 0.0) -> list[Any]:
        """Does the oldest batch, each job in so many seconds; the arguments of its jobs."""
        orders, future = self.sent.pop(0)
        results: list[tuple[Any, list[Draft]]] = []
        for job, args in orders:
            try:
                results.append((job(*args), []))
            except ValueError as error:
                if not results:
                    future.set_exception(error)
                    return [args for _, args in orders]
                break
        future.set_result(Done(results, seconds * len(results)))
        return [args for _, args in orders]


def double(number: int) -> int:
    if number < 0:
        raise ValueError(number)
    return 2 * number


def negative(number: int) -> int:
    return -number


@pytest.fixture
def pool() -> Pool:
    return Pool()


@pytest.fixture
def batches(pool: Pool, tmp_path: Path) -> Batches:
    return Batches(pool.send, WORKERS, Files([tmp_path]))


@pytest.fixture
def short(batches: Batches, pool: Pool) -> Batches:
    """A setting in which ten such jobs make a batch."""
    batches.submit(double, [0])
    pool.work(seconds=LONGEST / 10.5)
    return batches


def all_done(pool: Pool) -> None:
    while pool.sent:
        pool.work()


def test_each_result_belongs_to_its_job(short: Batches, pool: Pool) -> None:
    futures = [short.submit(double, [k]) for k in range(100)]
    all_done(pool)
    assert [future.result(timeout=0) for future in futures] == [2 * k for k in range(100)]


def test_who_finds_a_worker_idle_is_sent_at_once(short: Batches, pool: Pool) -> None:
    short.submit(double, [1])
    assert pool.sizes() == [1]


def test_short_jobs_that_have_to_wait_travel_together(short: Batches, pool: Pool) -> None:
    for k in range(AHEAD * WORKERS + 100):
        short.submit(double, [k])
    assert pool.sizes() == [1] * AHEAD * WORKERS
    pool.work(seconds=LONGEST / 10.5)
    assert pool.sizes()[-1] == 10


def test_where_batches_are_long_those_at_the_end_are_shorter(pool: Pool, tmp_path: Path) -> None:
    """Else one worker has nothing to do while another has several jobs.  A batch is half of a worker's share of what is
    left, here a quarter, and of five jobs at most."""
    one, batches = 10 * LONGEST, Batches(pool.send, WORKERS, Files([tmp_path]), longest=50 * LONGEST)
    batches.submit(double, [0])
    pool.work(seconds=one)
    for k in range(AHEAD * WORKERS + 24):
        batches.submit(double, [k])
    left, sizes = 24, list[tuple[int, int]]()
    while left:
        pool.work(seconds=one)
        sizes.append((left, pool.sizes()[-1]))
        left -= pool.sizes()[-1]
    assert sizes == [(24, 5), (19, 4), (15, 3), (12, 3), (9, 2), (7, 1), (6, 1), (5, 1), (4, 1), (3, 1), (2, 1), (1, 1)]


def test_the_last_jobs_are_shared_out_among_all_workers(short: Batches, pool: Pool) -> None:
    for k in range(AHEAD * WORKERS + 6):
        short.submit(double, [k])
    pool.work()
    assert pool.sizes()[-1] == 6 // WORKERS


@pytest.mark.parametrize("seconds", [LONGEST, 1.0])
def test_long_jobs_travel_alone(batches: Batches, pool: Pool, seconds: float) -> None:
    for k in range(20):
        batches.submit(double, [k])
    for _ in range(20):
        assert pool.sizes() == [1] * min(AHEAD * WORKERS, len(pool.sent))
        pool.work(seconds)


def test_jobs_of_another_kind_travel_apart_and_in_their_order(short: Batches, pool: Pool) -> None:
    for k in range(AHEAD * WORKERS):
        short.submit(double, [k])
    for k, job in enumerate([double, double, negative, double]):
        short.submit(job, [k])
    seen = []
    while pool.sent:
        seen.append(pool.work(seconds=LONGEST / 10.5))
    assert seen[AHEAD * WORKERS :] == [[[0], [1]], [[2]], [[3]]]


def test_a_job_that_was_cancelled_while_it_waited_is_never_sent(short: Batches, pool: Pool) -> None:
    futures = [short.submit(double, [k]) for k in range(AHEAD * WORKERS + 4)]
    assert [future.cancel() for future in futures] == [False] * AHEAD * WORKERS + [True] * 4
    all_done(pool)
    assert [future.result(timeout=0) for future in futures[: AHEAD * WORKERS]] == [
        2 * k for k in range(AHEAD * WORKERS)
    ]


@pytest.mark.parametrize("where", [0, 1, 4])
def test_a_job_that_fails_fails_alone(short: Batches, pool: Pool, where: int) -> None:
    first = [short.submit(double, [k]) for k in range(AHEAD * WORKERS)]
    numbers = [-1 if k == where else k for k in range(12)]
    futures = [short.submit(double, [k]) for k in numbers]
    all_done(pool)
    assert [future.result(timeout=0) for future in first] == [2 * k for k in range(AHEAD * WORKERS)]
    for number, future in zip(numbers, futures, strict=True):
        if number < 0:
            with pytest.raises(ValueError, match="^-1$"):
                future.result(timeout=0)
        else:
            assert future.result(timeout=0) == 2 * number


@pytest.mark.parametrize(("where", "following"), [(0, [*range(1, 10), 40]), (4, [-1, *range(5, 10), *range(40, 44)])])
def test_what_a_failed_batch_leaves_is_sent_next_and_in_its_order(
    short: Batches, pool: Pool, where: int, following: list[int]
) -> None:
    """Ten jobs make a batch: those that are left come before those that have not been sent, of which 40 is the first.
    One that fails as the first is done; another one is done again."""
    for k in range(AHEAD * WORKERS):
        short.submit(double, [k])
    for k in range(100):
        short.submit(double, [-1 if k == where else k])
    for _ in range(AHEAD * WORKERS + 1):
        pool.work(seconds=LONGEST / 10.5)
    assert [args[0] for _, args in pool.sent[-1][0]] == following


def test_when_a_worker_was_killed_all_learn_of_it(short: Batches, pool: Pool) -> None:
    futures = [short.submit(double, [k]) for k in range(AHEAD * WORKERS + 4)]
    dead = BrokenProcessPool("killed")
    pool.shut = True
    for _, future in list(pool.sent):
        future.set_exception(dead)
    for each in futures:
        with pytest.raises(BrokenExecutor):
            each.result(timeout=0)


def test_who_comes_after_the_pool_was_shut_is_told(short: Batches, pool: Pool) -> None:
    pool.shut = True
    with pytest.raises(RuntimeError, match="after shutdown"):
        short.submit(double, [1]).result(timeout=0)


def test_what_waits_can_be_cancelled_as_a_whole(short: Batches, pool: Pool) -> None:
    futures = [short.submit(double, [k]) for k in range(AHEAD * WORKERS + 4)]
    short.cancel()
    for _, future in list(pool.sent):  # as the shutdown of a pool does
        future.cancel()
    for each in futures:
        with pytest.raises(CancelledError):
            each.result(timeout=0)


def test_a_message_that_cannot_be_taken_over_fails_its_own_job(short: Batches, pool: Pool, tmp_path: Path) -> None:
    lost, kept = short.submit(double, [1]), short.submit(double, [2])
    drafts = [Drafts([tmp_path]) for _ in range(2)]
    for each, data in zip(drafts, (b"one", b"two"), strict=True):
        each.put(data)
    (tmp_path / str(drafts[0].made[0].path)).unlink()
    for k in range(2):
        pool.sent[k][1].set_result(Done([(k, drafts[k].made)], 0.1))
    with pytest.raises(FileNotFoundError):
        lost.result(timeout=0)
    assert kept.result(timeout=0) == 1


def test_what_a_user_s_code_has_read_in_a_worker_is_noted_here(
    batches: Batches, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "SEEN", {})
    future = batches.submit(double, [1])
    pool.sent.pop()[1].set_result(Done([(2, [])], 0.0, [Read("variable", "ROUGHNESS")]))
    assert (future.result(), [*reads.SEEN]) == (2, [Read("variable", "ROUGHNESS")])
