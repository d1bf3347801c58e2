"""Runs in Chrome's trace event format, which ui.perfetto.dev opens: a process for each run, a track for each device."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emulator.report.comparison import MADE_BY, compare
from emulator.report.figure import natural
from emulator.report.scenes import SERVER, Scene, scenes
from emulator.results.results import Results

MICRO = 1e6  # µs a second: the unit of `ts` and `dur`
SHOWN = ("download", "compute", "upload", "server")  # a device's absence would overlap with what it broke off
Entry = Mapping[str, Any]


def perfetto(results: Sequence[Results]) -> str:
    """Returns the runs as a trace in JSON, with one event on each line.  Raises ValueError if there are no results, or
    a record is damaged."""
    all_ = compare(results)
    runs = [(label, seed) for label, seeds in all_.runs.items() for seed in seeds]
    lines = []
    for pid, (label, seed) in enumerate(runs, 1):
        rounds = {row["round"] for row in all_.runs[label][seed]}
        told = scenes(all_.events(label, seed), rounds)
        lines += [json.dumps(entry, ensure_ascii=False) for entry in _process(pid, f"{label}, seed {seed}", told)]
    about = json.dumps({"about": MADE_BY, "clock": "virtual time"})
    events = ",\n".join(lines)
    return f'{{"otherData": {about}, "displayTimeUnit": "ms", "traceEvents": [\n{events}\n]}}\n'


def _process(pid: int, name: str, told: Mapping[int, Scene]) -> Iterator[Entry]:
    """Yields the trace's entries for one run: first the names of its tracks, then the activities of each round.

    `pid`: the run's number in the trace.  `told`: the activities by round.
    """
    bars = [(round, bar) for round, scene in sorted(told.items()) for bar in scene.bars if bar.what in SHOWN]
    devices = sorted({bar.device for _, bar in bars} - {SERVER}, key=natural)
    tracks = {name: tid for tid, name in enumerate([SERVER, *devices], 1)}
    yield _named("process_name", pid, 0, name)
    for track, tid in tracks.items():
        yield _named("thread_name", pid, tid, track)
        yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}
    for round, bar in bars:
        at = {"pid": pid, "tid": tracks[bar.device], "ts": bar.start * MICRO, "dur": (bar.stop - bar.start) * MICRO}
        args = {"round": round + 1, **bar.detail, **({} if bar.whole else {"cut": True})}
        yield {"ph": "X", "name": bar.what, "cat": bar.what, **at, "args": args}  # a complete event


def _named(what: str, pid: int, tid: int, name: str) -> Entry:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
