"""The simulation of flows on a group of links from event to event."""

from __future__ import annotations

import math
from typing import Any

from network.windows import bbr, cubic
from network.windows.compiled import compiled
from network.windows.path import drawn, travel
from network.windows.queue import ACK, through
from network.windows.sender import acknowledged, arm, expired, may_send, send
from network.windows.state import BBR, DEAD, LAST, RECEIVED, RING, CrowdState

START = 8e-3  # s, within which a device or a server begins what it is asked for


@compiled
def run(s: CrowdState, kept: CrowdState, anew: bool, until: float) -> int:
    """Advances the state `s` to the first end of a flow, and returns the flow's index; -1 if no flow ends before
    `until`.

    With `anew`, starts from the state in `kept`; otherwise saves the state at the start in `kept`.  One call does both,
    because a call from Python examines each array of each state.
    """
    if anew:
        _copy(kept, s, s)
    else:
        _copy(s, kept, s)
    while s.first[1] <= until:
        t = s.first[1]
        i = _earliest(s)
        f = s.flows[i]
        if f.finish <= t:
            return i
        _step(s, i, t)
        look(s, i)
    return -1


@compiled
def start(s: CrowdState, i: int, t: float, first: float, trips: int) -> None:
    """Starts flow `i`, whose row is filled in, at `t`.  At `first` its device or server sends: a packet of the first of
    `trips` round trips of handshakes, or the first segments."""
    touch(s, i)
    f = s.flows[i]
    f.alive, f.held, f.quick, f.finish = 1, -1, 16, math.inf
    first += drawn(f) * START
    f.least = f.srtt = f.rtt + queueing(s, i, t)
    f.rttvar = f.srtt / 2
    f.trips, f.first_sent = trips, first
    f.timer = _waited(s, f, True, first) + f.rtt if trips > 0 else first
    _note(s, i, f.timer)


@compiled
def _greet(s: CrowdState, i: int, t: float) -> None:
    """Handles a packet of a handshake that reaches the links to the device at `t`: it passes them, and the device
    answers.  An upload's first segments are the answer to the last packet, a download's are in its place."""
    f = s.flows[i]
    f.trips -= 1
    if f.trips > 0 or f.beyond > 0:
        t = _waited(s, f, False, t)
        f.least = f.srtt = t - f.first_sent
        f.rttvar, f.first_sent = f.srtt / 2, t
    if f.trips > 0:
        t = _waited(s, f, True, t) + f.rtt
    f.timer = t


@compiled
def _waited(s: CrowdState, f: Any, up: bool, t: float) -> float:
    """Returns the time at which a small packet that reaches the flow's links of a direction at `t` has passed them; it
    is too small to delay others."""
    data = up == (f.beyond > 0)  # the direction is that of the data
    for place in range(0 if data else f.forth, f.forth if data else f.forth + f.back):
        t = through(s, s.links[f.path[place]], t, ACK)
    return t


@compiled
def go_on(s: CrowdState, i: int, t: float) -> None:
    """Starts flow `i` that was outside the crowd until `t`: a whole window has arrived at the receiver, and its
    acknowledgements are on their way back."""
    f, board = s.flows[i], s.board[i]
    start(s, i, t, t, 0)
    _open(f, t)
    flying = int(f.cwnd)
    f.timer, f.quick = math.inf, 0
    parts = min(flying, RING // 4)
    f.total += flying
    f.got = f.received = f.highest = f.next = f.pipe = flying
    f.found = int(f.ssthresh < math.inf)
    f.delivered_at = f.first_sent = t - f.rtt
    seq = 0
    for part in range(parts):
        x = s.sent[i, part]
        x.seq, x.count = seq, (part + 1) * flying // parts - seq
        x.got, x.stage, x.again, x.limited = x.count, f.forth + f.back + 1, 0, 0
        x.arrives = t
        x.time = t + f.rtt * (part + 1) / parts
        x.at = x.time - f.rtt
        x.delivered, x.delivered_at, x.first_sent = seq, t - f.rtt, t - f.rtt
        seq += x.count
        for each in range(x.seq, seq):
            board[each & (len(board) - 1)] = RECEIVED
    f.sent = parts
    arm(f, t)
    look(s, i)


@compiled
def _open(f: Any, t: float) -> None:
    """Begins the flow's congestion control at `t`, when the handshakes are over."""
    cubic.begin(f, t)
    bbr.begin(f, t)


@compiled
def queueing(s: CrowdState, i: int, t: float) -> float:
    """Returns the time that the queues on the flow's way, there and back, add to a round trip at `t`, s."""
    f = s.flows[i]
    total = 0.0
    for place in range(f.forth + f.back):
        total += max(0.0, s.links[f.path[place]].free - t)
    return total


@compiled
def stop(s: CrowdState, i: int) -> None:
    """Ends a flow.  Its segments that are in queues still delay those behind them."""
    touch(s, i)
    s.flows[i].alive = 0
    _note(s, i, math.inf)


@compiled
def arrived(s: CrowdState, i: int, t: float) -> float:
    """Returns the bytes on the wire of flow `i` that have arrived at the receiver by `t`."""
    f = s.flows[i]
    late = 0
    number = max(0, f.sent - RING, min(f.heard, f.judged))
    while number < f.sent:
        x = s.sent[i, number & LAST]
        if x.stage > f.forth and x.stage != DEAD and x.arrives > t:
            late += x.got
        number += 1
    return float(max(0, f.got - late) * f.segment)


@compiled
def _earliest(s: CrowdState) -> int:
    """Returns the index of the flow with the earliest next event, the lowest index if several are equal."""
    places = len(s.first) // 2
    place = 1
    while place < places:
        place = 2 * place if s.first[2 * place] <= s.first[2 * place + 1] else 2 * place + 1
    return place - places


@compiled
def _note(s: CrowdState, i: int, t: float) -> None:
    """Stores the time of the flow's next event, and updates the tree of minima."""
    place = i + len(s.first) // 2
    s.first[place] = t
    while place > 1:
        place //= 2
        least = min(s.first[2 * place], s.first[2 * place + 1])
        if s.first[place] == least:
            return
        s.first[place] = least


@compiled
def look(s: CrowdState, i: int) -> None:
    """Finds the time of the flow's next event and stores it."""
    f = s.flows[i]
    t = min(f.finish, f.timer)
    if f.congestion == BBR and f.sent > 0 and may_send(f):
        t = min(t, f.pace)
    for stage in range(1, f.forth + f.back + 2):
        t = min(t, _due(s, i, stage))
    _note(s, i, t)


@compiled
def _due(s: CrowdState, i: int, stage: int) -> float:
    """Returns the time at which the flow's next transmission arrives at a stage of its way; inf if none is on its way
    there."""
    f = s.flows[i]
    while f.arriving[stage] < f.sent:
        x = s.sent[i, f.arriving[stage] & LAST]
        if x.stage == stage:
            return float(x.time)
        if x.stage < stage:
            return math.inf
        f.arriving[stage] += 1  # dropped, or merged with a later one
    return math.inf


@compiled
def _step(s: CrowdState, i: int, t: float) -> None:
    """Handles the event of flow `i` at `t`: the arrival of a transmission at a stage, the sender's timer, or the time
    to send."""
    touch(s, i)
    f = s.flows[i]
    sender = f.forth + f.back + 1
    for stage in range(1, sender + 1):
        if _due(s, i, stage) <= t:
            number = f.arriving[stage]
            f.arriving[stage] += 1
            if stage == sender:
                acknowledged(s, i, number, t)
            else:
                travel(s, i, number, t)
            return
    if f.timer <= t and f.sent > 0:
        expired(s, i, t)
    elif f.trips > 0:
        _greet(s, i, t)
    else:
        if f.sent == 0:
            f.timer = math.inf
            _open(f, t)
        send(s, i, t)


@compiled
def touch(s: CrowdState, i: int) -> None:
    """Marks the flow's rows as changed, so that `_copy` copies them; must be called before they change."""
    if not s.is_touched[i]:
        s.is_touched[i] = True
        s.touched[0] += 1
        s.touched[s.touched[0]] = i


@compiled
def _copy(s: CrowdState, to: CrowdState, changed: CrowdState) -> None:
    """Copies to `to` all rows of `s` that are marked in `changed`, and all links; afterwards the two states are equal,
    and nothing is marked."""
    for number in range(len(s.links)):
        to.links[number] = s.links[number]
    for number in range(len(s.first)):
        to.first[number] = s.first[number]
    for place in range(1, changed.touched[0] + 1):
        i = changed.touched[place]
        changed.is_touched[i] = False
        _copy_flow(s, to, i)
    changed.touched[0] = 0


@compiled
def _copy_flow(s: CrowdState, to: CrowdState, i: int) -> None:
    """Copies those rows of flow `i` that may still be read."""
    to.flows[i] = s.flows[i]
    if not s.flows[i].alive:
        return
    f, mask = s.flows[i], s.board.shape[1] - 1
    for number in range(max(0, min(f.heard - 1, f.judged)), f.sent):
        to.sent[i, number & LAST] = s.sent[i, number & LAST]
    for seq in range(f.una, f.next):
        to.board[i, seq & mask] = s.board[i, seq & mask]
