"""Puts numbers that papers state next to the same numbers of these runs.  They are shown, and never fail a run.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from statistics import fmean
from typing import Any, Literal

from emulator.record.targets import Target
from emulator.results.summary import Rows, Spread, last, spread, to_target
from scenarios.schema.scenario import Published

Kind = Literal["final", "rounds", "part"]  # the last value; rounds to a value; those rounds over the baseline's
Agreement = Literal["as published", "same direction", "against it", "unclear"]
AGREEMENTS: tuple[Agreement, ...] = ("as published", "same direction", "against it", "unclear")
HALF = 0.5  # two differences count as similar if the smaller one is at least half of the larger


def beside(stated: Sequence[Published], runs: Mapping[str, Mapping[int, Rows]]) -> list[dict[str, Any]]:
    """Returns a row for each published number of an algorithm that ran: {label, kind, what, source, theirs, ours,
    reached, of, seeds}.

    `theirs` is the published number, `ours` the mean, low and high over seeds: of the last value that was measured, or
    of the rounds until a value was reached (or their ratio to the baseline's), where a seed that never reached it
    counts as infinite.
    """
    first = next(iter(runs.values()), {})
    return [_one(each, seeds, first) for each in stated if (seeds := runs.get(each.label))]


def _one(stated: Published, seeds: Mapping[int, Rows], first: Mapping[int, Rows]) -> dict[str, Any]:
    ours: dict[int, float | None]
    kind: Kind = "final" if stated.value is None else "rounds" if stated.ratio is None else "part"
    if stated.value is None:
        ours = {seed: last(rows, stated.metric) for seed, rows in sorted(seeds.items())}
        what, theirs = f"{stated.metric} at the end", stated.final
    else:
        target = Target(stated.metric, stated.value)
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
        "of": len(seeds),
        "seeds": {str(seed): value for seed, value in ours.items()},
    }


def _rounds(seeds: Mapping[int, Rows], target: Target) -> dict[int, float | None]:
    """Returns the rounds until the target, by seed; None for a seed that never reached it."""
    found = {seed: to_target(rows, target) for seed, rows in sorted(seeds.items())}
    return {seed: at["rounds"] if at else None for seed, at in found.items()}


def _parts(found: Mapping[int, float | None], base: Mapping[int, float | None]) -> dict[int, float | None]:
    """Returns the rounds over the baseline's rounds, by seed: 0 if only the baseline missed the target, None (infinite)
    if only the algorithm missed it.

    A seed in which both missed it is left out.
    """
    ahead = {seed: _ahead(rounds, base.get(seed), ratio=True) for seed, rounds in found.items()}
    return {seed: None if ratio == inf else ratio for seed, ratio in ahead.items() if ratio is not None}


@dataclass(frozen=True)
class Lead:
    """The lead of an algorithm over the baseline, in a paper and in these runs.

    For a metric it is a difference; for rounds to a value it is a ratio, below 1 if the algorithm needs fewer.
    """

    label: str
    what: str
    source: str
    ratio: bool  # True: a ratio; False: a difference
    theirs: float
    ours: Spread  # over seeds; infinite where only the baseline reached the value, 0 where only the algorithm did
    agrees: Agreement
    known: int  # seeds in which at least one of the two reached the value
    of: int


def steps(entries: Sequence[Mapping[str, Any]]) -> list[Lead]:
    """Returns, for each algorithm, its lead over the first algorithm for which the same source states the same
    quantity."""
    bases: dict[tuple[str, str], Mapping[str, Any]] = {}
    found = []
    for entry in entries:
        if entry["kind"] == "part":  # already a ratio to the baseline
            ones = dict.fromkeys(entry["seeds"], 1.0)
            found.append(_step(entry, {"theirs": 1.0, "seeds": ones}))
            continue
        base = bases.setdefault((entry["what"], entry["source"]), entry)
        if base is not entry:
            found.append(_step(entry, base))
    return found


def _step(entry: Mapping[str, Any], base: Mapping[str, Any]) -> Lead:
    ratio = entry["kind"] != "final"
    ours = [_ahead(value, base["seeds"].get(seed), ratio) for seed, value in entry["seeds"].items()]
    theirs = _ahead(entry["theirs"], base["theirs"], ratio)
    assert theirs is not None  # papers state numbers
    known = [value for value in ours if value is not None]
    agrees = _agreement(theirs, known, ratio) if len(known) == entry["of"] else "unclear"
    shown = spread([None if value == inf else value for value in known] or [None])
    return Lead(entry["label"], entry["what"], entry["source"], ratio, theirs, shown, agrees, len(known), entry["of"])


def _ahead(value: float | None, base: float | None, ratio: bool) -> float | None:
    """Returns the difference or ratio of an algorithm's value and the baseline's in one seed; None if neither of the
    two reached the value."""
    if value is None or base is None:
        return None if value is base or not ratio else inf if value is None else 0.0
    return value / base if ratio else value - base


def _agreement(theirs: float, ours: Sequence[float], ratio: bool) -> Agreement:
    """Compares a published lead with the leads of these runs' seeds.  Ratios are compared by their logarithms.

    The leads are as published if the published number lies within the range of the seeds, or if all seeds differ from
    the baseline in the paper's direction and their mean lead has a similar size.
    """
    # If a run never reached the value, the size of the difference is unknown.
    measured = not ratio or not {0.0, inf}.intersection(ours)
    if measured and min(ours) <= theirs <= max(ours):
        return "as published"
    direction = _direction(ours, ratio)
    if direction == 0:
        return "unclear"
    if direction != _side(theirs, ratio):
        return "against it"
    if measured and _of_one_size(fmean(ours), theirs, ratio):
        return "as published"
    return "same direction"


def _direction(ours: Sequence[float], ratio: bool) -> int:
    """Returns the side of the baseline on which the leads of all seeds lie: 1 above, -1 below, 0 if the seeds do not
    agree."""
    sides = {_side(value, ratio) for value in ours}
    return sides.pop() if len(sides) == 1 else 0


def _side(value: float, ratio: bool) -> int:
    """Returns 1 if a lead lies above the baseline, -1 if below, 0 if they are equal; the baseline is 1 for a ratio and
    0 for a difference."""
    even = 1.0 if ratio else 0.0
    return (value > even) - (value < even)


def _of_one_size(ours: float, theirs: float, ratio: bool) -> bool:
    sizes = sorted(abs(log(value)) if ratio else abs(value) for value in (ours, theirs))
    return sizes[0] >= HALF * sizes[1]
