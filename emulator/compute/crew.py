"""Who computes: this process, worker processes, or workers of Ray."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from emulator.compute.executor import Executor
from emulator.compute.executors import Cluster, Inline, Members, Processes, Team
from emulator.compute.gpu.threaded import Threaded
from emulator.lab.lab import CPU, Lab

Workers = int | Cluster | Team  # how many processes, or those of Ray, or those that are there already


def no_more(workers: Workers, most: int) -> Workers:
    """So many workers, and no more than can have something to do."""
    if isinstance(workers, Team):
        return workers
    return replace(workers, most=most) if isinstance(workers, Cluster) else min(workers, most)


def executor(lab: Lab, workers: Workers, folder: Path | None = None) -> Executor:
    """That many worker processes, or with 0 this process; or workers of Ray.  Messages lie in `folder`, if it is given.
    A GPU that one process uses is used by this one, so that uploads can stay there.

    Raises BadScenario if Ray cannot be used.
    """
    if isinstance(workers, Cluster):
        from emulator.compute.rays import Ray

        return Ray(lab, workers, folder)
    if isinstance(workers, Team):
        return Members(lab, workers, folder)
    if lab.on != CPU and workers <= 1 and not lab.over_sockets:
        return Threaded(lab, folder)
    return Processes(lab, workers, folder) if workers else Inline(lab, folder)
