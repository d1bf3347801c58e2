"""`fedlapse tune`: the best settings of each algorithm, on validation data alone."""

from __future__ import annotations

from typing import Annotated

import typer

from emulator.commands.errors import told_in_one_line
from emulator.commands.options import (
    Force,
    Out,
    RoundsOption,
    SmallOption,
    What,
    scenario_of,
)
from emulator.commands.playing import Playing
from scenarios.text.faults import placed

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Say how much would be trained, what of it is known, and how long it takes here."),
]


def tune(
    *,
    what: What = None,
    dry_run: DryRun = False,
    rounds: RoundsOption = None,
    small: SmallOption = False,
    out: Out = None,
    force: Force = False,
    playing: Playing,
) -> None:
    """Finds good settings for each algorithm of a scenario, by validation accuracy alone.

    The scenario's `tune:` names the values to try, the seeds, and how many configurations each algorithm gets. It
    leaves tuned.yaml, a scenario with the best settings, tune.html and tune.json. The same command goes on where it was
    stopped. Exit codes: 0; 1 a run failed; 2 bad input; 130 Ctrl-C.
    """
    if not dry_run:
        playing.have_workers_ready()
    with told_in_one_line():
        scenario = scenario_of(what, rounds=rounds, small=small, default=None)
        from emulator.commands.trials import Unfinished  # torch, once the scenario is right
        from emulator.commands.tune.play import Tuning

        with placed(scenario.source), told_in_one_line(ValueError):
            made = Tuning(scenario, playing.settings(out=out, force=force))
            try:
                if dry_run:
                    made.tell_cost()
                else:
                    made.run_and_tell()
            except Unfinished as end:
                raise typer.Exit(end.code) from None
