"""What `replay` prints: a table for each target, what was assumed, and where replays stop being exact."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from emulator.commands.lines import for_terminal
from emulator.commands.replay.files import repeated
from emulator.replay.batch import Batch
from emulator.replay.findings import ALL, ASSUMPTION, GUESS, Finding, Times, cells, flips, goals, missed, ratio
from emulator.results import units
from emulator.wording.plan_text import columns

TOLD = 6  # lines of a kind; more are summed up
NAMED = 3  # settings of which a line is true


def text(batch: Batch, findings: Sequence[Finding], passed: Sequence[str], out: Path) -> str:
    parts = [_table(batch, findings, target) for target in goals(findings[0])]
    parts += [for_terminal(_orders(batch, findings, target)) for target in goals(findings[0]) if len(batch.labels) > 1]
    lines = [
        *_missed(findings[0]),
        *_assumed(findings),
        *passed,
        *_partings(findings, batch.source.anyway),
        *_guessed(findings),
        f"replay: {out}",
    ]
    return "\n\n".join([*parts, for_terminal("\n".join(lines))])


def _table(batch: Batch, findings: Sequence[Finding], target: str) -> str:
    """Times of all settings, the record's first; the one that gets there first is named where there are several."""
    unit, own = units.of_rows([_finite(each, target) for each in findings], units.of_time)
    grid = _grid(batch.labels, unit)
    turned = flips(findings, target)
    for each, its in zip(findings, own, strict=True):
        row = [each.name] if unit else [each.name, its.name]
        row += cells(each, target, its)
        if len(batch.labels) > 1:
            row.append(f"{each.first(target) or units.NONE}{' (order changes)' if each.name in turned else ''}")
        grid.add_row(*row)
    in_unit = f" in {unit.name}" if unit else ""
    until = f"for {batch.every}" if target == ALL else f"until {target}"
    title = f"{batch.scenario.name}: time {until}{in_unit}"
    return f"{title}, network model {batch.network}\n{_printed(grid)}"


def _finite(each: Finding, target: str) -> list[float]:
    """The medians that are known and not infinite, in s."""
    medians = [times.median for times in each.times[target].values() if times.known]
    return [value for value in medians if value != math.inf]


def _grid(labels: Sequence[str], unit: units.Unit | None) -> Table:
    """The columns; `unit` is that of all rows, None if each has its own."""
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    grid.add_column("links")
    if unit is None:
        grid.add_column("in")
    for label in labels:
        grid.add_column(label, justify="right")
    if len(labels) > 1:
        grid.add_column("first")
    return grid


def _printed(grid: Table) -> str:
    shown = io.StringIO()
    Console(file=shown, width=columns(), markup=False, highlight=False).print(grid)
    return "\n".join(line.rstrip() for line in shown.getvalue().rstrip().splitlines())


def _missed(record: Finding) -> Iterator[str]:
    for target in record.times:
        if target != ALL and missed(record, target):
            yield f"{target}: no run of the record reaches it"


def _orders(batch: Batch, findings: Sequence[Finding], target: str) -> str:
    return "\n".join([_turned(batch, findings, target), *_ratios(batch, findings, target)])


def _turned(batch: Batch, findings: Sequence[Finding], target: str) -> str:
    turned, first = flips(findings, target), findings[0]
    called = batch.every if target == ALL else target
    if first.order(target) is None:
        return f"{called}: the record does not say in which order the algorithms come"
    order = ranked(first, target)
    if turned:
        return f"{called}: {order} in the record; the order changes on {', '.join(turned)}"
    others = [each.name for each in findings[1:] if each.order(target) and ranked(each, target) != order]
    if others:
        return f"{called}: {order} in the record; no setting changes it, but ties differ on {', '.join(others)}"
    return f"{called}: {order} in the record{_elsewhere(findings, target)}"


def _ratios(batch: Batch, findings: Sequence[Finding], target: str) -> Iterator[str]:
    """What algorithms take beside the scenario's first, as `fedcurv 3.01x in the record`; nothing of many settings."""
    base, *others = batch.labels
    if len(findings) > NAMED:
        return
    said = []
    for label in others:
        found = [(_over(each.times[target][base], each.times[target][label]), each) for each in findings]
        known = [
            f"{times:.2f}x {'in the record' if each is findings[0] else f'on {each.name}'}"
            for times, each in found
            if times is not None
        ]
        said += [f"{label} {', '.join(known)}"] if known else []
    if said:
        yield f"  beside {base}: {'; '.join(said)}"


def _over(base: Times, other: Times) -> float | None:
    """The other median over the base's; None where one of them is never, or not known."""
    return ratio(base.median, other.median) if base.known and other.known else None


def _elsewhere(findings: Sequence[Finding], target: str) -> str:
    """The end of a sentence on settings that all have the record's order, as far as they are known."""
    known = [each.order(target) is not None for each in findings[1:]]
    if not any(known):
        return "; no other setting is known"
    return ", and in every setting" if all(known) else ", and in every setting that is known"


def ranked(found: Finding, target: str) -> str:
    """The labels as a < b = c: b is in a tie with c, or neither ever gets there."""
    said, best = "", ""  # of those in a tie, the first: they need not all be so near each other
    for label in found.order(target) or ():
        if not best:
            said, best = label, label
        elif found.ahead(target, best, label):
            said, best = f"{said} < {label}", label
        else:
            said = f"{said} = {label}"
    return said


def _assumed(findings: Sequence[Finding]) -> Iterator[str]:
    for assumption, names in _settings_of(findings).items():
        everywhere = len(names) == len(findings) - 1
        yield assumption if everywhere else f"{assumption} ({_some_of(names)})"
    if lacking := sum(each.assumed for each in findings):
        yield _like_others(lacking, sum(each.pieces for each in findings))
    for each in findings:
        yield from (f"{each.name}: {said}" for said in repeated(each))


def _like_others(lacking: int, pieces: int) -> str:
    share = f"{100 * lacking / pieces:.2g} %" if lacking < pieces else "all"
    return (
        f"{share} of all messages and computations did not take place in the recorded runs: each is taken to be as "
        "large as the same device's in another round, or as another device's in this one"
    )


def _settings_of(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """The names of the settings in which each thing is assumed."""
    found: dict[str, list[str]] = {}
    for each in findings:
        for assumption in each.assumptions:
            found.setdefault(assumption, []).append(each.name)
    return found


def _some_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _partings(findings: Sequence[Finding], anyway: bool) -> Iterator[str]:
    """Where replays stop being exact, where they end, and what --anyway does or did."""
    said = [f"{each.name}: {parting}" for each in findings for parting in each.partings]
    said += [f"{each.name}: {failure}" for each in findings for failure in each.failures]
    yield from said[:TOLD]
    if len(said) > TOLD:
        yield f"and {len(said) - TOLD} more in replay.json"
    if any(each.partings for each in findings) and not anyway:
        yield "a replay stops where it is no longer exact; --train goes on, and trains what differs"
        yield f"--anyway goes on: {ASSUMPTION}"


def _guessed(findings: Sequence[Finding]) -> Iterator[str]:
    """What the sign before a time means, if one has it."""
    shown = (times for each in findings for target in goals(findings[0]) for times in each.times[target].values())
    if any(times.known and times.assumed for times in shown):
        yield f"{GUESS} assumed: {ASSUMPTION}"
