"""Compares a mixed fleet that comes and goes with an even one: FLASH's four effects, in kind.

    python -m benchmarks.heterogeneity                         scenarios/flash-phones.yaml: two minutes on 2 idle cores
    python -m benchmarks.heterogeneity --like high             compared with a fleet of the fastest class
    python -m benchmarks.heterogeneity rounds.max=200          with changes, as `fedlapse compare` takes them

The scenario's first algorithm is played as it is, and once more with an even fleet: all devices are of one class and
always online, and no round has a deadline.  Examples, links and seeds stay as they were.  FLASH's figures are those of
its abstract (Yang et al., IEEE TMC 2022), over other data and real logs of phones.  They are shown, but never
judged.
"""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.devices import table
from emulator.compute.crew import executor
from emulator.forecast.deadline import check_deadline
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.play.stage import Outcome
from emulator.record.run import Run
from emulator.results import results, units
from emulator.results.results import Results
from emulator.results.summary import Rows, Spread, spread
from emulator.results.units import Unit
from emulator.terminal.errors import told_in_one_line
from scenarios.load import dump, load
from scenarios.schema.hardware import Presence
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

LIKE = "mid"  # FLASH's own even fleet: all are Redmi Note 8 (models/client.py at commit 70e47eb2)
HARDWARE = (  # what a group says of its devices
    *("profile", "speed_gflop_s", "memory_bandwidth_gb_s", "overhead_ms", "memory_mb"),
    *("jitter", "throttling", "wakeup"),
)
BUSIEST = 0.3  # of the devices
FLASH = ("up to 9.2 points less", "up to 2.32 times", "over 10", "86")
PERCENT = Unit("%", 0.01, 1)
TIMES = Unit("times", 1.0, 2)


@dataclass(frozen=True)
class Fleet:
    """The results of one fleet: a value for each seed, in their order."""

    accuracy: Sequence[float]  # at the end
    time: Sequence[float | None]  # s to the target; None: never
    failed: Sequence[float]  # share of the asked
    busiest: Sequence[float]  # share of the work


def even(scenario: Scenario, like: str) -> Scenario:
    """The scenario with all devices as in the group `like` and always online, and without a deadline.

    What a device draws goes by its name, so who takes long in its group takes long here.  Raises BadScenario.
    """
    groups = {group.name or group.profile: group for group in scenario.fleet}
    if like not in groups:
        raise BadScenario(f"--like {like}: the fleet has no such group; it has {', '.join(groups)}")
    same = {key: getattr(groups[like], key) for key in HARDWARE}
    named = {"presence": Presence(), **same}
    fleet = tuple(group.model_copy(update={"name": name, **named}) for name, group in groups.items())
    rounds = scenario.rounds.model_copy(update={"deadline_s": None})
    return scenario.model_copy(update={"name": f"{scenario.name}-even", "fleet": fleet, "rounds": rounds})


def play(scenario: Scenario, folder: Path, workers: int) -> Results:
    """Leaves the records of all seeds in `folder`, and reads them.  Raises BadScenario if a run cannot go on."""
    lab, conduct = lab_of(scenario), Conduct.of(scenario)
    check_deadline(lab, scenario)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenario.yaml").write_text(dump(scenario), encoding="utf-8")
    runs = [Run(label, seed) for label in lab.algorithms for seed in scenario.seeds]

    async def all_of_them() -> list[Outcome]:
        played = (run_virtual(lab, run, conduct, pool, folder / f"{run.label}-s{run.seed}") for run in runs)
        return await asyncio.gather(*played)

    with executor(lab, workers) as pool:
        outcomes = asyncio.run(all_of_them())
    if failures := [outcome.failure for outcome in outcomes if outcome.failure]:
        raise BadScenario(failures[0])
    return results.read(folder)


def found(played: Results) -> Fleet:
    """The results of the first algorithm, up to the last target."""
    label, seeds = next(iter(played.runs.items()))
    targets = played.summary["labels"][label]["targets"]
    reached = targets[results.targets(played.scenario)[-1].name]["seeds"]
    rows = [[*played.rows(label, seed)] for seed in sorted(seeds)]
    return Fleet(
        accuracy=[of[-1]["accuracy"] for of in rows],
        time=[at["time_s"] if at else None for at in (reached[str(seed)] for seed in sorted(seeds))],
        failed=[failed(of) for of in rows],
        busiest=[busiest(of, played.scenario.devices) for of in rows],
    )


def failed(rows: Rows) -> float:
    """Share of all that were asked whose reply did not count: late, lost or refused."""
    return 1 - float(sum(row["counted"] for row in rows) / sum(row["asked"] for row in rows))


def busiest(rows: Rows, devices: int) -> float:
    """Share of the useful device-rounds that the busiest of all devices did, those included that were never asked."""
    each = Counter(name for row in rows for name, (useful, _, _) in row["seconds"]["devices"].items() if useful > 0)
    most = each.most_common(math.ceil(BUSIEST * devices))
    return sum(count for _, count in most) / each.total() if each else math.nan


def lengthened(base: Fleet, mixed: Fleet) -> Spread:
    """Ratio of the times to the target for each seed; None if one of them never reached it."""
    pairs = zip(base.time, mixed.time, strict=True)
    return spread([theirs / own if own and theirs else None for own, theirs in pairs])


def beside(base: Fleet, mixed: Fleet, target: str) -> str:
    """The four effects as a table of Markdown; mean over seeds and [low, high]."""
    clock = units.of_time([*base.time, *mixed.time])
    lost = spread([their - own for own, their in zip(base.accuracy, mixed.accuracy, strict=True)])
    rows = [
        ("accuracy at the end, %", *_both(base.accuracy, mixed.accuracy, PERCENT), f"{_signed(lost)} points"),
        (
            f"time to {target}, {clock.name}",
            *_both(base.time, mixed.time, clock),
            f"{units.spread(lengthened(base, mixed), TIMES)} times",
        ),
        ("asked devices that fail, %", *_both(base.failed, mixed.failed, PERCENT), ""),
        (f"the busiest {100 * BUSIEST:.0f} % do, % of the work", *_both(base.busiest, mixed.busiest, PERCENT), ""),
    ]
    heads = ("effect", "FLASH, in kind", "even fleet", "as it is", "as it is beside even")
    return table(heads, [(what, theirs, *cells) for (what, *cells), theirs in zip(rows, FLASH, strict=True)])


def _both(base: Sequence[float | None], mixed: Sequence[float | None], unit: Unit) -> tuple[str, str]:
    return units.spread(spread(base), unit), units.spread(spread(mixed), unit)


def _signed(values: Spread) -> str:
    """`-0.8 [-1.4, +0.3]`, of shares in points."""
    mean, low, high = (f"{100 * (values[key] or 0.0):+.1f}" for key in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def main(
    changes: Annotated[list[str] | None, typer.Argument(help="path=value, as `fedlapse compare` takes them.")] = None,
    scenario: Annotated[str, typer.Option(help="A name or a file; its fleet has the group --like.")] = "flash-phones",
    like: Annotated[str, typer.Option(help="The group whose devices the even fleet consists of.")] = LIKE,
    workers: Annotated[int, typer.Option(min=0, help="Processes that train.")] = os.cpu_count() or 1,
) -> None:
    """Accuracy, time, failures and shares of the work: a mixed fleet beside an even one, and beside FLASH's."""
    with told_in_one_line(), tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder:
        said = load(scenario, changes or ())
        if not (said.rounds.targets and said.evaluate.every):
            raise BadScenario(
                f"{said.name} needs rounds.targets and evaluate.every; the last target's time is compared"
            )
        said = said.model_copy(update={"algorithms": said.algorithms[:1]})
        fleets = {"even": even(said, like), "as-it-is": said}
        base, mixed = (found(play(each, Path(folder, name), workers)) for name, each in fleets.items())
    target = results.targets(said)[-1].name
    typer.echo(f"{results.facts(said)}; the even fleet is like {like}. Median over seeds and [low, high].\n")
    typer.echo(beside(base, mixed, target))


if __name__ == "__main__":
    typer.run(main)
