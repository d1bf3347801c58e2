"""`fedlapse study`: which algorithm is fastest here, by a protocol that is fixed before anything is trained."""

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
    SmallOption,
    What,
    Workers,
    cluster_of,
    have_workers_ready,
    ledger_of,
    scenario_of,
)
from emulator.ledger.place import KEEP_STATES

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say how much is trained, and how long that takes here.")]
Exploratory = Annotated[
    bool,
    typer.Option(
        "--exploratory",
        help="Go on with records of another protocol, such as with other targets. The report then says so.",
    ),
]


def study(
    what: What = None,
    exploratory: Exploratory = False,
    dry_run: DryRun = False,
    workers: Workers = None,
    device: DeviceOption = "cpu",
    executor: ExecutorOption = ExecutorName.processes,
    ray_address: RayAddress = None,
    small: SmallOption = False,
    out: Out = None,
    force: Force = False,
    ledger: LedgerOption = None,
    no_ledger: NoLedger = False,
    keep_states: KeepStates = KEEP_STATES,
    quiet: Quiet = False,
    format: FormatOption = Format.text,
) -> None:
    """Follows a study's protocol: tunes all algorithms, plays them with other seeds, and says who is faster where.

    The scenario's `tune:` and `study:` are the protocol. It leaves a page with the verdict, tables, figures and the
    runs. The same command goes on where it was stopped. Exit codes: 0; 1 a run failed; 2 bad input; 130 Ctrl-C.
    """
    from scenarios.text.faults import placed

    if not dry_run:
        have_workers_ready(workers, device, executor)
    with told_in_one_line():
        scenario = scenario_of(what, small=small, default=None)
        from emulator.commands.play import Settings  # torch, once the scenario is right
        from emulator.commands.study.play import Studying
        from emulator.commands.trials import Unfinished

        with placed(scenario.source), told_in_one_line(ValueError):
            place, cluster = ledger_of(ledger, no_ledger), cluster_of(executor, ray_address)
            settings = Settings(workers, out, force, quiet, format, place, keep_states, device=device, cluster=cluster)
            made = Studying(scenario, settings, exploratory)
            try:
                if dry_run:
                    made.tell_cost()
                else:
                    made.run_and_tell()
            except Unfinished as end:
                raise typer.Exit(end.code) from None
