"""The verdict at the end of `compare`: three lines on the fastest algorithm, then reasons and next steps.  Pure.

The terminal, report.html, Markdown and summary.json show the same lines, and a fourth on compute errors (holds.py) that
replays have to find first; a study begins with three like them.  They claim only what the statistics of
`emulator/results/comparison.py` show (docs/design/statistics.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite

from emulator.record.targets import Target, value_of
from emulator.results.comparison import Comparison, Ranking, Seen, observed, rankings
from emulator.results.observed import Observed
from emulator.results.pace import LEAST, best, curve_of, rounds_at_pace
from emulator.results.resampling import bounded, figure
from emulator.results.summary import Rows
from emulator.results.times import Values
from emulator.results.units import counted, duration, durations, joined
from emulator.wording.hints import USUAL, Plan, hints, of_nobody
from emulator.wording.reasons import reasons

Show = Callable[[float], str]
NOBODY = "no other algorithm"


@dataclass(frozen=True)
class Verdict:
    lines: Sequence[str]  # the answer
    why: Sequence[str] = field(default=())
    hints: Sequence[str] = field(default=())  # next steps; OUT stands for the results' folder


def verdict(
    runs: Mapping[str, Mapping[int, Rows]], targets: Sequence[Target], plan: Plan = USUAL, under_way: bool = False
) -> Verdict:
    """Returns the verdict on the hardest target that any run reached; if no target was reached, a verdict on the
    progress of each algorithm.

    `runs`: the rows of all rounds, by label and seed.  `plan`: what the hints depend on.  `under_way`: the runs go on.
    """
    seen = observed(runs)
    if not seen:
        return Verdict(["No round has finished."])
    if not targets:
        return Verdict(["The scenario has no target, so there are no times to compare; set one with rounds.targets."])
    ranked = rankings(seen, targets)
    if not ranked:
        target = min(targets, key=lambda target: target.hardness)
        total = sum(len(of) for of in seen.values())
        first = f"No run reached {target.name} (0 of {counted(total, 'run')})."
        lines = [first, *unreached(seen, target, "so far" if under_way else "by the end")]
        return Verdict(lines, paces(seen, target), list(of_nobody(seen, target)))
    hardest = ranked[0]
    waiting = [label for label in runs if label not in seen]
    notes = [
        *_horizon(hardest),
        *_easier(ranked),
        *([f"No round of {joined(waiting)} has finished."] if waiting else []),
    ]
    return Verdict(
        answer(hardest, hardest.target.name), [*notes, *reasons(hardest, seen)], list(hints(hardest, seen, plan))
    )


def answer(ranked: Ranking, goal: str) -> list[str]:
    """Returns three lines: the fastest algorithm, the algorithms that cannot be distinguished from it, and those that
    are significantly slower, with ratios of times.

    With too few seeds (`Ranking.needed`) no algorithm is called fastest or slower.  A single algorithm gets one line,
    with its time.
    """
    show = durations([each.mean for each in ranked.found])
    best, label = _time(ranked.best, show), ranked.best.label
    mean = f" (mean of {ranked.seeds} seeds)" if ranked.seeds > 1 else ""
    if not ranked.others:
        return [f"{label} reached {goal} in {best}{mean}."]
    open_ = [each for each in ranked.others if each not in ranked.behind]
    slower = _named(ranked.slower, show)
    if not ranked.tested:
        slower = f"unknown with fewer than {ranked.needed} seeds" if ranked.seeds < ranked.needed else "unknown"
        later = f"; every seed took longer than any of {label}'s: {_named(ranked.behind, show)}"
        slower += later if ranked.behind else ""
    return [
        f"{label} is fastest to {goal}: {best}{mean}." if ranked.fastest else f"{_open(ranked, goal)}, {best}.",
        f"Not distinguishable from it: {_named(open_, show)}.",
        f"Significantly slower: {slower}.",
    ]


def _open(ranked: Ranking, goal: str) -> str:
    """Returns a text that says that no algorithm is significantly the fastest, why, and which one has the lowest
    time."""
    seeds = counted(ranked.seeds, "seed")
    if ranked.tested:
        first = f"No algorithm is significantly faster than all others to {goal} ({seeds})"
    else:
        few = f"{seeds} {'is' if ranked.seeds == 1 else 'are'} too few to tell a difference from chance"
        why = few if ranked.seeds < ranked.needed else "runs ended too early"
        first = f"No algorithm can be called fastest to {goal}: {why}"
    return f"{first}. {ranked.best.label} has the lowest {'mean time' if ranked.seeds > 1 else 'time'}"


def _named(found: Sequence[Comparison], show: Show) -> str:
    """Returns the compared algorithms, each with its ratio and time, or NOBODY if there are none.

    For example: `b 1.05x [0.98, 1.12] (47.2 s) and c 1.10x [0.97, 1.25] (49.5 s)`.
    """
    return joined([f"{each.label} {over(each)} ({_time(each.mine, show)})" for each in found]) or NOBODY


def over(each: Comparison) -> str:
    """Returns a comparison's ratio of times, such as `1.05x [0.98, 1.12]` or `≥ 1.43x [1.21, ∞]`; without an
    interval if none is known."""
    if each.contrast:
        return each.contrast.text("x")
    return "an unknown multiple" if each.ratio is None else bounded(f"{figure(each.ratio)}x", each.bound)


def _time(each: Values, show: Show) -> str:
    """Returns the mean time as text; if some seeds did not reach the target before the horizon, as a lower bound."""
    if not each.cut:
        return show(each.mean)
    return f"at least {show(each.mean)}, {each.reached} of {counted(len(each.times), 'seed')} reached it in time"


def _horizon(ranked: Ranking) -> Iterator[str]:
    """Yields a line on the horizon, up to which times count, and on algorithms with seeds that reached the target
    later; nothing if there is no horizon, because all runs reached the target."""
    tau = ranked.best.tau
    if isfinite(tau):
        late = [
            f"{each.label} with {each.later} of {counted(len(each.times), 'seed')}"
            for each in ranked.found
            if each.later
        ]
        more = f"; {joined(late)} reached the target later, which ratios ignore" if late else ""
        yield f"Times are compared up to {duration(tau)}, the time up to which all runs are known{more}."


def _easier(ranked: Sequence[Ranking]) -> Iterator[str]:
    """Yields a line for each easier target, on the algorithms that are significantly slower there, but not at any
    harder target.  `ranked`: the rankings by target, hardest first."""
    shown: set[str] = set()
    for each in ranked:
        more = [slower for slower in each.slower if slower.label not in shown]
        if more and each is not ranked[0]:
            said = [f"{slower.label} takes {over(slower)} as long as {each.best.label}" for slower in more]
            yield f"For {each.target.name} alone, {joined(said)}."
        shown.update(slower.label for slower in more)


def unreached(seen: Seen, target: Target, when: str = "by the end") -> list[str]:
    """Returns lines on a target that no run reached: each algorithm's best value of the metric and, if there are
    several algorithms, its value at the time when the first run ended, both as means over seeds."""
    ends = {label: [run.stamps[-1] for run in of.values()] for label, of in seen.items()}
    first = min(min(each) for each in ends.values())
    show = durations([*(sum(each) / len(each) for each in ends.values()), first])
    tops = {label: _mean([best(run.rows, target) for run in of.values()]) for label, of in seen.items()}
    said = [
        f"{label} {_value(top)} in {show(sum(ends[label]) / len(ends[label]))}" for label, top in _ranked(tops, target)
    ]
    lines = [f"Best {target.metric} {when}: {', '.join(said)}."]
    if len(seen) > 1:
        then = {label: _mean([_at(run, target.metric, first) for run in of.values()]) for label, of in seen.items()}
        told = [f"{label} {_value(value)}" for label, value in _ranked(then, target)]
        lines.append(f"After the same time, {show(first)}: {', '.join(told)}.")
    return lines


def paces(seen: Seen, target: Target) -> list[str]:
    """Returns for each algorithm a line on when it would reach a target that no run reached.

    For example: `fedavg ran 10 rounds; at the pace of the last ones, it would reach 0.9 after about 46 rounds (154 s).`
    """
    needed = {label: rounds_at_pace([run.rows for run in of.values()], target) for label, of in seen.items()}
    show = durations([rounds * _seconds_a_round(seen[label]) for label, rounds in needed.items() if rounds])
    return [_pace(label, of, target, needed[label], show) for label, of in seen.items()]


def _seconds_a_round(of: Mapping[int, Observed]) -> float:
    return sum(run.stamps[-1] for run in of.values()) / sum(len(run.rows) for run in of.values())


def _pace(
    label: str, of: Mapping[int, Observed], target: Target, rounds: int | None, show: Callable[[float], str]
) -> str:
    played = max(len(run.rows) for run in of.values())
    begin = f"{label} ran {counted(played, 'round')}"
    if len(curve_of([run.rows for run in of.values()], target.metric)) < LEAST:
        return f"{begin}, too few to estimate when it would reach {target.value:g}."
    pace = f"{begin}; at the pace of the last ones,"
    if rounds is None:
        return f"{pace} {target.value:g} is not in sight."
    took = show(rounds * _seconds_a_round(of))
    return f"{pace} it would reach {target.value:g} after about {rounds} rounds ({took})."


def _at(run: Observed, metric: str, time: float) -> float | None:
    """Returns a run's last value of a metric that was evaluated by this time, s; None if there is none."""
    known = [
        value
        for row, end in zip(run.rows, run.stamps, strict=True)
        if end <= time and (value := value_of(row, metric)) is not None
    ]
    return known[-1] if known else None


def _mean(each: Sequence[float | None]) -> float | None:
    known = [value for value in each if value is not None]
    return sum(known) / len(known) if known else None


def _value(value: float | None) -> str:
    return "not evaluated" if value is None else f"{value:.3f}"


def _ranked(values: Mapping[str, float | None], target: Target) -> list[tuple[str, float | None]]:
    """Returns (label, value) pairs, the best value first; labels without a value come last."""
    sign = -1 if target.lower else 1
    return sorted(values.items(), key=lambda each: -inf if each[1] is None else sign * each[1], reverse=True)
