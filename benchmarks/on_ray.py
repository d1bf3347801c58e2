"""Workers of Ray against worker processes, round by round in turn, and how a study's time grows with its workers.

`python -m benchmarks.training --executor ray` is the first; this file, run itself, is the second.  It compares with
the model of docs/scaling.md: a round takes `serial + work / min(workers, cores)` seconds, where `work` is what its
trainings take one after the other.  Both are measured with one worker; rounds with more workers then check the model.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Semaphore, Thread
from typing import Annotated

import typer

from benchmarks.training import RUN, SHAPES, WORKERS, Race, Shape, Speed, conduct_of, lab_of
from benchmarks.verdict import judge
from emulator.commands.options import ExecutorName
from emulator.lab.jobs import train, train_stack
from emulator.lab.lab import Lab
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.worlds.crew import executor
from emulator.worlds.executors import Cluster, Executor
from emulator.worlds.garbage import let_stay


class InTurn:
    """A run that goes on by one round whenever it is asked to."""

    def __init__(self, lab: Lab, conduct: Conduct, pool: Executor, folder: Path) -> None:
        self.asked, self.done, self.ended = Semaphore(0), Semaphore(0), False
        self.thread = Thread(
            target=lambda: asyncio.run(run_virtual(lab, RUN, conduct, pool, folder, self._going_on)), daemon=True
        )
        self.thread.start()
        self.done.acquire()

    def _going_on(self) -> bool:
        self.done.release()
        self.asked.acquire()
        return not self.ended

    def seconds(self, _round: int) -> float:
        """Plays the next round; its seconds."""
        began = time.perf_counter()
        self.asked.release()
        self.done.acquire()
        return time.perf_counter() - began

    def end(self) -> None:
        """Of the run, after the last round that was asked for."""
        self.ended = True
        self.asked.release()
        self.thread.join()


# --- Ray against processes --------------------------------------------------------------------------------------------


def race(shape: Shape) -> list[tuple[float, float]]:
    """Seconds of each round, on workers of Ray and in worker processes."""
    lab, conduct = lab_of(shape), conduct_of(shape, shape.rounds, every=0)
    with (
        tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder,
        executor(lab, Cluster(WORKERS)) as ray,
        executor(lab, WORKERS) as processes,
    ):
        let_stay()  # as the commands do
        others = InTurn(lab, conduct, processes, Path(folder) / "processes")
        runner = Race(others.seconds, shape.rounds)
        asyncio.run(run_virtual(lab, RUN, conduct, ray, Path(folder) / "ray", runner.going_on))
        others.end()
    return runner.seconds


def race_all(names: Sequence[str], scale: float) -> None:
    """Prints a line for each shape, and fails if a bar was missed."""
    typer.echo(f"training: samples/s of the best round, {WORKERS} workers each")
    typer.echo("                           ray processes  ratio  median ratio")
    missed = []
    for name in names:
        shape = SHAPES[name].scaled(scale)
        speed = Speed.of(name, shape.samples, race(shape), memory=0)
        typer.echo(f"{name:20} {speed.ours:9,.0f} {speed.bare:9,.0f}  {speed.ratio:.3f} {speed.paired:13.3f}")
        if shape.least_on_ray and speed.ratio < shape.least_on_ray:
            missed.append(f"{name}: {speed.ratio:.3f} of the processes' samples/s; {shape.least_on_ray} is asked for")
    judge(missed if scale >= 1 else [])


# --- more workers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grown:
    """What some workers took."""

    workers: int
    start: float  # s until the first round begins
    round: float  # s, the best one
    median_round: float  # s
    work: float  # s of the round's trainings, one after the other


def grown(shape: Shape, on: ExecutorName, workers: int) -> Grown:
    """Plays the shape's rounds with so many workers."""
    lab, began = lab_of(shape), time.perf_counter()
    crew = Cluster(workers) if on is ExecutorName.ray else workers
    with tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder, executor(lab, crew) as pool:
        run = InTurn(lab, conduct_of(shape, shape.rounds, every=0), pool, Path(folder) / "run")
        start = time.perf_counter() - began
        run.seconds(0)  # warms up
        seconds, work = [], []
        for number in range(shape.rounds):
            seconds.append(run.seconds(number))
            each = pool.batches.seconds  # type: ignore[union-attr]
            work.append(each[train] * shape.cohort if train in each else each[train_stack])
        run.end()
    return Grown(workers, start, min(seconds), median(seconds), min(work))


def main(
    on: Annotated[ExecutorName, typer.Option("--executor", help="What trains.")] = ExecutorName.processes,
    shape: Annotated[str, typer.Option(help=f"One of {', '.join(SHAPES)}.")] = "many",
    workers: Annotated[str, typer.Option(help="Counts, the first of them 1.")] = "1,2,4",
    scale: Annotated[float, typer.Option(min=0, help="Share of the work.")] = 1.0,
) -> None:
    """How a round's time grows with the workers, and what the model of docs/scaling.md says."""
    cores = os.cpu_count() or 1
    typer.echo(f"{shape} on {on.value}, {cores} cores: seconds")
    typer.echo("workers  start-up  round (median)  model  round / model")
    counts = [int(count) for count in workers.split(",")]
    one = None
    for count in counts:
        found = grown(SHAPES[shape].scaled(scale), on, count)
        one = one or found
        model = one.round - one.work + one.work / min(count, cores)
        typer.echo(
            f"{count:7} {found.start:9.1f} {found.round:6.3f} ({found.median_round:.3f}) {model:7.3f}"
            f" {found.round / model:14.2f}"
        )
    typer.echo(f"model: {one.round - one.work:.3f} + {one.work:.3f} / min(workers, {cores})" if one else "")


if __name__ == "__main__":
    typer.run(main)
