"""`fedlapse tune`: the best settings of each algorithm, on validation data alone."""

from __future__ import annotations

from typing import Annotated

import typer

from emulator.commands.errors import told_in_one_line
from emulator.commands.options import (
    DeviceOption,
    ExecutorName,
    ExecutorOption,
    Force,
    Format,
    FormatOption,
    KeepStates,
    LedgerOption,
    NoLedger,
    Out,
    Quiet,
    RayAddress,
    RoundsOption,
    SmallOption,
    What,
    Workers,
    cluster_of,
    have_workers_ready,
    ledger_of,
    scenario_of,
)
from emulator.ledger.place import KEEP_STATES

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Say how much would be trained, what of it is known, and how long it takes here."),
]


def tune(
    what: What = None,
    dry_run: DryRun = False,
    workers: Workers = None,
    device: DeviceOption = "cpu",
    executor: ExecutorOption = ExecutorName.processes,
    ray_address: RayAddress = None,
    rounds: RoundsOption = None,
    small: SmallOption = False,
    out: Out = None,
    force: Force = False,
    ledger: LedgerOption = None,
    no_ledger: NoLedger = False,
    keep_states: KeepStates = KEEP_STATES,
    quiet: Quiet = False,
    format: FormatOption = Format.text,
) -> None:
    """Finds good settings for each algorithm of a scenario, by validation accuracy alone.

    The scenario's `tune:` names the values to try, the seeds, and how many configurations each algorithm gets. It
    leaves tuned.yaml, a scenario with the best settings, tune.html and tune.json. The same command goes on where it was
    stopped. Exit codes: 0; 1 a run failed; 2 bad input; 130 Ctrl-C.
    """
    from scenarios.text.faults import placed

    if not dry_run:
        have_workers_ready(workers, device, executor)
    with told_in_one_line():
        scenario = scenario_of(what, rounds=rounds, small=small, default=None)
        from emulator.commands.play import Settings  # torch, once the scenario is right
        from emulator.commands.trials import Unfinished
        from emulator.commands.tune.play import Tuning

        with placed(scenario.source), told_in_one_line(ValueError):
            place, cluster = ledger_of(ledger, no_ledger), cluster_of(executor, ray_address)
            settings = Settings(workers, out, force, quiet, format, place, keep_states, device=device, cluster=cluster)
            made = Tuning(scenario, settings)
            try:
                if dry_run:
                    made.tell_cost()
                else:
                    made.run_and_tell()
            except Unfinished as end:
                raise typer.Exit(end.code) from None
