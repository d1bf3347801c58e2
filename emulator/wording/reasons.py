"""Why an algorithm takes its time to a target: rounds x seconds a round, and what makes its rounds longer.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, isfinite

from emulator.results.observed import Observed
from emulator.results.resampling import Interval, figure
from emulator.results.times import Values
from emulator.results.units import duration, durations, joined
from emulator.results.why import Pace, amounts, pace, rounds_of, why

LEAST = 0.1  # of the difference of two rounds, that a part must make up to be named
SMALL = 0.01  # of a round: what is less makes no round longer
PARTS = 2  # that are named

Seen = Mapping[str, Mapping[int, Observed]]


def reasons(found: Sequence[Values], seen: Seen) -> Iterator[str]:
    """A line for each algorithm, the first one beside which the others are set."""
    paces = {each.label: _pace(each, seen) for each in found}
    best = found[0]
    played = f"{_rounds(best, seen):.3g} rounds of {_seconds(best, seen)} each{_within(best)}"
    yield f"{best.label}: {played}{_largest(paces[best.label])}."
    for each in found[1:]:
        yield f"{each.label}: {_ratios(each, best, seen)}{_parts(paces[each.label], paces[best.label])}."


def _pace(each: Values, seen: Seen) -> Pace:
    """Of the rounds up to the target, or to the horizon."""
    until = rounds_of(each, seen)
    return pace(each.label, {seed: run.first(max(1, ceil(until[seed]))) for seed, run in seen[each.label].items()})


def _rounds(each: Values, seen: Seen) -> float:
    """Mean over seeds, up to the target or the horizon."""
    return sum(rounds_of(each, seen).values()) / len(each.times)


def length(each: Values, seen: Seen) -> float:
    """Seconds of a round up to the target or the horizon: all seconds over all rounds."""
    return sum(amounts(each).values()) / sum(rounds_of(each, seen).values())


def _seconds(each: Values, seen: Seen) -> str:
    return duration(length(each, seen))


def _ratios(each: Values, best: Values, seen: Seen) -> str:
    """`0.67x the rounds of fedavg, each 2.72x as long (9.7 s)`, with intervals where they are known."""
    shared = each.times.keys() == best.times.keys()
    if shared and (split := why(each, best, seen).split):
        more, longer = times(split.rounds), times(split.pace)
    else:
        more = f"{figure(_rounds(each, seen) / _rounds(best, seen))}x"
        longer = f"{figure(length(each, seen) / length(best, seen))}x"
    return f"{more} the rounds of {best.label}{_within(each)}, each {longer} as long ({_seconds(each, seen)})"


def _within(each: Values) -> str:
    """The horizon, if it comes before some seed got there: rounds are counted up to there alone."""
    cut = isfinite(each.tau) and each.reached < len(each.times)
    return f" within {duration(each.tau)}" if cut else ""


def times(ratio: Interval) -> str:
    """`2.96x [2.60, 3.31]`"""
    figures, rest = str(ratio).split(" ", 1)
    return f"{figures}x {rest}"


def _largest(own: Pace) -> str:
    if own.total <= 0:
        return ""
    parts = _named(own)
    part = max(parts, key=lambda name: parts[name])
    return f"; {100 * parts[part] / own.total:.0f} % of the time is {part}"


def _named(own: Pace) -> dict[str, float]:
    """Seconds by part, as `upload of fisher`: with F·θ, which travels with it."""
    found: dict[str, float] = {}
    for name, seconds in own.seconds.items():
        phase, _, what = name.partition(" ")
        named = f"{phase} of {what.split('_')[0]}" if what else phase
        found[named] = found.get(named, 0.0) + seconds
    return found


def _parts(own: Pace, best: Pace) -> str:
    """What makes the rounds longer or shorter: the parts that differ most."""
    whole = own.total - best.total
    if not best.total or abs(whole) < SMALL * best.total:
        return ""
    sign, word = (1, "longer") if whole > 0 else (-1, "shorter")
    mine, theirs = _named(own), _named(best)
    more = {name: sign * (mine.get(name, 0.0) - theirs.get(name, 0.0)) for name in {**mine, **theirs}}
    large = [name for name in more if more[name] > max(LEAST * abs(whole), SMALL * best.total)]
    named = sorted(large, key=lambda name: -more[name])[:PARTS]
    show = durations([more[name] for name in named])
    said = [f"{name} {show(more[name])} {word}" for name in named if not show(more[name]).startswith("0.0 ")]
    return f": {joined(said)}" if said else ""
