"""`fedlapse compare`: every algorithm of a scenario, with every seed, side by side."""

from __future__ import annotations

import typer

from emulator.commands.errors import told_in_one_line
from emulator.commands.lines import busy
from emulator.commands.options import (
    Force,
    LiveOption,
    Out,
    RoundsOption,
    SeedOption,
    SmallOption,
    Track,
    What,
    scenario_of,
)
from emulator.commands.playing import Playing, trackers_of
from emulator.record.given import given_by
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
) -> None:
    """Runs all algorithms and seeds of a scenario in virtual time, and says when each reached its targets.

    Without a scenario it plays the quickstart, in one to two minutes. It leaves records, summary.json and report.html
    in a folder. Exit codes: 0; 1 a run failed; 2 bad input; 3 an expectation was not met; 130 Ctrl-C.
    """
    playing.have_workers_ready()
    with told_in_one_line():
        scenario = scenario_of(what, seed=seed, rounds=rounds, small=small)
        with busy("starting"):
            from emulator.commands.play import play_scenario  # torch, once the scenario is right

        with placed(scenario.source):
            given, trackers = given_by(scenario.source), trackers_of(track)
            settings = playing.settings(out=out, force=force, track=trackers, live=live, given=given)
            code = play_scenario(scenario, settings)
    raise typer.Exit(code)
