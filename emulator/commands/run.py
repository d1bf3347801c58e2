"""`fedlapse run`: one algorithm of a scenario, in virtual time or over real sockets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.errors import told_in_one_line
from emulator.commands.lines import busy
from emulator.commands.options import (
    DeviceOption,
    ExecutorName,
    ExecutorOption,
    Force,
    Format,
    FormatOption,
    KeepStates,
    LedgerOption,
    NoLedger,
    Out,
    Quiet,
    RayAddress,
    RoundsOption,
    SeedOption,
    SmallOption,
    Track,
    What,
    Workers,
    cluster_of,
    have_workers_ready,
    ledger_of,
    scenario_of,
    trackers_of,
)
from emulator.ledger.place import KEEP_STATES

if TYPE_CHECKING:
    from scenarios.schema.scenario import Scenario


class WorldName(StrEnum):
    virtual = "virtual"
    sockets = "sockets"


def run(
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="The algorithm's label in the scenario, such as `fedcl`.")
    ],
    what: What = None,
    world: Annotated[
        WorldName,
        typer.Option(help="virtual: time is computed. sockets: real bytes over loopback, at the pace of the links."),
    ] = WorldName.virtual,
    speedup: Annotated[
        float | None,
        typer.Option(
            min=0.001, max=1000, help="With sockets: how many modelled seconds pass in one real second. Default: 1."
        ),
    ] = None,
    workers: Workers = None,
    device: DeviceOption = "cpu",
    executor: ExecutorOption = ExecutorName.processes,
    ray_address: RayAddress = None,
    seed: SeedOption = None,
    rounds: RoundsOption = None,
    small: SmallOption = False,
    out: Out = None,
    force: Force = False,
    ledger: LedgerOption = None,
    no_ledger: NoLedger = False,
    keep_states: KeepStates = KEEP_STATES,
    track: Track = None,
    quiet: Quiet = False,
    format: FormatOption = Format.text,
) -> None:
    """Runs one algorithm of a scenario with all its seeds, in virtual time or over real sockets; else as `compare`."""
    from scenarios.text.faults import placed

    have_workers_ready(workers, device, executor)
    with told_in_one_line():
        scenario = _only(scenario_of(what, seed=seed, rounds=rounds, small=small), algorithm)
        with busy("starting"):
            from emulator.commands.play import Settings, play_scenario  # torch, once the scenario is right
        from emulator.record.given import given_by

        place, pace = _ledger(ledger, no_ledger, world), _pace(speedup, world)
        cluster = cluster_of(executor, ray_address)
        settings = Settings(
            workers,
            out,
            force,
            quiet,
            format,
            place,
            keep_states,
            world.value,
            pace,
            device,
            cluster,
            track=trackers_of(track),
            given=given_by(scenario.source),
        )
        with placed(scenario.source):
            code = play_scenario(scenario, settings)
    raise typer.Exit(code)


def _ledger(folder: Path | None, without: bool, world: WorldName) -> Path | None:
    """Over sockets there is none: every device trains for real, at its own time."""
    from scenarios.text.faults import BadScenario

    if world is WorldName.virtual:
        return ledger_of(folder, without)
    if folder:
        raise BadScenario(f"--ledger {folder} is for --world virtual; over sockets every device trains for real")
    return None


def _pace(speedup: float | None, world: WorldName) -> float:
    """Virtual time is as fast as the computer."""
    from scenarios.text.faults import BadScenario

    if speedup is not None and world is WorldName.virtual:
        raise BadScenario(
            f"--speedup {speedup:g} is for --world sockets; virtual time passes as fast as it is computed"
        )
    return 1.0 if speedup is None else speedup


def _only(scenario: Scenario, label: str) -> Scenario:
    """The scenario with this algorithm alone, and what is expected of it.  Raises BadScenario if it is not there."""
    from scenarios.text.faults import BadScenario, did_you_mean

    labels = [entry.name for entry in scenario.algorithms]
    if label not in labels:
        raise BadScenario(f"--algorithm {label}: the scenario has none of that name; {did_you_mean(label, labels)}")
    chosen = tuple(entry for entry in scenario.algorithms if entry.name == label)
    expected = tuple(each for each in scenario.expect if each.label == label)
    return scenario.model_copy(update={"algorithms": chosen, "expect": expected})
