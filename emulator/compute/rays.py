"""Computes on Ray, on this computer or on a cluster.  The other executors are in executors.py.

Workers are actors, each a process on one node of Ray.  Ray restarts a dead worker, and repeats its jobs.  The messages
that the jobs of a batch put come back as one box, {digest: bytes}, in Ray's object store, which copies it once to each
node that needs it.  The command owns the box, so that it outlives the worker, and keeps it as long as a Ref to one of
its messages exists.
"""

from __future__ import annotations

import logging
import os
import platform
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any

import numpy as np
import ray
from numpy import ndarray
from ray.exceptions import RayActorError, RayError

from emulator.compute.batches import AHEAD, Batches, Done, Job, Orders
from emulator.compute.executor import Executor
from emulator.compute.executors import Cluster, keep_memory, paths, quiet_torch, scratches
from emulator.compute.gpu import gpus
from emulator.compute.signals import ENDING, put_off
from emulator.compute.workers import KILLED, Gone
from emulator.lab.guarded import TRACEBACK
from emulator.lab.lab import CPU, Lab
from emulator.ledger.key import Keys, watch_own
from emulator.ledger.probe import probe
from emulator.ledger.results import refs
from emulator.messages.files import Draft, Files, written
from emulator.messages.store import NO_TENSORS, NOTHING, Ref
from network.wire.form import Buffer
from scenarios.builders import reads
from scenarios.text.faults import BadScenario, in_one_line

CLIENT = "ray://"
LONGEST = 0.2  # s of a batch: each costs 2 ms of the cores
TRIES = 3  # attempts to send a batch
DEATHS = 1000  # restarts of a worker by Ray
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # sends no reports to Ray's makers
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # avoids a warning from each worker
    "RAY_worker_niceness": "0",  # Ray's usual 15 leaves the cores to other programs
}

Kind = Mapping[str, str]  # properties of a worker on which results depend
Box = Mapping[str, ndarray]  # digest -> bytes: Ray shares arrays among the processes of a node without a copy
Object = Any  # Ray's reference to a Box


# --- messages -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lent:
    """A box in Ray's object store: Ray's reference to it, and its content, or None if its bytes are not on this
    node."""

    object: Object
    box: Box | None = None


@dataclass(frozen=True)
class Put:
    """A message that a job has put, and the box of the job's batch.  The box holds the message, unless the batch got
    the same message as an input; then the command's store has it already."""

    ref: Ref
    lent: Lent


class Boxes(Files):
    """The command's store of messages.  Those that workers have put are in boxes of Ray; those that the command itself
    has put, and those of a ledger, are in files of its folders."""

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__(folders)
        self._lent: dict[str, Lent] = {}  # by digest

    def take(self, draft: Draft | Put) -> Ref:
        if isinstance(draft, Draft):
            return super().take(draft)
        self.hold(draft.ref, lambda: self._lent.setdefault(draft.ref.digest, draft.lent))
        return draft.ref

    def objects(self, wanted: Iterable[Ref]) -> list[Object]:
        """Returns Ray's references to the boxes that hold these messages, each box once.  Puts a message that is only
        in a file into a box of its own first.  Raises KeyError for a message that is not stored."""
        found = []
        for ref in wanted:
            if ref.digest == NOTHING.digest:
                continue
            if ref.digest not in self._lent:
                self._lent[ref.digest] = Lent(ray.put({ref.digest: np.frombuffer(super().get(ref), np.uint8)}))
            found.append(self._lent[ref.digest].object)
        return list(dict.fromkeys(found))

    def get(self, ref: Ref) -> memoryview:
        lent = self._lent.get(ref.digest)
        if lent is None:
            return super().get(ref)
        box: Box = lent.box or ray.get(lent.object)
        return box[ref.digest].data

    def has(self, ref: Ref) -> bool:
        return ref.digest in self._lent or super().has(ref)

    def write_down(self, ref: Ref) -> None:
        self.hold(ref)  # keeps it meanwhile
        if ref.digest in self._lent and not super().has(ref):
            self.take(Draft(ref, written(self.folders, [self.get(ref)])))

    def free(self, digest: str) -> None:
        self._lent.pop(digest, None)
        super().free(digest)

    def give_back(self, keep: bool) -> None:
        """Drops all references to boxes, before Ray ends.  With `keep`, first writes their messages to files, for a
        ledger."""
        with suppress(OSError):  # a lost message is computed again
            for digest in list(self._lent) if keep else ():
                self.write_down(Ref(digest, 0))
        self._lent.clear()


class Shelf:
    """A store for the jobs of one batch in a worker: the messages that the batch got as inputs, and those that its jobs
    put."""

    def __init__(self, boxes: Iterable[Box]) -> None:
        self.given = {digest: array for box in boxes for digest, array in box.items()}
        self.made: dict[str, ndarray] = {}
        self.put_now: list[Ref] = []  # by the current job

    def put(self, *pieces: Buffer, digest: str | None = None) -> Ref:
        ref = Ref.of(*pieces, digest=digest)
        if ref.digest == NOTHING.digest:
            return ref
        if ref.digest not in self.given:
            self.made.setdefault(ref.digest, np.frombuffer(b"".join(pieces), np.uint8))
        self.put_now.append(ref)
        return ref

    def get(self, ref: Ref) -> memoryview:
        if ref.digest == NOTHING.digest:
            return memoryview(NO_TENSORS)
        return self.given[ref.digest].data


# --- workers --------------------------------------------------------------------------------------------------------


class Worker:
    """A worker process on a node of Ray, which does batches of jobs."""

    def __init__(self, lab: Lab, place: str) -> None:
        for number in ENDING:  # the command handles them
            signal.signal(number, signal.SIG_IGN)
        quiet_torch()
        gpus.use(place)
        self.lab = replace(lab, trains_on=(place,))
        watch_own(self.lab)
        keys = Keys(self.lab, probe(self.lab, Shelf([])))
        code = {f"the code of {label or 'fedlapse'}": str(digest) for label, digest in keys.sources.items()}
        self.kind: Kind = {"Python": platform.python_version(), **keys.machine, **code}

    def begin(self) -> Kind:
        """Returns the properties of this worker on which results depend, such as Python's version.  Workers with equal
        properties compute the same bits."""
        return self.kind

    def do(self, orders: Orders, *boxes: Box) -> tuple[tuple[Kind, Done | Exception], Box]:
        """Does the jobs of a batch.  Returns this worker's properties with the results up to the first job that failed,
        or with the error if the first job of the batch failed; and the box of the messages that the jobs have put."""
        began, results = perf_counter(), list[tuple[Any, Sequence[Any]]]()
        shelf = Shelf(boxes)
        for job, args in orders:
            shelf.put_now = []
            try:
                results.append((job(self.lab, shelf, *args), shelf.put_now))
            except Exception as error:
                if not results:
                    return (self.kind, error), {}
                break
        return (self.kind, Done(results, perf_counter() - began, reads.fresh())), shelf.made


class Ray(Executor):
    """An executor that does jobs on workers of Ray.  Lab and messages are in Ray's object store, one copy on each node
    that needs them."""

    store: Boxes

    def __init__(self, lab: Lab, cluster: Cluster, folder: Path | None = None) -> None:
        """Connects to Ray and starts workers.  Messages that a ledger keeps are stored in `folder`.  Raises BadScenario
        if Ray cannot be used."""
        keep_memory()
        with ExitStack() as unless_made:
            unless_made.enter_context(_joined(cluster, len(lab.trains_on) if lab.on != CPU else 0))
            scratch = [unless_made.enter_context(closing(each)) for each in scratches()]
            folders = paths(scratch)
            lab.data.put_away(folders[-1])  # so that this process need not hold the data next to Ray's copy
            self.store = Boxes([folder, *folders] if folder else folders)
            unless_made.callback(self.store.give_back, keep=folder is not None)
            resource = "CPU" if lab.on == CPU else "GPU"
            count = cluster.count or int(ray.cluster_resources().get(resource, 0)) or 1
            count = min(count, cluster.most or count)
            if cluster.address and (word := busy(resource, ray.available_resources())):
                print(word, file=sys.stderr)
            self.near = not (cluster.address or "").startswith(CLIENT)  # this process is on a node of Ray
            self.kind: Kind | None = None  # the kind of all workers
            self.gone: Exception | None = None  # the reason why nothing can be computed any more
            self.free: SimpleQueue[Any] = SimpleQueue()  # workers, each once for every batch that it can still take
            self.workers = _hired(lab, count)
            self.threads = ThreadPoolExecutor((AHEAD + 1) * count)  # each waits for one answer of a worker
            unless_made.callback(self.threads.shutdown, wait=True, cancel_futures=True)
            unless_made.callback(self.stop)
            for worker in self.workers:
                self.threads.submit(self._begin, worker)
            self.leave = unless_made.pop_all()
        self.batches = Batches(lambda orders: self.threads.submit(self._done, orders), count, self.store, LONGEST)

    def __exit__(self, *_: object) -> None:
        self.batches.cancel()
        self.leave.close()

    def stop(self) -> None:
        """Ends the workers now, without waiting for their jobs."""
        self._end(Gone("the workers were stopped"))

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        return self.batches.submit(job, args)

    def _begin(self, worker: Any) -> None:
        """Waits until Ray has room for a worker and has started it, and then lets it take batches."""
        try:
            self._check(ray.get(worker.begin.remote()))
        except RayError as error:
            self._end(Gone(f"no worker starts on Ray: {_last_line(error)}"))
        except Gone as error:
            self._end(error)
        for _ in range(AHEAD):
            self.free.put(worker)

    def _check(self, kind: Kind) -> None:
        """Raises Gone if a worker has other properties (`kind`) than the first worker, because it would compute other
        bits."""
        self.kind = self.kind or kind
        for name, found in kind.items():
            if found != self.kind.get(name):
                raise Gone(
                    f"workers of Ray differ: {name} is {found} on one, and {self.kind.get(name)} on another; "
                    "results would depend on which of them computes what, so make all nodes alike"
                )

    def _done(self, orders: Orders) -> Done:
        """Waits for a worker that can take a batch, sends it the batch, and returns the results.  Each call runs in a
        thread of `threads`.  Raises the error of the batch's first job, or Gone if there are no workers any more."""
        worker = self.free.get()
        try:
            if self.gone:
                raise self.gone
            boxes = self.store.objects(refs([args for _, args in orders]))
            answer, object_ = worker.do.options(num_returns=2).remote(orders, *boxes)
            # With a copy on this node the messages survive the other node.
            (kind, done), box = ray.get([answer, object_]) if self.near else (ray.get(answer), None)
            self._check(kind)  # the cluster may have been restarted elsewhere
        except RayError as error:
            self._end(Gone(KILLED if isinstance(error, RayActorError) else f"Ray: {_last_line(error)}"))
            assert self.gone
            raise self.gone from None
        except Gone as error:
            self._end(error)
            raise
        finally:
            self.free.put(worker)
        if isinstance(done, Exception):
            raise done
        lent = Lent(object_, box)
        results = [(result, [Put(ref, lent) for ref in put]) for result, put in done.results]
        return Done(results, done.seconds, done.read)

    def _end(self, why: Exception) -> None:
        if self.gone:
            return
        self.gone = why
        for worker in self.workers:
            ray.kill(worker)
            self.free.put(worker)  # passes the error to whoever waits for a worker


def _last_line(error: BaseException) -> str:
    return str(error).strip().rpartition("\n")[2]


def busy(resource: str, free: Mapping[str, float]) -> str | None:
    """Returns a warning if the cluster has no free `resource` ("CPU" or "GPU"), so that no worker can begin yet; None
    otherwise.  Other programs may use the cluster for hours, or it may grow."""
    if free.get(resource, 0) >= 1:
        return None
    return f"fedlapse: the cluster has no free {resource}; the command waits until it has one"


def _hired(lab: Lab, count: int) -> list[Any]:
    """Creates `count` workers and returns Ray's references to them.  Ray may start them later, when it has room."""
    share = 0.0 if lab.on == CPU else min(1.0, ray.cluster_resources().get("GPU", 0) / count)
    hire = ray.remote(num_cpus=1, num_gpus=share, max_restarts=DEATHS, max_task_retries=TRIES - 1)(Worker)
    place = CPU if lab.on == CPU else "cuda:0"  # Ray shows each worker only its own GPU
    shared = ray.put(lab)
    return [hire.remote(shared, place) for _ in range(count)]


@contextmanager
def _joined(cluster: Cluster, gpus: int) -> Iterator[None]:
    """Connects this process to a cluster inside this context: to the one with the given address, or to a new one on
    this computer.  Raises BadScenario if that fails."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    loud = TRACEBACK in os.environ
    own = {"num_cpus": cluster.count, "num_gpus": gpus, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        with put_off(), _apart(), warnings.catch_warnings():
            if not loud:
                warnings.simplefilter("ignore")
            ray.init(
                cluster.address or "local",
                log_to_driver=loud,
                logging_level=logging.WARNING if loud else logging.CRITICAL,
                **({} if cluster.address else own),
            )
    except Exception as error:
        said = f"--ray-address {cluster.address}" if cluster.address else "--executor ray"
        raise BadScenario(f"{said}: {in_one_line(str(error))}") from None
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _apart() -> Iterator[None]:
    """Keeps processes that Ray starts inside this context out of this command's process group, on Linux.  A signal to
    the group, such as Ctrl-C, would end them before the rounds have ended.  They end when this process ends."""
    from ray._private import services

    usual = services.ConsolePopen
    if sys.platform == "linux":  # elsewhere a process of Ray ends them by their group
        services.ConsolePopen = partial(usual, process_group=0)
    try:
        yield
    finally:
        services.ConsolePopen = usual
