"""Measures the cost of a large fleet: to start a run, in memory, and in each round.

The scenario has this many devices, each with a drawn speed, rate and 50 drawn examples; 100 of them are asked in a
round.  There is no evaluation, and devices reply with the model that they received, so that only the engine is
measured.  The devices of some fleets come and go: sessions of half an hour, absences of an hour, and nights.  Last, the
same fleet is played with 1,000 devices in synchronous rounds, and with 1,000 at work in asynchronous ones.  Each fleet
is measured in its own process, without workers.  Seconds are processor seconds.  Start: from the beginning of the
process to the first job; first: to the end of the first round; a device-round: the time outside of jobs between the end
of the first round, or of as many replies, and that of the last, so that as many devices are at work at both ends.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from torch import nn

from benchmarks.verdict import judge
from emulator.compute.executors import Inline, Job
from emulator.compute.garbage import let_stay
from emulator.forecast.deadline import check_deadline
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.play.stage import Row
from emulator.record.run import Run
from scenarios.load import build
from scenarios.schema.scenario import Scenario

# Devices; whether they come and go.
FLEETS = ((100, False), (10_000, False), (100_000, False), (10_000, True), (100_000, True))
COHORT = 100
MANY = 1000  # devices in a synchronous round, or at work, where both modes are compared
MODES = ((100_000, "sync"), (100_000, "async"))
ASYNC = 1.3  # times what a device-round costs in synchronous rounds
ROUNDS = 20  # in one measurement, at full scale
START = 5.0  # s, to the end of the first round
MEMORY = 1e9  # bytes
FLAT = 2.0  # times what a device-round costs in the smallest fleet of its kind
REPETITIONS = 3  # the best counts, for noise only ever adds


@dataclass(frozen=True)
class Cost:
    """The measured cost of one fleet."""

    fleet: int
    comes: bool  # and goes
    start: float  # s
    first: float  # s
    memory: int  # bytes, the most that the process ever held
    own: float  # s per device-round
    mode: str = ""  # sync or async: MANY devices; otherwise COHORT


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


def scenario_of(fleet: int, comes: bool, rounds: int, mode: str = "") -> Scenario:
    """So many devices with links that differ, of whom COHORT are asked, or MANY in rounds of this mode."""
    course = {"fraction": min(1.0, (MANY if mode else COHORT) / fleet), "deadline_s": 1000}
    if mode == "async":
        course = {"mode": mode, "in_flight": MANY, "buffer": MANY // 10}
    presence = {"renewal": {"mean_on_s": 1800, "mean_off_s": 3600}, "night": True} if comes else {}
    rate = {"lognormal": {"median": 10, "sigma": 0.5}}
    link = {"up_mbit_s": 2, "down_mbit_s": rate, "latency_ms": 40}
    return build(
        {
            "name": "fleet",
            "data": {"set": "digits", "split": {"kind": "draw", "each": 50}},
            "model": "benchmarks.fleet:tiny",
            "rounds": {"max": rounds, **course},
            "evaluate": {"every": 0},
            "fleet": [{"profile": "pi-4", "count": fleet, "speed_gflop_s": rate, "link": link, "presence": presence}],
            "algorithms": [{"algorithm": "benchmarks.engine:Nothing", "name": "nothing"}],
        }
    )


def measure(fleet: int, comes: bool, rounds: int, folder: Path, mode: str = "") -> Cost:
    """Plays `rounds` rounds, 2 at least, in this process, or as many replies in asynchronous ones; the record goes to
    `folder`."""
    scenario, closed, marks = scenario_of(fleet, comes, rounds, mode), list[float](), list[float]()
    lab = lab_of(scenario)
    check_deadline(lab, scenario)
    let_stay()  # as the commands do
    executor, conduct = Stopwatch(lab), Conduct.of(scenario)

    def mark() -> bool:
        marks.append(time.process_time() - executor.seconds)
        return True

    asyncio.run(run_virtual(lab, Run("nothing", 1), conduct, executor, folder, mark, _noting(closed)))
    assert executor.began is not None
    own = marks[-1] - marks[(len(marks) - 1) // rounds]  # before the first round there is a mark, too
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    device_rounds = (MANY if mode else COHORT) * (rounds - 1)
    return Cost(fleet, comes, executor.began, closed[0], memory, own / device_rounds, mode)


def _noting(closed: list[float]) -> Callable[[Run, Row], None]:
    """Adds the processor's seconds at each round that is told of."""
    return lambda _run, _row: closed.append(time.process_time())


def measure_apart(fleet: int, comes: bool, rounds: int, mode: str = "") -> Cost:
    """Measures in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder:
        command = [sys.executable, "-m", "benchmarks.fleet", "--only", str(fleet), "--rounds", str(rounds)]
        command += ["--folder", folder, "--mode", mode, *(["--comes"] if comes else [])]
        said = subprocess.run(command, check=True, capture_output=True, text=True)
    return Cost(**json.loads(said.stdout))


def measure_all(scale: float, repetitions: int = REPETITIONS) -> list[Cost]:
    """The best of the repetitions for each fleet."""
    rounds = max(2, round(scale * ROUNDS))
    costs = [
        [
            *(measure_apart(*fleet, rounds) for fleet in FLEETS),
            *(measure_apart(fleet, False, max(2, rounds // 2), mode) for fleet, mode in MODES),
        ]
        for _ in range(repetitions)
    ]
    return [_best(one) for one in zip(*costs, strict=True)]


def _best(costs: Sequence[Cost]) -> Cost:
    start, first = min(cost.start for cost in costs), min(cost.first for cost in costs)
    memory, own = min(cost.memory for cost in costs), min(cost.own for cost in costs)
    return replace(costs[0], start=start, first=first, memory=memory, own=own)


def missed(costs: Sequence[Cost]) -> list[str]:
    """The bars that were missed, a sentence each."""
    faults = []
    for cost in costs:
        where = f"a fleet of {cost.fleet:,}{' that comes and goes' if cost.comes else ''}"
        where += f" in {cost.mode} rounds" if cost.mode else ""
        if cost.first > START:
            faults.append(f"{where} ends its first round after {cost.first:.1f} s; at most {START:g} are allowed")
        if cost.memory > MEMORY:
            faults.append(f"{where} takes {cost.memory / 1e6:.0f} MB; at most {MEMORY / 1e6:.0f} are allowed")
        if cost.mode == "async" and (times := _times(cost, costs)) > ASYNC:
            faults.append(f"{where} costs {times:.2f} times as much as in sync ones; at most {ASYNC} are allowed")
        if not cost.mode and (times := _times(cost, costs)) > FLAT:
            faults.append(f"{where} costs {times:.2f} times the smallest in a round; at most {FLAT} are allowed")
    return faults


def _times(cost: Cost, costs: Sequence[Cost]) -> float:
    """A device-round's cost over that of the first fleet with the same presence, always online or not, and likewise
    with or without a mode."""
    return cost.own / next(
        other.own for other in costs if other.comes == cost.comes and bool(other.mode) == bool(cost.mode)
    )


def table(costs: Sequence[Cost]) -> str:
    """A line for each fleet."""
    lines = ["  fleet   mode  comes and goes  start s  first s  memory MB  us per device-round  x the first alike"]
    lines += [
        f"{cost.fleet:7,} {cost.mode:>6} {'yes' if cost.comes else '':>15} {cost.start:8.1f} {cost.first:8.1f} "
        f"{cost.memory / 1e6:10.0f} {cost.own * 1e6:20.0f} {_times(cost, costs):18.2f}"
        for cost in costs
    ]
    return "\n".join(lines)


def main(
    scale: Annotated[float, typer.Option(min=0, help="Share of the work; below 1 nothing is judged.")] = 1.0,
    only: Annotated[int, typer.Option(hidden=True)] = 0,
    comes: Annotated[bool, typer.Option(hidden=True)] = False,
    rounds: Annotated[int, typer.Option(hidden=True)] = ROUNDS,
    mode: Annotated[str, typer.Option(hidden=True)] = "",
    folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measures the cost of fleets of 100 to 100,000 devices: to start, in memory, and in each round."""
    if only and folder is not None:
        typer.echo(json.dumps(asdict(measure(only, comes, rounds, folder, mode))))
        return
    costs = measure_all(scale)
    typer.echo(
        f"fleet: {COHORT} devices in a round, {MANY} where there is a mode, best of {REPETITIONS}\n{table(costs)}"
    )
    judge(missed(costs) if scale >= 1 else [])


if __name__ == "__main__":
    typer.run(main)
