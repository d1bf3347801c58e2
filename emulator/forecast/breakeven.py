"""What a mean round costs, and below which share of the baseline's rounds an algorithm still wins.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from emulator.results.units import rounded_up

Row = Mapping[str, Any]  # as in rounds.jsonl
Parts = dict[str, float]

FATES = ("late", "lost", "refused")  # of a reply that is not counted
PATH = ("down_s", "compute_s", "up_s", "server_s")  # parts of `critical` that have kinds or phases
ALIKE = 0.005  # two rounds whose seconds differ by less are told as equal
FEWER = 0.1  # of the replies: rounds that count so many fewer cannot be compared by their seconds


@dataclass(frozen=True)
class Price:
    """A mean round of one algorithm."""

    rounds: tuple[int, int]  # the mean is over these, both included
    seconds: float  # from one stamp to the next; its parts are the critical path's
    setup_s: float
    down_s: Parts  # by kind
    compute_s: Parts  # by phase
    up_s: Parts  # by kind
    server_s: Parts  # by phase
    wait_s: float
    down_bytes: Parts  # by kind, over all devices
    up_bytes: Parts
    flops: float  # of devices and server
    joules: float | None  # of all devices asked; None if nobody says the watts of one
    asked: float  # devices
    counted: float  # replies
    late: float
    lost: float
    refused: float
    failed: int  # of these rounds
    wasted: float  # share of the bytes, both ways, that served no counted reply
    span_s: float  # of the whole run, if no target stops it


def price(rows: Sequence[Row], rounds: int) -> Price:
    """The mean of the rounds played, without round 0 if there are others: it is often special.

    `rounds` is how many a run has; those that were not played are taken to last as long as the mean.
    Raises ValueError if no round was played.
    """
    if not rows:
        raise ValueError("no round was played; a mean needs at least 1")
    stamps = [0.0, *(row["time_s"] for row in rows)]
    lengths = [after - before for before, after in pairwise(stamps)]
    first = min(1, len(rows) - 1)
    some, n = rows[first:], len(rows) - first
    mean = sum(lengths[first:]) / n
    return Price(
        rounds=(first, len(rows) - 1),
        seconds=mean,
        setup_s=sum(row["critical"]["setup_s"] for row in some) / n,
        wait_s=sum(row["critical"]["wait_s"] for row in some) / n,
        **{part: _mean(row["critical"][part] for row in some) for part in PATH},
        down_bytes=_mean(row["bytes"]["down"] for row in some),
        up_bytes=_mean(row["bytes"]["up"] for row in some),
        flops=sum(row["flops"] for row in some) / n,
        joules=_joules(some),
        asked=sum(row["asked"] for row in some) / n,
        counted=sum(row["counted"] for row in some) / n,
        late=sum(row["late"] for row in some) / n,
        lost=sum(row["lost"] for row in some) / n,
        refused=sum(row["refused"] for row in some) / n,
        failed=sum(bool(row["failed"]) for row in some),
        wasted=_share(sum(row["wasted_bytes"] for row in some), sum(map(_bytes, some))),
        span_s=stamps[-1] + max(0, rounds - len(rows)) * mean,
    )


def _mean(rows: Iterable[Mapping[str, float]]) -> Parts:
    """The mean of each key; a row that lacks it counts as 0."""
    held = list(rows)
    keys = sorted({key for row in held for key in row})
    return {key: sum(row.get(key, 0.0) for row in held) / len(held) for key in keys}


def _joules(rows: Sequence[Row]) -> float | None:
    """The mean of what all devices of a round draw."""
    each = [spent for row in rows for spent in row.get("joules", {"": None}).values()]
    return None if None in each else sum(each) / len(rows)


def _bytes(row: Row) -> int:
    return sum(sum(way.values()) for way in row["bytes"].values())


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def work(events: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """By device: the compute seconds that are declared for one of its rounds, the mean of those after round 0."""
    begun: dict[tuple[int, str], Mapping[str, Any]] = {}
    for line in events:
        if line["event"] == "compute.start":
            begun.setdefault((line["round"], line["device"]), line)  # what follows goes on with it
    starts = list(begun.values())
    seconds: dict[str, list[float]] = {}
    for line in [line for line in starts if line["round"]] or starts:
        seconds.setdefault(line["device"], []).append(sum(line["seconds"].values()))
    return {device: sum(each) / len(each) for device, each in seconds.items()}


@dataclass(frozen=True)
class Ratio:
    """A mean round of an algorithm over one of the baseline; None where the baseline has 0."""

    seconds: float
    down: float | None  # bytes
    up: float | None
    compute: float | None  # declared seconds of the same devices
    server_s: float  # seconds more on the server
    counted: float  # replies more
    wins_below: float  # of the baseline's rounds


def ratio(of: Price, baseline: Price, work: Parts, baseline_work: Parts) -> Ratio:
    """`work` is by device; those count that computed for both."""
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
    )


def _over(above: Parts, below: Parts) -> float | None:
    total = sum(below.values())
    return sum(above.values()) / total if total else None


def sentence(label: str, baseline: str, found: Ratio, seconds: float) -> str:
    """The break-even line; `seconds` is the mean round of the baseline."""
    parts = [f"{part} {_about(getattr(found, part))}" for part in ("down", "up", "compute")]
    if abs(found.server_s) > ALIKE * seconds:
        parts.append(f"server {found.server_s:+.2g} s")
    if abs(found.counted) > 0.05:
        parts.append(f"{abs(found.counted):.1f} replies {'more' if found.counted > 0 else 'fewer'}")
    start, why = f"a {label} round costs", f"a {baseline} round here ({', '.join(parts)})"
    if abs(found.seconds - 1) < ALIKE:
        return f"{start} as much as {why}: the one that needs fewer rounds wins"
    start = f"{start} {_times(found.seconds, 2)} {why}"
    if found.seconds > 1:
        return f"{start}: it wins only below {_percent(found.wins_below)} of {baseline}'s rounds"
    return f"{start}: it wins even with up to {_times(found.wins_below, 2)} of {baseline}'s rounds"


def _about(value: float | None) -> str:
    """One decimal, and two where one would say that nothing has changed."""
    if value is None:
        return "-"
    return _times(value, 2 if ALIKE <= abs(value - 1) < 0.05 else 1)


def _times(value: float, digits: int) -> str:
    return f"{value:.{digits}f}x"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def wanted(of: Price, needed: int) -> float:
    """Replies that close a mean round: all, where fewer devices were asked."""
    return min(needed, of.asked)


def too_late(of: Price, needed: int, deadline: float | None) -> bool:
    """Whether the deadline keeps out more than a tenth of the replies that close a round."""
    return deadline is not None and of.late > 0 and of.counted < (1 - FEWER) * wanted(of, needed)


def fewer(of: Price, than: Price) -> bool:
    """Whether its rounds count so few replies that their seconds cannot be compared."""
    return of.counted < (1 - FEWER) * than.counted


def shortage(label: str, of: Price, needed: int, deadline: float | None, enough: float | None) -> str:
    """What is said instead of a break-even line; `enough` is a deadline that lets the replies in, if known."""
    fates = [f"{getattr(of, fate):.1f} {fate}" for fate in FATES if getattr(of, fate)]
    first, last = of.rounds
    within = f" within the deadline of {deadline:g} s" if deadline is not None else ""
    said = (
        f"{label}: {of.counted:.1f} of the {wanted(of, needed):.3g} replies that close a round come{within} "
        f"({of.asked:.3g} are asked: {', '.join(fates)}); {of.failed} of {last - first + 1} rounds fail, "
        f"{100 * of.wasted:.0f} % of the bytes are wasted; no break-even"
    )
    return f"{said}; allow {enough:g} s" if enough is not None else said


def no_match(label: str, of: Price, baseline: str, theirs: Price) -> str:
    """The line of an algorithm whose baseline gets too few replies."""
    return (
        f"{label}: no break-even, as {baseline} gets too few replies: "
        f"{theirs.counted:.1f} a round, {label} {of.counted:.1f}"
    )


def longest(events: Iterable[Mapping[str, Any]]) -> float | None:
    """Seconds from opening to close of the longest round that did not fail, rounded up to two digits."""
    opened, lengths = 0.0, []
    for line in events:
        if line["event"] == "open":
            opened = line["t"]
        if line["event"] == "close" and line["reason"] != "too_few":
            lengths.append(line["t"] - opened)
    return rounded_up(max(lengths)) if any(lengths) else None
