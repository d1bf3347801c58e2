"""Warns about the leverage of an algorithm's penalty: how far the penalty pulls the weights in one round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

Row = Mapping[str, Any]
Rows = Sequence[Row]

SOME = 0.1  # of local updates: a smaller share without Ω gets no warning
IDLE = 0.01  # 99th percentile of the leverage: below it a penalty has no effect (docs/design/algorithms.md §10)


class Warned(NamedTuple):
    """A warning to readers of results: its kind, for programs, and its text."""

    kind: str  # identity | unpenalised | idle | stiff, or a kind of emulator.results.divergence
    text: str


class Leverage(NamedTuple):
    """The leverage of a penalty in one round of a run, which has no unit (docs/design/algorithms.md §10).  As in the
    record, it is the largest over devices."""

    label: str
    seed: int
    round: int  # from 1
    p99: float  # learning rate x steps x the penalty's second derivative: the 99th percentile over weights
    step: float  # learning rate x the penalty's largest second derivative
    identity: bool  # True if most devices used 1 for every weight in place of Ω


def leverages(label: str, seed: int, rows: Rows) -> Iterator[Leverage]:
    """Yields the leverage in each round of a run that has a penalty."""
    for row in rows:
        if "p99" in (found := row["leverage"]):
            yield Leverage(label, seed, row["round"] + 1, found["p99"], found["step"], _is_identity(row))


def warnings(rows: Rows, momentum: float | None) -> Iterator[Warned]:
    """Yields warnings about the penalty in these rounds: it does nothing (idle), or is too strong for the learning rate
    (stiff).  A round counts for one of these at most.

    `momentum`: of SGD; None if unknown, which is taken as 1, its upper limit.
    """
    bound = stiff_from(momentum)
    pulled = [row for row in rows if "p99" in row["leverage"]]
    stiff = [row for row in pulled if row["leverage"]["step"] > bound]
    ones = [row for row in pulled if _is_identity(row)]
    known = [row for row in pulled if not _is_identity(row)]
    idle = [row for row in known if row["leverage"]["p99"] < IDLE and row["leverage"]["step"] <= bound]
    if ones:
        yield Warned("identity", f"{_of(ones, pulled)} {_identity(ones, known, idle)}")
    elif idle:
        yield Warned("idle", f"{_of(idle, pulled)} {_idle(idle, alone=len(idle) == len(pulled))}")
    if (share := _unpenalised(rows)) >= SOME:
        yield Warned(
            "unpenalised",
            f"in {100 * share:.0f} % of local updates the device had not yet received Ω and trained without a penalty",
        )
    if stiff:
        yield Warned("stiff", f"{_of(stiff, pulled)} {_stiff(stiff, momentum, bound)}")


def stiff_from(momentum: float | None) -> float:
    """Returns the value of `step`, the learning rate times the penalty's largest second derivative, above which SGD may
    diverge."""
    return 2 * (1 + (1.0 if momentum is None else momentum))


def _is_identity(row: Row) -> bool:
    """Returns true if in this round at least half of the devices used 1 for every weight in place of Ω, the estimated
    importance of the weights."""
    return bool(row.get("numbers", {}).get("identity", 0.0) >= 0.5)


def _unpenalised(rows: Rows) -> float:
    """Returns the share of the devices' trainings that had neither Ω (the importance of the weights) nor a substitute
    for it."""
    told = [row for row in rows if "no_importance" in row.get("numbers", {})]
    trainings = sum(row["counted"] for row in told)
    return sum(row["counted"] * row["numbers"]["no_importance"] for row in told) / trainings if trainings else 0.0


def _of(some: Rows, rows: Rows) -> str:
    return f"in {len(some)} of {len(rows)} rounds"


def _identity(ones: Rows, known: Rows, idle: Rows) -> str:
    """Returns a sentence about rounds in which Ω was 1 for every weight (`ones`), compared with the rounds that had an
    estimated Ω (`known`), of which the penalty did nothing in `idle`."""
    said = f"Ω is the identity: this is FedProx with mu = {ones[0]['leverage']['mu']:g}"
    if not known:
        return said
    effect = "; there the penalty does nothing" if 2 * len(idle) > len(known) else ""
    return f"{said} (leverage {_typical(ones):.2g}; with an estimated Ω {_typical(known):.2g}{effect})"


def _typical(rows: Rows) -> float:
    return float(median(row["leverage"]["p99"] for row in rows))


def _idle(idle: Rows, alone: bool) -> str:
    most = max(row["leverage"]["p99"] for row in idle)
    meaning = ": devices train as in FedAvg" if alone else ""
    return f"the penalty does nothing{meaning} (its leverage, 99th percentile: {most:.2g}; below {IDLE:g} no effect)"


def _stiff(stiff: Rows, momentum: float | None, bound: float) -> str:
    most = max(row["leverage"]["step"] for row in stiff)
    which = "any momentum" if momentum is None else f"momentum {momentum:g}"
    return (
        "the penalty is too strong for the learning rate, and training may diverge: the learning rate times the "
        f"penalty's largest second derivative is up to {most:.3g}; SGD with {which} needs it below {bound:g}"
    )
