"""Executors that compute in this process, or in worker processes of this computer.

A job is a pure function `job(lab, store, *args)`: same arguments, same result, on any worker, in any order.
The lab (data, shards, algorithms) is handed to each worker once; a job's arguments are names, numbers and Refs to
what lies in the store, so that no message crosses a pipe.
"""

from __future__ import annotations

import ctypes
import pickle
import select
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from devices.data.dataset import Dataset
from emulator.compute.batches import Batches, Done, Job
from emulator.compute.executor import Executor
from emulator.compute.futures import ended, pass_on
from emulator.compute.gpu import gpus
from emulator.compute.ready import IMPORTED
from emulator.compute.workers import WorkerPool
from emulator.lab.lab import Lab
from emulator.ledger.key import watch_own
from emulator.messages.files import Draft, Drafts, Files, Memory, written
from emulator.messages.scratch import Scratch, in_memory
from scenarios.builders import reads

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h

SWITCH = 1e-4  # s
WHOLE = select.PIPE_BUF - 512  # bytes that a pipe takes at once, without those that the pool adds

Handed = tuple[Lab, Mapping[str, Any], Sequence[Path]]  # a lab without its data, their shelf, the store's folders


class Switching:
    """While somebody is within it, a thread waits SWITCH for another.

    Python's own 5 ms are most of what a GPU takes for a round; and jobs pass through two threads on their way to a
    worker, which takes 5 ms for small ones.
    """

    def __init__(self) -> None:
        self.within, self.before = 0, 0.0

    def __enter__(self) -> None:
        if not self.within:
            self.before = sys.getswitchinterval()
            sys.setswitchinterval(SWITCH)
        self.within += 1

    def __exit__(self, *_: object) -> None:
        self.within -= 1
        if not self.within:
            sys.setswitchinterval(self.before)


SWITCHING = Switching()


@dataclass(frozen=True)
class Cluster:
    """Workers of Ray, in place of processes of this one."""

    count: int | None = None  # None: one for each CPU of the cluster, or each GPU where these train
    address: str | None = None  # None: Ray is started here, for this process alone
    most: int | None = None  # more could have nothing to do


def quiet_torch() -> None:
    """One thread and deterministic algorithms: the same bits whatever the number of workers."""
    import torch

    torch.set_num_threads(1)
    # As use_deterministic_algorithms(True), which loads a compiler that we do not use, for a second and more.
    torch.set_deterministic_debug_mode("error")
    # That also fills all memory that an operator is about to write, for programs that read it before: 3 % of a step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    keep_memory()


def keep_memory() -> None:
    """Tells glibc, where there is one, to keep what is freed: else each training step gives its tensors' pages back
    and fetches them anew, 42 ms instead of 31 a step of the MNIST CNN.  All threads share it: autograd's has much."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            mallopt(option, 1 << 30)
        mallopt(M_ARENA_MAX, 1)


class Inline(Executor):
    """Runs each job at once, in this process."""

    immediate = True

    def __init__(self, lab: Lab, folder: Path | None = None) -> None:
        """Messages lie in `folder`, as those of Processes do; without it in this process's memory."""
        quiet_torch()
        self.lab = lab
        self.scratch = scratches() if folder else []
        self.store = Files([folder, *paths(self.scratch)]) if folder else Memory()

    def __exit__(self, *_: object) -> None:
        for scratch in self.scratch:
            scratch.close()

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        try:
            return ended(job(self.lab, self.store, *args))
        except Exception as error:  # belongs to whoever collects the result
            return ended(error=error)


class Processes(Executor):
    """A pool of worker processes.  They and this one map the data set's files, so there is one copy in memory."""

    store: Files

    def __init__(self, lab: Lab, count: int, folder: Path | None = None) -> None:
        """Messages lie in `folder` if it has room, else in memory, else in the temporary folder."""
        with ExitStack() as unless_made:
            handed = self._put_away(unless_made, lab, folder)
            self.pool = WorkerPool(count, IMPORTED, _arrive, handed, places=lab.trains_on)
            unless_made.callback(self.pool.close)
            self.leave = unless_made.pop_all()
        self.batches = Batches(partial(self._sent, _do), count, self.store)

    def _put_away(self, leave: ExitStack, lab: Lab, folder: Path | None) -> Handed:
        """Opens the store, and puts the data set where workers can map it; what they are handed."""
        keep_memory()
        self.scratch = entered(leave)
        folders = paths(self.scratch)
        shelf = lab.data.put_away(folders[-1])
        folders = [folder, *folders] if folder else folders
        self.store = Files(folders)
        return replace(lab, dataset=None), shelf, folders

    def __exit__(self, *_: object) -> None:
        self.batches.cancel()
        self.leave.close()

    def _sent(self, do: Callable[..., Done | str], *args: Any) -> Future[Done]:
        """Sends a batch to a worker; returns the future of its results."""
        done: Future[Done] = Future()
        self.pool.submit(do, *args).add_done_callback(partial(pass_on, done, part=_come))
        return done

    def stop(self) -> None:
        """Ends the workers now, not after their jobs."""
        self.pool.stop()

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        return self.batches.submit(job, args)


class Team:
    """Worker processes that stay for one lab after the other: to start them anew takes seconds each time.

    Close it when the last executor that uses it is closed.
    """

    def __init__(self, count: int, places: Sequence[str] = ("cpu",)) -> None:
        """`places`: where they compute, in turn."""
        self.count = count
        self.pool = WorkerPool(count, IMPORTED, _arrive, places=places)

    def close(self) -> None:
        """Ends them."""
        self.pool.close()


class Members(Processes):
    """Processes whose workers are a team's: they stay when this is closed, and read what they need from a file."""

    def __init__(self, lab: Lab, team: Team, folder: Path | None = None) -> None:
        with ExitStack() as unless_made:
            handed = pickle.dumps(self._put_away(unless_made, lab, folder))
            self.handed = self.scratch[-1].path / "lab.pickle"
            self.handed.write_bytes(handed)
            self.leave = unless_made.pop_all()
        self.pool = team.pool
        self.sent = set[Future[Done]]()
        self.batches = Batches(self._send, team.count, self.store)

    def _send(self, orders: Sequence[tuple[Job, Sequence[Any]]]) -> Future[Done]:
        done = self._sent(_do_handed, self.handed, orders)
        self.sent.add(done)
        done.add_done_callback(self.sent.discard)
        return done

    def __exit__(self, *_: object) -> None:
        self.batches.cancel()
        with self.leave:
            wait(list(self.sent))  # what the workers are at, they do with files that are about to go


def scratches() -> list[Scratch]:
    """In memory, if there is a place for it, and on disk."""
    return [scratch for scratch in (in_memory(), Scratch()) if scratch]


def entered(leave: ExitStack) -> list[Scratch]:
    """Scratch folders, which go when this is left; until then threads switch often."""
    leave.enter_context(SWITCHING)
    return [leave.enter_context(closing(each)) for each in scratches()]


def paths(scratch: Sequence[Scratch]) -> list[Path]:
    return [each.path for each in scratch]


_place = "cpu"  # in a worker: where it computes
_file: Path | None = None  # in a worker: from which it has its lab, if from one
_lab: Lab | None = None
_folders: Sequence[Path] = ()


def _arrive(place: str, handed: Handed | None = None) -> None:
    global _place
    quiet_torch()
    gpus.use(place)
    _place = place
    if handed:
        _have(handed)


def _take(file: Path) -> None:
    """Reads what this program has written for its workers, unless it is at hand."""
    global _file
    if file != _file:
        _have(pickle.loads(file.read_bytes()))  # noqa: S301  our own file, in a folder of our own
        _file = file


def _have(handed: Handed) -> None:
    global _lab, _folders
    lab, shelf, folders = handed
    _lab, _folders = replace(lab, dataset=Dataset.taken_down(shelf), trains_on=(_place,)), folders
    watch_own(_lab)


def _do_handed(file: Path, orders: Sequence[tuple[Job, Sequence[Any]]]) -> Done | str:
    _take(file)
    return _do(orders)


def _do(orders: Sequence[tuple[Job, Sequence[Any]]]) -> Done | str:
    """The jobs' results with what they have put into the store: the same Refs, as both travel together.

    In a file, if a pipe does not take them at once: the pool waits for the rest of them, also if this worker is killed.
    """
    began, results = perf_counter(), list[tuple[Any, list[Draft]]]()
    for job, args in orders:
        drafts = Drafts(_folders)
        try:
            results.append((job(_lab, drafts, *args), drafts.made))
        except Exception:
            if results:
                break
            raise
    done = Done(results, perf_counter() - began, reads.fresh())
    data = pickle.dumps(done)
    return done if len(data) < WHOLE else written(_folders[-1:], [data])


def _come(sent: Done | str) -> Done:
    """Returns the results of a batch, which may lie in a file.  Raises OSError."""
    if isinstance(sent, Done):
        return sent
    file = Path(sent)
    data = file.read_bytes()
    file.unlink()
    done: Done = pickle.loads(data)  # noqa: S301  as _take
    return done
