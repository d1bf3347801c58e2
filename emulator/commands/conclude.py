"""Prints the end of a command that played runs: table, warnings, verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence

import typer

from emulator.commands.options import Format
from emulator.record.digest import twin
from emulator.results.expectations import Judgement
from emulator.results.results import Results
from emulator.results.settings import how_sure
from emulator.sessions.ending import REPORT, Ended, incomplete, warn
from emulator.terminal.lines import say, to_open
from emulator.terminal.stopping import uninterrupted
from emulator.wording.conclusion import cut_off, told
from emulator.wording.tables import unmetered
from emulator.wording.terminal import settings_table, table


def concluded(ended: Ended, format: Format) -> int:
    """Prints the results of ended runs; returns the exit code."""
    with uninterrupted():
        results, interrupted = ended.results, ended.ending.interrupted
        if format == Format.json:
            typer.echo(json.dumps({"out": str(results.folder), **results.summary}, indent=1, sort_keys=True))
        else:
            if interrupted:
                say(f"{cut_off(results)}: these are not final results", tone="warning")
            typer.echo(table(results.scenario, results.summary))
            typer.echo(settings_table(results.scenario))
            for line in (*how_sure(results.scenario, results.summary.get("chance")), *unmetered(results.summary)):
                say(line)
        warn(ended)
        if format is Format.text:
            _print_verdict(results, ended.judged)
        if ended.unwritten:
            say(f"fedlapse: {incomplete(ended)}", err=True, tone="bad")
        if ended.tally and format is Format.text:
            typer.echo(ended.tally.sentence())
        if ended.to_go_on:
            say(f"fedlapse: {ended.to_go_on}", err=True)
    return ended.code


def _print_verdict(results: Results, judged: Sequence[Judgement]) -> None:
    """Prints the verdict with its reasons, the judged expectations, and the place of the results.

    They are printed last, because readers look for them there.
    """
    for line in results.summary["reserved"]:
        say(line, tone="warning")
    (first, *others), ranked = results.summary["verdict"], results.summary["ranking"]
    say(first, tone="won" if ranked and ranked["fastest"] else "answer")
    for line in (*others, *told(results.summary, results.folder)):
        say(line)
    for each in judged:
        say(str(each), tone="good" if each.ok else "bad")
    same = twin(results.folder, results.summary["digest"])
    if same:
        say(f"record identical to {same}")
    page = results.folder / REPORT
    say(f"results: {results.folder}" + f"    {to_open(page)}" * page.exists())
