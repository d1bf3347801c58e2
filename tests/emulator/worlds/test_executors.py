"""Where jobs run: the same results everywhere, never in a thread, and not broken by Ctrl-C (traps 6 to 8)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devices.data.dataset import Dataset
from emulator.audit.audit import audit_run
from emulator.record.record import read_lines
from emulator.study.jobs import decode, encode
from emulator.study.study import Study
from emulator.worlds.executors import Inline, Processes, executor
from emulator.worlds.virtual import VirtualWorld
from network.wire import payload

ROOT = Path(__file__).parents[3]


def study() -> Study:
    rng = np.random.default_rng(5)
    x = rng.random((40, 1, 8, 8), dtype=np.float32)
    y = rng.integers(0, 10, 40)
    nobody: Any = None
    return Study("digits-cnn", Dataset("some", x, y, x[:10], y[:10], 10), {}, {}, {}, {}, nobody, nobody)


# Jobs, as a worker finds them in this module.


def whereabouts(study: Study) -> tuple[int, bool, int, bool]:
    """Process, whether its main thread, torch's threads, whether torch is deterministic."""
    here = threading.current_thread() is threading.main_thread()
    return os.getpid(), here, torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()


def sums(study: Study, factor: float) -> tuple[float, int]:
    """Something that depends on every bit of the data."""
    assert study.dataset is not None
    return float(torch.from_numpy(study.dataset.x).sum() * factor), int(study.dataset.y.sum())


def fails(study: Study, text: str) -> None:
    raise ValueError(text)


def sends_half(study: Study, halfway: Path) -> bytes:
    """A result that its worker never sends to its end: it says so, and waits."""

    def half(sender: Connection, data: bytes) -> None:
        os.write(sender.fileno(), bytes(data)[: len(data) // 2])
        halfway.touch()
        time.sleep(3600)

    Connection._send = half  # type: ignore[attr-defined]
    return bytes(10_000)


def product(study: Study, message: bytes) -> bytes:
    weights = decode(message)["weights"]
    return encode({"weights": {"y": weights["x"] @ weights["w"]}})


@pytest.fixture(scope="module")
def pool() -> Iterator[Processes]:
    with Processes(study(), 2) as workers:
        yield workers


# --- in this process --------------------------------------------------------------------------------------------


def test_inline_jobs_run_at_once_in_the_main_thread_of_this_process() -> None:  # trap 8
    with Inline(study()) as here:
        future = here.submit(whereabouts)
    assert future.done()
    assert future.result() == (os.getpid(), True, 1, True)


def test_a_failing_job_is_the_business_of_whoever_collects_it() -> None:
    future = Inline(study()).submit(fails, "broken")
    with pytest.raises(ValueError, match="^broken$"):
        future.result()


def test_no_workers_means_this_process() -> None:
    with executor(study(), 0) as here:
        assert here.submit(whereabouts).result()[0] == os.getpid()


def test_jobs_of_a_run_in_virtual_time_are_never_in_a_thread() -> None:  # trap 8
    async def main(world: VirtualWorld) -> list[Any]:
        return await world.together(world.work(1.0, world.submit(whereabouts)) for _ in range(3))

    async def conducted() -> list[Any]:
        world = VirtualWorld(Inline(study()))
        found: list[Any] = await world.run(main(world))
        return found

    assert all(main_thread for _, main_thread, _, _ in asyncio.run(conducted()))


# --- trap 7: what is decoded ------------------------------------------------------------------------------------


def named(length: int) -> Mapping[str, Mapping[str, torch.Tensor]]:
    """Tensors behind a name of that many letters: every offset into the buffer comes up."""
    generator = torch.Generator().manual_seed(7)
    x, w = torch.randn(33, 65, generator=generator), torch.randn(65, 17, generator=generator)
    return {"weights": {"a" * length: torch.ones(3), "w": w, "x": x}}


@pytest.mark.parametrize("length", range(1, 17))
def test_decoded_tensors_are_aligned_copies_wherever_they_lay_in_the_buffer(length: int) -> None:
    message: Any = named(length)
    data = bytearray(encode(message))
    decoded = decode(bytes(data))["weights"]
    for name, tensor in decoded.items():
        assert tensor.data_ptr() % payload.ALIGNMENT == 0
        assert tensor.is_contiguous()
        assert torch.equal(tensor, message["weights"][name])


def test_to_change_what_was_decoded_changes_neither_the_bytes_nor_another_copy() -> None:
    message: Any = named(1)
    data = encode(message)
    before = bytes(data)
    first, second = decode(data)["weights"], decode(data)["weights"]
    first["x"].zero_()
    assert data == before
    assert torch.equal(second["x"], message["weights"]["x"])


@pytest.mark.parametrize("length", range(1, 17))
def test_matrix_products_of_decoded_tensors_have_the_same_bits(length: int) -> None:
    message: Any = named(length)
    weights, decoded = message["weights"], decode(encode(message))["weights"]
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
    jobs: list[tuple[Any, ...]] = [(sums, 0.1), (sums, 3.0), (product, encode(message))]
    there = [pool.submit(*job) for job in jobs]
    here = [Inline(study()).submit(*job) for job in jobs]
    assert [future.result() for future in there] == [future.result() for future in here]


@pytest.mark.slow
def test_a_job_that_fails_in_a_worker_leaves_the_pool_whole(pool: Processes) -> None:
    with pytest.raises(ValueError, match="^broken$"):
        pool.submit(fails, "broken").result()
    assert pool.submit(sums, 1.0).result() == Inline(study()).submit(sums, 1.0).result()


@pytest.mark.slow
def test_workers_ignore_ctrl_c(pool: Processes) -> None:  # trap 6
    before = {pool.submit(whereabouts).result()[0] for _ in range(8)}
    assert before
    for process in before:
        os.kill(process, signal.SIGINT)
    time.sleep(0.1)
    after = {pool.submit(whereabouts).result()[0] for _ in range(8)}
    assert after & before
    for process in before:
        os.kill(process, 0)  # raises if it is gone


@pytest.mark.slow
def test_workers_are_stopped_also_in_the_midst_of_sending_a_result(tmp_path: Path) -> None:
    """The pool would wait for the rest of it for ever, and the second Ctrl-C would end nothing."""
    workers, halfway = Processes(study(), 2), tmp_path / "halfway"
    workers.submit(sends_half, halfway)
    until = time.monotonic() + 120
    while not halfway.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    workers.stop()
    leaving = threading.Thread(target=workers.__exit__, args=(None, None, None), daemon=True)
    leaving.start()
    leaving.join(60)
    ended = not leaving.is_alive()
    if not ended:  # or pytest itself would never end
        workers.pool._result_queue._writer.close()  # type: ignore[attr-defined]
    assert ended


# --- Ctrl-C, as at a terminal -----------------------------------------------------------------------------------


LABELS = ("fedavg", "fedcurv")


class Command:
    """`fedlapse compare quickstart`, with far more rounds than anyone would wait for, each a short one."""

    def __init__(self, out: Path) -> None:
        self.out = out
        arguments = ["compare", "quickstart", "--rounds", "5000", "--workers", "2", "--seed", "1", "--out", str(out)]
        arguments += [f"algorithms=[{', '.join(LABELS)}]", "training.epochs=1", "training.batch=64"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "emulator", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def plays(self, rounds: int) -> None:
        """Returns when every run has written so many rounds."""
        until = time.monotonic() + 300
        while True:
            runs = [folder for folder in self.out.glob("*-s1") if (folder / "rounds.jsonl").exists()]
            if len(runs) == len(LABELS) and all(self.rows(folder) >= rounds for folder in runs):
                return
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < until, "no rounds were played"
            time.sleep(0.1)

    def begins(self) -> None:
        """Returns when the runs are about to begin, and the workers are on their way."""
        until = time.monotonic() + 300
        while not (self.out / "scenario.yaml").exists():
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < until, "it never began"
            time.sleep(0.01)
        time.sleep(0.3)

    @staticmethod
    def rows(folder: Path) -> int:
        return len(list(read_lines(folder / "rounds.jsonl")))

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)  # a terminal sends it to the workers too

    def ended(self, seconds: float) -> tuple[int, str]:
        text, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, text

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


@pytest.mark.slow
def test_ctrl_c_once_and_every_run_ends_its_round_and_all_files_are_written(tmp_path: Path) -> None:
    with Command(tmp_path / "out") as command:
        command.plays(1)
        command.interrupt()
        code, text = command.ended(300)
    assert code == 130, text
    summary = json.loads((command.out / "summary.json").read_text())
    assert set(summary["labels"]) == set(LABELS)
    for name in ("scenario.yaml", "host.json"):
        assert (command.out / name).stat().st_size > 0
    for label, entry in summary["labels"].items():
        folder = command.out / f"{label}-s1"
        assert audit_run(folder) == []
        events = list(read_lines(folder / "events.jsonl"))
        for file in ("events.jsonl", "rounds.jsonl"):
            assert (folder / file).read_bytes().endswith(b"\n")
        rows = command.rows(folder)
        assert 1 <= rows < 5000
        assert rows == sum(line["event"] == "open" for line in events)
        assert rows == sum(line["event"] == "close" for line in events)
        assert entry["rounds"] == {"1": rows}
        assert (folder / "final.safetensors").exists()


@pytest.mark.slow
def test_ctrl_c_before_the_workers_are_there_does_not_break_the_pool(tmp_path: Path) -> None:  # trap 6
    with Command(tmp_path / "out") as command:
        command.begins()
        command.interrupt()
        code, text = command.ended(300)
    assert code == 130, text
    assert "Traceback" not in text
    assert (command.out / "summary.json").exists()


@pytest.mark.slow
def test_ctrl_c_twice_stops_now_and_the_records_are_valid_to_their_last_whole_line(tmp_path: Path) -> None:
    with Command(tmp_path / "out") as command:
        command.plays(1)
        command.interrupt()
        time.sleep(0.05)
        command.interrupt()
        code, text = command.ended(60)  # a busy machine takes its time; the rounds would take hours
    assert code == 130, text
    assert "Traceback" not in text
    for folder in command.out.glob("*-s1"):
        events = list(read_lines(folder / "events.jsonl"))
        closes = sum(line["event"] == "close" for line in events)
        opens = sum(line["event"] == "open" for line in events)
        assert closes <= opens <= closes + 1
        assert 1 <= command.rows(folder) <= closes
