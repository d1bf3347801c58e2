"""The printed result of `replay`: a table for each target, assumptions, and the points at which replays stop being
exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from emulator.replay.batch import Batch
from emulator.replay.findings import ALL, ASSUMPTION, GUESS, TIED, Finding, cells, flips, goals, missed
from emulator.results import units
from emulator.results.resampling import seeds_needed
from emulator.results.table import Table
from emulator.results.units import joined
from emulator.sessions.replay_files import repeated
from emulator.terminal.lines import for_terminal
from emulator.wording.terminal import printed
from emulator.wording.verdict import answer, over

TOLD = 6  # lines of a kind; further ones are counted
NOT_SHOWN = "not significant"  # enough seeds show no algorithm to be fastest
NAMED = 3  # settings that a line names


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
    """Mean times in all settings, the record's first; with several algorithms, the fastest is named."""
    unit, own = units.of_rows([_means(each, target) for each in findings], units.of_time)
    turned, several = flips(findings, target), len(batch.labels) > 1
    tested = len(findings[0].times[target][batch.labels[0]].seeds) >= seeds_needed(len(batch.labels) - 1)
    rows = []
    for each, its in zip(findings, own, strict=True):
        first = each.first(target) or units.NONE
        first = NOT_SHOWN if tested and first == TIED else first
        first += " (order changes)" if each.name in turned else ""
        rows.append([each.name, *([] if unit else [its.name]), *cells(each, target, its), *([first] * several)])
    headings = [
        "links",
        *([] if unit else ["in"]),
        *batch.labels,
        *(["fastest" if tested else "lowest mean"] * several),
    ]
    until = f"for {batch.every}" if target == ALL else f"until {target}"
    title = f"{batch.scenario.name}: mean time {until}{f' in {unit.name}' if unit else ''}"
    return printed([Table("", headings, rows, 1 if unit else 2)], f"{title}, network model {batch.network}")


def _means(each: Finding, target: str) -> list[float]:
    """The mean times of the algorithms that reach the target, s."""
    means = [times.spread["mean"] for times in each.times[target].values() if times.known]
    return [mean for mean in means if mean is not None]


def _missed(record: Finding) -> Iterator[str]:
    for target in record.times:
        if target != ALL and missed(record, target):
            yield f"{target}: no run of the record reaches it"


def _orders(batch: Batch, findings: Sequence[Finding], target: str) -> str:
    """The record's verdict as in `compare`, ratios in a few other settings, and the settings with another order."""
    called = f"the end of {batch.every}" if target == ALL else target
    if (ranked := findings[0].ranking(target)) is None:
        return f"To {called}, the order of the algorithms is unknown in the record."
    lines = answer(ranked, called)
    if len(findings) <= NAMED:
        for each in findings[1:]:
            there = each.ranking(target)
            others = [f"{other.label} {over(other)}" for other in there.others] if there else []
            lines += [f"On {each.name}, over {there.best.label}: {joined(others)}."] if there else []
    return "\n".join([*lines, _turned(findings, target, called)])


def _turned(findings: Sequence[Finding], target: str, called: str) -> str:
    """`Order at accuracy 0.8 by mean time: a, b. It is the same in every setting.`"""
    order = findings[0].order(target) or ()
    said = f"Order at {called} by mean time: {', '.join(order)}."
    if turned := flips(findings, target):
        return f"{said} It changes on {', '.join(turned)}."
    if not any(each.order(target) for each in findings[1:]):
        return f"{said} No other setting has a known order."
    known = "" if all(each.order(target) for each in findings[1:]) else " with a known order"
    others = [each.name for each in findings[1:] if each.order(target) not in (None, order)]
    but = f", except for ties on {', '.join(others)} (less than 1 %, or not significant)" if others else ""
    return f"{said} It is the same in every setting{known}{but}."


def _assumed(findings: Sequence[Finding]) -> Iterator[str]:
    for assumption, names in _settings_of(findings).items():
        everywhere = len(names) == len(findings) - 1
        yield assumption if everywhere else f"{assumption} ({_some_of(names)})"
    if lacking := sum(each.assumed for each in findings):
        yield _like_others(lacking, sum(each.pieces for each in findings))
    for each in findings:
        yield from (f"{each.name}: {said}" for said in repeated(each))


def _like_others(lacking: int, pieces: int) -> str:
    share = f"{100 * lacking / pieces:.2g} % of the" if lacking < pieces else "all"
    return (
        f"{share} messages and computations are not in the recorded runs: each is assumed to be as large as the same "
        "device's in another round, or as another device's in this round"
    )


def _settings_of(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """The names of the settings that make each assumption."""
    found: dict[str, list[str]] = {}
    for each in findings:
        for assumption in each.assumptions:
            found.setdefault(assumption, []).append(each.name)
    return found


def _some_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _partings(findings: Sequence[Finding], anyway: bool) -> Iterator[str]:
    """Yields lines on where replays stop being exact, where they end, and on the effect of --anyway."""
    said = [f"{each.name}: {parting}" for each in findings for parting in each.partings]
    said += [f"{each.name}: {failure}" for each in findings for failure in each.failures]
    yield from said[:TOLD]
    if len(said) > TOLD:
        yield f"and {len(said) - TOLD} more in replay.json"
    if any(each.partings for each in findings) and not anyway:
        yield "a replay stops if it is no longer exact; --train continues, and trains what differs"
        yield f"--anyway continues: {ASSUMPTION}"


def _guessed(findings: Sequence[Finding]) -> Iterator[str]:
    """Yields the meaning of the sign for assumed times, if a time has it."""
    shown = (times for each in findings for target in goals(findings[0]) for times in each.times[target].values())
    if any(times.known and times.assumed for times in shown):
        yield f"{GUESS} assumed: {ASSUMPTION}"
