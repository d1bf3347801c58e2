"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Workers = Annotated[
    int | None, typer.Option(min=0, help="Worker processes; 0 trains in this process. Default: one per core.")
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="This seed instead of the scenario's.")]
RoundsOption = Annotated[int | None, typer.Option("--rounds", min=1, help="At most so many rounds.")]
Out = Annotated[Path | None, typer.Option(help="A new folder for the results. Default: runs/NAME-NNNN.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress lines.")]
