"""`fedlapse diff`: finds the differences between two records, and the second at which the first one occurs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.options import Format, FormatOption
from emulator.record.difference import Difference, Pair, difference
from emulator.results.soundness import soundness
from emulator.terminal.lines import say
from emulator.terminal.reliance import soundness_told


def diff(
    a: Annotated[
        Path, typer.Argument(metavar="RUN", help="A folder that `compare` wrote, or a run in it (LABEL-sSEED).")
    ],
    b: Annotated[Path, typer.Argument(metavar="OTHER", help="Another folder or run to compare it with.")],
    format: FormatOption = Format.text,
) -> None:
    """Show where two records differ.

    It names the keys of the scenario that differ, and the simulated second from which the runs differ. Exit code 0 if
    the records are identical, 1 if they differ or one is damaged, 2 if they cannot be read.

    \b
    Example:
      fedlapse diff runs/campus-0001 runs/campus-0002
    """
    with soundness_told([a, b]):
        found = difference(a, b)
        damaged = [side for side, path in (("A", a), ("B", b)) if soundness(path).damaged]
        if format is Format.json:
            typer.echo(_json(found, damaged))
        else:
            say("\n".join(_text(found, damaged)))
    raise typer.Exit(0 if found.identical else 1)


def _text(found: Difference, damaged: Sequence[str]) -> Iterator[str]:
    if damaged:
        yield f"{' and '.join(damaged)} {'is' if len(damaged) == 1 else 'are'} damaged"
    if found.identical:
        what = "runs" if damaged else "records"
        yield f"{what} identical ({len(found.runs)} run{'s' * (len(found.runs) > 1)})"
        return
    for change in found.scenario:
        yield f"scenario: {change}"
    for run in found.runs:
        yield from _run(run)
    for side, names in (("A", found.only_a), ("B", found.only_b)):
        for name in names:
            yield f"{name}: only in {side}"


def _run(run: Pair) -> Iterator[str]:
    if run.identical:
        yield f"✓ {run.name}: identical"
        return
    yield f"✗ {run.name}: final model {run.model}"
    for first_difference in run.differences:
        when = "" if first_difference.time_s is None else f", from {first_difference.time_s:.9g} s simulated on"
        yield f"    {first_difference.file} parts at line {first_difference.line}{when}"
        yield f"      A: {first_difference.a}"
        yield f"      B: {first_difference.b}"


def _json(found: Difference, damaged: Sequence[str]) -> str:
    # through str because JSON cannot hold .inf, which a scenario may contain
    plain = json.loads(json.dumps(asdict(found), default=str), parse_constant=str)
    return json.dumps({"identical": found.identical, "damaged": damaged, **plain}, indent=1, allow_nan=False)
