"""The transfers of docs/fidelity.md, and the bars (issue on the physics, D2)."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from benchmarks.testbed.bench import Case, Outcome
from network.links.tcp import Congestion

DATA = Path(os.environ.get("FEDLAPSE_DATA", Path(__file__).parents[2] / "../shared/data"))
TRACES = ("Verizon-LTE-short.down", "TMobile-UMTS-driving.down")
MB, KB = 1_000_000, 1_000
ALONE, SHARED, LATENCY, TRACE, WRONG = (
    "no latency",
    "no latency, four flows",
    "latency",
    "traces",
    "cases that the model gets wrong",
)
DEEP = 4.0  # times what the link holds in a round trip: few packets are dropped, as behind home routers and in cells
MIDDLE, SHALLOW = 1.0, 0.25
LEAST_QUEUE = 100 * KB  # bytes, at least
TRACE_QUEUE = 500 * KB  # bytes: phones have deep buffers


@dataclass(frozen=True)
class Bar:
    """Within what the errors of a group's makespans must be; `of` makes one figure of their sizes."""

    group: str
    what: str
    most: float
    of: Callable[[Sequence[float]], float] = statistics.median
    least: int = 0  # bytes of a flow, of cases that count


BARS = (
    Bar(ALONE, "median error of 1 MB and more", 0.01, least=MB),
    Bar(SHARED, "worst error of the makespan", 0.02, max),
    Bar(LATENCY, "worst error", 0.10, max),
    Bar(LATENCY, "median error", 0.03),
    Bar(TRACE, "median error", 0.03),
)


def trace(name: str) -> Path:
    """A Mahimahi file of the data folder."""
    return DATA / "traces" / "mahimahi" / name


def have_traces() -> bool:
    """True if the data folder is next to this checkout, or FEDLAPSE_DATA names it."""
    return all(trace(name).is_file() for name in TRACES)


def _delayed(nbytes: int, congestion: Congestion, rate: float, rtt: float, flows: int = 1) -> Case:
    queue = max(LEAST_QUEUE, round(DEEP * rate * 1e6 / 8 * rtt))
    return Case(LATENCY, nbytes, congestion, flows, rate=rate, rtt=rtt, queue=queue)


def _replayed(nbytes: int, congestion: Congestion, name: str, offset: float, rtt: float = 0.04) -> Case:
    return Case(TRACE, nbytes, congestion, trace=trace(name), offset=offset, rtt=rtt, queue=TRACE_QUEUE)


def _wrong(nbytes: int, congestion: Congestion, flows: int, queue: float, loss: float = 0.0) -> Case:
    case = _delayed(nbytes, congestion, 20, 0.05, flows)
    return replace(case, group=WRONG, judged=False, queue=round(queue * 20e6 / 8 * case.rtt), loss=loss)


def all_cases() -> list[Case]:
    """{group: transfers}; those over traces only if the files are there."""
    kinds: tuple[Congestion, ...] = ("cubic", "bbr")
    assert set(kinds) < set(get_args(Congestion))
    lte, umts = TRACES
    sizes = ((20 * KB, 8), (100 * KB, 8), (MB, 8), (5 * MB, 8), (MB, 50), (5 * MB, 50), (20 * MB, 50))
    four = ((MB, 8), (MB, 50), (5 * MB, 50))
    delayed = (
        *((20 * KB, 8, 0.05, 1), (100 * KB, 8, 0.05, 1), (MB, 8, 0.05, 1), (250 * KB, 20, 0.1, 1), (MB, 20, 0.05, 1)),
        *((5 * MB, 20, 0.05, 1), (MB, 50, 0.1, 1), (20 * MB, 50, 0.1, 1), (5 * MB, 50, 0.02, 1)),
        *((MB, 20, 0.05, 4), (5 * MB, 50, 0.05, 4), (MB, 100, 0.1, 20)),
    )
    replayed = (
        *((100 * KB, lte, 0), (100 * KB, lte, 60), (MB, lte, 10), (MB, lte, 60), (5 * MB, lte, 0), (5 * MB, lte, 40)),
        *((20 * MB, lte, 80), (100 * KB, umts, 100), (MB, umts, 0), (MB, umts, 300), (5 * MB, umts, 500)),
    )
    cases = [Case(ALONE, n, kind, rate=rate, queue=LEAST_QUEUE) for kind in kinds for n, rate in sizes]
    cases += [Case(SHARED, n, kind, 4, rate=rate, queue=LEAST_QUEUE) for kind in kinds for n, rate in four]
    cases += [_delayed(n, kind, rate, rtt, flows) for kind in kinds for n, rate, rtt, flows in delayed]
    if have_traces():
        cases += [_replayed(n, kind, name, offset) for kind in kinds for n, name, offset in replayed]
    cases += [replace(_delayed(100 * KB, kind, 20, 0.1), group=WRONG, judged=False) for kind in kinds]
    cases += [_wrong(5 * MB, kind, 4, queue) for kind in kinds for queue in (MIDDLE, SHALLOW)]
    return cases + [_wrong(MB, kind, 1, DEEP, loss) for kind in kinds for loss in (0.001, 0.01)]


def few_cases() -> list[Case]:
    """One of each group, in under half a minute."""
    cases = [
        Case(ALONE, MB, "cubic", rate=20, queue=LEAST_QUEUE),
        Case(SHARED, MB, "cubic", 4, rate=50, queue=LEAST_QUEUE),
        _delayed(MB, "cubic", 20, 0.05),
        _delayed(MB, "bbr", 20, 0.05),
        _delayed(MB, "cubic", 100, 0.1, flows=20),
    ]
    return cases + ([_replayed(MB, "cubic", TRACES[0], 60)] if have_traces() else [])


def found(bar: Bar, outcomes: Sequence[Outcome]) -> float | None:
    """The figure that the bar is about; None if no such transfer was measured."""
    errors = [
        abs(outcome.error)
        for outcome in outcomes
        if outcome.case.group == bar.group and outcome.case.nbytes >= bar.least
    ]
    return bar.of(errors) if errors else None


def missed(outcomes: Sequence[Outcome]) -> list[str]:
    """The bars that were missed or that nothing was measured for, a sentence each."""
    faults = []
    for bar in BARS:
        figure = found(bar, outcomes)
        if figure is None:
            faults.append(f"{bar.group}: nothing was measured for the bar on the {bar.what}")
        elif figure > bar.most:
            faults.append(f"{bar.group}: the {bar.what} is {figure:.1%}; at most {bar.most:.0%} is allowed")
    return faults
