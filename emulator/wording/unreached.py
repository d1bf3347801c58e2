"""Sentences on a target that no run reached: best values, values at equal time, and the time it would take.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from emulator.record.targets import Target
from emulator.results.comparison import Seen
from emulator.results.observed import Observed
from emulator.results.pace import LEAST, best, curve_of, rounds_at_pace
from emulator.results.units import counted, durations


def sentences(seen: Seen, target: Target) -> list[str]:
    """Each algorithm's best value, and its value when the first run ended; means over seeds."""
    ends = {label: [run.stamps[-1] for run in of.values()] for label, of in seen.items()}
    first = min(min(each) for each in ends.values())
    show = durations([*(sum(each) / len(each) for each in ends.values()), first])
    tops = {label: _mean([best(run.rows, target.metric) for run in of.values()]) for label, of in seen.items()}
    said = [f"{label} {_value(top)} in {show(sum(ends[label]) / len(ends[label]))}" for label, top in _ranked(tops)]
    lines = [f"Best {target.metric} by the end: {', '.join(said)}."]
    if len(seen) > 1:
        then = {label: _mean([_at(run, target.metric, first) for run in of.values()]) for label, of in seen.items()}
        told = [f"{label} {_value(value)}" for label, value in _ranked(then)]
        lines.append(f"At equal time, after {show(first)}: {', '.join(told)}.")
    return lines


def paces(seen: Seen, target: Target) -> list[str]:
    """`fedavg played 10 rounds; at the pace of its last ones, 0.9 takes about 46 rounds (154 s).`"""
    needed = {label: rounds_at_pace([run.rows for run in of.values()], target) for label, of in seen.items()}
    show = durations([rounds * _seconds_a_round(seen[label]) for label, rounds in needed.items() if rounds])
    return [_pace(label, of, target, needed[label], show) for label, of in seen.items()]


def _seconds_a_round(of: Mapping[int, Observed]) -> float:
    return sum(run.stamps[-1] for run in of.values()) / sum(len(run.rows) for run in of.values())


def _pace(
    label: str, of: Mapping[int, Observed], target: Target, rounds: int | None, show: Callable[[float], str]
) -> str:
    played = max(len(run.rows) for run in of.values())
    begin = f"{label} played {counted(played, 'round')}; at the pace of its last ones, {target.value:g}"
    if len(curve_of([run.rows for run in of.values()], target.metric)) < LEAST:
        return f"{label} played {counted(played, 'round')}, too few to say when it would reach {target.value:g}."
    if rounds is None:
        return f"{begin} is not in sight."
    return f"{begin} takes about {rounds} rounds ({show(rounds * _seconds_a_round(of))})."


def _at(run: Observed, metric: str, time: float) -> float | None:
    """The last value evaluated by this time; None if there is none."""
    known = [
        row[metric] for row, end in zip(run.rows, run.stamps, strict=True) if end <= time and row[metric] is not None
    ]
    return known[-1] if known else None


def _mean(each: Sequence[float | None]) -> float | None:
    known = [value for value in each if value is not None]
    return sum(known) / len(known) if known else None


def _value(value: float | None) -> str:
    return "not evaluated" if value is None else f"{value:.3f}"


def _ranked(values: Mapping[str, float | None]) -> list[tuple[str, float | None]]:
    """Labels and values, highest first; labels without a value come last."""
    return sorted(values.items(), key=lambda each: -inf if each[1] is None else each[1], reverse=True)
