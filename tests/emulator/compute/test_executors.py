"""Jobs give the same results in every place, never run in a thread, and are not broken by Ctrl-C (traps 6 to 8)."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.networks import Network
from devices.data.dataset import Dataset
from emulator.compute import executors
from emulator.compute.crew import executor
from emulator.compute.executors import SWITCH, Inline, Processes, Switching
from emulator.lab.jobs import decode, encode
from emulator.lab.lab import Lab
from emulator.messages.store import Ref, Store
from emulator.worlds.virtual import VirtualWorld
from network.wire import payload
from tests.all_of import all_of


def lab() -> Lab:
    rng = np.random.default_rng(5)
    x = rng.random((40, 1, 8, 8), dtype=np.float32)
    y = rng.integers(0, 10, 40)
    nobody: Any = None
    return Lab(Network("digits-cnn"), Dataset("some", x, y, x[:10], y[:10], 10), {}, {}, {}, {}, nobody, nobody)


# Jobs, as a worker finds them in this module.


def whereabouts(lab: Lab, store: Store) -> tuple[int, bool, int, bool]:
    """Process, whether its main thread, torch's threads, whether torch is deterministic."""
    here = threading.current_thread() is threading.main_thread()
    return os.getpid(), here, torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()


def sums(lab: Lab, store: Store, factor: float) -> tuple[float, int]:
    """Something that depends on every bit of the data."""
    assert lab.dataset is not None
    return float(torch.from_numpy(lab.dataset.x).sum() * factor), int(lab.dataset.y.sum())


def fails(lab: Lab, store: Store, text: str) -> None:
    raise ValueError(text)


def waits(lab: Lab, store: Store, begun: Path, until: Path) -> bytes:
    """More than a pipe takes at once."""
    begun.touch()
    while not until.exists():
        time.sleep(0.01)
    return bytes(1 << 20)


def product(lab: Lab, store: Store, message: Ref) -> Ref:
    weights = decode(store.get(message))["weights"]
    return store.put(*encode({"weights": {"y": weights["x"] @ weights["w"]}}).pieces)


@pytest.fixture(scope="module")
def pool() -> Iterator[Processes]:
    with Processes(lab(), 2) as workers:
        yield workers


# --- how often threads switch -----------------------------------------------------------------------------------


def test_threads_switch_often_as_long_as_somebody_needs_it() -> None:
    usual = sys.getswitchinterval()
    switching = Switching()
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(switching)
        second.enter_context(switching)
        first.close()
        assert sys.getswitchinterval() == pytest.approx(SWITCH)
    assert sys.getswitchinterval() == usual


def test_workers_leave_it_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = sys.getswitchinterval()
    made: list[Any] = []

    def fails(*_: Any, **__: Any) -> Any:
        made.append(sys.getswitchinterval())
        raise OSError("no more processes")

    monkeypatch.setattr(executors, "WorkerPool", fails)
    with pytest.raises(OSError, match="no more"):
        Processes(lab(), 2)
    assert made == [pytest.approx(SWITCH)]
    assert sys.getswitchinterval() == usual


# --- in this process --------------------------------------------------------------------------------------------


def test_inline_jobs_run_at_once_in_the_main_thread_of_this_process() -> None:  # trap 8
    with Inline(lab()) as here:
        future = here.submit(whereabouts)
    assert future.done()
    assert future.result() == (os.getpid(), True, 1, True)


def test_a_failing_job_is_the_business_of_whoever_collects_it() -> None:
    future = Inline(lab()).submit(fails, "broken")
    with pytest.raises(ValueError, match="^broken$"):
        future.result()


def test_no_workers_means_this_process() -> None:
    with executor(lab(), 0) as here:
        assert here.submit(whereabouts).result()[0] == os.getpid()


def test_jobs_of_a_run_in_virtual_time_are_never_in_a_thread() -> None:  # trap 8
    async def main(world: VirtualWorld) -> list[Any]:
        return await world.together(world.work(1.0, world.submit(whereabouts)) for _ in range(3))

    async def conducted() -> list[Any]:
        world = VirtualWorld(Inline(lab()))
        found: list[Any] = await world.run(main(world))
        return found

    assert all_of(main_thread for _, main_thread, _, _ in asyncio.run(conducted()))


# --- trap 7: what is decoded ------------------------------------------------------------------------------------


def named(length: int) -> Mapping[str, Mapping[str, torch.Tensor]]:
    """Tensors behind a name of that many letters: every offset into the buffer comes up."""
    generator = torch.Generator().manual_seed(7)
    x, w = torch.randn(33, 65, generator=generator), torch.randn(65, 17, generator=generator)
    return {"weights": {"a" * length: torch.ones(3), "w": w, "x": x}}


@pytest.mark.parametrize("length", range(1, 17))
def test_decoded_tensors_are_aligned_copies_wherever_they_lay_in_the_buffer(length: int) -> None:
    message: Any = named(length)
    data = bytearray(encode(message).data)
    decoded = decode(bytes(data))["weights"]
    for name, tensor in decoded.items():
        assert tensor.data_ptr() % payload.ALIGNMENT == 0
        assert tensor.is_contiguous()
        assert torch.equal(tensor, message["weights"][name])


def test_to_change_what_was_decoded_changes_neither_the_bytes_nor_another_copy() -> None:
    message: Any = named(1)
    data = encode(message).data
    before = bytes(data)
    first, second = decode(data)["weights"], decode(data)["weights"]
    first["x"].zero_()
    assert data == before
    assert torch.equal(second["x"], message["weights"]["x"])


@pytest.mark.parametrize("length", range(1, 17))
def test_matrix_products_of_decoded_tensors_have_the_same_bits(length: int) -> None:
    message: Any = named(length)
    weights, decoded = message["weights"], decode(encode(message).data)["weights"]
    expected = weights["x"] @ weights["w"]
    assert torch.equal((decoded["x"] @ decoded["w"]).view(torch.int32), expected.view(torch.int32))


# --- in worker processes ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_worker_jobs_run_in_the_main_threads_of_other_processes(pool: Processes) -> None:  # trap 8
    for future in [pool.submit(whereabouts) for _ in range(8)]:
        process, *found = future.result()
        assert process != os.getpid()
        assert found == [True, 1, True]


@pytest.mark.slow
def test_a_worker_finds_the_same_data_and_computes_the_same_bits(pool: Processes) -> None:
    message: Any = named(3)
    inline = Inline(lab())

    def done(by: Inline | Processes) -> list[Any]:
        jobs: list[tuple[Any, ...]] = [(sums, 0.1), (sums, 3.0), (product, by.store.put(encode(message).data))]
        return [future.result() for future in [by.submit(*job) for job in jobs]]

    there, here = done(pool), done(inline)
    assert there == here
    assert bytes(pool.store.get(there[-1])) == bytes(inline.store.get(here[-1]))


@pytest.mark.slow
def test_messages_go_with_the_result_that_names_them_and_wait_for_no_garbage_collector(pool: Processes) -> None:
    given = pool.store.put(encode(named(2)).data)
    gc.disable()
    try:
        made: Ref = pool.submit(product, given).result()
        digest = made.digest
        assert places(pool, digest)
        del made
        pool.submit(sums, 1.0).result()  # the thread that brings results holds on to none before
        assert not places(pool, digest)
    finally:
        gc.enable()


def places(pool: Processes, digest: str) -> list[Path]:
    return [folder / digest for folder in pool.store.folders if (folder / digest).exists()]


@pytest.mark.slow
def test_a_job_that_fails_in_a_worker_leaves_the_pool_whole(pool: Processes) -> None:
    with pytest.raises(ValueError, match="^broken$"):
        pool.submit(fails, "broken").result()
    assert pool.submit(sums, 1.0).result() == Inline(lab()).submit(sums, 1.0).result()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_workers_ignore_what_stops_the_main_process(pool: Processes, number: int) -> None:  # trap 6
    before = {pool.submit(whereabouts).result()[0] for _ in range(8)}
    assert before
    for process in before:
        os.kill(process, number)
    time.sleep(0.1)
    after = {pool.submit(whereabouts).result()[0] for _ in range(8)}
    assert after & before
    for process in before:
        os.kill(process, 0)  # raises if it is gone


@pytest.mark.slow
def test_workers_are_stopped_also_in_the_midst_of_sending_a_result(tmp_path: Path) -> None:
    """The pool would wait for the rest of it for ever, and the second Ctrl-C would end nothing."""
    workers, stopped = Processes(lab(), 2), threading.Event()
    begun, taken = tmp_path / "begun", tmp_path / "taken"
    large = workers.submit(waits, begun, taken)
    while not begun.exists():
        time.sleep(0.01)

    def take(_: object) -> None:
        """In the thread that takes results."""
        taken.touch()
        stopped.wait(120)

    workers.submit(sums, 1.0).add_done_callback(take)
    while not taken.exists():
        time.sleep(0.01)
    time.sleep(0.3)  # it sends its result
    workers.stop()
    stopped.set()
    leaving = threading.Thread(target=workers.__exit__, args=(None, None, None), daemon=True)
    leaving.start()
    leaving.join(60)
    assert not leaving.is_alive()
    assert len(large.result()) == 1 << 20


@pytest.mark.slow
def test_what_is_more_than_a_pipe_takes_comes_and_leaves_no_file(pool: Processes, tmp_path: Path) -> None:
    (tmp_path / "now").touch()
    assert pool.submit(waits, tmp_path / "begun", tmp_path / "now").result() == bytes(1 << 20)
    assert [path.name for folder in pool.store.folders for path in folder.glob("draft-*")] == []
