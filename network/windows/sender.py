"""A TCP sender: its reaction to acknowledgements, and its transmissions (Linux; RFC 5681, 6937, 8985)."""

from __future__ import annotations

import math
from typing import Any

from network.windows import bbr, cubic
from network.windows.compiled import compiled
from network.windows.path import depart
from network.windows.state import BBR, CUBIC, DEAD, LAST, LOSS, LOST, OPEN, RECOVERY, RING, SACKED, CrowdState

DUPLICATES = 3  # segments that must overtake another before it counts as lost
LEAST_TIMEOUT = 0.2  # s: TCP_RTO_MIN
PARTS = 32  # a large window is sent in about this many transmissions


@compiled
def acknowledged(s: CrowdState, i: int, number: int, t: float) -> None:
    """Handles the arrival at the sender, at `t`, of the acknowledgement of transmission `number` and of all before it:
    marks segments, updates the window, and sends more."""
    f = s.flows[i]
    x = s.sent[i, number & LAST]
    before, una = f.state, f.una
    acked = _delivered(s, i, number)
    lost = _judge(s, i, number)
    f.delivered += acked
    f.delivered_at = t
    f.first_sent = x.at
    f.losses += lost
    _advance(s, i)
    if not x.again:
        _time(f, t - x.at)
    if f.una > una or acked > 0:
        f.backoff = 0
    _change_state(f, lost)
    if f.congestion == BBR:
        bbr.heard(f, x, acked, lost, before, t)
    else:
        _grow(f, x, acked, lost, f.una > una, t)
    send(s, i, t)
    if f.una > una or acked > 0:
        f.probed = 0
        arm(f, t)


@compiled
def _delivered(s: CrowdState, i: int, number: int) -> int:
    """Marks the segments that are acknowledged up to transmission `number`; returns how many of them the sender did not
    know."""
    f, board = s.flows[i], s.board[i]
    mask = len(board) - 1
    count = 0
    while f.heard <= number:
        x = s.sent[i, f.heard & LAST]
        if f.heard >= f.void:
            f.pipe -= x.got
        for seq in range(x.seq, x.seq + x.got):
            place = seq & mask
            if seq >= f.una and not board[place] & SACKED:
                if board[place] & LOST:
                    f.lost -= 1
                board[place] = (board[place] | SACKED) & ~LOST
                f.sacked += 1
                count += 1
        f.heard += 1
    return count


@compiled
def _judge(s: CrowdState, i: int, number: int) -> int:
    """Marks segments as lost that enough later transmissions, up to `number`, have overtaken (RFC 8985); returns their
    number."""
    f = s.flows[i]
    last = s.sent[i, number & LAST]
    count = 0
    while f.judged < number:
        x = s.sent[i, f.judged & LAST]
        if x.got < x.count:
            sure = f.state != OPEN or f.sacked >= DUPLICATES or last.at - x.at > f.least / 4
            if not sure:
                return count
            count += _lose(s, i, f.judged)
        f.judged += 1
    return count


@compiled
def _lose(s: CrowdState, i: int, number: int) -> int:
    """Marks as lost those segments of a transmission that did not arrive; returns how many are newly marked."""
    f, board = s.flows[i], s.board[i]
    mask = len(board) - 1
    x = s.sent[i, number & LAST]
    if number >= f.void:
        f.pipe -= x.count - x.got
    count = 0
    for seq in range(x.seq + x.got, x.seq + x.count):
        place = seq & mask
        if seq >= f.una and not board[place] & (SACKED | LOST):
            board[place] |= LOST
            f.lost += 1
            f.hint = min(f.hint, seq)
            count += 1
    return count


@compiled
def _advance(s: CrowdState, i: int) -> None:
    """Moves `una`, the first segment that is not acknowledged, past all acknowledged ones that follow without a gap."""
    f, board = s.flows[i], s.board[i]
    mask = len(board) - 1
    while f.una < f.next and board[f.una & mask] & SACKED:
        board[f.una & mask] = 0
        f.una += 1
        f.sacked -= 1
    f.hint = max(f.hint, f.una)


@compiled
def _time(f: Any, delay: float) -> None:
    """Updates the round-trip estimates with a measured delay (RFC 6298)."""
    f.least, f.delay = min(f.least, delay), min(f.delay, delay)
    if f.srtt == 0.0:
        f.srtt, f.rttvar = delay, delay / 2
    else:
        f.rttvar += (abs(delay - f.srtt) - f.rttvar) / 4
        f.srtt += (delay - f.srtt) / 8


@compiled
def _change_state(f: Any, lost: int) -> None:
    """Enters a recovery if segments were lost, and leaves it when everything is acknowledged that was in flight when it
    began."""
    if f.state != OPEN and f.una >= f.high:
        if f.congestion != BBR:
            f.cwnd = min(f.cwnd, f.ssthresh) if f.state == LOSS else f.ssthresh
        f.state = OPEN
    if f.state == OPEN and lost > 0:
        f.state, f.high = RECOVERY, f.next
        f.prior, f.prr_delivered, f.prr_out = f.cwnd, 0, 0
        if f.congestion == BBR:
            f.saved = f.cwnd
        else:
            f.ssthresh = cubic.reduced(f)


@compiled
def _grow(f: Any, x: Any, acked: int, lost: int, advanced: bool, t: float) -> None:
    """Updates the window of CUBIC or Reno after an acknowledgement: grows it, or reduces it during a recovery."""
    if f.state == RECOVERY:
        _reduce(f, acked, lost, advanced)
        return
    if f.cwnd < f.ssthresh and f.congestion == CUBIC and not f.found and not x.again and f.state == OPEN:
        cubic.hystart(f, x.got, t - x.at, t)
    if acked > 0 and f.next - f.una < f.limit:
        cubic.grow(f, acked, t)


@compiled
def _reduce(f: Any, acked: int, lost: int, advanced: bool) -> None:
    """Reduces the window during a recovery in proportion to the delivered segments (RFC 6937, `tcp_cwnd_reduction`)."""
    if acked <= 0 and lost <= 0:
        return
    f.prr_delivered += acked
    over = f.pipe - f.ssthresh
    if over > 0:
        out = math.ceil(f.ssthresh * f.prr_delivered / f.prior) - f.prr_out
    else:
        out = max(f.prr_delivered - f.prr_out, acked)
        if advanced and lost == 0:
            out += 1
        out = min(out, int(-over))
    f.cwnd = f.pipe + max(float(out), 0.0 if f.prr_out else 1.0)


@compiled
def send(s: CrowdState, i: int, t: float) -> None:
    """Sends the segments that the congestion window and the receiver's limit admit at `t`, lost ones first; then sets
    the timer, if there was none."""
    f = s.flows[i]
    idle = f.pipe == 0 and f.timer == math.inf
    _send_all(s, i, t)
    if idle:
        arm(f, t)


@compiled
def _send_all(s: CrowdState, i: int, t: float) -> None:
    f = s.flows[i]
    burst = max(1, int(f.cwnd) // PARTS) if f.loss == 0 else 1
    if f.congestion == BBR:
        burst = max(burst, int(bbr.burst(f)))
    while has_room(f):
        room = int(f.cwnd) - f.pipe
        if room <= 0 or (room < burst and f.pipe > 0 and f.state == OPEN and f.congestion != BBR):
            return
        if f.congestion == BBR and t < f.pace:
            return
        count = _send(s, i, min(room, burst), t)
        if count == 0:
            return
        if f.congestion == BBR:
            f.pace = max(f.pace, t) + count / f.rate


@compiled
def may_send(f: Any) -> bool:
    """Returns true if there is a segment to send, lost or new, and the congestion window and the receiver's limit admit
    it."""
    fresh = f.next < f.total and f.next - f.una < f.limit
    return bool(int(f.cwnd) > f.pipe and (f.lost > 0 or fresh) and has_room(f))


@compiled
def has_room(f: Any) -> bool:
    """Returns true if the ring of unacknowledged transmissions has room for another one."""
    return bool(f.sent - min(f.judged, f.heard) < RING - 1)


@compiled
def _send(s: CrowdState, i: int, most: int, t: float) -> int:
    """Sends one transmission of at most `most` segments, lost ones if there are any; returns the number of segments."""
    f, board = s.flows[i], s.board[i]
    mask = len(board) - 1
    again = 0
    if f.lost > 0:
        seq = f.hint
        while not board[seq & mask] & LOST:
            seq += 1
        count = 0
        while count < most and seq + count < f.next and board[(seq + count) & mask] & LOST:
            board[(seq + count) & mask] &= ~LOST
            count += 1
        f.lost -= count
        f.hint = seq + count
        again = 1
    else:
        seq = f.next
        count = min(most, f.total - f.next, f.una + f.limit - f.next)
        if count <= 0:
            return 0
        _fresh(s, i, count)
    f.prr_out += count
    depart(s, i, seq, count, again, t)
    if f.next == f.total and f.lost == 0:
        s.sent[i, (f.sent - 1) & LAST].limited = 1
    return int(count)


@compiled
def _fresh(s: CrowdState, i: int, count: int) -> None:
    """Clears the marks of the next `count` segments, which are new.  After the simulation was set back, their places
    may hold marks of the abandoned future."""
    f, board = s.flows[i], s.board[i]
    for seq in range(f.next, f.next + count):
        board[seq & (len(board) - 1)] = 0
    f.next += count


@compiled
def arm(f: Any, t: float) -> None:
    """Sets the timer of the flow at `t`: for a probe (RFC 8985) if the last segments may be lost, or for the
    retransmission timeout."""
    if f.una >= f.total or (f.pipe == 0 and f.lost == 0):
        f.timer = math.inf
        return
    timeout = (f.srtt + max(LEAST_TIMEOUT, 4 * f.rttvar)) * 2.0**f.backoff
    if f.state == OPEN and f.sacked == 0 and not f.probed:
        timeout = min(timeout, 2 * f.srtt + (LEAST_TIMEOUT if f.pipe <= 1 else 2e-3))
    if f.state == OPEN and f.sacked > 0 and f.judged < f.heard - 1:
        timeout = min(timeout, f.least / 4)  # then segments overtaken by a few others are lost, too (RFC 8985)
    f.timer = t + timeout


@compiled
def expired(s: CrowdState, i: int, t: float) -> None:
    """Handles the flow's timer, which expires at `t`: marks overtaken segments as lost, sends a probe, or counts
    everything as lost."""
    f = s.flows[i]
    if f.state == OPEN and f.sacked > 0 and f.judged < f.heard:
        lost = _overdue(s, i)
        if lost > 0:
            f.losses += lost
            before = f.state
            _change_state(f, lost)
            if f.congestion == BBR:
                bbr.heard(f, s.sent[i, (f.heard - 1) & LAST], 0, lost, before, t)
            else:
                _reduce(f, 0, lost, False)
            send(s, i, t)
            arm(f, t)
            return
    if f.state == OPEN and f.sacked == 0 and not f.probed:
        f.probed = 1
        _probe(s, i, t)
    else:
        _time_out(s, i, t)
    arm(f, t)


@compiled
def _overdue(s: CrowdState, i: int) -> int:
    """Marks as lost all segments that later ones have overtaken, even fewer than DUPLICATES; returns their number."""
    f = s.flows[i]
    count = 0
    while f.judged < f.heard - 1:
        if s.sent[i, f.judged & LAST].got < s.sent[i, f.judged & LAST].count:
            count += _lose(s, i, f.judged)
        f.judged += 1
    return count


@compiled
def _probe(s: CrowdState, i: int, t: float) -> None:
    """Sends one segment, a new one if possible: its acknowledgement shows if the last segments arrived (RFC 8985,
    section 7)."""
    f = s.flows[i]
    if f.next < f.total and f.next - f.una < f.limit:
        _fresh(s, i, 1)
        depart(s, i, f.next - 1, 1, 0, t)
    elif f.next > f.una:
        depart(s, i, f.next - 1, 1, 1, t)


@compiled
def _time_out(s: CrowdState, i: int, t: float) -> None:
    """Handles the retransmission timeout at `t`: everything in flight counts as lost."""
    f, board = s.flows[i], s.board[i]
    mask = len(board) - 1
    if f.state == OPEN or f.congestion == BBR:
        f.saved = max(f.cwnd, f.saved) if f.congestion == BBR else f.saved
        if f.congestion != BBR:
            f.ssthresh = cubic.reduced(f)
    if f.congestion == CUBIC:
        cubic.begin(f, t)
    f.state, f.high = LOSS, f.next
    for seq in range(f.una, f.next):
        if not board[seq & mask] & (SACKED | LOST):
            board[seq & mask] |= LOST
            f.lost += 1
            f.losses += 1
    f.hint = f.una
    f.pipe, f.cwnd, f.void, f.judged = 0, 1.0, f.sent, f.sent
    if f.congestion == BBR:
        f.full, f.round_delivered = 0.0, f.delivered
        f.conserve = 0
    f.backoff = min(f.backoff + 1, 8)
    f.pace = min(f.pace, t)
    while f.heard < f.sent and s.sent[i, f.heard & LAST].stage == DEAD:
        f.heard += 1  # no acknowledgement of them will come, and their places are needed
    send(s, i, t)
