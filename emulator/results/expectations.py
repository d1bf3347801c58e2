"""Judges runs by the claims under `expect:` in a scenario, such as a claim of a paper.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

from emulator.record.targets import Target
from emulator.results.summary import Rows, last, to_target
from scenarios.schema.scenario import Expect
from scenarios.schema.task import CLASSES, Task


@dataclass(frozen=True)
class Judgement:
    """A claim in words with its measured value, and whether the runs meet it."""

    ok: bool
    text: str

    def __str__(self) -> str:
        return f"{'✓' if self.ok else '✗'} {self.text}"


def judge(
    expectations: Sequence[Expect], runs: Mapping[str, Mapping[int, Rows]], task: Task = CLASSES
) -> list[Judgement]:
    """Returns a judgement for each claim of each expectation; `runs` are the rows of rounds, by label and seed.

    `reach` with bounds claims that the median over seeds of the seconds, rounds or MB to the target is at most the
    bound; a seed that never reaches it counts as infinite.  `reach` alone claims that every seed reaches the target.
    `final` claims that the median over seeds of the last measured value is at least this high, or at most if lower is
    better.  An algorithm that was
    not run meets no claim.
    """
    return [judgement for expected in expectations for judgement in _judge(expected, runs, task)]


def _judge(expected: Expect, runs: Mapping[str, Mapping[int, Rows]], task: Task) -> Iterator[Judgement]:
    seeds = runs.get(expected.label)
    if not seeds:
        yield Judgement(False, f"{expected.label}: was not run")
        return
    if expected.reach is not None:
        target = Target(expected.metric, expected.reach, expected.hold, lower=task.is_lower(expected.metric))
        yield from _reach(expected, target, seeds)
    if expected.final is not None:
        yield _final(expected, Target(expected.metric, expected.final, lower=task.is_lower(expected.metric)), seeds)


def _reach(expected: Expect, target: Target, seeds: Mapping[int, Rows]) -> Iterator[Judgement]:
    found = [to_target(rows, target) for rows in seeds.values()]
    count = f"{sum(at is not None for at in found)} of {len(found)} seed{'s' * (len(found) > 1)}"
    said = f"{expected.label}: {target.name}"
    ends = [rows[-1]["time_s"] if rows else 0.0 for rows in seeds.values()]
    missed = f"({count}; {_span(ends)} were run)"
    bounds = [
        ("time_s", expected.time_s, 1.0, "s"),
        ("rounds", expected.rounds, 1.0, "rounds"),
        ("bytes", expected.mb, 1e6, "MB"),
    ]
    if all(bound is None for _, bound, _, _ in bounds):
        ok = None not in found
        yield Judgement(ok, f"{said} reached: {'yes' if ok else 'no'} {f'({count})' if ok else missed}")
    for measure, bound, size, unit in bounds:
        if bound is None:
            continue
        middle = median([at[measure] / size if at else inf for at in found])
        claim = f"{said} within {bound:.12g} {unit}"
        if middle == inf:
            never = "not reached" if not any(found) else "not reached by the median seed"
            yield Judgement(False, f"{claim}: {never} {missed}")
        else:
            yield Judgement(middle <= bound, f"{claim}: {_apart(middle, bound)} {unit} (median, {count})")


def _final(expected: Expect, target: Target, seeds: Mapping[int, Rows]) -> Judgement:
    ends = [last(rows, target.metric) for rows in seeds.values()]
    worst = inf if target.lower else -inf
    middle = median([worst if value is None else value for value in ends])
    claim = f"{expected.label}: {target.metric} at {'most' if target.lower else 'least'} {target.value:g} at the end"
    count = f"(median of {len(ends)} seed{'s' * (len(ends) > 1)})"
    if middle == worst:
        return Judgement(False, f"{claim}: not measured {count}")
    return Judgement(target.met(middle), f"{claim}: {_apart(middle, target.value)} {count}")


def _apart(value: float, bound: float) -> str:
    """Returns the value as text for people, with all digits if rounding would put it on the wrong side of the bound."""
    said = _number(value)
    read = float(said)
    return said if (read < bound, read > bound) == (value < bound, value > bound) else repr(value)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.4g}"


def _span(seconds: Sequence[float]) -> str:
    low, high = _number(min(seconds)), _number(max(seconds))
    return f"{low} s" if low == high else f"{low} s to {high} s"
