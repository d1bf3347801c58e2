"""Predicted against measured seconds: real TCP between two network namespaces.  Needs root.

Without --quick the table goes to docs/fidelity.md, and a missed bar is exit status 1.
"""

from __future__ import annotations

from typing import Annotated

import typer

from benchmarks.testbed import cases, namespaces
from benchmarks.testbed.bench import measure
from benchmarks.testbed.page import bars, line, page, write
from benchmarks.verdict import judge

REPETITIONS = 3


def main(
    quick: Annotated[bool, typer.Option(help="One of each kind, once; nothing is judged or written.")] = False,
    only: Annotated[str, typer.Option(help="Only transfers whose line has this in it; nothing is written.")] = "",
    repetitions: Annotated[int, typer.Option(min=1, help="How often each is measured.")] = REPETITIONS,
) -> None:
    """Sends real bytes through the kernel, and says how far the prediction was off."""
    if fault := namespaces.missing():
        typer.echo(f"fidelity {fault}", err=True)
        raise typer.Exit(2)
    if not cases.have_traces():
        typer.echo(f"no traces in {cases.DATA}: those transfers are left out; FEDLAPSE_DATA names the folder", err=True)
    every = cases.few_cases() if quick else cases.all_cases()
    chosen = [case for case in every if only in f"{case.group}: {case.label}, {case.congestion}"]
    outcomes = []
    with namespaces.ended_politely():
        for case in chosen:
            outcomes.append(measure(case, 1 if quick else repetitions))
            typer.echo(line(outcomes[-1]))
    typer.echo(bars(outcomes))
    if not quick and not only:
        write(transfers=page(outcomes, repetitions))
    judge([] if quick or only else cases.missed(outcomes))


if __name__ == "__main__":
    typer.run(main)
