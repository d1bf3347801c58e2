"""What a command leaves and says once its runs have ended: files, table, verdict, exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from emulator.commands.options import Format
from emulator.commands.stopping import code
from emulator.commands.table import table
from emulator.play.stage import Outcome
from emulator.record.digest import digest, twin
from emulator.record.record import replace_file
from emulator.results.caveats import caveats
from emulator.results.expectations import Judgement, judge
from emulator.results.results import Results, read
from emulator.results.tables import unmetered, warnings
from emulator.results.verdict import sentence

FAILED, UNMET = 1, 3


@dataclass(frozen=True)
class Ending:
    """How the runs of a command ended."""

    outcomes: Sequence[Outcome]
    stopped: int = 0  # by this signal
    assumed: Sequence[str] = ()  # about links

    @property
    def interrupted(self) -> bool:
        return self.stopped > 0

    @property
    def failures(self) -> dict[str, list[str]]:
        """What ended runs early, by label."""
        found: dict[str, list[str]] = {}
        for outcome in self.outcomes:
            if outcome.failure:
                found.setdefault(outcome.run.label, []).append(outcome.failure)
        return found


def conclude(out: Path, ending: Ending, format: Format) -> int:
    """Sums the runs up from their records, as `fedlapse report` would later; the exit code."""
    found = read(out)
    judged = judge(found.scenario.expect, found.runs)
    results = replace(found, summary=_summed_up(found, judged, ending))
    replace_file(out / "summary.json", json.dumps(results.summary, indent=1, sort_keys=True) + "\n")
    _report(results)
    if format == Format.json:
        typer.echo(json.dumps({"out": str(out), **results.summary}, indent=1, sort_keys=True))
    else:
        _print(results, judged)
    _warn(results.summary, ending)
    if ending.interrupted:
        return code(ending.stopped)
    return FAILED if ending.failures else UNMET if not all(each.ok for each in judged) else 0


def _summed_up(found: Results, judged: Sequence[Judgement], ending: Ending) -> dict[str, Any]:
    return {
        **found.summary,
        "failures": ending.failures,
        "digest": digest(found.folder),
        "sentence": _said(ending) + sentence(found.summary, found.runs),
        "expect": [{"ok": each.ok, "text": each.text} for each in judged],
        "interrupted": ending.interrupted,
        "links": caveats(ending.assumed, [each.looped for each in ending.outcomes]),
    }


def _said(ending: Ending) -> str:
    """What a verdict must not hide: that runs are not what the scenario says."""
    if ending.interrupted:
        rounds = sorted(len(outcome.rows) for outcome in ending.outcomes)
        return f"Interrupted after {rounds[0]} to {rounds[-1]} rounds, so this is no result: "
    return f"Some runs ended early ({', '.join(ending.failures)}): " if ending.failures else ""


def _report(results: Results) -> None:
    from emulator.report.page import page  # altair takes a second to import

    replace_file(results.folder / "report.html", page([results]))


def _print(results: Results, judged: Sequence[Judgement]) -> None:
    typer.echo(table(results.scenario, results.summary))
    for line in unmetered(results.summary):
        typer.echo(line)
    typer.echo(results.summary["sentence"])
    for each in judged:
        typer.echo(str(each))
    same = twin(results.folder, results.summary["digest"])
    if same:
        typer.echo(f"record identical to {same}")
    typer.echo(f"results: {results.folder}    open {results.folder / 'report.html'}")


def _warn(summary: Any, ending: Ending) -> None:
    for label, warning in warnings(summary):
        named = warning if warning.startswith(label) else f"{label}: {warning}"
        typer.echo(f"fedlapse: {named}", err=True)
    for outcome in ending.outcomes:
        if outcome.overruns:
            typer.echo(
                f"fedlapse: {outcome.run.label} seed {outcome.run.seed}: {len(outcome.overruns)} jobs took longer than "
                f"their modelled time, by up to {max(outcome.overruns):.2f} s; {outcome.advice}",
                err=True,
            )
        if outcome.strangers:
            typer.echo(
                f"fedlapse: {outcome.run.label} seed {outcome.run.seed}: {outcome.strangers} requests did not carry "
                f"their device's token and were refused; another process on this machine may have sent them",
                err=True,
            )
