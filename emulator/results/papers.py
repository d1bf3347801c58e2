"""Puts numbers that papers state next to the same numbers of these runs.  They are shown, and never fail a run.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log
from statistics import fmean, median
from typing import Any, Literal

from emulator.record.targets import Target, reached, value_of
from emulator.results.summary import Rows, Spread, spread
from scenarios.schema.scenario import Published
from scenarios.schema.task import CLASSES, Task

# The last value; how far it lies above another algorithm's; rounds to a value; those rounds over the baseline's.
Kind = Literal["final", "gap", "rounds", "part"]
Agreement = Literal["as published", "same direction", "against it", "undecided"]
AGREEMENTS: tuple[Agreement, ...] = ("as published", "same direction", "against it", "undecided")
LEADS: dict[Kind, float] = {"part": 1.0, "gap": 0.0}  # kinds that are leads by themselves, and what no lead is there
TWICE = 2.0  # two differences count as similar if the larger one is at most twice the smaller


def beside(
    stated: Sequence[Published], runs: Mapping[str, Mapping[int, Rows]], ending: int = 1, task: Task = CLASSES
) -> list[dict[str, Any]]:
    """Returns a row for each published number of an algorithm that ran: {label, kind, what, source, theirs, ours,
    reached, of, seeds}.

    `theirs` is the published number, `ours` the mean, low and high over seeds: of the last value that was measured (or
    of the mean of the last `ending` values; or how far either lies above another algorithm's), or of the rounds until a
    value was reached (or their ratio to the baseline's, the first of `runs`), where a seed that never reached it counts
    as infinite.
    """
    first = next(iter(runs)) if runs else ""
    return [
        _one(each, seeds, runs.get(each.over or first, {}), ending, task)
        for each in stated
        if (seeds := runs.get(each.label))
    ]


def _one(
    stated: Published, seeds: Mapping[int, Rows], first: Mapping[int, Rows], ending: int, task: Task
) -> dict[str, Any]:
    ours: dict[int, float | None]
    kind: Kind = "final" if stated.value is None else "rounds" if stated.ratio is None else "part"
    if stated.value is None:
        ours = {seed: _end(rows, stated.metric, ending) for seed, rows in sorted(seeds.items())}
        what, theirs = f"{stated.metric} at the end", stated.final
        if stated.over:
            kind, what = "gap", f"{what}, above {stated.over}'s"
            ours = {n: _ahead(ours[n], _end(first[n], stated.metric, ending), ratio=False) for n in ours if n in first}
    else:
        target = Target(stated.metric, stated.value, lower=task.is_lower(stated.metric))
        found, base = (_rounds(each, target) for each in (seeds, first))
        if stated.ratio is None:
            ours, what, theirs = found, f"rounds to {target.name}", stated.rounds
        else:
            ours = _parts(found, base)
            what, theirs = f"rounds to {target.name}, over the baseline's", stated.ratio
    return {
        "label": stated.label,
        "kind": kind,
        "what": what,
        "source": stated.source,
        "theirs": theirs,
        "ours": spread([*ours.values()] or [None]),
        "reached": sum(value is not None for value in ours.values()),
        "of": len(seeds.keys() & first.keys() if kind in LEADS else seeds),
        "seeds": {str(seed): value for seed, value in ours.items()},
    }


def _end(rows: Rows, metric: str, ending: int) -> float | None:
    """Returns the mean of the last `ending` values of the metric; None if it was never measured."""
    known = [value for row in rows if (value := value_of(row, metric)) is not None][-ending:]
    return fmean(known) if known else None


def _rounds(seeds: Mapping[int, Rows], target: Target) -> dict[int, float | None]:
    """Returns the rounds until the target, by seed; None for a seed that never reached it."""
    found = {seed: reached(rows, target) for seed, rows in sorted(seeds.items())}
    return {seed: at["round"] + 1 if at else None for seed, at in found.items()}


def _parts(found: Mapping[int, float | None], base: Mapping[int, float | None]) -> dict[int, float | None]:
    """Returns the rounds over the baseline's rounds, by seed: 0 if only the baseline missed the target, None (infinite)
    if only the algorithm missed it.

    A seed in which both missed it is left out, and one that the baseline did not play.
    """
    ahead = {seed: _ahead(rounds, base[seed], ratio=True) for seed, rounds in found.items() if seed in base}
    return {seed: None if ratio == inf else ratio for seed, ratio in ahead.items() if ratio is not None}


@dataclass(frozen=True)
class Lead:
    """The lead of an algorithm over the baseline, in a paper and in these runs.

    For a metric it is a difference; for rounds to a value it is a ratio, below 1 if the algorithm needs fewer.  Seeds
    are those that both have played.
    """

    label: str
    what: str
    source: str
    ratio: bool  # True: a ratio; False: a difference
    theirs: float
    ours: Spread  # over seeds; infinite where only the baseline reached the value, 0 where only the algorithm did
    median: float | None  # of ours; None: infinite, or not known
    agrees: Agreement
    known: int  # seeds in which at least one of the two reached the value
    of: int


def steps(entries: Sequence[Mapping[str, Any]]) -> list[Lead]:
    """Returns, for each algorithm, its lead over the first algorithm for which the same source states the same
    quantity."""
    bases: dict[tuple[str, str], Mapping[str, Any]] = {}
    found = []
    for entry in entries:
        if entry["kind"] in LEADS:
            none = LEADS[entry["kind"]]
            found.append(_step(entry, {"theirs": none, "seeds": dict.fromkeys(entry["seeds"], none)}))
            continue
        base = bases.setdefault((entry["what"], entry["source"]), entry)
        if base is not entry:
            found.append(_step(entry, base))
    return found


def _step(entry: Mapping[str, Any], base: Mapping[str, Any]) -> Lead:
    ratio = entry["kind"] in ("rounds", "part")
    both = entry["seeds"].keys() & base["seeds"].keys()
    of = entry["of"] if entry["kind"] in LEADS else len(both)
    ahead = [_ahead(entry["seeds"][seed], base["seeds"][seed], ratio) for seed in both]
    theirs = _ahead(entry["theirs"], base["theirs"], ratio)
    assert theirs is not None  # papers state numbers
    known = [value for value in ahead if value is not None]
    agrees = _agreement(theirs, known, ratio) if len(known) == of else "undecided"
    finite = [None if value == inf else value for value in known] or [None]
    middle = _middle(known, ratio) if known else inf
    shown = middle if isfinite(middle) else None
    return Lead(
        entry["label"], entry["what"], entry["source"], ratio, theirs, spread(finite), shown, agrees, len(known), of
    )


def _ahead(value: float | None, base: float | None, ratio: bool) -> float | None:
    """Returns the difference or ratio of an algorithm's value and the baseline's in one seed; None if neither of the
    two reached the value."""
    if value is None or base is None:
        return None if value is base or not ratio else inf if value is None else 0.0
    return value / base if ratio else value - base


def _agreement(theirs: float, ours: Sequence[float], ratio: bool) -> Agreement:
    """Compares a published lead with the leads of these runs' seeds.  Ratios are compared by their logarithms.

    They are as published if all of them lie on the paper's side of the baseline, and their median has half to twice
    the paper's size.  Where the paper has no lead, only seeds without any lead are as published; other seeds cannot be
    on its side, nor on the other.
    """
    sides = {_sign(_size(value, ratio)) for value in ours}
    if len(sides) != 1:
        return "undecided"
    (side,), stated, middle = sides, _size(theirs, ratio), _size(_middle(ours, ratio), ratio)
    if side == _sign(stated):
        return "as published" if abs(stated) / TWICE <= abs(middle) <= abs(stated) * TWICE else "same direction"
    return "against it" if side == -_sign(stated) else "undecided"


def _middle(leads: Sequence[float], ratio: bool) -> float:
    """Returns the median of the leads; of an even number of ratios it is the geometric mean of the middle two."""
    middle = median(_size(lead, ratio) for lead in leads)
    return exp(middle) if ratio else middle


def _size(lead: float, ratio: bool) -> float:
    """Returns the lead as a number that is 0 at the baseline, and of which the sign tells the side: a difference as it
    is, the logarithm of a ratio."""
    return lead if not ratio else log(lead) if lead else -inf


def _sign(size: float) -> int:
    return (size > 0) - (size < 0)
