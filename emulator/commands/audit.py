"""`fedlapse audit`: checks that a record obeys the laws."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from emulator.audit.audit import Audit
from emulator.commands.options import Format, FormatOption
from emulator.record.folders import is_run
from emulator.record.seal import NO_SEAL
from emulator.results.units import counted
from emulator.sessions.auditing import audited_in
from emulator.terminal.errors import FAILED, told_in_one_line
from emulator.terminal.lines import say

UNJUDGED = 4


def audit(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Folders of runs (LABEL-sSEED), or folders that hold several."),
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 4 if no law is broken, but not all could be judged.")
    ] = False,
    format: FormatOption = Format.text,
) -> None:
    """Check that records are complete and consistent.

    They must obey the laws of all runs and of their scenario. Exit code 1 if they do not; what cannot be judged is
    named on stderr, and with --strict the exit code is then 4.

    \b
    Example:
      fedlapse audit runs/campus-0001
    """
    with told_in_one_line(ValueError):
        audited = audited_in(runs)
    reserved = list(_reservations(audited))
    for line in reserved:
        say(f"fedlapse: {line}", err=True)
    if format == Format.json:
        typer.echo(json.dumps({str(folder): asdict(each) for folder, each in audited.items()}, indent=1))
    else:
        for folder, each in audited.items():
            say(f"{'✗' if each.faults else '✓'} {folder}")
            for fault in each.faults:
                say(f"    {fault}")
        sound = sum(not each.faults for each in audited.values())
        typer.echo(f"{sound} of {len(audited)} folders obey the laws")
    if any(each.faults for each in audited.values()):
        raise typer.Exit(FAILED)
    raise typer.Exit(UNJUDGED if strict and reserved else 0)


def _reservations(audited: Mapping[Path, Audit]) -> Iterator[str]:
    """Yields a line for each reason why the audit of these folders is incomplete: runs not judged by all laws,
    and folders without a seal."""
    yield from _unjudged(audited)
    for folder, each in audited.items():
        if not each.sealed:
            yield f"{folder}: {NO_SEAL}"


def _unjudged(audited: Mapping[Path, Audit]) -> Iterator[str]:
    """Yields a line for each reason why runs were not judged by all laws of their scenario, and a line for each folder
    of results that was not judged as a whole for yet another reason."""
    runs = [each.unjudged for folder, each in audited.items() if is_run(folder)]
    reasons = Counter(filter(None, runs))
    for why, number in reasons.items():
        yield f"{number} of {counted(len(runs), 'run')} not judged by all laws of the scenario: {why}"
    for folder, each in audited.items():
        if each.unjudged and each.unjudged not in reasons:
            yield f"{folder} was not judged as a whole: {each.unjudged}"
