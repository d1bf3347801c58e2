"""`fedlapse cite`: what a paper should say of finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.results.results import read
from emulator.terminal.reliance import soundness_told
from emulator.wording.references import cited


def cite(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that `compare` or `run` wrote.")],
) -> None:
    """Print versions, references and a sentence for a paper.

    The references are BibTeX entries of fedlapse and of the algorithms used, and the sentence is for the methods
    section. Labels and model names in it are those of the scenario.

    \b
    Example:
      fedlapse cite runs/campus-0001 > campus.bib
    """
    with soundness_told([run]):
        typer.echo("\n\n".join(cited(read(run))))
