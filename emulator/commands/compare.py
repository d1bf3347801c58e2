"""`fedlapse compare`: every algorithm of a scenario, with every seed, side by side."""

from __future__ import annotations

import typer

from emulator.commands.errors import told_in_one_line
from emulator.commands.lines import busy
from emulator.commands.options import (
    DeviceOption,
    ExecutorName,
    ExecutorOption,
    Force,
    Format,
    FormatOption,
    KeepStates,
    LedgerOption,
    LiveOption,
    NoLedger,
    Out,
    Quiet,
    RayAddress,
    RoundsOption,
    SeedOption,
    SmallOption,
    Track,
    What,
    Workers,
    cluster_of,
    have_workers_ready,
    ledger_of,
    scenario_of,
    trackers_of,
)
from emulator.ledger.place import KEEP_STATES


def compare(
    what: What = None,
    workers: Workers = None,
    device: DeviceOption = "cpu",
    executor: ExecutorOption = ExecutorName.processes,
    ray_address: RayAddress = None,
    seed: SeedOption = None,
    rounds: RoundsOption = None,
    small: SmallOption = False,
    out: Out = None,
    force: Force = False,
    ledger: LedgerOption = None,
    no_ledger: NoLedger = False,
    keep_states: KeepStates = KEEP_STATES,
    track: Track = None,
    live: LiveOption = None,
    quiet: Quiet = False,
    format: FormatOption = Format.text,
) -> None:
    """Runs all algorithms and seeds of a scenario in virtual time, and says when each reached its targets.

    Without a scenario it plays the quickstart, in one to two minutes. It leaves records, summary.json and report.html
    in a folder. Exit codes: 0; 1 a run failed; 2 bad input; 3 an expectation was not met; 130 Ctrl-C.
    """
    from scenarios.text.faults import placed

    have_workers_ready(workers, device, executor)
    with told_in_one_line():
        scenario = scenario_of(what, seed=seed, rounds=rounds, small=small)
        with busy("starting"):
            from emulator.commands.play import Settings, play_scenario  # torch, once the scenario is right
        from emulator.record.given import given_by

        with placed(scenario.source):
            place, cluster = ledger_of(ledger, no_ledger), cluster_of(executor, ray_address)
            settings = Settings(
                workers,
                out,
                force,
                quiet,
                format,
                place,
                keep_states,
                device=device,
                cluster=cluster,
                track=trackers_of(track),
                live=live,
                given=given_by(scenario.source),
            )
            code = play_scenario(scenario, settings)
    raise typer.Exit(code)
