"""Warns on stderr, and by the exit code, if a command reads results that cannot be relied on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from emulator.results.soundness import soundness
from emulator.terminal.errors import BAD_INPUT, FAILED, one_line, told_in_one_line
from emulator.terminal.lines import say

MALFORMED = (LookupError, TypeError, AttributeError, ArithmeticError, AssertionError)  # raised while a record is read


@contextmanager
def soundness_told(folders: Sequence[Path]) -> Iterator[None]:
    """Prints remarks on folders whose records are damaged or unsealed, and turns errors of the block into one line.

    The exit codes are those of `told_in_one_line`, but 1 if a folder is damaged.  A damaged or unsealed record may hold
    anything, so any error from reading one is attributed to the record.
    """
    found = {folder: soundness(folder) for folder in folders}
    for folder, each in found.items():
        tell(folder, each.notes)
    damaged = any(each.damaged for each in found.values())
    try:
        with told_in_one_line(ValueError):
            yield
    except typer.Exit as end:
        if not (damaged and end.exit_code in (0, BAD_INPUT)):
            raise
    except MALFORMED as error:
        doubtful = " ".join(str(folder) for folder, each in found.items() if each.notes)
        if not doubtful:
            raise
        what = f"{type(error).__name__}: {one_line(error)}"
        say(f"fedlapse: this record cannot be read ({what}); `fedlapse audit {doubtful}` says what is wrong", err=True)
        raise typer.Exit(FAILED) from None
    if damaged:
        raise typer.Exit(FAILED)


def tell(folder: Path, notes: Sequence[str]) -> None:
    for note in notes:
        typer.echo(f"fedlapse: {folder}: {note}", err=True)
