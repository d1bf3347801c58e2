"""The end of a command's runs: writes the files next to the runs' records (host.json, summary.json, report.html, and
the seal with the digests of all files)."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from emulator.compute.executor import Tally
from emulator.play.stage import Outcome
from emulator.record.record import MODEL
from emulator.record.seal import SEAL, seal_results
from emulator.record.writing import replace_file, why
from emulator.results.caveats import caveats
from emulator.results.expectations import Judgement, judge
from emulator.results.results import Results, read
from emulator.results.units import counted
from emulator.terminal.errors import FAILED
from emulator.terminal.lines import busy, say
from emulator.terminal.stopping import code
from emulator.wording.conclusion import summed_up
from emulator.wording.tables import failures, warnings

UNMET = 3
REPORT = "report.html"


@dataclass(frozen=True)
class Ending:
    """The outcomes of a command's runs, and the notes for their summary."""

    outcomes: Sequence[Outcome]
    host: str  # host.json
    stopped: int = 0  # number of the signal that stopped the runs, or 0
    assumed: Sequence[str] = ()  # about links
    doubts: Sequence[str] = ()  # about the data
    replayed: Mapping[str, Any] = field(default_factory=dict)  # what replays found, for the summary

    @property
    def interrupted(self) -> bool:
        return self.stopped > 0

    @property
    def cut_short(self) -> list[Outcome]:
        """Runs whose records are incomplete, because a file could not be written; a missing model or seal does not
        count."""
        return [
            each for each in self.outcomes if each.unwritten and Path(each.unwritten.filename).name not in (MODEL, SEAL)
        ]

    @property
    def failures(self) -> dict[str, list[str]]:
        """The reasons why runs ended early, by the label of the algorithm."""
        found: dict[str, list[str]] = {}
        for outcome in self.outcomes:
            if outcome.failure:
                found.setdefault(outcome.run.label, []).append(outcome.failure)
        return found


@dataclass(frozen=True)
class Ended:
    """Ended runs, with the results that were computed and written."""

    ending: Ending
    results: Results
    judged: Sequence[Judgement]  # the scenario's expectations
    unwritten: Sequence[OSError] = ()  # errors of files that could not be written
    tally: Tally | None = None  # None: no ledger
    to_go_on: str = ""  # how to resume interrupted runs

    @property
    def code(self) -> int:
        """The command's exit code."""
        if self.unwritten:
            return FAILED
        if self.ending.interrupted:
            return code(self.ending.stopped)
        if self.ending.failures:
            return FAILED
        return 0 if all(each.ok for each in self.judged) else UNMET


def conclude(out: Path, ending: Ending) -> Ended:
    """Computes the results from the records in OUT, as `fedlapse report` does later, and writes the files next to them.

    Seals the folder unless runs were stopped or a file could not be written.
    """
    results = added_up(out, ending)
    unwritten = [each.unwritten for each in ending.outcomes if each.unwritten] + _written(results, ending.host)
    unwritten += _sealed(out) if not (unwritten or ending.interrupted) else []
    return Ended(ending, results, judge(results.scenario.expect, results.runs, results.scenario.task), unwritten)


def added_up(out: Path, ending: Ending) -> Results:
    """Returns the results in the folder OUT, read from its records, with a newly computed summary (summary.json)."""
    found = read(out)
    links = caveats(ending.assumed, [each.looped for each in ending.outcomes])
    short = [each.run.label for each in ending.cut_short]
    made = summed_up(found, ending.failures, links, ending.interrupted, short, ending.replayed)
    return replace(found, summary=made | ({"data": list(ending.doubts)} if ending.doubts else {}))


def _sealed(out: Path) -> list[OSError]:
    """Seals the folder, that is, records the digests of its files.  Returns the error if that fails."""
    try:
        seal_results(out)
    except OSError as error:
        return [error]
    return []


def _written(results: Results, host: str) -> list[OSError]:
    """Writes host.json, summary.json and report.html; returns the errors of those that could not be written."""
    failed = []
    made: Mapping[str, Callable[[], str]] = {  # the page last, because its library may run out of memory
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
    """Returns the text of report.html.  Raises OSError if there is too little memory to make it."""
    try:
        from emulator.report.page import page  # altair takes a second to import

        with busy("writing the report"):
            return page([replace(results, host=json.loads(host))])
    except (MemoryError, ImportError) as error:  # importing a library fails if it cannot be mapped
        raise OSError(errno.ENOMEM, str(error)) from None


def summary_text(results: Results) -> str:
    """Returns the text of summary.json."""
    return json.dumps(results.summary, indent=1, sort_keys=True) + "\n"


def incomplete(ended: Ended) -> str:
    """Returns a sentence on what could not be written: records that end early, and missing files.  It also says that
    all else is safe.

    Only for `ended` with at least one file that could not be written.
    """
    results, ending, unwritten = ended.results, ended.ending, ended.unwritten
    short = {each.unwritten: each.run for each in ending.cut_short}
    missing = [str(Path(error.filename).relative_to(results.folder)) for error in unwritten if error not in short]
    rounds = {run: len(results.runs[run.label].get(run.seed, ())) for run in short.values()}
    parts = [f"{run.name} ends after {counted(number, 'round')}" for run, number in rounds.items()]
    parts += [f"not written: {', '.join(missing)}"] if missing else []
    rest = "the rounds before and all other files" if rounds else "all other files"
    rest = f"summary.json, {rest}" if missing == [REPORT] else rest
    return f"{results.folder}: {why(unwritten[0])}; {'; '.join(parts)}; {rest} are safe"


def warn(ended: Ended) -> None:
    """Prints warnings about the results, and the failures of runs, on stderr."""
    summary = ended.results.summary
    for label, warning in warnings(summary):
        say(f"fedlapse: {label}: {warning}", err=True, tone="warning")
    for _, failure in failures(summary):
        say(f"fedlapse: {failure}", err=True, tone="bad")
    for outcome in ended.ending.outcomes:
        if outcome.overruns:
            say(
                f"fedlapse: {outcome.run.label} seed {outcome.run.seed}: {len(outcome.overruns)} jobs took longer than "
                f"their modelled time, by up to {max(outcome.overruns):.2f} s; this host keeps "
                f"--speedup {outcome.keeps:.2g} here",
                err=True,
            )
        if outcome.strangers:
            say(
                f"fedlapse: {outcome.run.label} seed {outcome.run.seed}: {outcome.strangers} requests did not carry "
                f"their device's token and were refused; another process on this machine may have sent them",
                err=True,
            )
