"""Workers of Ray against worker processes, run by run in turn, and how a study's time grows with its workers.

`python -m benchmarks.training --executor ray` is the first; this file, run itself, is the second.  It compares with
the model of docs/scaling.md: a round takes `serial + work / min(workers, cores)` seconds, where `work` is what its
trainings take one after the other.  Both are measured with one worker; rounds with more workers then check the model.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Annotated

import typer

from benchmarks.training import SHAPES, WORKERS, Pair, Shape, Speed, in_turn, lab_of, seconds
from benchmarks.verdict import judge
from emulator.compute.crew import executor
from emulator.compute.executors import Cluster
from emulator.lab.training import train, train_stack
from emulator.sessions.computing import ExecutorName

# --- Ray against processes --------------------------------------------------------------------------------------------


def race(shape: Shape) -> list[Pair]:
    """Seconds of each run, on workers of Ray and in worker processes."""
    lab = lab_of(shape)
    with executor(lab, Cluster(WORKERS)) as ray, executor(lab, WORKERS) as processes:
        sides = (partial(seconds, pool, lab, shape) for pool in (ray, processes))
        return in_turn(*sides, shape.runs, shape.rounds)


def race_all(names: Sequence[str], scale: float) -> None:
    """Prints a line for each shape, and fails if a bar was missed."""
    typer.echo(f"training: samples/s of the best run, {WORKERS} workers each")
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
    """The measurements with one number of workers."""

    workers: int
    start: float  # s until the first round begins
    round: float  # s, of the best run
    median_round: float  # s
    work: float  # s of the round's trainings, one after the other


def grown(shape: Shape, on: ExecutorName, workers: int) -> Grown:
    """Plays the shape's rounds with so many workers."""
    lab, began = lab_of(shape), time.perf_counter()
    crew = Cluster(workers) if on is ExecutorName.ray else workers
    with executor(lab, crew) as pool:
        warm = seconds(pool, lab, shape, 1)
        start = time.perf_counter() - began - warm
        each, work = [], []
        for _ in range(shape.runs):
            each.append(seconds(pool, lab, shape, shape.rounds) / shape.rounds)
            took = pool.batches.seconds  # type: ignore[union-attr]
            work.append(took[train] * shape.cohort if train in took else took[train_stack])
    return Grown(workers, start, min(each), median(each), min(work))


def main(
    on: Annotated[ExecutorName, typer.Option("--executor", help="What trains.")] = ExecutorName.processes,
    shape: Annotated[str, typer.Option(help=f"One of {', '.join(SHAPES)}.")] = "many",
    workers: Annotated[str, typer.Option(help="Counts, the first of them 1.")] = "1,2,4",
    scale: Annotated[float, typer.Option(min=0, help="Share of the work.")] = 1.0,
) -> None:
    """Measures a round's time with more and more workers, and compares it with the model of docs/scaling.md."""
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
