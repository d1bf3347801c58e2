"""The command line.  It only joins the commands."""

from __future__ import annotations

import resource
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.algorithms import algorithms
from emulator.commands.audit import audit
from emulator.commands.calibrate import calibrate
from emulator.commands.check import check
from emulator.commands.compare import compare
from emulator.commands.devices import devices
from emulator.commands.diff import diff
from emulator.commands.export import export
from emulator.commands.group import Commands
from emulator.commands.ledger import ledger
from emulator.commands.new import new
from emulator.commands.papers import papers
from emulator.commands.replay.cli import Several, replay
from emulator.commands.replay.map import map_
from emulator.commands.report import report
from emulator.commands.resume import resume
from emulator.commands.run import run
from emulator.commands.scenarios import scenarios
from emulator.commands.schema import schema
from emulator.commands.stopping import ending, hear_no_more, listen
from emulator.commands.study.cli import study
from emulator.commands.trace.cli import trace
from emulator.commands.tune.cli import tune
from emulator.ledger.scratch import clear

COMMANDS = (
    new,
    check,
    compare,
    run,
    resume,
    report,
    export,
    replay,
    map_,
    tune,
    study,
    audit,
    diff,
    scenarios,
    papers,
    algorithms,
    devices,
    calibrate,
    schema,
)
READERS = ("report", "export", "audit", "diff")  # a folder of others' results must not bring code of its own


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedlapse {metadata.version('fedlapse')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Show the version and exit.")
]


def _options(context: typer.Context, version: Version = False) -> None:  # noqa: ARG001  its callback does it
    """Those of fedlapse itself."""
    if context.invoked_subcommand not in READERS:
        sys.path.append(str(Path.cwd()))  # a scenario may name an algorithm of one's own, which lies here


app = typer.Typer(
    name="fedlapse",
    help="How long does federated training take on my devices? Real training under a virtual clock.\n\n"
    "Start: `fedlapse compare` plays the quickstart; `fedlapse new NAME` writes a scenario to change.",
    cls=Commands,
    callback=_options,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in COMMANDS:
    app.command(cls=Several if command is replay else None)(command)
app.add_typer(trace, name="trace")
app.add_typer(ledger, name="ledger")


def _allow_many_files() -> None:
    """Raises the soft limit, usually 1,024 or 256, to what the system allows: each run keeps three files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard != resource.RLIM_INFINITY:  # macOS says that nothing bounds it, and refuses to be given that
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> None:
    listen()
    _allow_many_files()
    try:
        with ending():
            clear()
            app()
    finally:
        hear_no_more()


if __name__ == "__main__":
    main()
