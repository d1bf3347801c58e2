"""The reader of University College Cork's (UCC) 5G logs: CSV of a phone that downloads, about one row per second (Raca
et al., MMSys'20)."""

from __future__ import annotations

from array import array
from datetime import datetime

import numpy as np
import numpy.typing as npt

from network.foreign_files import shown
from network.links.remark import Remark
from network.links.trace import Floats, Trace
from network.traces.trace_text import FASTEST, TraceText

NEEDED = ("Timestamp", "DL_bitrate", "State")  # UL_bitrate is the traffic of acknowledgements, never a capacity
STAMP = "%Y.%m.%d_%H.%M.%S"
AROUND = (-1, 5)  # rows around a ping in which the download ends and restarts (docs/traces.md)
COLUMNS = 3  # columns that are kept: time, rate and latency
PAUSE = 5.0  # s: the logger paused; rows are about 1 s apart, the samples' stamps at most 3


def read(source: TraceText) -> Trace:
    """Returns the trace of DL_bitrate (kbit/s in the file) over the rows in State D (downloading), one after another;
    rows in State I (idle) are pauses of the app and left out.

    The logger writes about one row per second but stamps whole seconds, so some stamps repeat and others are skipped.
    Therefore every row lasts equally long: the seconds of the file, without pauses of the logger, divided by its rows.
    PINGAVG is a round trip in ms: half of it is the latency until the next ping; rows before the first ping have the
    first ping's.  PINGLOSS covers five pings, too few for a rate of loss, and is not read.  Raises BadFile.
    """
    source.check_length(COLUMNS)
    start, header = source.start()
    names = header.split(",")
    for name in NEEDED:
        if name not in names:
            raise source.bad(start, f"there is no column {name}; a UCC log has {', '.join(NEEDED)}")
    stamp, rate, state = (names.index(name) for name in NEEDED)
    ping = names.index("PINGAVG") if "PINGAVG" in names else None
    times, rates, pings, held = array("d"), array("d"), array("d"), float("nan")
    pinged = array("q")  # indices of the rates next to a ping
    for line, row in source.rows(start + 1):
        cells = row.split(",")
        if len(cells) != len(names):
            raise source.bad(line, f"has {len(cells)} columns where the header has {len(names)}")
        times.append(_second(source, line, cells[stamp], times))
        if ping is not None and cells[ping] not in ("", "-"):
            held = source.number(line, cells[ping], "PINGAVG", 1e7) / 2e3
            pinged.append(len(rates))
        if cells[state] not in ("D", "I"):
            raise source.bad(line, f"the State is {shown(cells[state])}; it is D (downloading) or I (idle)")
        if cells[state] == "D":
            rates.append(source.number(line, cells[rate], "DL_bitrate", FASTEST * 8 / 1e3) * 1e3 / 8)
            pings.append(held)
    return _evenly(source, times, rates, pings, _remark(np.array(rates), np.array(pinged, dtype=np.intp)))


def _second(source: TraceText, line: int, cell: str, before: array[float]) -> float:
    try:
        time = (datetime.strptime(cell, STAMP) - datetime(1970, 1, 1)).total_seconds()
    except ValueError:
        raise source.bad(line, f"the Timestamp is {shown(cell)}; it is written YYYY.MM.DD_HH.MM.SS") from None
    if before and time < before[-1]:
        raise source.bad(line, f"the Timestamp {cell} is before the one above; stamps must not go back")
    return time


def _remark(rates: Floats, pinged: npt.NDArray[np.intp]) -> str:
    """Returns a remark that the logger interrupts its download to ping: the share of the rows around pings, and their
    mean rate relative to the other rows.  "" if all rows or none are around a ping, or if the others carry nothing."""
    near = np.zeros(len(rates), dtype=bool)
    for away in range(*AROUND):
        rows = pinged + away
        near[rows[(rows >= 0) & (rows < len(near))]] = True
    if not near.any() or near.all() or not rates[~near].mean() > 0:
        return ""
    part = rates[near].mean() / rates[~near].mean()
    said = (
        "the logger broke its download off to ping: {} of the seconds lie around a ping, with {} of the rate of the "
        "others, and are replayed like them"
    )
    return Remark.of(said, float(near.mean()), float(part))


def _evenly(source: TraceText, times: array[float], rates: array[float], pings: array[float], remark: str) -> Trace:
    if not rates:
        raise source.bad(None, "has no row in State D")
    passing = np.diff(times)
    seconds = passing[passing <= PAUSE].sum()
    if not seconds:
        raise source.bad(None, "all its stamps are equal; it needs two rows with different stamps")
    edges = np.arange(len(rates) + 1) * (seconds / len(times))
    latency = np.array(pings)
    known = latency[~np.isnan(latency)]
    held = np.where(np.isnan(latency), known[0], latency) if len(known) else None
    return source.trace(edges, np.array(rates), "down", "achieved", held, remark=remark)
