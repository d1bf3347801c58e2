"""The break-even, which is the share of the baseline's rounds below which an algorithm is faster.  Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from emulator.forecast.mean_round import MeanRound, Parts
from emulator.record.events import Closed, Event, Opened
from emulator.results.units import rounded_up

FATES = ("late", "lost", "refused")  # fates of replies that are not counted
ALIKE = 0.005  # two rounds whose seconds differ by less count as equal
SAME = 0.05  # smaller differences of bytes and work do not explain longer rounds
FEWER = 0.1  # share of the replies: rounds that lack more are not comparable by their seconds


@dataclass(frozen=True)
class Ratio:
    """A mean round of an algorithm divided by one of the baseline; None if the baseline's value is 0."""

    seconds: float
    down: float | None  # bytes
    up: float | None
    compute: float | None  # declared seconds on the same devices
    server_s: float  # additional seconds on the server
    counted: float  # additional replies
    wins_below: float  # share of the baseline's rounds
    margin: float = 0.0  # half of the 95 % interval of `seconds`


def ratio(of: MeanRound, baseline: MeanRound, work: Parts, baseline_work: Parts, margin: float = 0.0) -> Ratio:
    """Returns a mean round of an algorithm divided by one of its baseline.

    `work` and `baseline_work`: seconds of computation by device; only devices that compute for both algorithms count.
    """
    both = work.keys() & baseline_work.keys()
    seconds = of.seconds / baseline.seconds
    return Ratio(
        seconds=seconds,
        down=_over(of.down_bytes, baseline.down_bytes),
        up=_over(of.up_bytes, baseline.up_bytes),
        compute=_over(*({name: seconds[name] for name in sorted(both)} for seconds in (work, baseline_work))),
        server_s=sum(of.server_s.values()) - sum(baseline.server_s.values()),
        counted=of.counted - baseline.counted,
        wins_below=1 / seconds,
        margin=margin,
    )


def _over(above: Parts, below: Parts) -> float | None:
    total = sum(below.values())
    return sum(above.values()) / total if total else None


def sentence(label: str, baseline: str, found: Ratio, seconds: float) -> str:
    """Returns the break-even as a sentence.  `seconds`: the length of the baseline's mean round."""
    parts = [f"{part} {_about(getattr(found, part))}" for part in ("down", "up", "compute")]
    if abs(found.server_s) > ALIKE * seconds:
        parts.append(f"server {found.server_s:+.2g} s")
    if abs(found.counted) > 0.05:
        parts.append(f"{abs(found.counted):.1f} replies {'more' if found.counted > 0 else 'fewer'}")
    start, why = f"a round of {label} takes", f"as long as one of {baseline} ({', '.join(parts)})"
    if abs(found.seconds - 1) < ALIKE:
        return f"{start} {why}: the one that needs fewer rounds is faster"
    same_work = all(value is None or abs(value - 1) < SAME for value in (found.down, found.up, found.compute))
    if abs(found.seconds - 1) <= found.margin and same_work:
        return (
            f"{start} about {why}: the difference is within the variation of links and cohorts ({_between(found)}), so "
            f"the one that needs fewer rounds is faster"
        )
    varies = f" ({_between(found)}, because links and cohorts vary)" if found.margin > ALIKE else ""
    start = f"{start} {_times(found.seconds, 2)}{varies} {why}"
    if found.seconds > 1:
        return f"{start}: it is faster only if it needs fewer than {_percent(found.wins_below)} of {baseline}'s rounds"
    return f"{start}: it is faster even if it needs up to {_times(found.wins_below, 2)} {baseline}'s rounds"


def _between(found: Ratio) -> str:
    return f"{_times(max(0.0, found.seconds - found.margin), 2)} to {_times(found.seconds + found.margin, 2)}"


def _about(value: float | None) -> str:
    """Returns the ratio as text with one decimal, or with two if one would show it as 1.0."""
    if value is None:
        return "-"
    return _times(value, 2 if ALIKE <= abs(value - 1) < 0.05 else 1)


def _times(value: float, digits: int) -> str:
    return f"{value:.{digits}f}x"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def wanted(of: MeanRound, needed: int) -> float:
    """Returns the number of replies that close a mean round, at most the number of devices asked."""
    return min(needed, of.asked)


def too_late(of: MeanRound, needed: int, deadline: float | None) -> bool:
    """Returns true if the deadline keeps out more than a tenth of the replies that close a round."""
    return deadline is not None and of.late > 0 and of.counted < (1 - FEWER) * wanted(of, needed)


def fewer(of: MeanRound, than: MeanRound, needed: int) -> bool:
    """Returns true if `of` gets a much smaller share of its rounds' replies than `than`, so that seconds are not
    comparable.

    Shares are compared, because an algorithm may ask more devices in some rounds than another does.
    """
    return _come(of, needed) < (1 - FEWER) * _come(than, needed)


def _come(of: MeanRound, needed: int) -> float:
    """Returns the replies that count in a mean round, as a share of the replies that close it, at most 1."""
    due = wanted(of, needed)
    return min(1.0, of.counted / due) if due else 0.0


def shortage(label: str, of: MeanRound, needed: int, deadline: float | None, enough: float | None) -> str:
    """Returns the sentence for a label with too few replies, which replaces its break-even.

    `enough`: a deadline in s that lets the replies in, if known.
    """
    fates = [f"{getattr(of, fate):.1f} {fate}" for fate in FATES if getattr(of, fate)]
    first, last = of.rounds
    within = f" within the deadline of {deadline:g} s" if deadline is not None else ""
    said = (
        f"{label}: only {of.counted:.1f} of the {wanted(of, needed):.3g} replies that close a round arrive{within} "
        f"({of.asked:.3g} devices are selected: {', '.join(fates)}); {of.failed} of {last - first + 1} rounds fail and "
        f"{100 * of.wasted:.0f} % of the bytes are wasted, so there is no break-even"
    )
    return f"{said}; allow {enough:g} s" if enough is not None else said


def by_the_hour(label: str, of: MeanRound) -> str:
    """Returns the sentence for an algorithm whose rounds have other rules than the baseline's, and for that baseline:
    a round of one is not a round of the other."""
    hourly, asked = (number * 3600 / of.seconds for number in (of.replies, of.asked))
    why = "its rounds follow other rules, so compare times to a target"
    return f"{label}: {hourly:.0f} of {asked:.0f} replies an hour are aggregated; {why}"


def no_match(label: str, of: MeanRound, baseline: str, theirs: MeanRound) -> str:
    """Returns the sentence for an algorithm that has no break-even because its baseline gets too few replies."""
    return (
        f"{label}: no break-even, because {baseline} gets too few replies: "
        f"{theirs.counted:.1f} a round, {label} {of.counted:.1f}"
    )


def longest(events: Iterable[Event]) -> float | None:
    """Returns the seconds from opening to close of the longest round that did not fail, rounded up to two digits;
    None if there is none."""
    opened, lengths = 0.0, []
    for event in events:
        if isinstance(event, Opened):
            opened = event.t
        if isinstance(event, Closed) and not event.failed:
            lengths.append(event.t - opened)
    return rounded_up(max(lengths)) if any(lengths) else None
