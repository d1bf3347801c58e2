"""Selects the executor: this process, worker processes, or workers of Ray."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from emulator.compute.executor import Executor
from emulator.compute.executors import Cluster, Inline, Members, Processes, Team
from emulator.compute.gpu.threaded import Threaded
from emulator.lab.lab import CPU, Lab

Workers = int | Cluster | Team  # a number of processes, workers of Ray, or running processes


def no_more(workers: Workers, most: int) -> Workers:
    """Returns the workers, limited to `most` in number, because more would have no work.  Returns a Team as it is."""
    if isinstance(workers, Team):
        return workers
    return replace(workers, most=most) if isinstance(workers, Cluster) else min(workers, most)


def executor(lab: Lab, workers: Workers, folder: Path | None = None) -> Executor:
    """Returns an executor with this number of worker processes (0: jobs run in this process), with workers of Ray (a
    Cluster), or with the running processes of a Team.

    Messages are stored in `folder`, if given.  A GPU that only one process uses is used by this process itself, so that
    uploads can stay in its memory.  Raises BadScenario if Ray cannot be used.
    """
    if isinstance(workers, Cluster):
        from emulator.compute.rays import Ray

        return Ray(lab, workers, folder)
    if isinstance(workers, Team):
        return Members(lab, workers, folder)
    if lab.on != CPU and workers <= 1 and not lab.over_sockets:
        return Threaded(lab, folder)
    return Processes(lab, workers, folder) if workers else Inline(lab, folder)
