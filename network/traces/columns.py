"""fedlapse's own CSV format for recordings of links: `time_s,down_mbit_s,up_mbit_s,latency_ms,loss`; the time and one
rate are required."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from network.foreign_files import shown
from network.links.trace import Direction, Floats, Kind, Trace
from network.traces.trace_text import FASTEST, LONGEST, TraceText

RATES: Mapping[str, Direction] = {"down_mbit_s": "down", "up_mbit_s": "up"}
TOPS = {"down_mbit_s": FASTEST / 1e6 * 8, "up_mbit_s": FASTEST / 1e6 * 8, "latency_ms": 1e7, "loss": 1.0}
MBIT = 1e6 / 8  # bytes


def read(source: TraceText) -> tuple[Trace, ...]:
    """Returns the traces of a file, down before up.

    A row's values hold from its time to the next row's.  A last row with nothing but its time ends the trace and so
    sets the period; a last row with values lasts as long as the one before it (1 s if it is alone).  `latency_ms` is
    one way, `loss` a fraction of packets.  A line `# kind: achieved` above the header says that the rates are goodput;
    without it they are a capacity.  Raises BadFile.
    """
    kind: Kind = "capacity"
    for line, row in source.rows():
        if not row.startswith("#"):
            break
        kind = _kind(source, line, row, kind)
    else:
        raise source.bad(None, "has no header")
    names = _header(source, line, row)
    times, columns = _body(source, names, line + 1)
    rates = [name for name in names if name in RATES]
    latency = np.array(columns["latency_ms"]) / 1e3 if "latency_ms" in names else None
    loss = np.array(columns["loss"]) if "loss" in names else None
    traces = {
        RATES[name]: source.trace(times, np.array(columns[name]) * MBIT, RATES[name], kind, latency, loss)
        for name in rates
    }
    return tuple(traces[way] for way in RATES.values() if way in traces)


def _kind(source: TraceText, line: int, row: str, before: Kind) -> Kind:
    """Returns the kind of rates (capacity or achieved) that a comment `# kind: ...` states; `before` if it states none.
    Raises BadFile for an unknown kind."""
    said = row[1:].partition(":")
    if said[0].strip() != "kind":
        return before
    if said[2].strip() not in ("capacity", "achieved"):
        raise source.bad(line, f"the kind is {shown(said[2].strip())}; it must be capacity or achieved")
    return cast(Kind, said[2].strip())


def _header(source: TraceText, line: int, row: str) -> list[str]:
    names = [cell.strip() for cell in row.split(",")]
    if names[0] != "time_s":
        raise source.bad(line, f"the first column is {shown(names[0])}; it must be time_s")
    for name in names[1:]:
        if name not in TOPS:
            raise source.bad(line, f"there is no column {shown(name)}; known are {', '.join(TOPS)}")
    if len(set(names)) < len(names):
        raise source.bad(line, "a column is listed twice")
    if not set(names) & set(RATES):
        raise source.bad(
            line, "neither down_mbit_s nor up_mbit_s is there; a trace needs a rate in at least one direction"
        )
    return names


def _body(source: TraceText, names: Sequence[str], first: int) -> tuple[Floats, Mapping[str, array[float]]]:
    """Returns the times in s, counted from the first row, and the other columns by name, in the file's units.

    Value i of a column holds from time i to time i + 1, so there is one time more than values.  Raises BadFile.
    """
    source.check_length(len(names))
    table = source.table(first, ",", len(names))
    if not _valid(table, [LONGEST, *(TOPS[name] for name in names[1:])]):
        table = table[:0]
    times, *values = (array("d", column.tobytes()) for column in table.T)
    columns = dict(zip(names[1:], values, strict=True))
    del table, values  # two copies of a large file would take much memory
    ended = False
    for line, row in source.rows(first + len(times)):
        cells = [cell.strip() for cell in row.split(",")]
        if ended:
            raise source.bad(line, "follows a row without values, which ends the trace")
        if len(cells) != len(names):
            raise source.bad(line, f"has {len(cells)} columns where the header has {len(names)}")
        time = source.number(line, cells[0], "time_s", LONGEST)
        if times and time <= times[-1]:
            raise source.bad(line, f"time_s is {cells[0]} after {times[-1]!r}; times must rise")
        times.append(time)
        ended = not any(cells[1:])
        if not ended:
            for name, cell in zip(names[1:], cells[1:], strict=True):
                columns[name].append(source.number(line, cell, name, TOPS[name]))
    if len(times) < 1 + ended:
        raise source.bad(None, "has no row with values")
    if not ended:
        times.append(times[-1] + (times[-1] - times[-2] if len(times) > 1 else 1.0))
    return np.array(times) - times[0], columns


def _valid(table: Floats, tops: Sequence[float]) -> bool:
    return bool((table >= 0).all() and (table <= tops).all() and (np.diff(table[:, 0]) > 0).all())


def written(traces: Sequence[Trace]) -> str:
    """Returns the text of fedlapse's CSV for one trace, or for a downlink and an uplink trace that belong together.

    It begins with the first sample of the recording, whatever the offset of the replay.  Latency and loss are those of
    the first trace.  Raises ValueError if there is no trace, if two have the same direction, or if they differ in
    period or kind.
    """
    ways = [trace.direction for trace in traces]
    if not traces or len(set(ways)) < len(ways):
        raise ValueError(f"the traces are {ways}; one is down, one is up, or there is only one")
    first = traces[0]
    for trace in traces[1:]:
        if trace.period != first.period or trace.kind != first.kind:
            raise ValueError(
                f"{trace.name} differs in period or kind from {first.name}; one file holds one period and one kind"
            )
    edges = np.unique(np.concatenate([trace.edges for trace in traces]))
    table = {"time_s": edges[:-1]}
    for name, way in RATES.items():
        if way in ways:
            trace = traces[ways.index(way)]
            table[name] = _along(trace, trace.rates, edges) / MBIT
    if first.latency is not None:
        table["latency_ms"] = _along(first, first.latency, edges) * 1e3
    if first.loss is not None:
        table["loss"] = _along(first, first.loss, edges)
    rows = zip(*(column.tolist() for column in table.values()), strict=True)
    lines = [",".join(table), *(",".join(map(repr, row)) for row in rows), repr(first.period) + "," * (len(table) - 1)]
    kind = [] if first.kind == "capacity" else [f"# kind: {first.kind}"]
    return "\n".join([*kind, *lines]) + "\n"


def _along(trace: Trace, values: Floats, edges: Floats) -> Floats:
    """Returns one of a trace's columns on a finer grid: its value on each interval between neighbouring `edges`, which
    include all edges of the trace."""
    return values[np.searchsorted(trace.edges, edges[:-1], side="right") - 1]
