"""`fedlapse resume`: goes on with runs that were broken off."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.errors import told_in_one_line
from emulator.commands.lines import busy
from emulator.commands.options import (
    DeviceOption,
    ExecutorName,
    ExecutorOption,
    Format,
    FormatOption,
    KeepStates,
    LedgerOption,
    NoLedger,
    Quiet,
    RayAddress,
    Track,
    Workers,
    cluster_of,
    have_workers_ready,
    ledger_of,
    trackers_of,
)
from emulator.commands.reading import told_while_read
from emulator.ledger.place import KEEP_STATES


def resume(
    out: Annotated[Path, typer.Argument(help="The folder of the runs, with its scenario.yaml.")],
    workers: Workers = None,
    device: DeviceOption = "cpu",
    executor: ExecutorOption = ExecutorName.processes,
    ray_address: RayAddress = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Go on although the record comes out otherwise now: it is replaced from there."),
    ] = False,
    ledger: LedgerOption = None,
    no_ledger: NoLedger = False,
    keep_states: KeepStates = KEEP_STATES,
    track: Track = None,
    quiet: Quiet = False,
    format: FormatOption = Format.text,
) -> None:
    """Goes on with runs that Ctrl-C, a kill, a full disk or a restart of the machine has broken off.

    The ledger gives what was computed before; only what was under way is computed again. The files end as if nothing
    had happened (host.json aside). If a model, data or this computer have changed so that the record comes out
    otherwise, it stops and says so. Exit codes as of `compare`.
    """
    with told_in_one_line():
        from emulator.commands.folder import alone, why_not
        from emulator.record.seal import SEAL
        from scenarios.load import BadScenario, dump, load

        path = out / "scenario.yaml"
        if not path.is_file():
            raise BadScenario(f"{out} holds no scenario.yaml; give the folder that `fedlapse compare` made")
        if (out / SEAL).exists():
            typer.echo(f"{out} is complete; there is nothing to resume")
            raise typer.Exit(0)
        with alone(out):  # a folder that is being written to is told at once, not after what takes seconds
            pass
        have_workers_ready(workers, device, executor)
        with told_while_read():
            scenario = load(str(path), recordings=True)
        if found := why_not(out, dump(scenario)):
            raise BadScenario(f"{out} {found}")
        with busy("starting"):
            from emulator.commands.play import Settings, play_scenario  # torch, once the scenario is right

        place = ledger_of(ledger, no_ledger)
        settings = Settings(
            workers,
            out,
            force,
            quiet,
            format,
            place,
            keep_states,
            device=device,
            cluster=cluster_of(executor, ray_address),
            track=trackers_of(track),
        )
        code = play_scenario(scenario, settings)
    raise typer.Exit(code)
