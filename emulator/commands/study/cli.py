"""`fedlapse study`: which algorithm is fastest here, by a protocol that is fixed before anything is trained."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.options import (
    Force,
    Format,
    FormatOption,
    Out,
    SmallOption,
    What,
    scenario_of,
)
from emulator.commands.tune.cli import tell_cost
from emulator.play.progress import about
from emulator.results.units import joined
from emulator.sessions.computing import SCENARIO, Playing
from emulator.terminal.errors import told_in_one_line
from emulator.terminal.lines import say
from scenarios.text.faults import placed

if TYPE_CHECKING:
    from emulator.sessions.studying import StudyCost


def study(
    *,
    what: What = None,
    exploratory: Annotated[
        bool,
        typer.Option(
            "--exploratory",
            help="Use records of another protocol, such as with other targets. The report then says so.",
            rich_help_panel=SCENARIO,
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print how much would be trained, and how long it takes here.", rich_help_panel=SCENARIO
        ),
    ] = False,
    small: SmallOption = False,
    out: Out = None,
    force: Force = False,
    playing: Playing,
    format: FormatOption = Format.text,
) -> None:
    """Tune, run with new seeds, and test which algorithm is faster.

    The scenario's `tune:` and `study:` are the protocol. Results are a page with the verdict, tables, figures and the
    runs. If it was interrupted, the same command continues. Exit codes: 0; 1 a run failed; 2 bad input; 130 Ctrl-C.

    \b
    Example:
      fedlapse study campus.yaml --dry-run
    """
    if not dry_run:
        playing.have_workers_ready()
    with told_in_one_line():
        scenario = scenario_of(what, small=small, default=None)
        from emulator.sessions import regimes  # imports torch, once the scenario is valid

        with placed(scenario.source), told_in_one_line(ValueError):
            if dry_run:
                for name, cost in regimes.costs(scenario, playing):
                    _tell_cost(name, cost)
            else:
                studied = regimes.study(scenario, playing, out, force, exploratory)
                if format is Format.json:
                    typer.echo(json.dumps({"out": str(studied.out), **studied.plain}, indent=1))
                    return
                for line in studied.plain["verdict"]:
                    say(line)
                for text in studied.warnings:
                    say(f"fedlapse: {text}", err=True, tone="warning")
                if studied.tally:
                    say(studied.tally.sentence())
                say(f"study: {studied.out / 'study.md'}")


def _tell_cost(regime: str, cost: StudyCost) -> None:
    if regime:
        say(f"{regime}:")
    tell_cost(cost.search)
    took = about(cost.seconds_each * cost.reported)
    say(f"then about {cost.reported:.0f} device-rounds with the reported seeds: {took}")
    where = [f"{cost.cells} cells of the map"] if cost.cells else []
    where += ["the recorded links"] if cost.traces else []
    if where:
        say(f"and replays, without training, for {joined(where)}")
