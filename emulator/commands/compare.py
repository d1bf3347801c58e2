"""`fedlapse compare`: every algorithm of a scenario, with every seed, side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from emulator.commands.options import Out, Quiet, RoundsOption, SeedOption, Workers


def compare(
    scenario: Annotated[str, typer.Argument(help="A scenario file, or the name of one that comes with fedlapse.")] = (
        "quickstart"
    ),
    workers: Workers = None,
    seed: SeedOption = None,
    rounds: RoundsOption = None,
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Runs all algorithms and seeds of a scenario in virtual time, and prints when each reached its targets."""
    from emulator.commands.play import Settings, play_scenario

    raise typer.Exit(play_scenario(scenario, Settings(workers, seed, rounds, out, quiet)))
