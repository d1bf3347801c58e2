"""Mahimahi's packet-delivery traces: when a saturated link could have sent a packet (Netravali et al., ATC'15)."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from network.files import LARGEST, shown
from network.links.trace import Direction, Trace
from network.traces.source import DIGITS, LONGEST, PACKET, PIECES, Source

MOST = 40_000_000  # lines of a file that is written: 60 GB of packets
SLACK = 0.5  # bytes: what a packet may lack and count as whole, far above rounding and far below a packet


def read(source: Source, direction: Direction) -> Trace:
    """One integer of ms a line, each an opportunity of 1500 bytes; it loops with its last stamp.

    Fluid: n lines at stamp k are 1500 n bytes, evenly over (k-1, k] ms.  A line at 0 belongs to the millisecond that
    ends at 0, which in a loop is the last one; so a period carries 1500 bytes a line, whatever the stamps.
    Raises BadFile.  Source: docs/design/network.md §4.
    """
    stamps = _stamps(source)
    first = np.flatnonzero(np.append(True, stamps[1:] != stamps[:-1]))  # of its stamp
    if len(first) > PIECES:
        raise source.bad(None, f"has {len(first)} different stamps; at most {PIECES} are replayed: cut it in parts")
    at, lines = stamps[first], np.diff(first, append=len(stamps))
    if at[0] == 0:
        at, lines[-1], lines = at[1:], lines[-1] + lines[0], lines[1:]
    points = np.unique(np.concatenate([[0], at - 1, at]))
    rates = np.zeros(len(points) - 1)
    rates[np.searchsorted(points, at - 1)] = lines * (PACKET * 1000.0)
    return source.trace(points / 1000.0, rates, direction, "capacity")


def _stamps(source: Source) -> npt.NDArray[np.int64]:
    """Raises BadFile unless they are whole, sorted, and the last is positive."""
    table = source.table(1, "", 1, DIGITS)[:, 0]
    if not ((table <= LONGEST * 1000).all() and (table[1:] >= table[:-1]).all()):
        table = table[:0]
    known, others = table.astype(np.int64), array("q")
    last = int(known[-1]) if len(known) else 0
    for line, row in source.rows(1 + len(known)):
        if not (row.isascii() and row.isdigit() and len(row) <= 18):
            raise source.bad(line, f"the stamp is {shown(row)}; it must be a whole number of ms, one a line")
        stamp = int(row)
        if stamp < last:
            raise source.bad(line, f"the stamp is {stamp} ms after {last}; stamps must not go back")
        if stamp > LONGEST * 1000:
            raise source.bad(line, f"the stamp is {stamp} ms; it must be {LONGEST * 1000:g} at most")
        others.append(stamp)
        last = stamp
    if not last:
        raise source.bad(None, "its last stamp is the period and must be above 0 ms")
    return np.append(known, np.frombuffer(others, dtype=np.int64))


def written(trace: Trace) -> str:
    """The trace's samples (from the start of the file, not from the offset) as a Mahimahi file.

    A line stands where the bytes carried so far fill another packet, so the remainder is carried on and a period's
    bytes differ by less than 1500.  The last line stands at the end of the period, as it sets it.  The format knows
    no kind, so a reader takes the file for a capacity.  Raises ValueError if a period carries nothing or more
    than a file can hold.
    """
    prefix = np.concatenate([[0.0], np.cumsum(np.diff(trace.edges) * trace.rates, dtype=np.longdouble)]).astype(float)
    lines = max(1, round(prefix[-1] / PACKET))
    if not prefix[-1] > 0 or lines > MOST:
        raise ValueError(f"{trace.name} carries {prefix[-1]:g} bytes; a Mahimahi file holds 1 to {MOST} packets")
    period = max(1, round(trace.period * 1000))
    full = np.arange(1, lines) * PACKET - SLACK
    piece = np.searchsorted(prefix, full, side="left") - 1
    seconds = trace.edges[piece] + (full - prefix[piece]) / trace.rates[piece]
    stamps = np.clip(np.ceil(seconds * 1000), 1, period).astype(np.int64)
    text = "\n".join(map(str, [*stamps.tolist(), period])) + "\n"
    if len(text) > LARGEST:
        raise ValueError(
            f"{trace.name} makes a Mahimahi file of {len(text) / 1e6:.0f} MB, and at most {LARGEST // 1_000_000} MB "
            "are read; write it as csv"
        )
    return text
