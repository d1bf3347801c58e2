"""What papers state, beside what came out here.  Shown, never judged.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from emulator.record.targets import Target
from emulator.results.summary import Rows, Spread, spread, to_target

OF_FIRST = "part of the first one's rounds"


class Stated(Protocol):
    """A number that a paper states for one of the labels; scenarios.schema has it."""

    @property
    def label(self) -> str: ...
    @property
    def metric(self) -> str: ...
    @property
    def final(self) -> float | None: ...
    @property
    def value(self) -> float | None: ...
    @property
    def rounds(self) -> float | None: ...
    @property
    def ratio(self) -> float | None: ...
    @property
    def source(self) -> str: ...


def beside(stated: Sequence[Stated], runs: Mapping[str, Mapping[int, Rows]]) -> list[dict[str, Any]]:
    """For each number of a label that ran: {label, what, source, theirs, ours, reached, of, seeds}.

    `ours` has median, low and high over seeds, of the last value that was measured, or of the rounds until the value
    was reached; a seed that never reached it counts as infinite.
    """
    first = next(iter(runs.values()), {})
    return [_one(each, seeds, first) for each in stated if (seeds := runs.get(each.label))]


def _one(stated: Stated, seeds: Mapping[int, Rows], first: Mapping[int, Rows]) -> dict[str, Any]:
    ours: list[float | None]
    if stated.value is None:
        ours = [_last(rows, stated.metric) for _, rows in sorted(seeds.items())]
        what, theirs = f"{stated.metric} at the end", stated.final
    else:
        target = Target(stated.metric, stated.value)
        found, base = (
            {seed: to_target(rows, target) for seed, rows in sorted(each.items())} for each in (seeds, first)
        )
        if stated.ratio is None:
            ours = [at["rounds"] if at else None for at in found.values()]
            what, theirs = f"rounds to {target.name}", stated.rounds
        else:
            ours = [_part(at, base.get(seed)) for seed, at in found.items()]
            what, theirs = f"{OF_FIRST}, to {target.name}", stated.ratio
    return {
        "label": stated.label,
        "what": what,
        "source": stated.source,
        "theirs": theirs,
        "ours": spread(ours),
        "reached": sum(value is not None for value in ours),
        "of": len(ours),
        "seeds": dict(zip(map(str, sorted(seeds)), ours, strict=True)),
    }


def _part(at: Mapping[str, float] | None, base: Mapping[str, float] | None) -> float | None:
    return at["rounds"] / base["rounds"] if at and base else None


def _last(rows: Rows, metric: str) -> float | None:
    return next((row[metric] for row in reversed(rows) if row[metric] is not None), None)


@dataclass(frozen=True)
class Step:
    """How far an algorithm is ahead of the baseline: in a paper, and here, seed by seed.

    Of a metric the difference; of rounds to a value the ratio, below 1 for fewer rounds.
    """

    label: str
    what: str
    source: str
    theirs: float
    ours: Spread
    agrees: bool | None  # None: our seeds lie on both sides, or a run never got there


def steps(entries: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Of each label against the first one for which the same is stated in the same place."""
    bases: dict[tuple[str, str], Mapping[str, Any]] = {}
    found = []
    for entry in entries:
        if entry["what"].startswith(OF_FIRST):  # it is one already
            ones = dict.fromkeys(entry["seeds"], 1.0)
            found.append(_step(entry, {"theirs": 1.0, "seeds": ones}))
            continue
        base = bases.setdefault((entry["what"], entry["source"]), entry)
        if base is not entry:
            found.append(_step(entry, base))
    return found


def _step(entry: Mapping[str, Any], base: Mapping[str, Any]) -> Step:
    ratio = "rounds" in entry["what"]
    pairs = [(entry["seeds"][seed], base["seeds"].get(seed)) for seed in entry["seeds"]]
    known = [_ahead(one, other, ratio) for one, other in pairs if one is not None and other is not None]
    theirs = _ahead(entry["theirs"], base["theirs"], ratio)
    even = 1.0 if ratio else 0.0
    sides = {(value > even) - (value < even) for value in known}
    same = (theirs > even) - (theirs < even)
    clear = len(sides) == 1 and len(known) == len(pairs) and 0 not in sides
    ours = spread([*known, *[None] * (len(pairs) - len(known))])
    return Step(entry["label"], entry["what"], entry["source"], theirs, ours, sides == {same} if clear else None)


def _ahead(value: float, base: float, ratio: bool) -> float:
    return value / base if ratio else value - base
