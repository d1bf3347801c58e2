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

COMMANDS = {  # the place of each command, and its first sentence
    "new": (
        "emulator.commands.new:new",
        "Writes a scenario with comments that runs at once: change the fleet to yours.",
    ),
    "check": (
        "emulator.commands.check:check",
        "Says what a scenario will cost, without training.",
    ),
    "data": (
        "emulator.commands.data:data",
        "Shows what each device has of a scenario's data: examples, owner and classes, under the first seed.",
    ),
    "compare": (
        "emulator.commands.compare:compare",
        "Runs all algorithms and seeds of a scenario in virtual time, and says when each reached its targets.",
    ),
    "run": (
        "emulator.commands.run:run",
        "Runs one algorithm of a scenario with all its seeds, in virtual time or over real sockets; else as `compare`.",
    ),
    "resume": (
        "emulator.commands.resume:resume",
        "Continues runs that Ctrl-C, a kill, a full disk or a restart of the machine has interrupted.",
    ),
    "report": (
        "emulator.commands.report:report",
        "Writes the report of one folder of results, or of several side by side (the first is the baseline).",
    ),
    "export": (
        "emulator.commands.export:export",
        "Writes targets, settings, rounds, devices, transfers and events of a finished run as one table each.",
    ),
    "replay": (
        "emulator.commands.replay.cli:command",
        "Plays finished runs again, without training, on other links or another fleet.",
    ),
    "map": (
        "emulator.commands.replay.map:map_",
        "Replays finished runs over a grid of links, and draws which algorithm reaches a target first, and by how much.",  # noqa: E501
    ),
    "tune": (
        "emulator.commands.tune.cli:tune",
        "Finds good settings for each algorithm of a scenario, by validation accuracy alone.",
    ),
    "study": (
        "emulator.commands.study.cli:study",
        "Follows a study's protocol: tunes all algorithms, plays them with other seeds, and says who is faster where.",
    ),
    "audit": (
        "emulator.commands.audit:audit",
        "Checks whether records are whole and obey the laws of all runs and of their scenario; exit code 1 if not.",
    ),
    "diff": (
        "emulator.commands.diff:diff",
        "Says which keys of the scenario differ, and from which simulated second on the runs differ.",
    ),
    "scenarios": (
        "emulator.commands.scenarios:scenarios",
        "Lists the scenarios that come with fedlapse, what each one shows, and how to run it.",
    ),
    "papers": (
        "emulator.commands.papers:papers",
        "Lists the experimental settings of the papers, each a scenario, and how far their small versions agree.",
    ),
    "algorithms": (
        "emulator.commands.algorithms:algorithms",
        "Lists algorithms with their options, and what a round of each costs compared with FedAvg.",
    ),
    "devices": (
        "emulator.commands.devices:devices",
        "Lists the device profiles, and for each number whether somebody measured it.",
    ),
    "calibrate": (
        "emulator.commands.calibrate:calibrate",
        "Measures this computer, and prints a profile of it: speed by kind of layer, bandwidth, overheads, memory.",
    ),
    "schema": (
        "emulator.commands.schema:schema",
        "Prints the JSON schema of scenario files (draft 7), for editors: keys, units, options, examples.",
    ),
    "trace": (
        "emulator.commands.trace.cli:trace",
        "Inspects, converts and generates traces of links, and says how long a payload takes on one.",
    ),
    "ledger": (
        "emulator.commands.ledger:ledger",
        "Looks at the ledger, which remembers every training, so that none is done twice.",
    ),
}
READERS = ("report", "export", "audit", "diff")  # foreign results must not run code from their folder


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
    known = COMMANDS


app = typer.Typer(
    name="fedlapse",
    help="How long does federated training take on my devices? Real training under a virtual clock.\n\n"
    "Start: `fedlapse compare` plays the quickstart; `fedlapse new NAME` writes a scenario to change.",
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
