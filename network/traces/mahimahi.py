"""Mahimahi's packet-delivery traces: the instants at which a saturated link could have sent a packet (Netravali et al.,
ATC'15)."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from network.foreign_files import LARGEST, OFTEN, shown
from network.links.trace import Direction, Trace
from network.traces.trace_text import DIGITS, LONGEST, PACKET, PIECES, SPARE, TraceText

Ints = npt.NDArray[np.int64]

MOST = 40_000_000  # lines of a file that is written: 60 GB of packets
SLACK = 0.5  # bytes by which a packet may be short and still count as whole; far above rounding and far below a packet


def read(source: TraceText, direction: Direction) -> Trace:
    """Returns the trace in a Mahimahi file.  Each line is a stamp, a whole number of ms at which the link could send a
    packet of 1500 bytes; the replay starts over after the last stamp.

    The packets are spread evenly over their millisecond: n lines with stamp k are 1500 n bytes over (k-1, k] ms.  A
    line at 0 belongs to the millisecond that ends at 0, which in a loop is the last one; so a period carries 1500 bytes
    per line, whatever the stamps.  Raises BadFile.  Format: docs/design/network.md §4.
    """
    at, lines = _counted(source)
    if at[0] == 0:
        at, lines[-1], lines = at[1:], lines[-1] + lines[0], lines[1:]
    moments = len(at) + int(np.count_nonzero(np.diff(at, prepend=0) > 1))  # pauses are moments, too
    if moments > PIECES:
        raise source.bad(None, f"has {moments} different moments; at most {PIECES} are replayed: cut it in parts")
    points = np.unique(np.concatenate([[0], at - 1, at]))
    rates = np.zeros(len(points) - 1)
    rates[np.searchsorted(points, at - 1)] = lines * (PACKET * 1000.0)
    return source.trace(points / 1000.0, rates, direction, "capacity")


def _counted(source: TraceText) -> tuple[Ints, Ints]:
    """Returns the different stamps in rising order, ms, and the number of lines with each stamp.

    Raises BadFile unless all stamps are whole numbers, none is smaller than the one before, and the last is positive;
    also as soon as there are far too many different stamps.
    """
    stamps, counts = array("q"), array("q")  # in most files all but a few neighbours differ by one
    (start, _), seen = source.start(), 0
    for block in source.blocks(start, "", 1, DIGITS):
        some = block[:, 0]
        if not (some[0] >= _last(stamps) and some[-1] <= LONGEST * 1000 and (some[1:] >= some[:-1]).all()):
            break
        first = np.flatnonzero(np.append(True, some[1:] != some[:-1]))
        stamps.frombytes(some[first].astype(np.int64).tobytes())
        counts.frombytes(np.diff(first, append=len(some)).astype(np.int64).tobytes())
        seen += len(some)
        _check_count(source, stamps)
    for line, row in source.rows(start + seen):
        stamp = _stamp(source, line, row, _last(stamps))
        if stamps and stamp == stamps[-1]:
            counts[-1] += 1
        else:
            stamps.append(stamp)
            counts.append(1)
            if line % OFTEN == 0:
                _check_count(source, stamps)
    if not _last(stamps):
        raise source.bad(None, "its last stamp is the period and must be above 0 ms")
    found, numbers = np.array(stamps), np.array(counts)
    first = np.flatnonzero(np.append(True, found[1:] != found[:-1]))
    return found[first], np.add.reduceat(numbers, first)


def _last(stamps: array[int]) -> int:
    return stamps[-1] if stamps else 0


def _check_count(source: TraceText, stamps: array[int]) -> None:
    if len(stamps) > PIECES + SPARE:
        raise source.bad(None, f"has more than {PIECES} different stamps, the most that are replayed: cut it in parts")


def _stamp(source: TraceText, line: int, row: str, last: int) -> int:
    if not (row.isascii() and row.isdigit() and len(row) <= 18):
        raise source.bad(line, f"the stamp is {shown(row)}; it must be a whole number of ms, one a line")
    stamp = int(row)
    if stamp < last:
        raise source.bad(line, f"the stamp is {stamp} ms after {last}; stamps must not go back")
    if stamp > LONGEST * 1000:
        raise source.bad(line, f"the stamp is {stamp} ms; it must be {LONGEST * 1000:g} at most")
    return stamp


def written(trace: Trace) -> str:
    """Returns the text of a Mahimahi file for the trace, from the first sample of the recording, whatever the offset of
    the replay.

    A line marks the time at which the bytes so far fill another packet.  The remainder is carried on, so the bytes of a
    period differ from the trace's by less than 1500.  The last line is at the end of the period, which it defines.  The
    format cannot state the kind of a rate, so a reader takes the file for a capacity.  Raises ValueError if a period
    carries nothing or more than a file can hold.
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
