"""`fedlapse replay`: what finished runs would have cost on other links, or on another fleet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.commands.group import flat
from emulator.commands.help import Command
from emulator.commands.options import Force, Format, FormatOption
from emulator.commands.replay.text import text
from emulator.record.folders import home
from emulator.sessions.computing import RESULTS
from emulator.sessions.replay_runs import ReplayChoice, Replaying, ReplayLinks
from emulator.sessions.replay_runs import replay as replayed
from emulator.terminal.lines import say
from emulator.terminal.reliance import soundness_told

SEVERAL = ("--down", "--up")


class Several(Command):
    """A command with options that take all words up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_repeated(args)))


def _repeated(args: Sequence[str]) -> Iterator[str]:
    """Yields the arguments with repeated options: `--down a b` becomes `--down a --down b`."""
    current = ""
    for number, word in enumerate(args):
        if word.startswith("-"):
            current = word
        elif current in SEVERAL and args[number - 1] != current:
            yield current
        yield word


Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="A new folder. Default: runs/NAME-replay-NNNN.", rich_help_panel=RESULTS),
]


def replay(
    *,
    links: ReplayLinks,
    recorded: ReplayChoice,
    events: Annotated[
        bool,
        typer.Option("--events", help="Write timelines even with several settings.", rich_help_panel=RESULTS),
    ] = False,
    out: Out = None,
    force: Force = False,
    replaying: Replaying,
    format: FormatOption = Format.text,
) -> None:
    """Replay finished runs on other links, without training.

    Sizes, work and accuracies come from the record; each trace is a row of the table. A replay is exact as long as the
    same devices are selected and aggregated; otherwise it stops, unless --train trains the rest. Exit codes: 0; 1 a
    worker was killed, or an algorithm failed; 2 bad input; 130 Ctrl-C.

    \b
    Examples:
      fedlapse replay runs/campus-0001 --down 5Mbit/s 20Mbit/s --up-ratio 0.2
      fedlapse replay runs/campus-0001 --fleet greenhouse
    """
    if recorded.train:
        replaying.have_workers_ready()
    with soundness_told([home(recorded.run)]):
        found = replayed(links, recorded, replaying, events=events, out=out, force=force)
        if format is Format.json:
            typer.echo(json.dumps(found.plain, indent=1))
        else:
            typer.echo(text(found.batch, found.findings, found.passed, found.out))
            if found.played.trained:
                say(found.played.trained)
        if not found.played.whole:
            say(f"fedlapse: {found.played.why}; what was replayed until then is in {found.out}", err=True)
        if found.played.code:
            raise typer.Exit(found.played.code)


command = typer.Typer(add_completion=False)
command.command(cls=Several)(flat(replay))
