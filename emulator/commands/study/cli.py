"""`fedlapse study`: which algorithm is fastest here, by a protocol that is fixed before anything is trained."""

from __future__ import annotations

from typing import Annotated

import typer

from emulator.commands.errors import told_in_one_line
from emulator.commands.options import (
    Force,
    Out,
    SmallOption,
    What,
    scenario_of,
)
from emulator.commands.playing import Playing
from scenarios.text.faults import placed

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say how much is trained, and how long that takes here.")]
Exploratory = Annotated[
    bool,
    typer.Option(
        "--exploratory",
        help="Go on with records of another protocol, such as with other targets. The report then says so.",
    ),
]


def study(
    *,
    what: What = None,
    exploratory: Exploratory = False,
    dry_run: DryRun = False,
    small: SmallOption = False,
    out: Out = None,
    force: Force = False,
    playing: Playing,
) -> None:
    """Follows a study's protocol: tunes all algorithms, plays them with other seeds, and says who is faster where.

    The scenario's `tune:` and `study:` are the protocol. It leaves a page with the verdict, tables, figures and the
    runs. The same command goes on where it was stopped. Exit codes: 0; 1 a run failed; 2 bad input; 130 Ctrl-C.
    """
    if not dry_run:
        playing.have_workers_ready()
    with told_in_one_line():
        scenario = scenario_of(what, small=small, default=None)
        from emulator.commands.study.play import Studying  # torch, once the scenario is right
        from emulator.commands.trials import Unfinished

        with placed(scenario.source), told_in_one_line(ValueError):
            made = Studying(scenario, playing.settings(out=out, force=force), exploratory)
            try:
                if dry_run:
                    made.tell_cost()
                else:
                    made.run_and_tell()
            except Unfinished as end:
                raise typer.Exit(end.code) from None
