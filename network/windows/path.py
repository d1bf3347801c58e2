"""The way of transmissions through the links to the receiver, and of their acknowledgements back to the sender."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from network.windows.compiled import compiled
from network.windows.queue import ACK, admitted, passed
from network.windows.state import BBR, DEAD, LAST, MERGED, RECEIVED, STARTUP, CrowdState

LEFT, RIGHT, LEFT_AGAIN, TOP = np.uint64(13), np.uint64(7), np.uint64(17), np.uint64(11)
DELAYED = 0.04  # s that an acknowledgement of one segment waits for a second one (TCP_DELACK_MIN)


@compiled
def depart(s: CrowdState, i: int, seq: int, count: int, again: int, t: float) -> None:
    """Sends `count` consecutive segments from number `seq` on as one transmission of flow `i`; `again`: 1 if they were
    sent before."""
    f = s.flows[i]
    x = s.sent[i, f.sent & LAST]
    if f.sent == f.judged and f.pipe == 0:
        f.first_sent = f.delivered_at = t
    x.seq, x.count, x.got, x.stage, x.again = seq, count, count, 0, again
    x.at, x.time, x.arrives = t, t, math.inf
    x.first_sent, x.delivered_at, x.delivered = f.first_sent, f.delivered_at, f.delivered
    x.limited = 0
    f.first_sent = t
    f.sent += 1
    f.pipe += count
    travel(s, i, f.sent - 1, t)


@compiled
def travel(s: CrowdState, i: int, number: int, t: float) -> None:
    """Moves a transmission from the stage (number of links passed) that it has reached at `t` to the next stage at
    which it meets other flows; the receiver is a stage, too."""
    f = s.flows[i]
    x = s.sent[i, number & LAST]
    while x.stage < f.forth:
        link = s.links[f.path[x.stage]]
        nbytes = _bytes(f, x)
        if x.stage == 0 and f.loss > 0:
            x.got = _spared(f, x.got)
        x.got = admitted(s, link, t, x.got, f.segment, nbytes)
        if x.got == 0:
            x.stage = DEAD
            return
        t = passed(s, link, t, _bytes(f, x))
        x.stage += 1
        if x.stage < f.forth and s.links[f.path[x.stage]].shared:
            x.time = t
            return
    if x.stage == f.forth:
        t = _receive(s, i, number, t + f.beyond) + f.beyond
    else:  # the packet has reached a link as an acknowledgement
        link = s.links[f.path[x.stage - 1]]
        if admitted(s, link, t, 1, ACK, ACK) == 0:
            x.stage = MERGED
            return
        t = passed(s, link, t, ACK)
    x.stage += 1
    x.time = t
    if x.stage > f.forth + f.back:
        f.back_at = x.time = max(f.back_at, t + f.home + drawn(f) * f.jitter)


@compiled
def _bytes(f: Any, x: Any) -> float:
    """Returns the bytes on the wire of those segments of a transmission that have not been dropped."""
    if x.seq + x.got == f.total:
        return float((x.got - 1) * f.segment + f.last)
    return float(x.got * f.segment)


@compiled
def _spared(f: Any, count: int) -> int:
    """Returns how many of `count` segments pass before the first random loss; `count` if none is lost."""
    for number in range(count):
        if drawn(f) < f.loss:
            return number
    return count


@compiled
def drawn(f: Any) -> float:
    """Returns the next number in [0, 1) of the flow's own generator (xorshift64)."""
    f.dice ^= f.dice << LEFT
    f.dice ^= f.dice >> RIGHT
    f.dice ^= f.dice << LEFT_AGAIN
    return float(f.dice >> TOP) * 2.0**-53


@compiled
def _receive(s: CrowdState, i: int, number: int, t: float) -> float:
    """Delivers a transmission to the receiver at `t`; returns the time at which its acknowledgement is sent."""
    f = s.flows[i]
    x = s.sent[i, number & LAST]
    board = s.board[i]
    mask = len(board) - 1
    x.arrives = t
    for seq in range(x.seq, x.seq + x.got):
        if seq >= f.received and not board[seq & mask] & RECEIVED:
            board[seq & mask] |= RECEIVED
            f.got += 1
    f.highest = max(f.highest, x.seq + x.got)
    while f.received < f.highest and board[f.received & mask] & RECEIVED:
        f.received += 1
    if f.got == f.total:
        f.finish = min(f.finish, t)
    return _acknowledged(s, i, number, t)


@compiled
def _acknowledged(s: CrowdState, i: int, number: int, t: float) -> float:
    """Returns the time at which the receiver acknowledges segments that arrive at `t`: `t`, or DELAYED later if the
    acknowledgement waits for a second segment."""
    f = s.flows[i]
    x = s.sent[i, number & LAST]
    if f.held >= 0:
        held = s.sent[i, f.held & LAST]
        if held.stage == f.forth + 1 and held.arrives + DELAYED > t:
            held.stage = MERGED
            f.back_at = 0.0
        else:
            f.pending = 0
        f.held = -1
    f.pending += x.got
    # Linux's receivers acknowledge each segment of a slow start, and later every second one: this matches the counts of
    # segments and acknowledgements of transfers at 8 to 100 Mbit/s and 20 to 60 ms, with cubic, reno and bbr.
    climbing = f.mode == STARTUP if f.congestion == BBR else f.cwnd < f.ssthresh
    if climbing or f.quick > 0 or f.pending >= 2 or f.received < f.highest or f.got == f.total:
        f.pending = 0
        f.quick -= 1
        return t
    f.held = number
    return t + DELAYED
