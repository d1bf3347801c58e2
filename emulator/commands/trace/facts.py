"""Facts about traces: `fedlapse trace info`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from emulator.results.units import duration
from emulator.wording.layout import columns, filled, grid, printed
from network.links.trace import Floats, Trace

MBIT = 1e6 / 8  # bytes
OUT = 10e3 / 8  # bytes/s; a slower link counts as an outage
STEP = 1.0  # s
MOST = 200_000  # steps; a longer trace has longer steps
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class TraceFacts:
    """The facts of one trace; times in s, rates in bytes/s, over steps of `step`."""

    file: str
    format: str
    trace: Trace
    step: float
    quantiles: tuple[float, ...]  # at SHARES
    least: float
    most: float
    outages: tuple[float, ...]  # s, of each outage

    @property
    def out(self) -> float:
        """The share of whole steps below 10 kbit/s; a remainder of the period counts as online."""
        period = self.trace.period
        return sum(self.outages) / min(max(1, int(period / self.step + 1e-9)) * self.step, period)

    @property
    def plain(self) -> dict[str, Any]:
        """The facts for --format json, with units in the names."""
        trace = self.trace
        quantiles = {f"p{100 * q:.0f}_mbit_s": value / MBIT for q, value in zip(SHARES, self.quantiles, strict=True)}
        return {
            "file": self.file,
            "format": self.format,
            "direction": trace.direction,
            "kind": trace.kind,
            "duration_s": trace.period,
            "step_s": self.step,
            "mean_mbit_s": trace.mean / MBIT,
            "min_mbit_s": self.least / MBIT,
            **quantiles,
            "max_mbit_s": self.most / MBIT,
            "outages": len(self.outages),
            "longest_outage_s": max(self.outages, default=0.0),
            "outage_share": self.out,
            "latency_ms": None if trace.latency is None else float(np.median(trace.latency)) * 1e3,
            "loss": None if trace.loss is None else float(np.mean(trace.loss)),
            "remark": trace.remark,
        }


def means(trace: Trace, step: float) -> Floats:
    """The mean rate of each whole step of a period, bytes/s; of the whole period if it is shorter than a step."""
    edges: Floats = np.arange(int(trace.period / step + 1e-9) + 1, dtype=np.float64) * step
    if len(edges) < 2:
        edges = np.array([0.0, trace.period])
    return between(trace, edges)


def between(trace: Trace, edges: Floats) -> Floats:
    """The mean rates between neighbouring instants of one period, bytes/s."""
    prefix = np.concatenate([[0.0], np.cumsum(np.diff(trace.edges) * trace.rates)])
    found: Floats = np.diff(np.interp(edges, trace.edges, prefix)) / np.diff(edges)
    return found


def facts(path: Path, format: str, trace: Trace) -> TraceFacts:
    step = max(STEP, trace.period / MOST)
    rates = means(trace, step)
    runs = [len(list(run)) * step for below, run in groupby((rates < OUT).tolist()) if below]
    outages = tuple(min(run, trace.period) for run in runs)  # a trace may be shorter than one step
    quantiles = tuple(map(float, np.quantile(rates, SHARES)))
    return TraceFacts(str(path), format, trace, step, quantiles, float(rates.min()), float(rates.max()), outages)


def sparkline(trace: Trace, width: int) -> str:
    """The rate over a period, as characters from 0 to the largest value."""
    rates = between(trace, np.linspace(0.0, trace.period, width + 1))
    top = rates.max() or 1.0
    heights = np.clip(len(BARS) * rates / top + 1e-9, 0, len(BARS) - 1).astype(int)
    return "".join(BARS[height] for height in heights.tolist())


def text(every: Sequence[TraceFacts]) -> str:
    """A table with a row for each trace, and their sparklines."""
    width = columns()
    numbers = ("duration", "mean", "p10", "p50", "p90", "outages", "longest", "share")
    table = grid("Rates in Mbit/s", "trace", "way", numbers=numbers)
    table.columns[0].overflow = "fold"
    for one in every:
        longest = f"{max(one.outages):g} s" if one.outages else "–"
        low, _, middle, _, high = one.quantiles
        rates = (f"{rate / MBIT:.4g}" for rate in (one.trace.mean, low, middle, high))
        share = f"{one.out:.1%}"
        table.add_row(
            Path(one.file).name,
            one.trace.direction,
            duration(one.trace.period),
            *rates,
            str(len(one.outages)),
            longest,
            share,
        )
    steps = sorted({one.step for one in every})
    legend = (
        f"In steps of {' or '.join(f'{step:g}' for step in steps)} s; an outage is a run of steps below 10 kbit/s. "
        "A capacity is what a link could carry; achieved is a download's goodput, with TCP's start and headers in it."
    )
    remarks = [f"{Path(one.file).name}: {one.trace.remark}." for one in every if one.trace.remark]
    parts = (filled(text, width) for text in (*remarks, legend))
    return printed([table, "\n".join(_line(one, width) for one in every), *parts], width)


def _line(one: TraceFacts, width: int) -> str:
    trace = one.trace
    latency = "" if trace.latency is None else f", {float(np.median(trace.latency)) * 1e3:.3g} ms"
    what = f"{Path(one.file).name}: {one.format}, {trace.direction}, {trace.kind}{latency}"
    drawn = sparkline(trace, min(width - 24, 100))
    columns = between(trace, np.linspace(0.0, trace.period, len(drawn) + 1))
    return f"{what}\n  {drawn}  0 to {columns.max() / MBIT:.4g} Mbit/s"
