"""`fedlapse run`: one algorithm of a scenario, in virtual time or over real sockets."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from emulator.commands.options import Out, Quiet, RoundsOption, SeedOption, Workers


class WorldName(StrEnum):
    virtual = "virtual"
    sockets = "sockets"


def run(
    scenario: Annotated[str, typer.Argument(help="A scenario file, or the name of one that comes with fedlapse.")],
    algorithm: Annotated[str, typer.Option("--algorithm", "-a", help="Its label in the scenario, as `fedcl`.")],
    world: Annotated[
        WorldName,
        typer.Option(help="virtual: time is computed. sockets: real bytes on loopback, at the links' pace."),
    ] = WorldName.virtual,
    speedup: Annotated[
        float, typer.Option(min=0.001, max=1000, help="sockets: modelled seconds that pass in one real second.")
    ] = 1.0,
    workers: Workers = None,
    seed: SeedOption = None,
    rounds: RoundsOption = None,
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Runs one algorithm of a scenario with each of its seeds."""
    from emulator.commands.play import Settings, play_scenario

    settings = Settings(workers, seed, rounds, out, quiet, algorithm, world.value, speedup)
    raise typer.Exit(play_scenario(scenario, settings))
