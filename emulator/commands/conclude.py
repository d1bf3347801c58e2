"""What a command leaves and says once its runs have ended: files, table, verdict, exit code."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from emulator.commands.errors import FAILED
from emulator.commands.lines import busy, say
from emulator.commands.options import Format
from emulator.commands.stopping import code
from emulator.play.stage import Outcome
from emulator.record.digest import twin
from emulator.record.record import MODEL, replace_file
from emulator.record.seal import SEAL, seal_results
from emulator.record.writing import why
from emulator.results.caveats import caveats
from emulator.results.expectations import Judgement, judge
from emulator.results.results import Results, read
from emulator.results.settings import how_sure
from emulator.results.units import counted
from emulator.wording.conclusion import cut_off, summed_up, told
from emulator.wording.tables import failures, unmetered, warnings
from emulator.wording.terminal import settings_table, table

UNMET = 3
REPORT = "report.html"


@dataclass(frozen=True)
class Ending:
    """How the runs of a command ended."""

    outcomes: Sequence[Outcome]
    host: str  # host.json
    stopped: int = 0  # by this signal
    assumed: Sequence[str] = ()  # about links
    doubts: Sequence[str] = ()  # about the data

    @property
    def interrupted(self) -> bool:
        return self.stopped > 0

    @property
    def cut_short(self) -> list[Outcome]:
        """Whose records could not be written to their ends."""
        return [
            each for each in self.outcomes if each.unwritten and Path(each.unwritten.filename).name not in (MODEL, SEAL)
        ]

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
    results = added_up(out, ending)
    judged = judge(results.scenario.expect, results.runs)
    unwritten = [each.unwritten for each in ending.outcomes if each.unwritten] + _written(results, ending.host)
    unwritten += _sealed(out) if not (unwritten or ending.interrupted) else []
    if format == Format.json:
        typer.echo(json.dumps({"out": str(out), **results.summary}, indent=1, sort_keys=True))
    else:
        if ending.interrupted:
            say(f"{cut_off(results)}: these are no results yet", tone="warning")
        typer.echo(table(results.scenario, results.summary))
        typer.echo(settings_table(results.scenario))
        for line in (*how_sure(results.scenario), *unmetered(results.summary)):
            say(line)
    _warn(results.summary, ending)
    if format is Format.text:
        _print_verdict(results, judged)
    if unwritten:
        say(f"fedlapse: {_incomplete(results, ending, unwritten)}", err=True, tone="bad")
        return FAILED
    if ending.interrupted:
        return code(ending.stopped)
    if ending.failures:
        return FAILED
    return 0 if all(each.ok for each in judged) else UNMET


def added_up(out: Path, ending: Ending) -> Results:
    """The results in a folder, with the summary that summary.json is to have."""
    found = read(out)
    links = caveats(ending.assumed, [each.looped for each in ending.outcomes])
    short = [each.run.label for each in ending.cut_short]
    made = summed_up(found, ending.failures, links, ending.interrupted, short)
    return replace(found, summary=made | ({"data": list(ending.doubts)} if ending.doubts else {}))


def _sealed(out: Path) -> list[OSError]:
    """Seals the folder; why it could not be."""
    try:
        seal_results(out)
    except OSError as error:
        return [error]
    return []


def _written(results: Results, host: str) -> list[OSError]:
    """Writes what stands beside the runs; why files could not be written."""
    failed = []
    made: Mapping[str, Callable[[], str]] = {  # the page last: its library may not get the memory that it wants
        "host.json": lambda: host,
        "summary.json": lambda: summary_text(results),
        REPORT: lambda: _page(results, host),
    }
    for name, text in made.items():
        try:
            replace_file(results.folder / name, text())
        except OSError as error:
            error.filename = str(results.folder / name)
            failed.append(error)
    return failed


def _page(results: Results, host: str) -> str:
    """report.html.  Raises OSError if there is no memory for it."""
    try:
        from emulator.report.page import page  # altair takes a second to import

        with busy("writing the report"):
            return page([replace(results, host=json.loads(host))])
    except (MemoryError, ImportError) as error:  # a library that cannot be mapped cannot be imported
        raise OSError(errno.ENOMEM, str(error)) from None


def summary_text(results: Results) -> str:
    """summary.json."""
    return json.dumps(results.summary, indent=1, sort_keys=True) + "\n"


def _incomplete(results: Results, ending: Ending, unwritten: Sequence[OSError]) -> str:
    """What is missing of the results, and that the rest is whole."""
    short = {each.unwritten: each.run for each in ending.cut_short}
    missing = [str(Path(error.filename).relative_to(results.folder)) for error in unwritten if error not in short]
    rounds = {run: len(results.runs[run.label].get(run.seed, ())) for run in short.values()}
    parts = [f"{run.name} ends after {counted(number, 'round')}" for run, number in rounds.items()]
    parts += [f"not written: {', '.join(missing)}"] if missing else []
    rest = "the rounds before and all other files" if rounds else "all other files"
    rest = f"summary.json, {rest}" if missing == [REPORT] else rest
    return f"{results.folder}: {why(unwritten[0])}; {'; '.join(parts)}; {rest} are safe"


def _print_verdict(results: Results, judged: Sequence[Judgement]) -> None:
    """The answer comes last, as it is what one looks for."""
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
    say(f"results: {results.folder}" + f"    open {page}" * page.exists())


def _warn(summary: Any, ending: Ending) -> None:
    for label, warning in warnings(summary):
        say(f"fedlapse: {label}: {warning}", err=True, tone="warning")
    for _, failure in failures(summary):
        say(f"fedlapse: {failure}", err=True, tone="bad")
    for outcome in ending.outcomes:
        if outcome.overruns:
            say(
                f"fedlapse: {outcome.run.label} seed {outcome.run.seed}: {len(outcome.overruns)} jobs took longer than "
                f"their modelled time, by up to {max(outcome.overruns):.2f} s; {outcome.advice}",
                err=True,
            )
        if outcome.strangers:
            say(
                f"fedlapse: {outcome.run.label} seed {outcome.run.seed}: {outcome.strangers} requests did not carry "
                f"their device's token and were refused; another process on this machine may have sent them",
                err=True,
            )
