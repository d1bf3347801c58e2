"""Executors that compute in this process, or in worker processes of this computer.

A job is a pure function `job(lab, store, *args)`: same arguments, same result, on any worker, in any order.  Each
worker gets the lab (data, shards, algorithms) once; a job's arguments are names, numbers and Refs of stored messages,
so that no message crosses a pipe.
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
from emulator.messages.files import Draft, Drafts, Files, written
from emulator.messages.scratch import Scratch, in_memory
from scenarios.builders import reads

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h
MOST_KEPT = 1 << 25  # bytes of a freed block, as many as glibc itself may keep; larger ones are of large models

SWITCH = 1e-4  # s
WHOLE = select.PIPE_BUF - 512  # bytes that a pipe takes in one write, less those that the pool adds

Handed = tuple[Lab, Mapping[str, Any], Sequence[Path]]  # a lab without its data, the data's shelf, the store's folders


class Switching:
    """A context in which Python switches between threads every SWITCH seconds, and not every 5 ms as usual.

    5 ms are most of the time that a GPU needs for a round; and a job passes through two threads on its way to a worker,
    which would take 5 ms even for a short job.
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
    """A choice of workers: processes of Ray, on this computer or on a cluster, and not the command's own worker
    processes."""

    count: int | None = None  # None: one for each CPU of the cluster, or for each GPU if these train
    address: str | None = None  # None: Ray is started here, for this process alone
    most: int | None = None  # limit, because more would have no work


def quiet_torch() -> None:
    """Makes torch use one thread and deterministic algorithms in this process, so that results have the same bits for
    any number of workers.  Also calls `keep_memory`."""
    import torch

    torch.set_num_threads(1)
    # As use_deterministic_algorithms(True), which would also load an unused compiler, in a second or more.
    torch.set_deterministic_debug_mode("error")
    # The mode also fills memory that operators are about to overwrite, a check for uninitialised reads: 3 % of a step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    keep_memory()


def keep_memory() -> None:
    """Makes the C library, if it is glibc, keep freed blocks up to MOST_KEPT for this process.  Otherwise each training
    step returns the memory of its tensors to the system and fetches it again: a step of the MNIST CNN then takes 42 ms,
    and not 31 ms.  All threads share one arena (glibc's pool of memory), because autograd's thread holds much memory.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(M_TRIM_THRESHOLD, 1 << 30)
        mallopt(M_MMAP_THRESHOLD, MOST_KEPT)
        mallopt(M_ARENA_MAX, 1)


class Inline(Executor):
    """An executor that runs each job immediately, in this process."""

    immediate = True

    def __init__(self, lab: Lab, folder: Path | None = None) -> None:
        """Stores messages in `folder` if it is given and has room, otherwise in scratch folders."""
        quiet_torch()
        self.lab, self.scratch = lab, scratches()
        self.store = Files([*([folder] if folder else []), *paths(self.scratch)])

    def __exit__(self, *_: object) -> None:
        for scratch in self.scratch:
            scratch.close()

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        try:
            return ended(job(self.lab, self.store, *args))
        except Exception as error:  # for the caller who reads the result
            return ended(error=error)


class Processes(Executor):
    """An executor with a pool of worker processes.  All of them map the same files of the data set, so memory holds one
    copy of the data."""

    store: Files

    def __init__(self, lab: Lab, count: int, folder: Path | None = None) -> None:
        """Starts `count` workers.  Messages are stored in `folder` if it is given and has room, otherwise in shared
        memory, otherwise in the system's temporary folder."""
        with ExitStack() as unless_made:
            handed = self._put_away(unless_made, lab, folder)
            self.pool = WorkerPool(count, IMPORTED, _arrive, handed, places=lab.trains_on)
            unless_made.callback(self.pool.close)
            self.leave = unless_made.pop_all()
        self.batches = Batches(partial(self._sent, _do), count, self.store)

    def _put_away(self, leave: ExitStack, lab: Lab, folder: Path | None) -> Handed:
        """Opens the store, writes the data set to files that workers can map into memory, and returns what each worker
        needs at its start."""
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
        """Ends the workers now, without waiting for their jobs."""
        self.pool.stop()

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        return self.batches.submit(job, args)


class Team:
    """Worker processes that serve the executors of one lab after another, because starting them takes seconds.

    Close it after the last executor that uses it.
    """

    def __init__(self, count: int, places: Sequence[str] = ("cpu",)) -> None:
        """Starts `count` workers.  `places`: the devices, such as "cpu" or "cuda:0", that are given to the workers in
        turn."""
        self.count = count
        self.pool = WorkerPool(count, IMPORTED, _arrive, places=places)

    def close(self) -> None:
        """Ends the workers."""
        self.pool.close()


class Members(Processes):
    """An executor that borrows the running workers of a team.  The workers outlive it, and read its lab from a file."""

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
            wait(list(self.sent))  # the running jobs use files that will be removed


def scratches() -> list[Scratch]:
    """Returns new scratch folders: one in shared memory, if there is any, and one on disk."""
    return [scratch for scratch in (in_memory(), Scratch()) if scratch]


def entered(leave: ExitStack) -> list[Scratch]:
    """Returns new scratch folders, which are removed when `leave` is closed.  Until then Python also switches between
    threads every SWITCH seconds."""
    leave.enter_context(SWITCHING)
    return [leave.enter_context(closing(each)) for each in scratches()]


def paths(scratch: Sequence[Scratch]) -> list[Path]:
    return [each.path for each in scratch]


_place = "cpu"  # in a worker: the device on which it computes
_file: Path | None = None  # in a worker: the file with its lab, if it has one
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
    """Loads a worker's lab from `file`, which this program wrote, unless it is loaded already."""
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
    """Does the jobs of a batch in a worker, and returns their results, each with the messages that the job has put.

    If they are too long for one write to a pipe, they are written to a file, whose path is returned: the pool would
    wait forever for the rest of a longer answer if this worker were killed.
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
    """Returns the results of a batch from the answer of `_do`.  If that is the path of a file, reads the file and
    removes it.  Raises OSError if that fails."""
    if isinstance(sent, Done):
        return sent
    file = Path(sent)
    data = file.read_bytes()
    file.unlink()
    done: Done = pickle.loads(data)  # noqa: S301  as _take
    return done
