"""The engine's own cost of a device-round: a no-op algorithm, a model of two weights, no data, no evaluation.

A device-round is one device asked, trained and counted: its events, transfers, bookkeeping and lines in the record.
The engine's own time is that of the run without what is spent inside jobs.  It is shown and not judged: where devices
really train, it is a small part (benchmarks/training.py).
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from torch import nn

from algorithms import models
from algorithms.algorithm import Message, Party, Reply, Training
from algorithms.cohort import drawn
from algorithms.fedavg import FedAvg
from algorithms.networks import Network
from devices.data.dataset import Dataset
from devices.device import Device, profiles
from emulator.compute.executor import Executor
from emulator.compute.executors import Inline
from emulator.compute.garbage import let_stay
from emulator.conversation.rounds import RoundRules
from emulator.lab.guarded import Guarded
from emulator.lab.lab import Division, Lab
from emulator.messages.store import Store
from emulator.play.conduct import Conduct
from emulator.play.metrics import Schedule
from emulator.play.run import run_virtual
from emulator.record.run import Run
from network.links.link import Link

FLEETS = (100, 1_000, 10_000, 100_000)
COHORTS = (10, 100)
DEVICE_ROUNDS = 2_000  # in one measurement, at full scale
REPETITIONS = 5  # taken in turns; the best counts, for noise only ever adds
LINKS = tuple(Link.of(up, 4 * up, latency) for up, latency in ((1, 60), (2, 40), (5, 30), (10, 20), (25, 10)))


@dataclass(frozen=True)
class Nothing(FedAvg):
    """Devices answer with what they got, and the server keeps what it has; both are charged as FedAvg is."""

    def train(self, download: Message, device: Party) -> Reply:
        return Reply(download, len(device.y))

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:  # noqa: ARG002
        return state


class Stopwatch(Executor):
    """Runs jobs at once, in this process, and knows how long they took."""

    def __init__(self, lab: Lab) -> None:
        self.inline, self.seconds = Inline(lab), 0.0
        self.store = self.inline.store

    def submit(self, job: Callable[..., Any], *args: Any) -> Future[Any]:
        return self.inline.submit(self._timed, job, *args)

    def _timed(self, lab: Lab, store: Store, job: Callable[..., Any], *args: Any) -> Any:
        began = time.perf_counter()
        try:
            return job(lab, store, *args)
        finally:
            self.seconds += time.perf_counter() - began


@dataclass(frozen=True)
class Cost:
    """Seconds per device-round."""

    fleet: int
    cohort: int
    whole: float
    own: float  # without the time inside jobs


def lab_of(fleet: int) -> Lab:
    """So many devices of all profiles and several links, who share one example."""
    models.MODELS.setdefault(
        "two-weights", models.Design(lambda: nn.Sequential(nn.Flatten(), nn.Linear(1, 1)), (1, 1, 1))
    )
    x, y, one = np.zeros((1, 1, 1, 1), np.float32), np.zeros(1, np.int64), np.zeros(1, np.int64)
    names = [f"device-{k:05}" for k in range(fleet)]
    shards = dict.fromkeys(names, (one,))
    kinds = list(profiles().values())
    return Lab(
        model=Network("two-weights"),
        dataset=Dataset("nothing", x, y, x, y, classes=1),
        splits={1: Division(shards, shards, shards, one)},
        algorithms={"nothing": Guarded("nothing", Nothing(Training(epochs=1, batch=32, lr=0.1)))},
        fleet={name: Device(name, kinds[k % len(kinds)]) for k, name in enumerate(names)},
        links={name: LINKS[k % len(LINKS)] for k, name in enumerate(names)},
        server=Device("server", profiles()["workstation"]),
        server_link=Link.of(100, 100, 5),
        always_on=True,
    )


def measure(lab: Lab, cohort: int, rounds: int, folder: Path) -> Cost:
    """Plays `rounds` rounds of `cohort` devices; the record goes to `folder`."""
    conduct, executor = Conduct(RoundRules(rounds, cohort, cohort), Schedule(every=0)), Stopwatch(lab)
    let_stay()  # as the commands do
    drawn.cache_clear()  # what the repetition before has drawn, too
    began = time.perf_counter()
    asyncio.run(run_virtual(lab, Run("nothing", 1), conduct, executor, folder))
    seconds, device_rounds = time.perf_counter() - began, cohort * rounds
    own = seconds - executor.seconds
    return Cost(len(lab.fleet), cohort, seconds / device_rounds, own / device_rounds)


def measure_all(scale: float, repetitions: int = REPETITIONS) -> list[Cost]:
    """The best of the repetitions for each cohort and fleet, by cohort and then by fleet."""
    cases = sorted({(min(cohort, fleet), fleet) for cohort in COHORTS for fleet in FLEETS})
    studies = {fleet: lab_of(fleet) for fleet in FLEETS}
    costs: dict[tuple[int, int], list[Cost]] = {case: [] for case in cases}
    for _ in range(repetitions):
        for cohort, fleet in cases:
            rounds = max(1, round(scale * DEVICE_ROUNDS / cohort))
            with tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder:
                costs[cohort, fleet].append(measure(studies[fleet], cohort, rounds, Path(folder)))
    return [min(costs[case], key=lambda cost: cost.own) for case in cases]


def growth(cost: Cost, costs: Sequence[Cost]) -> float:
    """The cost over that in the smallest fleet with the same cohort."""
    return cost.own / min((c for c in costs if c.cohort == cost.cohort), key=lambda c: c.fleet).own


def table(costs: Sequence[Cost]) -> str:
    """A line for each cost."""
    lines = ["  fleet  cohort  own us  with jobs us  x smallest fleet"]
    for cost in costs:
        own, whole, times = cost.own * 1e6, cost.whole * 1e6, growth(cost, costs)
        lines.append(f"{cost.fleet:7,} {cost.cohort:7} {own:7.0f} {whole:13.0f} {times:17.2f}")
    return "\n".join(lines)


def main(
    scale: Annotated[float, typer.Option(min=0, help="Share of the work.")] = 1.0,
) -> None:
    """Measures the engine's own cost per device-round, in fleets of 100 to 100,000 devices."""
    costs = measure_all(scale)
    typer.echo(f"engine: no-op algorithm, best of {REPETITIONS}, us per device-round\n{table(costs)}")


if __name__ == "__main__":
    typer.run(main)
