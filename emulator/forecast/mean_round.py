"""The cost of a mean round: the rounds that were played, weighted by how often their kind occurs in a run.  Pure
functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from math import sqrt
from typing import Any

from emulator.record.events import ComputeStarted, Event
from emulator.results.summary import round_bytes

Row = Mapping[str, Any]  # as in rounds.jsonl
Parts = dict[str, float]
Kind = Callable[[int], str]  # kind of a round, by its number: see Algorithm.round_kind
Strata = list[tuple[float, list[int]]]  # for each kind of rounds: its share of a run, and its rounds

# Student's t, two-sided 95 %, by degrees of freedom; from 10 on 2.2 is at most 0.24 too large.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


@dataclass(frozen=True)
class MeanRound:
    """The cost of a mean round of one algorithm."""

    rounds: tuple[int, int]  # the mean is over rounds between these, both included
    seconds: float  # from one stamp to the next; the parts below are the critical path's
    setup_s: float
    down_s: Parts  # by kind
    compute_s: Parts  # by phase
    up_s: Parts  # by kind
    server_s: Parts  # by phase
    wait_s: float
    down_bytes: Parts  # by kind, over all devices
    up_bytes: Parts
    flops: float  # FLOPs of devices and server
    joules: float | None  # energy of all asked devices; None if the power of a device is not known
    asked: float  # devices
    counted: float  # replies
    late: float
    lost: float
    refused: float
    failed: int  # failed rounds among these
    wasted: float  # share of the bytes, both ways, that contributed to no counted reply
    played_s: float  # seconds of the played rounds
    replies: float  # that are in a model, also those that earlier rounds asked
    staleness: float | None  # of replies in the last half of the rounds that were played; None: synchronous
    span_s: float  # of the whole run, if no target stops it: those, and the others as long as the mean of their kind


def alike(_: int) -> str:
    """Returns the kind of each round for an algorithm whose rounds are all of one kind."""
    return ""


def strata(played: int, rounds: int, kind: Kind = alike) -> Strata:
    """Returns for each kind of rounds its share of a run's rounds, and the numbers of the rounds of that kind that were
    played.

    Round 0 is often special, so it represents a kind only if no other round of the kind was played.
    """
    if min(played, rounds) < 2:
        return [(1.0, [0])]
    often = Counter(map(kind, range(max(rounds, played))))
    known = {kind(0): [0]} | _by_kind(range(1, played), kind)
    whole = sum(often[each] for each in known)
    return [(often[each] / whole, numbers) for each, numbers in known.items()]


def comparable(kinds: Mapping[str, Kind], played: Mapping[str, int]) -> dict[str, Kind]:
    """Returns the kinds of rounds of each label, changed so that round 0 counts for all labels or for none.

    Otherwise its special cost, such as setting up connections, would appear as a difference between two labels.
    """
    again = {label: kind(0) in map(kind, range(1, played[label])) for label, kind in kinds.items()}
    if min(played.values()) < 2 or all(again.values()):
        return dict(kinds)
    return {label: _first_apart(kind) if again[label] else kind for label, kind in kinds.items()}


def _first_apart(kind: Kind) -> Kind:
    return lambda number: kind(number) if number else "first"


def weights(played: int, rounds: int, kind: Kind = alike) -> dict[int, float]:
    """Returns {number of a played round: its weight in the mean round of a run}; the weights sum to 1."""
    return {number: share / len(of) for share, of in strata(played, rounds, kind) for number in of}


def first_of_each(rounds: int, kind: Kind) -> dict[str, int]:
    """Returns the number of the first round of each kind; round 0 only if its kind has no other."""
    first: dict[str, int] = {}
    for number in (*range(1, rounds), 0):
        first.setdefault(kind(number), number)
    return first


def price(rows: Sequence[Row], rounds: int, kind: Kind = alike) -> MeanRound:
    """Returns the mean over the played rounds, weighted by how often their kind occurs in a run.

    `rounds`: how many a run has; each round that was not played is assumed to last as long as the mean of its kind.
    Raises ValueError if no round was played.
    """
    if not rows:
        raise ValueError("no round has finished; a mean needs at least 1")
    kinds, lasted = strata(len(rows), rounds, kind), lengths(rows)
    numbers = sorted(number for _, of in kinds for number in of)
    mean, parts = partial(_mean, rows, kinds), partial(_part_means, rows, kinds)
    seconds = sum(share * sum(lasted[number] for number in of) / len(of) for share, of in kinds)
    metered = all(None not in rows[number].get("joules", {"": None}).values() for number in numbers)
    sent = mean(round_bytes)
    return MeanRound(
        rounds=(numbers[0], numbers[-1]),
        seconds=seconds,
        setup_s=mean(lambda row: row["critical"]["setup_s"]),
        wait_s=mean(lambda row: row["critical"]["wait_s"]),
        down_s=parts(lambda row: row["critical"]["down_s"]),
        compute_s=parts(lambda row: row["critical"]["compute_s"]),
        up_s=parts(lambda row: row["critical"]["up_s"]),
        server_s=parts(lambda row: row["critical"]["server_s"]),
        down_bytes=parts(lambda row: row["bytes"]["down"]),
        up_bytes=parts(lambda row: row["bytes"]["up"]),
        flops=mean(lambda row: row["flops"]),
        joules=mean(lambda row: float(sum(row["joules"].values()))) if metered else None,
        asked=mean(lambda row: row["asked"]),
        counted=mean(lambda row: row["counted"]),
        late=mean(lambda row: row["late"]),
        lost=mean(lambda row: row["lost"]),
        refused=mean(lambda row: row["refused"]),
        failed=sum(bool(rows[number]["failed"]) for number in numbers),
        wasted=mean(lambda row: row["wasted_bytes"]) / sent if sent else 0.0,
        played_s=rows[-1]["time_s"],
        replies=mean(lambda row: sum(row["staleness"].values()) if row.get("staleness") else row["counted"]),
        staleness=_staleness(rows[len(rows) // 2 :]),
        span_s=rows[-1]["time_s"] + _unplayed(lasted, numbers, rounds, kind, seconds),
    )


def _staleness(rows: Sequence[Row]) -> float | None:
    """Returns the mean staleness of the replies that count in these rounds; None if no row has any."""
    ages = [(int(age), count) for row in rows for age, count in row.get("staleness", {}).items()]
    return sum(age * count for age, count in ages) / sum(count for _, count in ages) if ages else None


def _mean(rows: Sequence[Row], kinds: Strata, value: Callable[[Row], float]) -> float:
    """Returns the mean of a value of rounds, in which each kind of rounds is weighted by its share."""
    return sum(share * sum(value(rows[number]) for number in of) / len(of) for share, of in kinds)


def _part_means(
    rows: Sequence[Row],
    kinds: Strata,
    value: Callable[[Row], Mapping[str, float]],
) -> Parts:
    """Returns the mean of each part, such as a phase or a kind of tensors; a round without a part counts as 0."""
    played = [value(rows[number]) for _, of in kinds for number in of]
    keys = sorted(set(chain.from_iterable(played)))
    return {key: _mean(rows, kinds, partial(_part, key, value)) for key in keys}


def _part(key: str, value: Callable[[Row], Mapping[str, float]], row: Row) -> float:
    return value(row).get(key, 0.0)


def lengths(rows: Sequence[Row]) -> list[float]:
    """Returns the seconds of each round, from the end of the round before to its own end."""
    return [after - before for before, after in pairwise([0.0, *(row["time_s"] for row in rows)])]


def _unplayed(lasted: Sequence[float], played: Sequence[int], rounds: int, kind: Kind, mean: float) -> float:
    """Returns the seconds of the rounds of a run that were not played.

    Each is taken to last as long as the mean of its kind, or, if no round of its kind was played, as `mean`.
    """
    means = {each: sum(lasted[k] for k in of) / len(of) for each, of in _by_kind(played, kind).items()}
    often = Counter(map(kind, range(len(lasted), rounds)))
    return sum(count * means.get(each, mean) for each, count in often.items())


def _by_kind(numbers: Iterable[int], kind: Kind) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number in numbers:
        found.setdefault(kind(number), []).append(number)
    return found


def margin(rows: Sequence[Row], baseline: Sequence[Row], rounds: int, kind: Kind, base_kind: Kind) -> float:
    """Returns half the width of the 95 % interval of the ratio of mean rounds, from the variation among rounds of one
    kind.

    Rounds vary with links and cohorts.  Both algorithms are compared round by round with the ratio estimator (Cochran
    1977, §6.3), stratified by the kind of round; 0 if no kind was played twice.
    """
    played = min(len(rows), len(baseline))

    def both(number: int) -> str:
        return f"{kind(number)} / {base_kind(number)}"

    kinds, shares = strata(played, rounds, both), weights(played, rounds, both)
    ours, theirs = lengths(rows), lengths(baseline)
    whole = sum(share * theirs[number] for number, share in shares.items())
    over = sum(share * ours[number] for number, share in shares.items()) / whole
    rest = [[ours[number] - over * theirs[number] for number in of] for _, of in kinds]
    free = sum(len(each) - 1 for each in rest)
    if not free:
        return 0.0
    variance = sum((value - sum(of) / len(of)) ** 2 for of in rest for value in of) / free
    spread = sum(share**2 / len(of) for share, of in kinds)
    return STUDENT.get(free, 2.2) * sqrt(variance * spread) / whole


def work(events: Iterable[Event], shares: Mapping[int, float]) -> Parts:
    """Returns {device: mean of its declared seconds of computation in a round}; rounds are weighted by `shares` (see
    `weights`)."""
    begun: dict[tuple[int, str], ComputeStarted] = {}
    for event in events:
        if isinstance(event, ComputeStarted):
            begun.setdefault((event.round, event.device), event)  # later events of the round continue this work
    sums: dict[str, list[float]] = {}
    for (number, device), start in begun.items():
        share = shares.get(number, 0.0)
        total = sums.setdefault(device, [0.0, 0.0])
        total[0] += share * sum(start.seconds.values())
        total[1] += share
    return {device: seconds / share for device, (seconds, share) in sums.items() if share}
