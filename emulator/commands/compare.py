"""`fedlapse compare`: every algorithm of a scenario, with every seed, side by side."""

from __future__ import annotations

import typer

from emulator.commands.options import (
    Force,
    Format,
    FormatOption,
    LiveOption,
    Out,
    RoundsOption,
    SeedOption,
    SmallOption,
    Track,
    What,
    scenario_of,
)
from emulator.record.given import given_by
from emulator.sessions.asked import trackers_of
from emulator.sessions.computing import Playing
from emulator.terminal.errors import told_in_one_line
from emulator.terminal.lines import busy
from scenarios.text.faults import placed


def compare(
    *,
    what: What = None,
    seed: SeedOption = None,
    rounds: RoundsOption = None,
    small: SmallOption = False,
    out: Out = None,
    force: Force = False,
    track: Track = None,
    live: LiveOption = None,
    playing: Playing,
    format: FormatOption = Format.text,
) -> None:
    """Run all algorithms of a scenario, and compare their times.

    Every algorithm runs with every seed, in virtual time. Records, summary.json and report.html are written to a
    folder. Exit codes: 0; 1 a run failed; 2 bad input; 3 an expectation was not met; 130 Ctrl-C.

    \b
    Examples:
      fedlapse compare
      fedlapse compare campus.yaml seeds=[1,2,3,4,5] training.lr=0.05
    """
    playing.have_workers_ready()
    with told_in_one_line():
        scenario = scenario_of(what, seed=seed, rounds=rounds, small=small)
        with busy("starting"):
            from emulator.commands.conclude import concluded  # imports torch, once the scenario is valid
            from emulator.sessions.one_scenario import play_scenario

        with placed(scenario.source):
            given, trackers = given_by(scenario.source), trackers_of(track)
            ended = play_scenario(scenario, playing, out=out, force=force, given=given, track=trackers, live=live)
        code = concluded(ended, format)
    raise typer.Exit(code)
