"""What a command says of results that cannot be relied on: on stderr, and by its exit code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from emulator.commands.errors import BAD_INPUT, FAILED


@contextmanager
def soundness_told(folders: Sequence[Path]) -> Iterator[None]:
    """Says what the seals of these folders tell; the exit code is 1 if one is damaged, also where it is of no use."""
    from emulator.results.soundness import soundness

    found = {folder: soundness(folder) for folder in folders}
    for folder, each in found.items():
        tell(folder, each.notes)
    damaged = any(each.damaged for each in found.values())
    try:
        yield
    except typer.Exit as end:
        if damaged and end.exit_code in (0, BAD_INPUT):
            raise typer.Exit(FAILED) from None
        raise
    if damaged:
        raise typer.Exit(FAILED)


def tell(folder: Path, notes: Sequence[str]) -> None:
    for note in notes:
        typer.echo(f"fedlapse: {folder}: {note}", err=True)
