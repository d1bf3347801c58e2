"""`fedlapse resume`: goes on with runs that were broken off."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.options import Format, FormatOption, Track
from emulator.record.seal import SEAL
from emulator.sessions.asked import trackers_of
from emulator.sessions.computing import Playing
from emulator.sessions.folder import alone, why_not
from emulator.terminal.errors import told_in_one_line
from emulator.terminal.lines import busy
from emulator.terminal.reading import told_while_read
from scenarios.load import BadScenario, dump, load


def resume(
    *,
    out: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of the runs, with its scenario.yaml.")],
    force: Annotated[
        bool,
        typer.Option("--force", help="Continue even if the record differs now, and replace it from there."),
    ] = False,
    track: Track = None,
    playing: Playing,
    format: FormatOption = Format.text,
) -> None:
    """Continue runs that were interrupted.

    Finished local updates come from the ledger; only what was in progress is computed again. The files end up as if
    nothing had happened (except host.json). If a changed model, data or computer leads to a different record, it stops
    and says so. Exit codes are the same as for `compare`.

    \b
    Example:
      fedlapse resume runs/campus-0001
    """
    with told_in_one_line():
        path = out / "scenario.yaml"
        if not path.is_file():
            raise BadScenario(f"{out} holds no scenario.yaml; give the folder that `fedlapse compare` made")
        if (out / SEAL).exists():
            typer.echo(f"{out} is complete; there is nothing to resume")
            raise typer.Exit(0)
        with alone(out):  # a folder that is being written to is told at once, not after what takes seconds
            pass
        playing.have_workers_ready()
        with told_while_read():
            scenario = load(str(path), recordings=True)
        if found := why_not(out, dump(scenario)):
            raise BadScenario(f"{out} {found}")
        with busy("starting"):
            from emulator.commands.conclude import concluded  # imports torch, once the scenario is valid
            from emulator.sessions.one_scenario import play_scenario

        code = concluded(play_scenario(scenario, playing, out=out, force=force, track=trackers_of(track)), format)
    raise typer.Exit(code)
