"""A link and the droptail queue in front of it, which drops segments that do not fit its buffer."""

from __future__ import annotations

import math
from typing import Any

from network.windows.compiled import compiled
from network.windows.state import CrowdState

ACK = 52.0  # bytes of an acknowledgement


@compiled
def admitted(s: CrowdState, link: Any, t: float, count: int, segment: float, nbytes: float) -> int:
    """Returns how many of `count` segments, `nbytes` in all, fit into the link's queue at `t`; an idle link always
    takes one."""
    held = waiting(s, link, t)
    room = link.buffer - held
    if held <= 0:
        room = max(room, segment)
    if room >= nbytes:
        return count
    if room < segment:
        return 0
    return min(count, int(room / segment))


@compiled
def waiting(s: CrowdState, link: Any, t: float) -> float:
    """Returns the bytes in the link's queue that it has not sent by `t`."""
    if link.free <= t:
        return 0.0
    if not math.isnan(link.rate):
        return (link.free - t) * link.rate
    return carried(s, link, link.free) - carried(s, link, t)


@compiled
def passed(s: CrowdState, link: Any, t: float, nbytes: float) -> float:
    """Returns the time at which the link has sent `nbytes` bytes that arrive at `t`, after all bytes in its queue; the
    link is busy until then."""
    link.free = through(s, link, t, nbytes)
    return link.free


@compiled
def through(s: CrowdState, link: Any, t: float, nbytes: float) -> float:
    """Returns the time at which the link would have sent `nbytes` bytes that arrive at `t`, after all bytes in its
    queue."""
    begin = max(link.free, t)
    return begin + nbytes / link.rate if not math.isnan(link.rate) else finish(s, link, begin, nbytes)


@compiled
def carried(s: CrowdState, link: Any, t: float) -> float:
    """Returns the bytes that a link with a trace can carry from the trace's beginning to `t`."""
    first, n = link.first, link.pieces
    period, total = s.edges[first + n], s.prefix[first + n]
    u = t + link.offset
    turns = math.floor(u / period)
    u -= turns * period
    piece = _piece(s.edges, link, u)
    return turns * total + s.prefix[piece] + (u - s.edges[piece]) * s.rates[piece]


@compiled
def finish(s: CrowdState, link: Any, begin: float, nbytes: float) -> float:
    """Returns the time at which a link with a trace has carried `nbytes` bytes from `begin` on; inf if the trace
    carries nothing."""
    first, n = link.first, link.pieces
    period, total = s.edges[first + n], s.prefix[first + n]
    if total <= 0.0:
        return math.inf
    target = carried(s, link, begin) + nbytes
    turns = math.floor(target / total)
    left = target - turns * total
    if left <= 0.0:  # the service ends with the period before, at its last byte
        turns, left = turns - 1.0, total
    piece = _piece(s.prefix, link, left)
    while s.prefix[piece] >= left and piece > first:
        piece -= 1  # bytes that fill a piece exactly end with it, and not after the outage that follows
    u = s.edges[piece] + (left - s.prefix[piece]) / s.rates[piece]
    return max(begin, turns * period + min(u, s.edges[piece + 1]) - link.offset)


@compiled
def _piece(values: Any, link: Any, value: float) -> int:
    """Returns the index of the last piece of a link's trace whose entry in `values` is at most `value`; if there is
    none, of the first piece.  `values` never fall.

    The search doubles its steps, starting at the piece found last.
    """
    low, high = link.first, link.first + link.pieces - 1
    near, step = low + link.near, 1
    if values[near] <= value:
        while near + step <= high and values[near + step] <= value:
            step *= 2
        low, high = near + step // 2, min(high, near + step - 1)
    else:
        while near - step >= low and values[near - step] > value:
            step *= 2
        low, high = max(low, near - step), max(low, near - step // 2 - 1)
    while low < high:
        middle = (low + high + 1) // 2
        if values[middle] <= value:
            low = middle
        else:
            high = middle - 1
    link.near = low - link.first
    return int(low)
