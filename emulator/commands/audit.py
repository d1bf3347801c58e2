"""`fedlapse audit`: does a record obey the laws?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from emulator.audit.audit import Audit
from emulator.audit.audit import audit as laws
from emulator.audit.results_laws import audit_results
from emulator.commands.errors import FAILED, told_in_one_line
from emulator.commands.lines import say
from emulator.commands.options import Format, FormatOption
from emulator.record.folders import REPLAY, is_run, run_folders
from emulator.record.seal import NO_SEAL
from emulator.results.units import counted

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
    """Checks whether records are whole and obey the laws of all runs and of their scenario; exit code 1 if not.

    What could not be judged is said on stderr; with --strict the exit code is then 4.
    """
    with told_in_one_line(ValueError):
        audited = {folder: each for path in runs for folder, each in _audited(path)}
    reserved = list(_reservations(audited))
    for line in reserved:
        say(f"fedlapse: {line}", err=True)
    if format == Format.json:
        typer.echo(json.dumps({str(folder): asdict(each) for folder, each in audited.items()}, indent=1))
    else:
        _print(audited)
    if any(each.faults for each in audited.values()):
        raise typer.Exit(FAILED)
    raise typer.Exit(UNJUDGED if strict and reserved else 0)


def _audited(path: Path) -> Iterator[tuple[Path, Audit]]:
    """The runs that `path` means, and the folder itself if it is one of results.

    A replay on several settings has a folder of runs for each of them, or keeps no timelines.
    """
    settings = sorted(file.parent for file in path.glob(f"*/{REPLAY}"))
    has_runs = any(map(is_run, path.glob("*/")))
    audited: dict[Path, Audit] = {}
    if settings or ((path / REPLAY).is_file() and not has_runs):
        folders = settings
        for setting in settings:
            audited |= dict(_audited(setting))
    else:
        folders = run_folders(path)
        for folder in folders:
            audited[folder] = laws(folder)
    if folders != [path]:
        yield path, audit_results(path, {folder: audited[folder] for folder in folders})
    yield from audited.items()


def _reservations(audited: Mapping[Path, Audit]) -> Iterator[str]:
    """Sentences on what was not judged."""
    yield from _unjudged(audited)
    for folder, each in audited.items():
        if not each.sealed:
            yield f"{folder}: {NO_SEAL}"


def _unjudged(audited: Mapping[Path, Audit]) -> Iterator[str]:
    """How many runs were not judged by their scenario, and why; and why a folder of results was not."""
    runs = [each.unjudged for folder, each in audited.items() if is_run(folder)]
    reasons = Counter(filter(None, runs))
    for why, number in reasons.items():
        yield f"{number} of {counted(len(runs), 'run')} not judged by all laws of the scenario: {why}"
    for folder, each in audited.items():
        if each.unjudged and each.unjudged not in reasons:
            yield f"{folder} was not judged as a whole: {each.unjudged}"


def _print(audited: Mapping[Path, Audit]) -> None:
    for folder, each in audited.items():
        say(f"{'✗' if each.faults else '✓'} {folder}")
        for fault in each.faults:
            say(f"    {fault}")
    sound = sum(not each.faults for each in audited.values())
    typer.echo(f"{sound} of {len(audited)} folders obey the laws")
