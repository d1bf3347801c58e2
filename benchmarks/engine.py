"""The engine's own cost of a device-round: a no-op algorithm, a model of two weights, no data, no evaluation.

A device-round is one device asked, trained and counted: its events, transfers, bookkeeping and lines in the record.
The engine's own time is that of the run without what is spent inside jobs.  It is judged in device-rounds of a bare
simulation (bare_clock.py), which is measured in turns with it.  `make bench` fails above the bars.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from torch import nn

from algorithms import models
from algorithms.algorithm import Message, Party, Reply, Training
from algorithms.cohort import drawn
from algorithms.fedavg import FedAvg
from benchmarks import bare_clock
from benchmarks.verdict import judge
from devices.data.dataset import Dataset
from devices.device import Device, profiles
from emulator.conversation.rounds import RoundRules
from emulator.lab.guarded import Guarded
from emulator.lab.lab import Lab, Split
from emulator.lab.store import Store
from emulator.play.conduct import Conduct
from emulator.play.metrics import Schedule
from emulator.play.run import run_virtual
from emulator.record.run import Run
from emulator.worlds.executor import Executor
from emulator.worlds.executors import Inline
from emulator.worlds.garbage import let_stay
from network.links.link import Link

# Device-rounds of the bare simulation that one of the engine may cost, from a cohort of so many on.  With two builds of
# Python 3.11 it was 5.5 to 8.0, and 8.2 to 11.7: an optimised one makes the bare simulation faster yet.
MOST = {100: 9.0, 0: 13.0}
FLAT = 1.3  # times what it costs in the smallest fleet with this cohort
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
    bare: float  # of the bare simulation, with this cohort

    @property
    def ratio(self) -> float:
        """How many device-rounds of the bare simulation it costs."""
        return self.own / self.bare


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
        model="two-weights",
        dataset=Dataset("nothing", x, y, x, y, classes=1),
        splits={1: Split(shards, shards, shards, one)},
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
    return Cost(len(lab.fleet), cohort, seconds / device_rounds, own / device_rounds, bare_clock.seconds(cohort))


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
    best = [min(costs[case], key=lambda cost: cost.own) for case in cases]
    return [replace(cost, bare=_least(costs, cost.cohort)) for cost in best]


def _least(costs: Mapping[tuple[int, int], Sequence[Cost]], cohort: int) -> float:
    """What the bare simulation cost with this cohort at best, beside any of the fleets."""
    return min(cost.bare for case, measured in costs.items() if case[0] == cohort for cost in measured)


def growth(cost: Cost, costs: Sequence[Cost]) -> float:
    """How many times the cost in the smallest fleet with the same cohort."""
    return cost.own / min((c for c in costs if c.cohort == cost.cohort), key=lambda c: c.fleet).own


def missed(costs: Sequence[Cost]) -> list[str]:
    """The bars that were missed, a sentence each."""
    faults = []
    for cost in costs:
        where = f"a fleet of {cost.fleet:,} with a cohort of {cost.cohort}"
        most = next(ratio for cohort, ratio in MOST.items() if cost.cohort >= cohort)
        if cost.ratio > most:
            faults.append(f"{where} costs {cost.ratio:.1f} times the bare simulation; at most {most:g} are allowed")
        if growth(cost, costs) > FLAT:
            faults.append(f"{where} costs {growth(cost, costs):.2f} times the smallest; at most {FLAT} are allowed")
    return faults


def table(costs: Sequence[Cost]) -> str:
    """A line for each cost."""
    lines = ["  fleet  cohort  own us  x bare  with jobs us  x smallest fleet"]
    for cost in costs:
        own, whole, times = cost.own * 1e6, cost.whole * 1e6, growth(cost, costs)
        lines.append(f"{cost.fleet:7,} {cost.cohort:7} {own:7.0f} {cost.ratio:7.1f} {whole:13.0f} {times:17.2f}")
    return "\n".join(lines)


def main(
    scale: Annotated[float, typer.Option(min=0, help="Share of the work; below 1 nothing is judged.")] = 1.0,
) -> None:
    """What the engine itself costs per device-round, in fleets of 100 to 100,000 devices."""
    costs = measure_all(scale)
    typer.echo(f"engine: no-op algorithm, best of {REPETITIONS}, us per device-round\n{table(costs)}")
    judge(missed(costs) if scale >= 1 else [])


if __name__ == "__main__":
    typer.run(main)
