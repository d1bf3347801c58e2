"""`fedlapse tune`: the best settings of each algorithm, on validation data alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.options import (
    Force,
    Format,
    FormatOption,
    Out,
    RoundsOption,
    SmallOption,
    What,
    scenario_of,
)
from emulator.play.progress import about
from emulator.sessions.computing import SCENARIO, Playing
from emulator.terminal.errors import told_in_one_line
from emulator.terminal.lines import say, to_open
from scenarios.text.faults import placed

if TYPE_CHECKING:
    from emulator.sessions.tuning import SearchCost


def tune(
    *,
    what: What = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print how much would be trained, and how long it takes here.", rich_help_panel=SCENARIO
        ),
    ] = False,
    rounds: RoundsOption = None,
    small: SmallOption = False,
    out: Out = None,
    force: Force = False,
    playing: Playing,
    format: FormatOption = Format.text,
) -> None:
    """Tune each algorithm by validation accuracy.

    The scenario's `tune:` names the values to try, the seeds, and the number of configurations per algorithm. Results
    are tuned.yaml, a scenario with the best settings, tune.html and tune.json. If it was interrupted, the same command
    continues. Exit codes: 0; 1 a run failed; 2 bad input; 130 Ctrl-C.

    \b
    Example:
      fedlapse tune campus.yaml --dry-run
    """
    if not dry_run:
        playing.have_workers_ready()
    with told_in_one_line():
        scenario = scenario_of(what, rounds=rounds, small=small, default=None)
        from emulator.sessions.tuning import Tuning  # imports torch, once the scenario is valid

        with placed(scenario.source), told_in_one_line(ValueError):
            tuning = Tuning(scenario, playing)
            if dry_run:
                tell_cost(tuning.cost())
            else:
                from emulator.commands.tune.text import text

                tuned = tuning.into(out, force)
                if format is Format.json:
                    typer.echo(json.dumps({"out": str(tuned.out), **tuned.plain}, indent=1))
                    return
                typer.echo(text(tuned.scenario, tuned.founds))
                if tuned.tally:
                    say(tuned.tally.sentence())
                say(f"next: fedlapse compare {tuned.out / 'tuned.yaml'}    {to_open(tuned.out / 'tune.html')}")


def tell_cost(cost: SearchCost) -> None:
    from emulator.commands.tune.text import text_of_plan

    typer.echo(text_of_plan(cost.scenario, ", ".join(map(str, cost.steps))))
    much = f"{cost.total}" if cost.exact else f"about {cost.total}"  # exact if no two tie and all clocks agree
    say(f"{much} device-rounds to train, of which {cost.known} are in the ledger")
    say(f"the rest takes {about(cost.seconds)} on this computer, with {cost.workers} workers")
