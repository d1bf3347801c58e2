"""`fedlapse run`: one algorithm of a scenario, in virtual time or over real sockets."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from emulator.commands.options import (
    Force,
    Format,
    FormatOption,
    Out,
    RoundsOption,
    SeedOption,
    SmallOption,
    Track,
    What,
    scenario_of,
)
from emulator.record.given import given_by
from emulator.sessions.asked import only, pace_of, trackers_of
from emulator.sessions.computing import Playing
from emulator.terminal.errors import told_in_one_line
from emulator.terminal.lines import busy
from scenarios.text.faults import placed


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
    format: FormatOption = Format.text,
) -> None:
    """Runs one algorithm of a scenario with all its seeds, in virtual time or over real sockets; else as `compare`."""
    playing.have_workers_ready()
    with told_in_one_line():
        scenario = only(scenario_of(what, seed=seed, rounds=rounds, small=small), algorithm)
        with busy("starting"):
            from emulator.commands.conclude import concluded  # imports torch, once the scenario is valid
            from emulator.sessions.one_scenario import play_scenario

        pace, trackers, given = pace_of(world.value, speedup), trackers_of(track), given_by(scenario.source)
        with placed(scenario.source):
            ended = play_scenario(scenario, playing, out=out, force=force, given=given, track=trackers, speedup=pace)
        code = concluded(ended, format)
    raise typer.Exit(code)
