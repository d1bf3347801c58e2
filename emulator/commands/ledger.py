"""`fedlapse ledger`: stored results of training jobs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.group import Commands, flat
from emulator.commands.help import Command
from emulator.commands.options import Format, FormatOption
from emulator.compute.gpu import gpus
from emulator.ledger.blobs import LIVE
from emulator.ledger.facts import today
from emulator.ledger.inputs import INPUTS
from emulator.ledger.ledger import FACTS, Ledger, opened
from emulator.ledger.ledger import clear as remove
from emulator.ledger.place import FOLDER, default_folder
from emulator.messages.scratch import in_use
from emulator.sessions.computing import Computing, crew_of
from emulator.terminal.errors import told_in_one_line
from emulator.terminal.lines import say
from scenarios.text.faults import BadScenario

OTHER_BITS = 4

ledger = typer.Typer(
    help="Inspect, verify or empty the ledger of stored results.",
    cls=Commands,
    add_completion=False,
)
Place = Annotated[
    Path | None,
    typer.Option(
        "--ledger", metavar="DIR", help="Its folder. Default: the one that `compare` uses.", show_default=False
    ),
]


@ledger.command(cls=Command)
def stats(place: Place = None, format: FormatOption = Format.text) -> None:
    """Show how many results the ledger holds, and how much disk space they take.

    \b
    Example:
      fedlapse ledger stats
    """
    with told_in_one_line(), _opened(place) as found:
        told = {"folder": str(found.folder), **found.stats()}
    if format is Format.json:
        typer.echo(json.dumps(told, indent=1, sort_keys=True))
        return
    results, messages = told["results"], told["messages"]
    say(f"{told['folder']}: results in {_size(results['bytes'])}, messages in at most {_size(told['cap'])}")
    read = sum(count for job, count in results["count"].items() if job in INPUTS)
    for job, count in results["count"].items():
        if job not in INPUTS:
            say(f"  {job:<12} {count:>9} result{'s' * (count != 1)}")
    if read:
        say(f"  {'inputs':<12} {read:>9} notes of what your code has read")
    for name, of in messages.items():
        say(f"  {name:<12} {of['count']:>9} message{'s' * (of['count'] != 1)}, {_size(of['bytes'])}")


@ledger.command(cls=Command)
@flat
def verify(
    place: Place = None,
    fraction: Annotated[
        float, typer.Option(min=0, max=1, metavar="X", help="Share of jobs to compute again, drawn by their keys.")
    ] = 0.01,
    *,
    computing: Computing,
) -> None:
    """Compute some of the stored results again, and compare them bit by bit.

    Exit code 4 if one differs.

    \b
    Example:
      fedlapse ledger verify --fraction 0.05
    """
    with told_in_one_line():
        from emulator.compute.verifying import verify as again  # imports torch

        places = gpus.found(computing.device)
        crew = crew_of(computing.workers, places, computing.cluster)
        with _opened(place) as found:
            result = again(found, fraction, crew, places)
    for text in result.unbuilt:
        say(f"fedlapse: not verified: {text}", err=True)
    for job in result.wrong:
        say(f"fedlapse: other bits than the ledger has: {job}", err=True)
    if result.others:
        say(f"fedlapse: not verified: {result.others} jobs of other code or another machine", err=True)
    say(f"{result.same} of {result.same + len(result.wrong)} jobs gave the same bits again")
    if result.wrong:
        raise typer.Exit(OTHER_BITS)


@ledger.command(cls=Command)
def gc(
    place: Place = None,
    cap: Annotated[
        int | None,
        typer.Option(min=0, metavar="BYTES", help="Size of the messages that stay. Default: the ledger's cap."),
    ] = None,
    unused: Annotated[
        int | None,
        typer.Option(min=1, metavar="DAYS", help="Also remove results that were not used for this many days."),
    ] = None,
) -> None:
    """Remove the least recently used messages until the rest fits.

    Results stay; their files are rewritten without what was replaced.

    \b
    Example:
      fedlapse ledger gc --unused 90
    """
    with told_in_one_line():
        folder = _existing(place)
        alone = not in_use(folder / LIVE)
        found = Ledger(folder, _warn)
        removed, before = found.trim(found.cap if cap is None else cap), found.facts.nbytes
        if alone:
            found.facts.drop(0 if unused is None else today() - unused)
        else:
            found.warn(f"{folder} is in use by another command; its results stay as they are")
        removed += before - found.facts.nbytes
        found.close(broken_off=False)
    say(f"{_size(removed)} removed")


@ledger.command(cls=Command)
def clear(place: Place = None) -> None:
    """Remove the whole ledger, and no other file in its folder.

    Later runs train everything again.

    \b
    Example:
      fedlapse ledger clear
    """
    with told_in_one_line():
        folder = _existing(place)
        if in_use(folder / LIVE):
            raise BadScenario(f"{folder} is in use by another command; clear it once that has ended")
        remove(folder)
    say(f"{folder} is cleared")


def _existing(place: Path | None) -> Path:
    """Returns the ledger's folder: `place`, or by default the usual one.  Raises BadScenario if it holds no ledger."""
    folder = place or default_folder(os.environ)
    if folder is None:
        raise BadScenario(f"{FOLDER} is {os.environ[FOLDER]}: there is no ledger; say which with --ledger")
    if folder.is_file():
        raise BadScenario(f"{folder} is a file; give the folder of a ledger")
    if not (folder / FACTS).exists():
        raise BadScenario(f"{folder} holds no ledger; `fedlapse compare` makes one")
    return folder


@contextmanager
def _opened(place: Path | None) -> Iterator[Ledger]:
    found = opened(_existing(place), _warn)
    try:
        yield found
    finally:
        found.close(broken_off=False)


def _warn(text: str) -> None:
    say(f"fedlapse: {text}", err=True)


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e6:,.1f} MB"
