"""What papers state, beside what came out here.  Shown, never judged.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from statistics import fmean
from typing import Any, Literal

from emulator.record.targets import Target
from emulator.results.summary import Rows, Spread, last, spread, to_target
from scenarios.schema.scenario import Published

Kind = Literal["final", "rounds", "part"]  # the last value; rounds to a value; the same over the baseline's
Agreement = Literal["as published", "same direction", "against it", "unclear"]
AGREEMENTS: tuple[Agreement, ...] = ("as published", "same direction", "against it", "unclear")
HALF = 0.5  # two differences are of one size if the smaller one is at least half of the larger


def beside(stated: Sequence[Published], runs: Mapping[str, Mapping[int, Rows]]) -> list[dict[str, Any]]:
    """For each number of a label that ran: {label, kind, what, source, theirs, ours, reached, of, seeds}.

    `ours` has mean, low and high over seeds, of the last value that was measured, or of the rounds until the value
    was reached; a seed that never reached it counts as infinite.
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
    """Until the target, by seed; None where it was never reached."""
    found = {seed: to_target(rows, target) for seed, rows in sorted(seeds.items())}
    return {seed: at["rounds"] if at else None for seed, at in found.items()}


def _parts(found: Mapping[int, float | None], base: Mapping[int, float | None]) -> dict[int, float | None]:
    """The ratio of these rounds: 0 where only the baseline never got there, None (infinite) where only it did.

    A seed in which neither got there says nothing, and is left out.
    """
    ahead = {seed: _ahead(rounds, base.get(seed), ratio=True) for seed, rounds in found.items()}
    return {seed: None if ratio == inf else ratio for seed, ratio in ahead.items() if ratio is not None}


@dataclass(frozen=True)
class Lead:
    """How far an algorithm is ahead of the baseline, in a paper and here.

    Of a metric it is the difference; of rounds to a value the ratio, below 1 for fewer rounds.
    """

    label: str
    what: str
    source: str
    ratio: bool  # whether it is one, and no difference
    theirs: float
    ours: Spread  # over seeds; a ratio is infinite where only the baseline got there, 0 where only the other did
    agrees: Agreement
    known: int  # seeds that say something: at least one of both got there
    of: int


def steps(entries: Sequence[Mapping[str, Any]]) -> list[Lead]:
    """Of each label against the first one for which the same is stated in the same place."""
    bases: dict[tuple[str, str], Mapping[str, Any]] = {}
    found = []
    for entry in entries:
        if entry["kind"] == "part":  # it is a ratio to the baseline's already
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
    """None says nothing: neither of both got there."""
    if value is None or base is None:
        return None if value is base or not ratio else inf if value is None else 0.0
    return value / base if ratio else value - base


def _agreement(theirs: float, ours: Sequence[float], ratio: bool) -> Agreement:
    """As published: the paper's number lies between those of the seeds, or all seeds differ from the baseline in the
    paper's direction, and in the mean by a difference of its size.  Ratios are compared by their logarithms."""
    # Where somebody never got there, nobody knows by how much they differ.
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
    """The side on which all seeds differ from the baseline; 0 if they do not agree on one."""
    sides = {_side(value, ratio) for value in ours}
    return sides.pop() if len(sides) == 1 else 0


def _side(value: float, ratio: bool) -> int:
    """1 above the baseline, -1 below it, 0 if they are equal."""
    even = 1.0 if ratio else 0.0
    return (value > even) - (value < even)


def _of_one_size(ours: float, theirs: float, ratio: bool) -> bool:
    sizes = sorted(abs(log(value)) if ratio else abs(value) for value in (ours, theirs))
    return sizes[0] >= HALF * sizes[1]
