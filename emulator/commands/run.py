"""`fedlapse run`: one algorithm of a scenario, in virtual time or over real sockets."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.errors import told_in_one_line
from emulator.commands.lines import busy
from emulator.commands.options import (
    Force,
    Out,
    RoundsOption,
    SeedOption,
    SmallOption,
    Track,
    What,
    scenario_of,
)
from emulator.commands.playing import Playing, trackers_of
from emulator.record.given import given_by
from scenarios.text.faults import BadScenario, did_you_mean, placed

if TYPE_CHECKING:
    from scenarios.schema.scenario import Scenario


class WorldName(StrEnum):
    virtual = "virtual"
    sockets = "sockets"


def run(
    *,
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
    seed: SeedOption = None,
    rounds: RoundsOption = None,
    small: SmallOption = False,
    out: Out = None,
    force: Force = False,
    track: Track = None,
    playing: Playing,
) -> None:
    """Runs one algorithm of a scenario with all its seeds, in virtual time or over real sockets; else as `compare`."""
    playing.have_workers_ready()
    with told_in_one_line():
        scenario = _only(scenario_of(what, seed=seed, rounds=rounds, small=small), algorithm)
        with busy("starting"):
            from emulator.commands.play import play_scenario  # torch, once the scenario is right

        if world is WorldName.sockets:
            playing = _without_ledger(playing)
        settings = playing.settings(
            out=out,
            force=force,
            world=world.value,
            speedup=_pace(speedup, world),
            track=trackers_of(track),
            given=given_by(scenario.source),
        )
        with placed(scenario.source):
            code = play_scenario(scenario, settings)
    raise typer.Exit(code)


def _without_ledger(playing: Playing) -> Playing:
    """Returns the options for sockets, where every device trains for real, at its own time."""
    if playing.ledger:
        raise BadScenario(
            f"--ledger {playing.ledger} is for --world virtual; over sockets every device trains for real"
        )
    return replace(playing, no_ledger=True)


def _pace(speedup: float | None, world: WorldName) -> float:
    """Virtual time is as fast as the computer."""
    if speedup is not None and world is WorldName.virtual:
        raise BadScenario(
            f"--speedup {speedup:g} is for --world sockets; virtual time passes as fast as it is computed"
        )
    return 1.0 if speedup is None else speedup


def _only(scenario: Scenario, label: str) -> Scenario:
    """The scenario with this algorithm alone, and what is expected of it.  Raises BadScenario if it is not there."""
    labels = [entry.name for entry in scenario.algorithms]
    if label not in labels:
        raise BadScenario(f"--algorithm {label}: the scenario has none of that name; {did_you_mean(label, labels)}")
    chosen = tuple(entry for entry in scenario.algorithms if entry.name == label)
    expected = tuple(each for each in scenario.expect if each.label == label)
    return scenario.model_copy(update={"algorithms": chosen, "expect": expected})
