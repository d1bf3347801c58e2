"""Real training through fedlapse on 2 workers, against a bare PyTorch loop of the same steps in 2 processes.

Three shapes: few devices with much data, many with little, and many that take one step of a linear model.  The examples
are random numbers of MNIST's shape: speed does not depend on what is learnt, and so the benchmark needs no files.  Each
run of fedlapse is followed by as many rounds of the bare loop, so that both see the same noise; the first of each warms
up and does not count.

With --executor ray it is 2 workers of Ray against fedlapse's own worker processes (benchmarks/on_ray.py).
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer

from algorithms.algorithm import Training
from algorithms.fedavg import FedAvg
from algorithms.networks import Network
from benchmarks import bare
from benchmarks.memory import Watched, give_back
from benchmarks.verdict import judge
from devices.data.dataset import Dataset
from devices.device import Device, profiles
from emulator.compute.executor import Executor
from emulator.compute.executors import Processes
from emulator.compute.garbage import let_stay
from emulator.compute.remembering import remembering
from emulator.conversation.rounds import RoundRules
from emulator.lab import stacking
from emulator.lab.lab import Division, Lab
from emulator.ledger.ledger import Ledger
from emulator.play.conduct import Conduct
from emulator.play.metrics import Schedule
from emulator.play.run import run_virtual
from emulator.record.run import Run
from emulator.sessions.computing import ExecutorName
from network.links.link import Link

TESTS = 10_000  # test examples in all
WORKERS = 2
RUN = Run("fedavg", 1)
Pair = tuple[float, float]  # s of fedlapse, and of the other side
EVALUATED = 3  # runs with evaluation
WITHIN = 0.02  # below its bar a ratio still counts as met: noise


@dataclass(frozen=True)
class Shape:
    """A fleet with its work, and what is asked for."""

    model: str  # as scenarios name it
    devices: int
    examples: int  # of each device
    cohort: int
    training: Training
    runs: int  # measured, without evaluation
    rounds: int  # of each
    least: float  # of the bare loop's samples/s
    least_with_ledger: float | None
    most_memory: float  # GB, of all processes together
    least_on_ray: float | None = None  # of the worker processes' samples/s

    def scaled(self, scale: float) -> Shape:
        """The shape with this share of its examples and of its runs."""
        return replace(self, examples=max(10, round(scale * self.examples)), runs=max(1, round(scale * self.runs)))

    @property
    def samples(self) -> int:
        """Examples trained in a run."""
        return self.rounds * self.cohort * self.training.epochs * self.examples


CNN, LINEAR = "mnist-cnn", "benchmarks.bare:linear"
SHAPES = {
    "few": Shape(CNN, 10, 6_000, 2, Training(epochs=2, batch=64, lr=0.05), 7, 1, 0.97, 0.95, 1.6, 0.9),
    "many": Shape(CNN, 1_000, 60, 50, Training(epochs=1, batch=20, lr=0.05), 5, 3, 0.88, 0.85, 1.6, 0.9),
    "linear": Shape(LINEAR, 1_000, 20, 100, Training(epochs=1, batch=20, lr=0.05), 9, 10, 1.0, None, 1.0),
}


def _whole(held: dict[str, Any]) -> dict[str, tuple[Any]]:
    """One time slice: these data never change."""
    return {name: (indices,) for name, indices in held.items()}


def lab_of(shape: Shape, tests: int = TESTS) -> Lab:
    """Devices with random examples, a tenth of which serves as their validation set too."""
    rng = np.random.default_rng(1)
    x = rng.random((shape.devices * shape.examples, 1, 28, 28), dtype=np.float32)
    y, y_test = rng.integers(10, size=len(x)), rng.integers(10, size=tests)
    names = [f"pi-4-{k:03}" for k in range(shape.devices)]
    train = dict(zip(names, np.split(np.arange(len(x)), shape.devices), strict=True))
    validation = {name: held[: shape.examples // 10] for name, held in train.items()}
    shards = dict(zip(names, np.array_split(np.arange(tests), shape.devices), strict=True))
    data = Dataset("random", x, y, rng.random((tests, 1, 28, 28), dtype=np.float32), y_test, classes=10)
    return Lab(
        model=Network(shape.model),
        dataset=data,
        splits={RUN.seed: Division(_whole(train), _whole(validation), _whole(shards), np.arange(min(len(x), 64)))},
        algorithms={RUN.label: FedAvg(shape.training)},
        fleet={name: Device(name, profiles()["pi-4"]) for name in names},
        links=dict.fromkeys(names, Link.of(5, 20, 30)),
        server=Device("server", profiles()["workstation"]),
        server_link=Link.of(100, 100, 5),
        stack={RUN.label: stacking.size(shape.model, data, shape.training.batch, shape.cohort)},
    )


@contextmanager
def pool_of(lab: Lab, with_ledger: bool) -> Iterator[Executor]:
    """fedlapse's workers; a ledger is a new one on the disk."""
    if not with_ledger:
        with Processes(lab, WORKERS) as pool:
            yield pool
        return
    with tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder:
        ledger = Ledger(Path(folder), typer.echo)
        with remembering(lab, ledger, WORKERS, ledger.facts.about("bench")) as remembers:
            yield remembers


def seconds(pool: Executor, lab: Lab, shape: Shape, rounds: int, every: int = 0) -> float:
    """Seconds of a fedlapse run, from first model to last row, with evaluation every so many rounds (0: never)."""
    rules = RoundRules(max=rounds, needed=shape.cohort, ask=shape.cohort)
    conduct, stamps = Conduct(rules, Schedule(every, personalise_every=None)), list[float]()

    def going_on() -> bool:
        """Is asked after the first model, and after each round."""
        stamps.append(time.perf_counter())
        return True

    with tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder:
        asyncio.run(run_virtual(lab, RUN, conduct, pool, Path(folder), going_on))
    return stamps[-1] - stamps[0]


def in_turn(ours: Callable[[int], float], theirs: Callable[[int], float], runs: int, rounds: int) -> list[Pair]:
    """Seconds of so many runs of both sides, one after the other; each is told the number of rounds."""
    let_stay()  # as the commands do
    ours(1), theirs(1)  # warm up
    return [(ours(rounds), theirs(rounds)) for _ in range(runs)]


def all_processes() -> list[int]:
    """This one, its workers, and the one that they were forked from."""
    workers = [process.pid for process in active_children() if process.pid]
    stats = [Path(f"/proc/{pid}/stat").read_text(encoding="utf-8") for pid in workers]
    return [*{os.getpid(), *workers, *(int(stat.rpartition(")")[2].split()[1]) for stat in stats)}]


def race(shape: Shape, lab: Lab, files: Path, with_ledger: bool, runs: int, every: int) -> tuple[list[Pair], int]:
    """Seconds of each run, fedlapse's and the bare loop's; and the most memory that fedlapse's processes used."""
    with (
        pool_of(lab, with_ledger) as ours,
        Watched(all_processes()) as memory,
        bare.workers(WORKERS, files, shape.devices) as theirs,
    ):
        play = partial(seconds, ours, lab, shape, every=every)
        loop = partial(bare.seconds, theirs, shape.model, shape.training, shape.cohort)
        return in_turn(play, loop, runs, shape.rounds), memory.most


@dataclass(frozen=True)
class Speed:
    """Samples per second of both sides in their best runs: noise only ever adds to the time."""

    what: str
    ours: float
    bare: float
    paired: float  # median over runs of fedlapse's speed / that of the bare loop right after it
    memory: float  # GB of all of fedlapse's processes, at most

    @classmethod
    def of(cls, what: str, samples: int, seconds: Sequence[Pair], memory: int) -> Speed:
        """The speeds from the seconds (fedlapse, bare) of runs with so many samples."""
        ours, bare = (samples / min(side) for side in zip(*seconds, strict=True))
        return cls(what, ours, bare, median(theirs / own for own, theirs in seconds), memory / 1e9)

    @property
    def ratio(self) -> float:
        """The ratio of the best runs."""
        return self.ours / self.bare


def measure(name: str, with_ledger: bool, scale: float, evaluated: int = EVALUATED) -> list[Speed]:
    """Training alone, and with evaluation each round; `scale` is the share of each device's examples, and of runs."""
    shape = SHAPES[name].scaled(scale)
    lab = lab_of(shape)
    assert lab.dataset
    with tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder:
        np.save(Path(folder) / "x.npy", lab.dataset.x)
        np.save(Path(folder) / "y.npy", lab.dataset.y)
        alone = race(shape, lab, Path(folder), with_ledger, shape.runs, every=0)
        beside = race(shape, lab, Path(folder), with_ledger, evaluated, every=1)
    return [Speed.of(name, shape.samples, *alone), Speed.of(f"{name}, evaluated", shape.samples, *beside)]


def missed(name: str, with_ledger: bool, speeds: Sequence[Speed]) -> list[str]:
    """The bars that were missed, in sentences: of speed for training alone, of memory for both."""
    shape, found = SHAPES[name], []
    least = shape.least_with_ledger if with_ledger else shape.least
    if least and speeds[0].ratio < least - WITHIN:
        found.append(f"{name}: {speeds[0].ratio:.3f} of the bare loop's samples/s; at least {least} is asked for")
    most = max(speed.memory for speed in speeds)
    if most > shape.most_memory:
        found.append(f"{name}: {most:.2f} GB of memory; at most {shape.most_memory} is asked for")
    return found


def table(speeds: Sequence[Speed]) -> str:
    """A line for each speed."""
    lines = ["                      fedlapse      bare  ratio  median ratio  memory"]
    lines += [
        f"{speed.what:20} {speed.ours:9,.0f} {speed.bare:9,.0f}  {speed.ratio:.3f} {speed.paired:13.3f} "
        f"{speed.memory:4.2f} GB"
        for speed in speeds
    ]
    return "\n".join(lines)


def main(
    scale: Annotated[float, typer.Option(min=0, help="Share of the work; below 1 nothing is judged.")] = 1.0,
    shape: Annotated[str | None, typer.Option(help=f"One of {', '.join(SHAPES)}; all of them if not given.")] = None,
    ledger: Annotated[bool, typer.Option(help="With a ledger on the disk.")] = False,
    executor: Annotated[ExecutorName, typer.Option(help="ray: against worker processes.")] = ExecutorName.processes,
) -> None:
    """Measures the share of a bare PyTorch loop's speed that is left when fedlapse trains, and its memory."""
    if executor is ExecutorName.ray:
        from benchmarks import on_ray

        on_ray.race_all([shape] if shape else list(SHAPES), scale)
        return
    typer.echo(f"training: samples/s of the best run, {WORKERS} processes{', with a ledger' if ledger else ''}")
    faults = []
    for name in [shape] if shape else SHAPES:
        speeds = measure(name, ledger, scale)
        typer.echo(table(speeds))
        faults += missed(name, ledger, speeds)
        give_back()
    judge(faults if scale >= 1 else [])


if __name__ == "__main__":
    typer.run(main)
