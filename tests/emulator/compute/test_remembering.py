"""The executor that does each job once.  Its jobs are computed here by a few lines in the place of torch."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from emulator.compute.executor import Executor
from emulator.compute.remembering import Disagreed, Remembering
from emulator.lab.jobs import State, combine, evaluate, export, start
from emulator.lab.scoring import Scores
from emulator.lab.training import Trained, train
from emulator.ledger.ledger import Ledger
from emulator.ledger.results import Job, refs
from emulator.messages.files import Files
from emulator.messages.store import EMPTY, NOTHING, Ref, Stored, read
from emulator.record.run import Run
from network.wire import payload

RUN = Run("some", 1)


class Keys:
    """A key for each job but those of a run without one."""

    machine: ClassVar[Mapping[str, str]] = {"numerics": "these bits"}

    def __init__(self) -> None:
        self.noted: list[list[str]] = []  # digests, as a Ref would keep its message here

    def key(self, job: Job, args: Sequence[Any]) -> str:
        if args[0].label == "keyless":
            raise ValueError("keyless: its code is in no file")
        return hashlib.sha256(repr((job.__name__, args)).encode()).hexdigest()

    def own(self, job: Job, args: Sequence[Any]) -> bool:
        return False

    def note(self, result: Any) -> None:
        self.noted.append([ref.digest for ref in refs(result)])


class Here(Executor):
    """Does each job at once, or on demand.

    `salt` makes other bits of them.  `stacked`: uploads are rows of a stack's message.
    """

    def __init__(self, folder: Path, salt: bytes = b"", waiting: bool = False, stacked: bool = False) -> None:
        self.store, self.salt, self.waiting, self.stacked = Files([folder]), salt, waiting, stacked
        self.done: list[str] = []
        self.open: list[tuple[Future[Any], Job, tuple[Any, ...]]] = []
        self.most = 0  # files in the store

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.open.append((future, job, args))
        if not self.waiting:
            self.work()
        return future

    def work(self) -> None:
        while self.open:
            future, job, args = self.open.pop()
            if future.set_running_or_notify_cancel():
                self.done.append(job.__name__)
                try:
                    future.set_result(getattr(self, job.__name__)(*args))
                except Exception as error:
                    future.set_exception(error)
                self.most = max(self.most, len(list(self.store.folders[0].iterdir())))

    def export(self, weights: Ref) -> Ref:
        return self._put("file", weights)

    def _made(self, *of: Any) -> bytes:
        data = b"|".join(self._read(each) if isinstance(each, Ref) else str(each).encode() for each in of)
        return hashlib.sha256(self.salt + data).digest()

    def _put(self, *of: Any) -> Ref:
        return self.store.put(self._made(*of))

    def _read(self, ref: Ref) -> bytes:
        return read(self.store, ref).data if ref.stack else bytes(self.store.get(ref))

    def _put_as_a_row(self, *of: Any) -> Ref:
        stack = payload.encoded({"weights": {"w": np.frombuffer(self._made(*of), np.uint8)[None]}})
        row = stack.row(0)
        return Ref(payload.digest(*row.pieces), row.nbytes, self.store.put(*stack.pieces))

    def start(self, run: Run) -> State:
        return self._state(self._put(run))

    def combine(self, run: Run, round: int, state: Ref, replies: dict[str, Any], download: Ref) -> State:
        return self._state(self._put(round, state, *(upload for upload, _ in replies.values())))

    def train(self, run: Run, device: str, round: int, download: Ref, memory: Ref, measure: bool) -> Trained:
        if run.label == "fails":
            raise ArithmeticError("no")
        upload = (self._put_as_a_row if self.stacked else self._put)(device, round, download, memory)
        return Trained(Stored(upload, {"frame": 32}), 7, EMPTY, None)

    def evaluate(self, run: Run, weights: Ref, part: str, cycle: int, block: int) -> Scores:
        bits = np.frombuffer(bytes(self.store.get(weights)), "<i8")
        return Scores({"accuracy": bits.astype("<f8").reshape(-1, 1)}, bits, bits.astype("<f8"))

    def _state(self, ref: Ref) -> State:
        return State(ref, ref)


@pytest.fixture
def told() -> list[str]:
    return []


class Opened:
    """Sessions on one ledger."""

    def __init__(self, folder: Path, told: list[str]) -> None:
        self.folder, self.told, self.all = folder, told, list[Remembering]()

    def __call__(self, cap: int = 1 << 30, keep_states: int = 10, **how: Any) -> tuple[Remembering, Here]:
        ledger = Ledger(self.folder, self.told.append, cap)
        inner: Any = Here(ledger.live.path, **how)
        keys: Any = Keys()
        pool = Remembering(inner, ledger, keys, "lab", keep_states)
        pool.broken_off = False
        self.all.append(pool)
        return pool, inner


@pytest.fixture
def opened(tmp_path: Path, told: list[str]) -> Iterator[Opened]:
    made = Opened(tmp_path, told)
    yield made
    for pool in made.all:
        pool.__exit__(None, None, None)


def closed(pool: Remembering, opened: Opened) -> None:
    opened.all.remove(pool)
    pool.__exit__(None, None, None)


def played(pool: Remembering, rounds: int, devices: int = 0) -> State:
    """A run: each round combines the uploads of all devices."""
    state: State = pool.submit(start, RUN).result()
    for round in range(rounds):
        trained = {
            f"d{n}": pool.submit(train, RUN, f"d{n}", round, state.message, NOTHING, False) for n in range(devices)
        }
        replies = {name: (done.result().upload.ref, 7) for name, done in trained.items()}
        state = pool.submit(combine, RUN, round, state.message, replies, state.message).result()
    return state


def scores(pool: Remembering, state: State, block: int = 0) -> list[int]:
    found: Scores = pool.submit(evaluate, RUN, state.weights, "test", 0, block).result()
    return found.counted.tolist()


def test_what_was_done_once_is_never_done_again(opened: Opened) -> None:
    first, inner = opened()
    expected = scores(first, played(first, 3, devices=2))
    assert len(inner.done) == 1 + 3 * 3 + 1
    assert (first.tally.known, first.tally.computed) == (0, 6)
    closed(first, opened)
    second, inner = opened()
    assert scores(second, played(second, 3, devices=2)) == expected
    assert inner.done == []
    assert (second.tally.known, second.tally.computed) == (6, 0)


def test_bytes_that_are_gone_are_made_again_only_when_something_is_computed_from_them(opened: Opened) -> None:
    first, _ = opened()
    state = played(first, 3, devices=2)
    expected = scores(first, state, block=1)
    closed(first, opened)
    second, inner = opened(cap=0)
    for path in second.ledger.blobs.all():
        path.unlink()
    state = played(second, 3, devices=2)
    assert inner.done == []
    assert scores(second, state, block=2) == expected  # the job looks at the weights alone
    assert sorted(inner.done) == ["combine"] * 3 + ["evaluate", "start"] + ["train"] * 6


def test_a_kept_state_spares_what_it_rests_on(opened: Opened) -> None:
    first, _ = opened(keep_states=2)
    played(first, 3)
    closed(first, opened)
    second, inner = opened(keep_states=2)
    state = played(second, 4)  # the last one was kept, too
    assert inner.done == ["combine"]
    scores(second, state)
    assert inner.done == ["combine", "evaluate"]


def test_every_third_state_is_kept_and_at_the_end_the_last(opened: Opened) -> None:
    """The third, sixth, ninth: of each chain that must be done again, two rounds at most lie before what is kept."""
    pool, _ = opened(keep_states=3)
    states = [played(pool, rounds) for rounds in range(1, 9)]

    def kept() -> list[int]:
        return [n for n, state in enumerate(states, 1) if (opened.folder / "kept" / state.message.digest).exists()]

    assert kept() == [3, 6]
    pool.settle()
    assert kept() == [3, 6, 8]


def test_a_model_that_was_written_is_kept_also_if_the_command_is_killed(opened: Opened) -> None:
    """Else whoever resumes would do each run that has ended anew, to write its model again."""
    first, _ = opened()
    first.submit(export, played(first, 3).weights).result()
    shutil.rmtree(first.ledger.live.path)  # as if it had been killed
    second, inner = opened()
    second.submit(export, played(second, 3).weights).result()
    assert inner.done == ["export"]


@pytest.mark.parametrize("devices", [1, 3])
def test_a_stack_s_message_is_made_again_for_whoever_needs_a_row_of_it(opened: Opened, devices: int) -> None:
    first, _ = opened(cap=0, stacked=True)
    expected = scores(first, played(first, 3, devices))
    closed(first, opened)
    second, inner = opened(cap=0, stacked=True)
    assert scores(second, played(second, 3, devices), block=1) == expected
    assert inner.done.count("train") == 3 * devices


@pytest.mark.slow
def test_a_chain_of_2000_rounds_is_made_again_and_its_messages_go_as_soon_as_nobody_needs_them(opened: Opened) -> None:
    first, _ = opened(cap=0, keep_states=10_000)
    expected = scores(first, played(first, 2000))
    closed(first, opened)
    second, inner = opened(cap=0, keep_states=10_000)
    state = played(second, 2000)
    assert inner.done == []
    assert scores(second, state, block=1) == expected
    assert len(inner.done) == 1 + 2000 + 1
    assert inner.most <= 5  # with the lock; not one for each round


def test_of_a_round_only_its_own_uploads_are_there_at_once(opened: Opened) -> None:
    first, _ = opened(cap=0)
    expected = scores(first, played(first, 8, devices=5))
    closed(first, opened)
    second, inner = opened(cap=0)
    assert scores(second, played(second, 8, devices=5), block=1) == expected
    assert inner.most <= 2 * 5 + 4


def test_what_was_fetched_goes_when_the_run_has_ended_and_nobody_holds_its_state(opened: Opened) -> None:
    first, _ = opened()
    played(first, 1)
    closed(first, opened)
    second, inner = opened()
    state = played(second, 1)
    scores(second, state, block=1)
    fetched = second.ledger.live.path / state.message.digest
    assert inner.done == ["evaluate"]
    second.settle()
    assert fetched.exists()
    del state
    assert not fetched.exists()


def test_keys_learn_of_each_result_whether_it_was_computed_or_found(opened: Opened) -> None:
    first, _ = opened()
    played(first, 1)
    closed(first, opened)
    second, inner = opened()
    last = played(second, 2)
    keys: Any = second.keys
    assert inner.done == ["combine"]
    assert len(keys.noted) == 1 + 2
    assert keys.noted[-1] == [last.message.digest, last.weights.digest]


def test_a_message_that_lies_in_another_folder_of_the_store_is_not_missed(opened: Opened, tmp_path: Path) -> None:
    """Tested with a full disk under the ledger."""
    pool, inner = opened()
    (tmp_path / "memory").mkdir()
    inner.store.folders = [tmp_path / "memory", *inner.store.folders]
    scores(pool, played(pool, 2, devices=1))
    assert inner.done.count("combine") == 2


def test_other_bits_are_noticed_and_belong_to_whoever_collects(opened: Opened) -> None:
    first, _ = opened(cap=0)
    played(first, 2)
    closed(first, opened)
    second, _ = opened(cap=0, salt=b"another machine")
    state = played(second, 2)
    future = second.submit(evaluate, RUN, state.weights, "test", 0, 0)
    with pytest.raises(Disagreed, match="^start some 1$"):
        future.result()


def test_a_job_that_failed_is_no_fact(opened: Opened) -> None:
    pool, inner = opened()
    for _ in range(2):
        with pytest.raises(ArithmeticError):
            pool.submit(train, Run("fails", 1), "d", 0, NOTHING, NOTHING, False).result()
    assert inner.done == ["train", "train"]


def test_a_job_without_a_key_is_done_each_time_and_it_is_said_once(opened: Opened, told: list[str]) -> None:
    pool, inner = opened()
    for round in (0, 0, 1):
        pool.submit(train, Run("keyless", 1), "d", round, NOTHING, NOTHING, False).result()
    assert inner.done == ["train"] * 3
    assert told == ["the ledger is not used where keyless: its code is in no file"]


# --- jobs under way ---------------------------------------------------------------------------------------------

JOB = (train, RUN, "d", 0, NOTHING, NOTHING, False)


def test_a_job_under_way_is_shared(opened: Opened) -> None:
    pool, inner = opened(waiting=True)
    one, two = pool.submit(*JOB), pool.submit(*JOB)
    inner.work()
    assert one.result() is two.result()
    assert inner.done == ["train"]
    assert pool.under_way == {}


def test_who_cancels_does_so_for_nobody_else_however_often(opened: Opened) -> None:
    pool, inner = opened(waiting=True)
    one, two = pool.submit(*JOB), pool.submit(*JOB)
    assert one.cancel()
    assert one.cancel()
    inner.work()
    assert one.cancelled()
    assert two.result().examples == 7


def test_what_nobody_wants_any_more_is_not_done_and_can_be_wanted_again(opened: Opened) -> None:
    pool, inner = opened(waiting=True)
    for each in (pool.submit(*JOB), pool.submit(*JOB)):
        each.cancel()
    inner.work()
    assert inner.done == []
    assert pool.under_way == {}
    again = pool.submit(*JOB)
    inner.work()
    assert again.result().examples == 7


# --- the end ----------------------------------------------------------------------------------------------------


def test_what_a_run_held_that_was_broken_off_spares_whoever_resumes_it(opened: Opened) -> None:
    first, _ = opened()
    state = played(first, 2, devices=1)
    first.broken_off = True
    closed(first, opened)
    (opened.folder / "kept" / state.message.digest).unlink()
    second, inner = opened()
    scores(second, played(second, 2, devices=1))
    assert inner.done == ["evaluate"]
    closed(second, opened)
    assert list((opened.folder / "left").iterdir()) == []
