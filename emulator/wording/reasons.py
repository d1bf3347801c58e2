"""Sentences on why an algorithm takes its time to a target: its rounds, the seconds of each, and the parts of a round
that take longer than the best algorithm's.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, fsum, isfinite

from emulator.results.comparison import Comparison, Ranking, Seen
from emulator.results.resampling import bounded, figure
from emulator.results.times import Values
from emulator.results.units import duration, durations, joined, of_time
from emulator.results.why import Pace, pace, until, why
from emulator.wording.names import CALLED

LEAST = 0.1  # of the difference between two rounds: smaller parts are not named
SMALL = 0.01  # of a round: smaller differences are ignored
PARTS = 2  # number of parts that are named
VISIBLE = 0.05  # of the display unit: smaller values would be shown as 0.0


def reasons(ranked: Ranking, seen: Seen) -> Iterator[str]:
    """Yields a line for each algorithm: first the best one, then the others, which are compared with the best one."""
    best = ranked.best
    own = _pace(best, seen)
    played = f"{_rounds(best, seen):.3g} rounds of {duration(length(best, seen))} each{_within(best)}"
    yield f"{best.label}: {played}{_largest(own)}."
    for each in ranked.others:
        yield f"{each.label} needed {_ratios(each, seen)}{_parts(_pace(each.mine, seen), own)}."


def _spent(each: Values, seen: Seen) -> tuple[float, float]:
    """Returns an algorithm's seconds and rounds until the target or, if earlier, the horizon, summed over its seeds."""
    found = until(each, seen)
    seconds, rounds = (fsum(value or 0.0 for value in found[what].values()) for what in ("time_s", "rounds"))
    return seconds, rounds


def _rounds(each: Values, seen: Seen) -> float:
    """Returns an algorithm's rounds until the target or, if earlier, the horizon, as a mean over its seeds."""
    return _spent(each, seen)[1] / len(each.times)


def length(each: Values, seen: Seen) -> float:
    """Returns an algorithm's seconds per round until the target or, if earlier, the horizon: total seconds over total
    rounds of all seeds."""
    seconds, rounds = _spent(each, seen)
    return seconds / rounds


def _pace(each: Values, seen: Seen) -> Pace:
    """Returns the mean round of an algorithm, over its rounds until the target or, if earlier, the horizon."""
    rounds = until(each, seen)["rounds"]
    return pace(
        each.label, {seed: run.first(max(1, ceil(rounds[seed] or 0))) for seed, run in seen[each.label].items()}
    )


def _ratios(each: Comparison, seen: Seen) -> str:
    """Returns how an algorithm's rounds compare with those of the best one, with intervals if they are known.

    For example: `0.67x as many rounds as fedavg, each 2.72x as long (9.7 s)`.
    """
    mine, best = each.mine, each.theirs
    if mine.times.keys() == best.times.keys() and (split := why(mine, best, seen).split):
        more, longer = split.rounds.text("x"), split.pace.text("x")
    else:
        more = bounded(f"{figure(_rounds(mine, seen) / _rounds(best, seen))}x", each.bound)
        longer = f"{figure(length(mine, seen) / length(best, seen))}x"
    within = _within(mine) if each.bound == "neither" else ""
    return f"{more} as many rounds as {best.label}{within}, each {longer} as long ({duration(length(mine, seen))})"


def _within(each: Values) -> str:
    """Returns ` within` and the horizon if a seed did not reach the target by then, because the rounds of such a seed
    are counted only up to the horizon; else ""."""
    return f" within {duration(each.tau)}" if isfinite(each.tau) and each.cut else ""


def _largest(own: Pace) -> str:
    if own.total <= 0:
        return ""
    parts = _named(own)
    part = max(parts, key=lambda name: parts[name])
    return f"; {100 * parts[part] / own.total:.0f} % of the time goes to {part}"


def _named(own: Pace) -> dict[str, float]:
    """Returns the seconds of a mean round by part, under names such as `the upload of fisher` or `training`.

    Messages named `fisher_...`, such as Fisher × θ, count as `fisher`.
    """
    found: dict[str, float] = {}
    for name, seconds in own.seconds.items():
        phase, _, what = name.partition(" ")
        named = _in_words(phase, what.split("_")[0])
        found[named] = found.get(named, 0.0) + seconds
    return found


def _in_words(phase: str, kind: str) -> str:
    """Returns a part of a round as a noun phrase.  `kind`: of message, or the phase of computing; "": not known."""
    if not kind:
        return {"server": "the server", "compute": "computing"}.get(phase, phase)
    if phase == "compute" and kind == "train":
        return "training"
    return f"{'computing' if phase == 'compute' else f'the {phase} of'} {CALLED.get(kind, kind)}"


def _parts(own: Pace, best: Pace) -> str:
    """Returns a phrase on the parts of a round that differ most from the best algorithm's; "" if the rounds of both
    take about equally long.

    `own`: the algorithm's mean round.  `best`: the best algorithm's.
    """
    whole = own.total - best.total
    if not best.total or abs(whole) < SMALL * best.total:
        return ""
    sign, word = (1, "more") if whole > 0 else (-1, "less")
    mine, theirs = _named(own), _named(best)
    more = {name: sign * (mine.get(name, 0.0) - theirs.get(name, 0.0)) for name in {**mine, **theirs}}
    large = [name for name in more if more[name] > max(LEAST * abs(whole), SMALL * best.total)]
    named = sorted(large, key=lambda name: -more[name])[:PARTS]
    show, least = durations([more[name] for name in named]), VISIBLE * of_time(more[name] for name in named).size
    said = [f"{name} took {show(more[name])} {word}" for name in named if more[name] >= least]
    return f", because {joined(said)}" if said else ""
