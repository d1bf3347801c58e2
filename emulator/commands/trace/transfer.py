"""Seconds of a payload from each start over a trace: `fedlapse trace transfer`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emulator.results import units
from emulator.wording.layout import columns, filled, grid, printed
from network.links.tcp import Tcp, Way, passage
from network.links.trace import Trace

MOST = 20_000  # starts
LARGEST = 1e15  # bytes: 1 PB takes three months at 1 Gbit/s


@dataclass(frozen=True)
class Transfers:
    """Transfers of one payload over one trace, from many starts, in s and bytes."""

    trace: Trace
    nbytes: int
    starts: tuple[float, ...]
    taken: tuple[float, ...]  # s; inf: it never ends
    looped: int  # transfers that passed the end of the trace and continued at its start

    @property
    def ended(self) -> list[float]:
        return [taken for taken in self.taken if taken < math.inf]

    @property
    def by_mean(self) -> float:
        """The payload's size over the mean rate, s."""
        return self.nbytes / self.trace.mean if self.trace.mean else math.inf

    def quantile(self, q: float) -> float:
        """A quantile of the durations of transfers that end, s; nan if none ends."""
        return float(np.quantile(self.ended, q)) if self.ended else math.nan

    @property
    def mean(self) -> float:
        return float(np.mean(self.ended)) if self.ended else math.nan

    @property
    def plain(self) -> dict[str, Any]:
        """The transfers for --format json."""
        named = {"min": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}
        return {
            "direction": self.trace.direction,
            "kind": self.trace.kind,
            "bytes": self.nbytes,
            "starts": len(self.starts),
            "never": len(self.taken) - len(self.ended),
            "looped": self.looped,
            **{f"{name}_s": _number(self.quantile(q)) for name, q in named.items()},
            "mean_s": _number(self.mean),
            "bytes_over_mean_rate_s": _number(self.by_mean),
            "transfers": [
                {"start_s": start, "taken_s": _number(taken)}
                for start, taken in zip(self.starts, self.taken, strict=True)
            ],
        }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def transfers(trace: Trace, nbytes: int, every: float, tcp: Tcp, latency: float | None) -> Transfers:
    """Transfers from 0, `every`, 2 `every`, ... up to the trace's end, each over a connection of its own.

    `latency`: s, one way; None: the trace's own at the start, or 0.  Raises ValueError for too many starts or bytes.
    """
    if nbytes > LARGEST:
        raise ValueError(f"--bytes is {nbytes / 1e9:.3g} GB; a payload has {LARGEST / 1e9:,.0f} GB at most")
    if not every > 0:
        raise ValueError(f"--every {every:g} s; starts must lie some time apart")
    count = max(1, math.ceil(trace.period / every - 1e-9))
    if count > MOST:
        raise ValueError(f"--every {every:g} s makes {count} starts in {trace.period:g} s; at most {MOST} are tried")
    starts = tuple(number * every for number in range(count))
    ends = [_end(trace, nbytes, start, tcp, latency) for start in starts]
    looped = sum(end < math.inf and trace.loops(start, end) > 0 for start, end in zip(starts, ends, strict=True))
    taken = tuple(end - start for start, end in zip(starts, ends, strict=True))
    return Transfers(trace, nbytes, starts, taken, looped)


def _end(trace: Trace, nbytes: int, start: float, tcp: Tcp, latency: float | None) -> float:
    one_way = (trace.latency_at(start) or 0.0) if latency is None else latency
    loss = trace.loss_at(start) or 0.0
    if loss >= 1 and tcp.model == "tcp":
        return math.inf
    way = Way(2 * one_way, loss if tcp.model == "tcp" else 0.0, achieved=trace.kind == "achieved")
    made = passage(tcp, way, trace, trace.direction, nbytes, start)
    begin = start + made.delay
    return made.cap(begin).finish(begin, made.wire)


def text(every: Sequence[Transfers], title: str, notes: Sequence[str]) -> str:
    width = columns()
    unit = _unit(every)
    numbers = ("starts", "min", "p25", "median", "p75", "p95", "max", "mean", "bytes / mean rate", "never end")
    table = grid(f"{title}, in {unit.name}", "way", numbers=numbers)
    for one in every:
        spread = [one.quantile(q) for q in (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)]
        shown = (_shown(value, unit) for value in (*spread, one.mean, one.by_mean))
        never = len(one.taken) - len(one.ended)
        table.add_row(one.trace.direction, str(len(one.starts)), *shown, str(never))
    return printed([table, *(filled(line, width) for line in (" ".join(_findings(every)), *notes) if line)], width)


def _unit(every: Sequence[Transfers]) -> units.Unit:
    """The unit: ms if half of all starts take less than a tenth of a second, because in s they would look alike."""
    ended = [one for one in every if one.ended]
    if ended and max(one.quantile(0.5) for one in ended) < 0.1:
        return units.Unit("ms", 1e-3, 1)
    return units.of_time([one.quantile(1.0) for one in ended])


def _shown(value: float, unit: units.Unit) -> str:
    return unit.show(value) if math.isfinite(value) else units.NONE if math.isnan(value) else "∞"


def _findings(every: Sequence[Transfers]) -> list[str]:
    lines = []
    for one in every:
        way = one.trace.direction
        if one.looped:
            lines.append(
                f"{way}: {one.looped} of {len(one.starts)} went past the end of the trace, and on from its start."
            )
        if one.ended and one.by_mean and one.quantile(0.25):
            apart = one.quantile(0.75) / one.quantile(0.25)
            lines.append(
                f"{way}: on average {one.mean / one.by_mean:.2f} times as long as bytes over the "
                f"mean rate; the upper quartile is {apart:.2f} times the lower."
            )
    return lines
