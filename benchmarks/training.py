"""Real training through fedlapse on 2 workers, against a bare PyTorch loop of the same steps in 2 processes.

The MNIST CNN, 10 clients of 6,000 examples, 2 a round, E=2, B=64.  The examples are random numbers of MNIST's
shape: speed does not depend on what is learnt, and so the benchmark needs no files.  Each round of fedlapse is
followed by the same steps of the bare loop, so that both see the same noise; round 0 warms up and does not count.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import nn
from torch.nn import functional as F

from algorithms import models
from algorithms.algorithm import Training
from algorithms.fedavg import FedAvg
from benchmarks.verdict import judge
from devices.data.dataset import Dataset
from devices.device import Device, profiles
from emulator.conversation.rounds import RoundRules
from emulator.play.conduct import Conduct
from emulator.play.metrics import Schedule
from emulator.play.run import run_virtual
from emulator.record.run import Run
from emulator.study.study import Split, Study
from emulator.worlds.executors import executor, keep_memory
from network.links.link import Link

LEAST = 0.95  # of the bare loop's samples/s
DEVICES, COHORT, EXAMPLES, TESTS = 10, 2, 6_000, 10_000  # TESTS in all
WORKERS = 2
TRAINING = Training(epochs=2, batch=64, lr=0.05)
RUN = Run("fedavg", 1)
ROUNDS = 7  # measured, without evaluation
EVALUATED = 3  # measured, with evaluation

# --- the bare loop ----------------------------------------------------------------------------------------


_shards: list[tuple[torch.Tensor, torch.Tensor]] = []  # in a worker of the bare loop: each client's examples


def arrive(files: Path) -> None:
    """Loads the data into memory, as a worker's first act."""
    torch.set_num_threads(1)
    keep_memory()
    x, y = np.load(files / "x.npy"), np.load(files / "y.npy")
    for own_x, own_y in zip(np.split(x, DEVICES), np.split(y, DEVICES), strict=True):
        _shards.append((torch.from_numpy(own_x), torch.from_numpy(own_y)))


def bare(client: int, seed: int) -> int:
    """One client's round; how many samples it took."""
    x, y = _shards[client]
    torch.manual_seed(seed)  # the weights, and then dropout
    loop(models.mnist_cnn(), x, y, seed)
    return TRAINING.epochs * len(y)


def loop(model: nn.Module, x: torch.Tensor, y: torch.Tensor, seed: int) -> None:
    """The steps of algorithms.local.sgd as one would write them by hand; the model holds the result."""
    model.train()
    for parameter in model.parameters():
        if parameter.dim() == 4:  # channels_last; with one input channel only a clone sets the strides
            parameter.data = parameter.data.clone(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=TRAINING.lr, fused=True)
    for epoch in range(TRAINING.epochs):
        order = torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(len(y)))
        for start in range(0, len(y), TRAINING.batch):
            chosen = order[start : start + TRAINING.batch]
            optimiser.zero_grad()
            torch.autograd.backward(F.cross_entropy(model(x[chosen]), y[chosen]))
            optimiser.step()


def bare_seconds(pool: Executor, round: int) -> float:
    """A round of the bare loop: as many clients, side by side."""
    began = time.perf_counter()
    for done in [pool.submit(bare, k % DEVICES, k) for k in range(COHORT * round, COHORT * (round + 1))]:
        done.result()
    return time.perf_counter() - began


# --- fedlapse ---------------------------------------------------------------------------------------------


def _whole(held: dict[str, Any]) -> dict[str, tuple[Any]]:
    """One time slice: these data never change."""
    return {name: (indices,) for name, indices in held.items()}


def study_of(examples: int) -> Study:
    """Ten clients with so many random examples each; a tenth of them serves as their validation set too."""
    rng = np.random.default_rng(1)
    x = rng.random((DEVICES * examples, 1, 28, 28), dtype=np.float32)
    tests = DEVICES * max(1, examples * TESTS // EXAMPLES // DEVICES)
    y, y_test = rng.integers(10, size=len(x)), rng.integers(10, size=tests)
    names = [f"pi-4-{k}" for k in range(DEVICES)]
    train = dict(zip(names, np.split(np.arange(len(x)), DEVICES), strict=True))
    validation = {name: held[: examples // 10] for name, held in train.items()}
    shards = dict(zip(names, np.split(np.arange(tests), DEVICES), strict=True))
    return Study(
        model="mnist-cnn",
        dataset=Dataset("random", x, y, x[:tests].copy(), y_test, classes=10),
        splits={RUN.seed: Split(_whole(train), _whole(validation), _whole(shards), np.arange(min(len(x), 64)))},
        algorithms={RUN.label: FedAvg(TRAINING)},
        fleet={name: Device(name, profiles()["pi-4"]) for name in names},
        links=dict.fromkeys(names, Link.of(5, 20, 30)),
        server=Device("server", profiles()["workstation"]),
        server_link=Link.of(100, 100, 5),
    )


@dataclass
class Race:
    """Rounds of fedlapse, and the bare loop after each of them while fedlapse's workers stand idle."""

    theirs: Callable[[int], float]  # plays a round of the bare loop; its seconds
    rounds: int  # after the first, which warms up
    seconds: list[tuple[float, float]] = field(default_factory=list)  # of a round: fedlapse, bare
    number: int = -1  # -1: the first model, before round 0
    began: float = 0.0

    def going_on(self) -> bool:
        """Called by the run between two rounds."""
        ours = time.perf_counter() - self.began
        if self.number >= 0:
            theirs = self.theirs(self.number)
            if self.number > 0:
                self.seconds.append((ours, theirs))
        self.number += 1
        self.began = time.perf_counter()
        return self.number <= self.rounds


def race(study: Study, files: Path, rounds: int, every: int) -> list[tuple[float, float]]:
    """Seconds of each round: fedlapse with evaluation every so many rounds (0: never), and the bare loop."""
    # One round more than is played: the last of a plan trains every device once, for `personalised`.
    conduct = Conduct(RoundRules(max=rounds + 2, needed=COHORT, ask=COHORT), Schedule(every=every))
    spawn = get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder,
        ProcessPoolExecutor(WORKERS, spawn, initializer=arrive, initargs=(files,)) as pool,
        executor(study, WORKERS) as ours,
    ):
        runner = Race(partial(bare_seconds, pool), rounds)
        asyncio.run(run_virtual(study, RUN, conduct, ours, Path(folder), runner.going_on))
    return runner.seconds


@dataclass(frozen=True)
class Speed:
    """Samples per second of both sides in their best rounds: noise only ever adds to the time."""

    what: str
    ours: float
    bare: float
    paired: float  # median over rounds of fedlapse's speed / that of the bare loop right after it

    @classmethod
    def of(cls, what: str, samples: int, seconds: Sequence[tuple[float, float]]) -> Speed:
        """From the seconds (fedlapse, bare) of rounds with so many samples."""
        ours, bare = (samples / min(side) for side in zip(*seconds, strict=True))
        return cls(what, ours, bare, median(theirs / own for own, theirs in seconds))

    @property
    def ratio(self) -> float:
        """Of the best rounds."""
        return self.ours / self.bare


def measure(scale: float, rounds: int = ROUNDS, evaluated: int = EVALUATED) -> list[Speed]:
    """Training alone, and with evaluation each round; `scale` is the share of each client's examples."""
    study = study_of(max(10, round(scale * EXAMPLES)))
    assert study.dataset
    samples = COHORT * TRAINING.epochs * len(study.dataset.x) // DEVICES
    with tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder:
        np.save(Path(folder) / "x.npy", study.dataset.x)
        np.save(Path(folder) / "y.npy", study.dataset.y)
        alone = race(study, Path(folder), rounds, every=0)
        beside = race(study, Path(folder), evaluated, every=1)
    return [Speed.of("evaluation off", samples, alone), Speed.of("evaluation each round", samples, beside)]


def missed(speeds: Sequence[Speed]) -> list[str]:
    """The bar that was missed, in a sentence; it is for training alone."""
    first = speeds[0]
    if first.ratio >= LEAST:
        return []
    return [f"fedlapse trains {first.ratio:.3f} of the bare loop's samples/s; at least {LEAST} is asked for"]


def table(speeds: Sequence[Speed]) -> str:
    """A line for each speed."""
    lines = ["                        fedlapse      bare  ratio  median ratio"]
    lines += [
        f"{speed.what:22} {speed.ours:9,.0f} {speed.bare:9,.0f}  {speed.ratio:.3f} {speed.paired:13.3f}"
        for speed in speeds
    ]
    return "\n".join(lines)


def main(
    scale: Annotated[float, typer.Option(min=0, help="Share of the work; below 1 nothing is judged.")] = 1.0,
) -> None:
    """How much of a bare PyTorch loop's speed is left when fedlapse does the training."""
    speeds = measure(scale)
    typer.echo(f"training: MNIST CNN on random data, samples/s of the best round, {WORKERS} processes\n{table(speeds)}")
    judge(missed(speeds) if scale >= 1 else [])


if __name__ == "__main__":
    typer.run(main)
