"""The end of every benchmark: its verdict."""

from __future__ import annotations

from collections.abc import Sequence

import typer


def judge(faults: Sequence[str]) -> None:
    """Prints the bars that were missed and ends the program, with exit status 1 if there are any."""
    for fault in faults:
        typer.echo(f"missed: {fault}", err=True)
    raise typer.Exit(1 if faults else 0)
