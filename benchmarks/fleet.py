"""What a large fleet costs: to start a run of it, in memory, and in each round.

A scenario of so many devices, each with a drawn speed, rate and 50 drawn examples, of whom 100 are asked in a round;
no evaluation, and devices that answer with what they got, so that what is measured is the engine's.  Each fleet is
measured in a process of its own, without workers.  Seconds are the processor's.  Start: from the beginning of the
process to the first job; a device-round: what then passes outside of jobs, as in benchmarks/engine.py.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from torch import nn

from emulator.feasible import check_deadline
from emulator.jobs import Run
from emulator.run import Conduct, run_virtual, study_of
from emulator.workshop import Inline, Job
from scenarios.load import build
from scenarios.schema import Scenario

FLEETS = (100, 10_000, 100_000)
COHORT = 100
ROUNDS = 20  # in one measurement, at full scale
START = 5.0  # s
MEMORY = 1e9  # bytes
FLAT = 2.0  # times what a device-round costs in the smallest fleet
REPETITIONS = 3  # the best counts, for noise only ever adds


@dataclass(frozen=True)
class Cost:
    """Of one fleet."""

    fleet: int
    start: float  # s
    memory: int  # bytes, the most that the process ever held
    own: float  # s per device-round


class Stopwatch(Inline):
    """Runs jobs at once, in this process; when it was given the first, and how long all of them took."""

    began: float | None = None
    seconds = 0.0

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        before = time.process_time()
        self.began = before if self.began is None else self.began
        done = super().submit(job, *args)
        self.seconds += time.process_time() - before
        return done


def tiny() -> nn.Module:
    """A model for the digits."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def scenario_of(fleet: int, rounds: int) -> Scenario:
    """So many devices with links that differ, of whom COHORT are asked."""
    rate = {"lognormal": {"median": 10, "sigma": 0.5}}
    link = {"up_mbit_s": 2, "down_mbit_s": rate, "latency_ms": 40}
    return build(
        {
            "name": "fleet",
            "data": {"set": "digits", "split": {"kind": "draw", "each": 50}},
            "model": "benchmarks.fleet:tiny",
            "rounds": {"max": rounds, "fraction": min(1.0, COHORT / fleet), "deadline_s": 1000},
            "evaluate": {"every": 0},
            "fleet": [{"profile": "pi-4", "count": fleet, "speed_gflop_s": rate, "link": link}],
            "algorithms": [{"algorithm": "benchmarks.engine:Nothing", "name": "nothing"}],
        }
    )


def measure(fleet: int, rounds: int, folder: Path) -> Cost:
    """Plays `rounds` rounds in this process; the record goes to `folder`."""
    scenario = scenario_of(fleet, rounds)
    study = study_of(scenario)
    check_deadline(study, scenario)
    gc.collect()
    gc.freeze()  # as the commands do
    executor = Stopwatch(study)
    asyncio.run(run_virtual(study, Run("nothing", 1), Conduct.of(scenario), executor, folder))
    assert executor.began is not None
    own = time.process_time() - executor.began - executor.seconds
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Cost(fleet, executor.began, memory, own / (COHORT * rounds))


def measure_apart(fleet: int, rounds: int) -> Cost:
    """The same in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder:
        command = [sys.executable, "-m", "benchmarks.fleet", "--only", str(fleet), "--rounds", str(rounds)]
        said = subprocess.run([*command, "--folder", folder], check=True, capture_output=True, text=True)
    return Cost(**json.loads(said.stdout))


def measure_all(scale: float, repetitions: int = REPETITIONS) -> list[Cost]:
    """The best of the repetitions for each fleet."""
    rounds = max(1, round(scale * ROUNDS))
    costs = [[measure_apart(fleet, rounds) for fleet in FLEETS] for _ in range(repetitions)]
    return [
        Cost(one[0].fleet, min(c.start for c in one), min(c.memory for c in one), min(c.own for c in one))
        for one in zip(*costs, strict=True)
    ]


def missed(costs: Sequence[Cost]) -> list[str]:
    """The bars that were missed, a sentence each."""
    faults = []
    for cost in costs:
        where = f"a fleet of {cost.fleet:,}"
        if cost.start > START:
            faults.append(f"{where} starts in {cost.start:.1f} s; at most {START:g} are allowed")
        if cost.memory > MEMORY:
            faults.append(f"{where} takes {cost.memory / 1e6:.0f} MB; at most {MEMORY / 1e6:.0f} are allowed")
        if cost.own > FLAT * costs[0].own:
            times = cost.own / costs[0].own
            faults.append(f"{where} costs {times:.2f} times the smallest in a round; at most {FLAT} are allowed")
    return faults


def table(costs: Sequence[Cost]) -> str:
    """A line for each fleet."""
    lines = ["  fleet  start s  memory MB  us per device-round  x smallest fleet"]
    for cost in costs:
        times = cost.own / costs[0].own
        lines.append(
            f"{cost.fleet:7,} {cost.start:8.1f} {cost.memory / 1e6:10.0f} {cost.own * 1e6:20.0f} {times:17.2f}"
        )
    return "\n".join(lines)


def main(
    scale: Annotated[float, typer.Option(min=0, help="Share of the work; below 1 nothing is judged.")] = 1.0,
    only: Annotated[int, typer.Option(hidden=True)] = 0,
    rounds: Annotated[int, typer.Option(hidden=True)] = ROUNDS,
    folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """What fleets of 100 to 100,000 devices cost to start, in memory, and in each round."""
    if only and folder is not None:
        typer.echo(json.dumps(asdict(measure(only, rounds, folder))))
        return
    costs = measure_all(scale)
    typer.echo(f"fleet: {COHORT} devices in a round, best of {REPETITIONS}\n{table(costs)}")
    faults = missed(costs) if scale >= 1 else []
    for fault in faults:
        typer.echo(f"missed: {fault}", err=True)
    raise typer.Exit(1 if faults else 0)


if __name__ == "__main__":
    typer.run(main)
