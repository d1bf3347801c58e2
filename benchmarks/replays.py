"""Measures replays: 25 traces x 4 algorithms, 100 rounds, cohorts of 10, on 2 worker processes.

The record is that of the quickstart with 34 devices; what its devices would have learnt is left out, as in a
rehearsal.  The traces are recorded ones where there are any ($FEDLAPSE_DATA/traces, or shared/data beside this
folder), three of them with steps of a millisecond; else they are generated.  The whole is measured: starting the
workers, reading the record in each of them, and replaying.  What is judged are the processors' seconds, divided by
the workers: those of the wall, where nobody else computes.  They are judged in device-rounds of a bare simulation
(bare_clock.py), which is measured before and after.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Annotated

import typer

from benchmarks import bare_clock
from benchmarks.verdict import judge
from emulator.record.run import Run
from emulator.replay.batch import Batch, Order, Source
from emulator.replay.conditions import Condition, Uplink, links_from
from network.links.synth import presets, synth
from network.windows.crowd import compile_all
from scenarios.load import dump, load
from scenarios.schema.scenario import Scenario

# Device-rounds of the bare simulation that one takes, with all workers at it.  With two builds of Python 3.11 it was
# 3.3 to 4.2.
MOST = 7.0
COHORT = 10
TRACES = 25
ROUNDS = 100
WORKERS = 2
REPETITIONS = 3  # of the bare simulation; the best counts
FOLDERS = ("mahimahi", "hsdpa_norway_3g", "fcc_broadband", "oboe", "sigcomm21_5g")  # of recordings
UPLINK = Uplink(ratio=0.2)  # of the downlink, as most recordings have none


@dataclass(frozen=True)
class Pace:
    """The measured times."""

    replays: int
    device_rounds: int
    seconds: float  # of processors, for each worker
    wall: float  # s
    partings: int  # replays that stopped being exact: they count for less
    bare: float  # s of a device-round of the bare simulation

    @property
    def each(self) -> float:
        """Seconds of one device-round, with all workers at it."""
        return self.seconds / self.device_rounds

    @property
    def ratio(self) -> float:
        """A replayed device-round, in device-rounds of the bare simulation."""
        return self.each / self.bare


def scenario_of(rounds: int = ROUNDS) -> Scenario:
    """The quickstart with cohorts of 10, one seed, nothing evaluated."""
    devices = [("phone-mid", 12), ("phone-low", 10), ("pi-4", 12)]
    counts = [f"fleet.{kind}.count={count}" for kind, count in devices]
    return load("quickstart", ("seeds=[1]", f"rounds.max={rounds}", "rounds.targets=[]", "evaluate.every=0", *counts))


def record(scenario: Scenario, folder: Path) -> None:
    """Leaves what `compare` would, but for the models."""
    # A worker imports this file, too: as a command's workers it needs no torch.
    from emulator.forecast.rehearsal import Understudy
    from emulator.lab.build import lab_of
    from emulator.play.conduct import Conduct
    from emulator.play.run import run_virtual

    lab, conduct = lab_of(scenario), Conduct.of(scenario)
    (folder / "scenario.yaml").write_text(dump(scenario), encoding="utf-8")
    for label in lab.algorithms:
        run = Run(label, scenario.seeds[0])
        where = folder / f"{label}-s{run.seed}"
        asyncio.run(run_virtual(lab, run, conduct, Understudy(lab, run), where))


def recorded(count: int) -> list[Condition]:
    """Links of recordings, if there are as many."""
    root = Path(os.environ.get("FEDLAPSE_DATA") or Path(__file__).parents[2] / "shared/data") / "traces"
    folders = [root / name for name in FOLDERS if (root / name).is_dir()]
    found = [each for folder in folders for each in links_from([str(folder)], UPLINK)]
    return found[:count] if len(found) >= count else []


def generated(count: int) -> list[Condition]:
    """Links of radios, in turn."""
    kinds = list(presets().values())
    made = ((kinds[k % len(kinds)], k) for k in range(count))
    return [
        Condition(f"{preset.name}-{k}", synth(preset, 600.0, k, "down"), synth(preset, 600.0, k, "up"))
        for preset, k in made
    ]


def measure(folder: Path, conditions: Sequence[Condition], workers: int = WORKERS) -> Pace:
    """Replays all runs of a folder on each of the links."""
    bare = _bare()
    compile_all()  # takes 10 to 20 s, once on a machine
    began, before = time.perf_counter(), _processors()
    batch = Batch(Source(folder))
    orders = [Order(run, condition) for condition in conditions for run in range(len(batch.scripts))]
    told = list(batch.all(orders, workers))
    wall, seconds = time.perf_counter() - began, (_processors() - before) / max(1, workers)
    size = sum(len(written.asked) for order in orders for written in batch.scripts[order.run].rounds)
    return Pace(len(orders), size, seconds, wall, sum(each.parting is not None for each in told), min(bare, _bare()))


def _bare() -> float:
    return min(bare_clock.seconds(COHORT, time.process_time) for _ in range(REPETITIONS))


def _processors() -> float:
    """Seconds of this process, of its children, and of theirs that have ended, workers among them."""
    ended = sum(use.ru_utime + use.ru_stime for use in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8").split()
    stats = [Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split() for child in children]
    return ended + sum(int(ticks) for stat in stats for ticks in stat[11:15]) / os.sysconf("SC_CLK_TCK")


def missed(pace: Pace) -> list[str]:
    """The bars that were missed, a sentence each."""
    slow = [f"a device-round costs {pace.ratio:.1f} times the bare simulation; at most {MOST:g} are allowed"]
    short = [f"{pace.partings} replays stopped being exact, and so cost less than they would"]
    return (slow if pace.ratio > MOST else []) + (short if pace.partings else [])


def main(
    scale: Annotated[float, typer.Option(min=0, help="Share of the work; below 1 nothing is judged.")] = 1.0,
) -> None:
    """Measures the time of `fedlapse replay` over 25 traces and 4 algorithms of 100 rounds."""
    rounds, count = max(1, round(scale * ROUNDS)), max(1, round(scale * TRACES))
    traces = recorded(count)
    with tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder:
        record(scenario_of(rounds), Path(folder))
        pace = measure(Path(folder), traces or generated(count))
    typer.echo(
        f"replays: {pace.replays} of {rounds} rounds, {count} {'recorded' if traces else 'generated'} traces, "
        f"{WORKERS} workers: {pace.seconds:.1f} s ({pace.wall:.1f} s on the wall), "
        f"{pace.each * 1e6:.0f} us per device-round, {pace.ratio:.1f} times the bare simulation; "
        f"{pace.partings} stopped being exact"
    )
    judge(missed(pace) if scale >= 1 else [])


if __name__ == "__main__":
    typer.run(main)
