"""Where real computation runs on Ray, on this computer or on a cluster.  The other places are in executors.py."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import ray

from emulator.compute.actors import Actors, Worker
from emulator.compute.batches import Batches, Done, Job, Orders
from emulator.compute.executor import Executor
from emulator.compute.executors import Cluster, keep_memory, paths, scratches
from emulator.compute.signals import put_off
from emulator.lab.guarded import TRACEBACK
from emulator.lab.lab import CPU, Lab
from emulator.ledger.results import refs
from emulator.messages.boxes import Boxes
from scenarios.text.faults import BadScenario, in_one_line

CLIENT = "ray://"
LONGEST = 0.2  # s of a batch: Ray takes 2 ms of the cores for each
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is reported to its makers
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else each worker warns that this will be so
    "RAY_worker_niceness": "0",  # its usual 15 leaves the cores to whatever else runs
}


class Ray(Executor):
    """See executor.Executor.  Lab and messages lie in Ray's object store, one copy on each node that needs them."""

    store: Boxes

    def __init__(self, lab: Lab, cluster: Cluster, folder: Path | None = None) -> None:
        """Messages that a ledger keeps lie in `folder`.  Raises BadScenario if Ray cannot be used."""
        keep_memory()
        with ExitStack() as unless_made:
            unless_made.enter_context(_joined(cluster, len(lab.trains_on) if lab.on != CPU else 0))
            scratch = [unless_made.enter_context(closing(each)) for each in scratches()]
            folders = paths(scratch)
            lab.data.put_away(folders[-1])  # so that it need not stay in this process's memory beside Ray's
            self.store = Boxes([folder, *folders] if folder else folders, ray.put, ray.get)
            unless_made.callback(self.store.give_back, keep=folder is not None)
            resource = "CPU" if lab.on == CPU else "GPU"
            count = _count(cluster, resource)
            if cluster.address and (word := busy(resource, ray.available_resources())):
                print(word, file=sys.stderr)
            near = not (cluster.address or "").startswith(CLIENT)
            self.pool = Actors(partial(_hire(lab, count).remote, ray.put(lab), _place(lab)), count, near)
            unless_made.callback(self.pool.close)
            self.leave = unless_made.pop_all()
        self.batches = Batches(self._send, count, self.store, LONGEST)

    def __exit__(self, *_: object) -> None:
        self.batches.cancel()
        self.leave.close()

    def stop(self) -> None:
        """Ends the workers now, not after their jobs."""
        self.pool.stop()

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        return self.batches.submit(job, args)

    def _send(self, orders: Orders) -> Future[Done]:
        return self.pool.submit(orders, self.store.objects(refs([args for _, args in orders])))


def _place(lab: Lab) -> str:
    """As a worker says it, to whom Ray shows its own GPU alone."""
    return CPU if lab.on == CPU else "cuda:0"


def _count(cluster: Cluster, resource: str) -> int:
    """How many workers there are to be."""
    found = cluster.count or int(ray.cluster_resources().get(resource, 0)) or 1
    return min(found, cluster.most or found)


def busy(resource: str, free: Mapping[str, float]) -> str | None:
    """What is said if no worker can begin yet: others may have the cluster for hours, or it may yet grow."""
    if free.get(resource, 0) >= 1:
        return None
    return f"fedlapse: the cluster has no free {resource}; the command waits until it has one"


def _hire(lab: Lab, count: int) -> Any:
    """What starts a worker."""
    gpus = 0.0 if lab.on == CPU else min(1.0, ray.cluster_resources().get("GPU", 0) / count)
    return ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0, max_task_retries=0)(Worker)


@contextmanager
def _joined(cluster: Cluster, gpus: int) -> Iterator[None]:
    """Meanwhile this process belongs to a cluster: to that with the address, or to a new one.  Raises BadScenario."""
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
    if not loud:
        _hush()
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _apart() -> Iterator[None]:
    """What Ray starts meanwhile does not hear the signals that a terminal sends to the process group of this command:
    it would go before the rounds have ended.  It ends when this process does."""
    from ray._private import services

    usual = services.ConsolePopen
    if sys.platform == "linux":  # elsewhere a process of Ray's own ends them, by their group
        services.ConsolePopen = partial(usual, process_group=0)
    try:
        yield
    finally:
        services.ConsolePopen = usual


def _hush() -> None:
    """Ray prints when a worker dies, whatever the level of its log is; this command says itself what matters."""
    from ray._private import worker

    worker.print_to_stdstream = lambda *_, **__: None
