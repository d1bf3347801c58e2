"""What is handed in before the clock asks for it: nothing that is not asked for, and nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms.algorithm import Message, Party, Reply
from algorithms.fedavg import FedAvg
from emulator.lab.build import lab_of
from emulator.play.ahead import Ahead
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.play.stage import Outcome
from emulator.record.record import Record
from emulator.record.run import Run
from emulator.worlds import virtual
from emulator.worlds.executors import Inline
from emulator.worlds.shared import Shared, Waiter
from scenarios.load import build
from tests.all_of import all_of
from tests.conftest import SMALL, digests, merged
from tests.runs.nets import DENSE

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 20}
CALM: dict[str, Any] = {
    "fleet": [{"profile": "pi-4", "count": 5, "link": LINK}],
    "model": DENSE,
    "training": {"stack": 2},
    "rounds": {"max": 4},
}


Notes = list[tuple[str, str]]


class Noted(Inline):
    """Does jobs at once, and notes them, with the rounds that have ended between them."""

    def __init__(self, lab: Any) -> None:
        super().__init__(lab)
        self.notes: Notes = []

    def submit(self, job: Any, *args: Any) -> Future[Any]:
        self.notes.append((job.__name__, repr(args)))
        return super().submit(job, *args)

    @property
    def order(self) -> list[str]:
        """Each kind of job once where several come together."""
        names = [name for name, _ in self.notes]
        return [name for name, before in zip(names, [None, *names], strict=False) if name != before]


class Beside(Noted):
    """The same, as if others did them."""

    beside = True


@pytest.fixture(autouse=True)
def look_often() -> Iterator[None]:
    """What can be foreseen is then foreseen at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(virtual, "BREATH", 1)
        yield


def played(
    kind: type[Noted], folder: Path, changes: Mapping[str, Any], rounds: int = 99, notes: Notes | None = None
) -> tuple[Noted, Outcome]:
    scenario = build(merged(SMALL, {**changes, "seeds": [1]}))
    lab = lab_of(scenario)
    pool = kind(lab)
    pool.notes = [] if notes is None else notes

    def going_on() -> bool:
        """After the first model, and after each round."""
        pool.notes.append(("row", ""))
        return sum(name == "row" for name, _ in pool.notes) <= rounds

    run = Run(scenario.algorithms[0].name, 1)
    return pool, asyncio.run(run_virtual(lab, run, Conduct.of(scenario), pool, folder, going_on))


@dataclass(frozen=True)
class FewOrAll(FedAvg):
    """Asks the last device, then as many as the scenario says, then all who are there, and so on."""

    def cohort(self, round: int, names: Sequence[str], count: int, seed: int) -> Sequence[str]:
        return names[-[1, count, 99][round % 3] :]


CASES = pytest.mark.parametrize(
    "changes",
    [
        {"algorithms": ["fedavg"]},
        {"algorithms": ["fedavg"], "training": {"stack": 1}},
        {"algorithms": [{"fedcurv": {"strength": 0.05}}], "rounds": {"max": 4, "fraction": 0.6}},  # some keep for later
        {"algorithms": ["scaffold"], "evaluate": {"every": 2, "personalise_every": 1}},
        {"algorithms": [{"fedcl": {"interval": 2}}]},
        {"algorithms": ["fedavg"], "rounds": {"max": 4, "stop_at": {"value": 0.2}}},
        {"algorithms": ["fedavg"], "rounds": {"max": 4, "deadline_s": 0.2}},
        {"training": {"lr": 1e-30}, "evaluate": {"every": 1}},  # the model stays, and is not evaluated again
        {"algorithms": [f"{__name__}:FewOrAll"], "rounds": {"max": 6, "min_replies": 2, "fraction": 0.4}},
        {
            "algorithms": [f"{__name__}:FewOrAll"],
            "rounds": {"max": 9, "fraction": 0.4, "ask": 3, "stragglers": "finish"},
            "fleet": [
                {"profile": "pi-4", "count": 4, "link": LINK},
                {"profile": "pi-4", "count": 1, "link": {**LINK, "up_mbit_s": 0.01}, "name": "slow"},
            ],
        },
    ],
    ids=str,
)


@pytest.mark.slow
@CASES
def test_the_same_jobs_are_done_and_the_record_is_the_same(tmp_path: Path, changes: Mapping[str, Any]) -> None:
    changes = merged(CALM, changes)
    one, _ = played(Noted, tmp_path / "one", changes)
    other, _ = played(Beside, tmp_path / "other", changes)
    assert sorted(one.notes) == sorted(other.notes)
    assert digests(tmp_path / "one") == digests(tmp_path / "other")


class InAThread(Noted):
    """Does jobs in a thread: the run and its foresight wait for the same ones, and either may be first."""

    beside = True

    def __init__(self, lab: Any) -> None:
        super().__init__(lab)
        self.thread = ThreadPoolExecutor(1)

    def submit(self, job: Any, *args: Any) -> Future[Any]:
        self.notes.append((job.__name__, repr(args)))
        return self.thread.submit(job, self.lab, self.store, *args)


@pytest.mark.slow
@pytest.mark.parametrize("breath", [1, 3, 64])
@CASES
def test_whoever_is_first_nothing_is_done_twice(
    tmp_path: Path, changes: Mapping[str, Any], breath: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual, "BREATH", breath)
    changes = merged(CALM, changes)
    one, _ = played(Noted, tmp_path / "one", changes)
    other, _ = played(InAThread, tmp_path / "other", changes)
    assert sorted(one.notes) == sorted(other.notes)
    assert digests(tmp_path / "one") == digests(tmp_path / "other")


ROUND = ["request", "train_stack", "train", "combine", "evaluate"]


@pytest.mark.slow
def test_while_uploads_travel_the_next_round_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that trains by itself begins with its request: it may be one that refuses."""
    changes, landed = merged(CALM, {"rounds": {"max": 2}, "evaluate": {"every": 1}}), Record.end
    plain, _ = played(Noted, tmp_path / "plain", changes)
    first, last = ["start", "evaluate", "row"], ["request", "personalise_stack", "row", "export"]
    assert plain.order == [*first, *ROUND, "row", *ROUND, *last]
    notes: Notes = []

    def end(record: Record, way: Any, call: Any) -> float:
        notes.append((way, ""))
        return landed(record, way, call)

    monkeypatch.setattr(Record, "end", end)
    pool, _ = played(Beside, tmp_path / "run", changes, notes=notes)
    ahead = ["request", "train_stack"]
    assert pool.order == [*first, *ROUND, *ahead, "down", "up", "row", *ROUND[2:], "down", "up", *last]


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [{"stop_at": {"value": 0.99}}, {"until_s": 1e6}], ids=str)
def test_what_may_be_the_last_round_is_tried_ahead_and_no_further(tmp_path: Path, rounds: dict[str, Any]) -> None:
    pool, _ = played(Beside, tmp_path, merged(CALM, {"rounds": {"max": 3, **rounds}, "evaluate": {"every": 1}}))
    assert pool.order[3:15] == [*ROUND, "row", *ROUND, "row"]


@pytest.mark.slow
def test_where_one_may_be_late_nothing_is_foreseen(tmp_path: Path) -> None:
    for rounds in ({"deadline_s": 50.0}, {"fraction": 0.6, "ask": 5}):
        changes = merged(CALM, {"rounds": {"max": 3, **rounds}})
        one, other = (played(kind, tmp_path / kind.__name__, changes)[0] for kind in (Noted, Beside))
        assert one.notes == other.notes


@dataclass(frozen=True)
class Diverging(FedAvg):
    """One device uploads what is not finite, in the second round."""

    def train(self, download: Message, device: Party) -> Reply:
        reply = super().train(download, device)
        if device.round != 1 or not device.name.endswith("0"):
            return reply
        weights = {name: torch.full_like(value, torch.nan) for name, value in reply.upload["weights"].items()}
        return replace(reply, upload={"weights": weights})


@pytest.mark.slow
def test_a_refused_upload_is_not_foreseen(tmp_path: Path) -> None:
    changes = merged(CALM, {"algorithms": [f"{__name__}:Diverging"], "rounds": {"min_replies": 2}})
    one, done = played(Noted, tmp_path / "one", changes)
    other, _ = played(Beside, tmp_path / "other", changes)
    assert [row["refused"] for row in done.rows] == [0, 1, 0, 0]
    assert sorted(one.notes) == sorted(other.notes)
    assert digests(tmp_path / "one") == digests(tmp_path / "other")


@pytest.mark.slow
def test_what_had_begun_of_the_next_round_is_kept_where_a_run_is_interrupted(tmp_path: Path) -> None:
    pool, outcome = played(Beside, tmp_path, CALM, rounds=2)
    assert outcome.interrupted
    assert pool.order[-3:] == ["train_stack", "row", "export"]
    made = [trained for stack in outcome.begun if isinstance(stack, list) for trained in stack]
    assert len(made) == 4  # of five devices one trains by itself
    assert all_of(pool.store.get(trained.upload.ref) for trained in made)


# ---- the executor


class Held:
    """Does nothing."""

    beside = True
    store: Any = None

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, job: Any, *args: Any) -> Future[Any]:
        self.futures.append(Future())
        return self.futures[-1]


def a_job(*_: object) -> None:
    """It is never done."""


def test_who_submits_what_was_handed_in_gets_its_result_once() -> None:
    held = Held()
    ahead = Ahead(held)
    first, second = ahead.hand_in(a_job, 1), ahead.hand_in(a_job, 2)
    assert ahead.submit(a_job, 2) is second
    assert ahead.submit(a_job, 2) is held.futures[2]
    assert ahead.submit(print, 1) is held.futures[3]
    assert ahead.submit(a_job, 1) is first
    assert ahead.handed == []


def test_what_is_dropped_is_not_given_to_anybody() -> None:
    ahead = Ahead(Held())
    taken, left = ahead.hand_in(a_job, 1), ahead.hand_in(a_job, 2)
    ahead.submit(a_job, 1)
    ahead.drop()
    assert (taken.cancelled(), left.cancelled()) == (False, True)
    assert ahead.submit(a_job, 2) is not left


def test_what_has_begun_is_waited_for_and_the_rest_is_withdrawn() -> None:
    held = Held()
    ahead = Ahead(held)
    for number in range(3):
        ahead.hand_in(a_job, number)
    done, running, waiting = held.futures
    done.set_result("done")
    running.set_running_or_notify_cancel()

    async def end() -> list[Any]:
        asyncio.get_running_loop().call_soon(running.set_result, "ran")
        return await ahead.begun()

    assert asyncio.run(end()) == ["done", "ran"]
    assert waiting.cancelled()


def test_a_shared_job_is_withdrawn_where_nobody_else_wants_it_and_nobody_works_on_it() -> None:
    held = Held()
    ahead, jobs = Ahead(held), [Future[Any](), Future[Any](), Future[Any]()]
    shared = [Shared(job) for job in jobs]
    for each in shared:
        ahead.handed.append((a_job, (), Waiter(each)))
    other = Waiter(shared[0])
    jobs[1].set_running_or_notify_cancel()

    async def end() -> list[Any]:
        asyncio.get_running_loop().call_soon(jobs[1].set_result, "ran")
        return await ahead.begun()

    assert asyncio.run(end()) == ["ran"]
    assert [job.cancelled() for job in jobs] == [False, False, True]
    assert not other.cancelled()
