"""The command line, which assembles the commands."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.group import Lazy
from emulator.messages.scratch import clear
from emulator.sessions.in_process import allow_many_files
from emulator.terminal.stopping import ending, hear_no_more, listen

GROUPS = {  # by heading: the place of each command, and its first sentence
    "Run": {
        "new": ("new:new", "Write a commented scenario to start from."),
        "check": ("check:check", "Estimate what a scenario will cost, without training."),
        "data": ("data:data", "Show which examples and classes each device has."),
        "compare": ("compare:compare", "Run all algorithms of a scenario, and compare their times."),
        "run": ("run:run", "Run one algorithm, in virtual time or over real sockets."),
        "resume": ("resume:resume", "Continue runs that were interrupted."),
    },
    "Results": {
        "report": ("report:report", "Write the report of one or several folders of results."),
        "export": ("export:export", "Export results as tables, in CSV or Parquet."),
        "cite": ("cite:cite", "Print versions, references and a sentence for a paper."),
        "audit": ("audit:audit", "Check that records are complete and consistent."),
        "diff": ("diff:diff", "Show where two records differ."),
    },
    "Other links, devices and settings": {
        "replay": ("replay.cli:command", "Replay finished runs on other links, without training."),
        "map": ("replay.map:map_", "Map which algorithm is fastest over a grid of links."),
        "tune": ("tune.cli:tune", "Tune each algorithm by validation accuracy."),
        "study": ("study.cli:study", "Tune, run with new seeds, and test which algorithm is faster."),
    },
    "What there is": {
        "scenarios": ("scenarios:scenarios", "List the scenarios that come with fedlapse."),
        "papers": ("papers:papers", "List the experiments of papers; run them at full size."),
        "algorithms": ("algorithms:algorithms", "List the algorithms, and what a round of each costs."),
        "devices": ("devices:devices", "List the device profiles."),
        "schema": ("schema:schema", "Print the JSON schema of scenario files, for editors."),
    },
    "Tools": {
        "calibrate": ("calibrate:calibrate", "Measure this computer, and print its profile."),
        "trace": ("trace.cli:trace", "Inspect, convert and generate traces of links."),
        "ledger": ("ledger:ledger", "Inspect, verify or empty the ledger of stored results."),
    },
}
COMMANDS = {
    name: (f"emulator.commands.{place}", sentence, heading)
    for heading, commands in GROUPS.items()
    for name, (place, sentence) in commands.items()
}
FIRST_STEPS = """\
fedlapse: how long does federated training take on my devices?

First steps:
  fedlapse compare             run the quickstart, in one to two minutes
  fedlapse new mine --phones   write mine.yaml, a scenario to change
  fedlapse check mine.yaml     estimate what it will cost, without training
  fedlapse compare mine.yaml   train, and see which algorithm reaches the target first

`fedlapse --help` lists all commands, and `fedlapse COMMAND --help` explains one."""
READERS = ("report", "export", "cite", "audit", "diff")  # foreign results must not run code from their folder


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedlapse {metadata.version('fedlapse')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Show the version and exit.")
]


def _options(context: typer.Context, version: Version = False) -> None:  # noqa: ARG001  its callback does it
    """Global options."""
    if context.invoked_subcommand not in READERS:
        sys.path.append(str(Path.cwd()))  # a scenario may name an algorithm of one's own, which lies here


class Fedlapse(Lazy):
    known, alone = COMMANDS, FIRST_STEPS


app = typer.Typer(
    name="fedlapse",
    help="How long does federated training take on my devices? Real training under a virtual clock.",
    cls=Fedlapse,
    callback=_options,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    listen()
    allow_many_files()
    try:
        with ending():
            clear()
            app()
    finally:
        hear_no_more()


if __name__ == "__main__":
    main()
