"""What `compare` ends with: who was first to the target and by how much, why, and what to do next.  Pure.

The same lines stand on the terminal, in report.html, in Markdown and in summary.json.  Times of algorithms are compared
as in a study (docs/design/statistics.md): restricted mean times over one horizon, paired by seed, with 95 % intervals
from 5 seeds on, and Holm's adjustment over the algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite

from emulator.record.targets import Target
from emulator.results.observed import Observed
from emulator.results.restricted import Contrast
from emulator.results.standings import Runs, against, differing, observed, standings
from emulator.results.summary import FEW
from emulator.results.times import Values
from emulator.results.units import counted, duration, durations, joined
from emulator.wording import unreached
from emulator.wording.hints import Plan, hints, of_nobody
from emulator.wording.reasons import reasons, times

Show = Callable[[float], str]
Seen = Mapping[str, Mapping[int, Observed]]
Standing = tuple[Target, Sequence[Values]]  # the least mean first


@dataclass(frozen=True)
class Verdict:
    sentence: str  # the answer
    why: Sequence[str] = field(default=())  # a line for each algorithm
    hints: Sequence[str] = field(default=())  # what to do next; OUT stands for the folder of the results


def verdict(runs: Runs, targets: Sequence[Target], plan: Plan = Plan()) -> Verdict:  # noqa: B008  it is frozen
    """On the hardest target that any run reached; if none was, how far each algorithm came.

    `runs` are all rows, by label and seed.  Below 5 seeds there are values and no ranking by statistics.
    """
    seen = observed(runs)
    if not seen:
        return Verdict("No round was played.")
    ordered = sorted(targets, key=lambda target: (target.value, target.hold))
    if not ordered:
        return Verdict("The scenario has no target, so there is no time to compare; rounds.targets sets one.")
    ranked = [(target, found) for target in reversed(ordered) if any(map(_times, found := standings(seen, target)))]
    return _reached(seen, ranked, runs, plan) if ranked else _nobody(seen, ordered[0])


def _reached(seen: Seen, ranked: Sequence[Standing], runs: Runs, plan: Plan) -> Verdict:
    target, found = ranked[0]
    show = durations([time for each in found for time in _times(each)])
    if _enough(found):
        lines = " ".join([_first(target, found, show), *_easier(ranked)])
    else:
        lines = _values(target, found, show)
    waiting = [label for label in runs if label not in seen]
    none = f" No round of {joined(waiting)} was played." if waiting else ""
    return Verdict(lines + none, list(reasons(found, seen)), list(hints(found, seen, plan)))


def _enough(found: Sequence[Values]) -> bool:
    return min(len(each.times) for each in found) >= FEW and found[0].tau > 0


def _easier(ranked: Sequence[Standing]) -> Iterator[str]:
    """Differences that easier targets show, and the hardest does not; the hardest target comes first."""
    shown: set[str] = set()
    for target, found in ranked:
        contrasts = {each.label: against(each, found[0]) for each in found[1:]} if _enough(found) else {}
        more = sorted(differing(contrasts) - shown)
        if more and target != ranked[0][0]:
            said = [f"{times(contrast)} sooner than {label}" for label in more if (contrast := contrasts[label])]
            yield f"At {target.name}, taken by itself, {found[0].label} is {joined(said)}."
        shown.update(more)


def _first(target: Target, found: Sequence[Values], show: Show) -> str:
    """`a reached accuracy 0.9 first: 44.0 s; 1.02x [0.9, 1.1] sooner than b (45.0 s; no difference shown), ...`"""
    best, others = found[0], found[1:]
    if not others:
        return f"{best.label} reached {target.name} in {_told(best, show)}{_mean_of(found)}."
    contrasts = {each.label: against(each, best) for each in others}
    differ = differing(contrasts)
    said = [_beside(each, contrasts[each.label], each.label in differ, len(others), show) for each in others]
    first = f"{best.label} reached {target.name} first: {_told(best, show)}; {', '.join(said)}{_mean_of(found)}."
    return " ".join([first, *_up_to(found)])


def _up_to(found: Sequence[Values]) -> Iterator[str]:
    """How far times are known of all, and who got there later."""
    if isfinite(found[0].tau):
        late = [f"{each.label} with {each.later} of {counted(len(each.times), 'seed')}" for each in found if each.later]
        more = f"; {joined(late)} got there later, which ratios leave out" if late else ""
        yield f"Times count up to {duration(found[0].tau)}, as far as all runs are known{more}."


def _beside(each: Values, ratio: Contrast | None, differs: bool, comparisons: int, show: Show) -> str:
    """`2.96x [2.60, 3.31] sooner than b (131 s)`"""
    if ratio is None:
        return f"not comparable with {each.label} ({_told(each, show)})"
    among = f"not decided among {comparisons} comparisons" if ratio.decided else "no difference shown"
    note = "" if differs else f"; {among}"
    return f"{times(ratio)} sooner than {each.label} ({_told(each, show)}{note})"


def _mean_of(found: Sequence[Values]) -> str:
    return f" (means of {max(len(each.times) for each in found)} seeds)"


def _values(target: Target, found: Sequence[Values], show: Show) -> str:
    """Each seed's time, the least mean first; ranges that do not overlap are said to be disjoint."""
    said = joined([f"{each.label} in {_each(each, show)}" for each in found])
    told = f"{target.name} was reached by {said}."
    if len(found) == 1:
        return told
    seeds = min(len(each.times) for each in found)
    why = f"{counted(seeds, 'seed')}: no ranking by statistics" if seeds < FEW else "No ranking: runs ended too early"
    parts = _disjoint(found)
    return f"{told} {why}{f'; the ranges are disjoint: {parts}' if parts else ''}."


def _disjoint(found: Sequence[Values]) -> str:
    """`a and b before c`: every seed before lies below every seed after; nothing where all ranges overlap."""
    groups: list[list[Values]] = [[]]
    for number, each in enumerate(found):
        if number and max(map(_latest, found[:number])) < min(map(_earliest, found[number:])):
            groups.append([])
        groups[-1].append(each)
    named = [joined([each.label for each in group]) for group in groups]
    return " before ".join(named) if len(named) > 1 else ""


def _latest(each: Values) -> float:
    return max(inf if found.time is None else found.time for found in each.times.values())


def _earliest(each: Values) -> float:
    """The least time that is possible: a run that did not get there would have taken longer than it lasted."""
    return min(found.end if found.time is None else found.time for found in each.times.values())


def _times(each: Values) -> list[float]:
    return sorted(found.time for found in each.times.values() if found.time is not None)


def _told(each: Values, show: Show) -> str:
    """The mean time, or how many seeds got there and until when the others were played."""
    times = _times(each)
    if len(times) == len(each.times):
        return show(sum(times) / len(times))
    return f"{len(times)} of {counted(len(each.times), 'seed')} within {_lasted(each)}"


def _each(each: Values, show: Show) -> str:
    """`22.8 s and 30.7 s`, with the seeds that did not get there."""
    times = _times(each)
    shown = joined([*map(show, times)])
    if len(times) == len(each.times):
        return shown
    missing = len(each.times) - len(times)
    rest = f"{counted(missing, 'seed')} not within {_lasted(each)}"
    return f"{shown} ({rest})" if times else rest


def _lasted(each: Values) -> str:
    ends = [found.end for found in each.times.values() if found.time is None]
    low, high = duration(min(ends)), duration(max(ends))
    return low if low == high else f"{low} to {high}"


def _nobody(seen: Seen, target: Target) -> Verdict:
    """Said of the easiest target: those above it were missed too."""
    total = sum(len(of) for of in seen.values())
    first = f"No run reached {target.name} (0 of {counted(total, 'run')})."
    sentences = " ".join([first, *unreached.sentences(seen, target)])
    return Verdict(sentences, unreached.paces(seen, target), list(of_nobody(seen, target)))
