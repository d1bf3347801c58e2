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
from emulator.sessions.computing import SCENARIO, Playing
from emulator.terminal.errors import told_in_one_line
from emulator.terminal.lines import busy
from scenarios.text.faults import placed


class WorldName(StrEnum):
    virtual = "virtual"
    sockets = "sockets"


def run(
    *,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="LABEL",
            help="Its label in the scenario, such as `fedcl`.",
            rich_help_panel=SCENARIO,
        ),
    ],
    what: What = None,
    world: Annotated[
        WorldName,
        typer.Option(
            help="virtual: time is computed. sockets: real bytes over loopback, at the rates of the links.",
            rich_help_panel=SCENARIO,
        ),
    ] = WorldName.virtual,
    speedup: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=1000,
            metavar="X",
            help="With sockets: modelled seconds per real second. Default: 1.",
            rich_help_panel=SCENARIO,
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
    """Run one algorithm, in virtual time or over real sockets.

    It runs with all seeds of the scenario; results and exit codes are as for `compare`.

    \b
    Example:
      fedlapse run campus.yaml -a fedavg --world sockets --speedup 10
    """
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
