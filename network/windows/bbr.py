"""BBR v1, as in Linux (tcp_bbr.c)."""

from __future__ import annotations

import math
from typing import Any

from network.windows.compiled import compiled
from network.windows.path import drawn
from network.windows.state import DRAIN, OPEN, PROBE_BW, PROBE_RTT, ROUNDS, STARTUP

HIGH = 2885 / 1000 + 1 / 1000  # 2/ln(2)
LOW = 1 / HIGH
CYCLE = 8  # phases of PROBE_BW: faster, slower, and six at the bandwidth
MARGIN = 0.99  # paced share of the bandwidth
FULL, FULL_ROUNDS = 1.25, 3  # the pipe is full when bandwidth has grown by less than FULL for FULL_ROUNDS rounds
LEAST_WINDOW = 4
LEAST_LASTS = 10.0  # s, after which the shortest round trip is measured again
PROBE = 0.2  # s of that measurement
EXTRA_ROUNDS, EXTRA_MOST = 5, 0.1  # windows of aggregation, in rounds; s of bandwidth that it may add
POLICED_LOSS = 50 / 256  # lost over delivered segments, from which the path counts as policed
POLICED_ALIKE = 1 / 8  # largest difference of two samples of that bandwidth
POLICED_ROUNDS, POLICED_LASTS = 4, 48  # rounds of a sample, at least; rounds for which its bandwidth is then used
INITIAL = 10.0  # segments


@compiled
def begin(f: Any, t: float) -> None:
    """Puts the flow into STARTUP at `t`, paced by the window over the round trip (Linux's `bbr_init`)."""
    f.mode, f.pacing_gain, f.cwnd_gain = STARTUP, HIGH, HIGH
    f.path_rtt, f.least_at = f.least, t
    f.delivered_at = f.first_sent = f.pace = f.burst_start = t
    f.probe_until = math.nan
    f.rate = HIGH * f.cwnd / max(f.srtt, 1e-3)


@compiled
def target(f: Any, gain: float) -> float:
    """Returns the window, in segments, for `gain` times the bandwidth (`bbr_inflight`, with room for the bursts of a
    sender and a receiver)."""
    if f.bandwidth <= 0:
        return INITIAL
    window = math.ceil(f.bandwidth * f.path_rtt * gain)
    window += 3 * burst(f)
    window += window % 2
    return window + 2.0 if f.mode == PROBE_BW and f.phase == 0 else window


@compiled
def burst(f: Any) -> float:
    """Returns the number of segments that the sender hands over together: those paced in a millisecond, but at least 2
    (1 below 1.2 Mbit/s)."""
    least = 1.0 if f.rate * 1448 < 1.2e6 / 8 else 2.0
    return max(least, math.floor(f.rate / 1024))


@compiled
def heard(f: Any, x: Any, acked: int, lost: int, state_before: int, t: float) -> None:
    """Updates BBR's state when the acknowledgement of transmission `x` arrives at `t`; `acked` and `lost`: the segments
    that it newly reports as arrived and as lost."""
    fresh = _sampled(f, x, lost, t)
    _aggregation(f, acked, t)
    _cycle(f, lost, t)
    if fresh and not f.filled and not x.limited:
        _fill(f)
    _drain(f, t)
    _path(f, x, t)
    _gains(f)
    f.bandwidth = f.policing if f.policed else f.most
    rate = f.pacing_gain * f.bandwidth * MARGIN
    if f.bandwidth > 0 and (f.filled or rate > f.rate):
        f.rate = rate
    _window(f, acked, lost, state_before)


@compiled
def _sampled(f: Any, x: Any, lost: int, t: float) -> bool:
    """Measures the bandwidth since `x` was sent; returns true if a new round (one round trip of data) begins."""
    fresh = x.delivered >= f.round_delivered
    if fresh:
        f.round_delivered = f.delivered
        f.rounds += 1
        f.best[f.rounds % ROUNDS] = 0.0
        f.conserve = 0
    _police(f, x.limited, lost, fresh, t)
    interval = max(t - x.delivered_at, x.at - x.first_sent)
    if interval >= f.least and interval > 0:
        bandwidth = (f.delivered - x.delivered) / interval
        if not x.limited or bandwidth >= f.most:
            place = f.rounds % ROUNDS
            f.best[place] = max(f.best[place], bandwidth)
    f.most = 0.0
    for each in range(ROUNDS):
        f.most = max(f.most, f.best[each])
    f.bandwidth = f.policing if f.policed else f.most
    return bool(fresh)


@compiled
def _police(f: Any, limited: int, lost: int, fresh: bool, t: float) -> None:
    """Detects losses that come from a policer (a rate limit that drops packets), and then uses the policer's rate as
    the bandwidth (`bbr_lt_bw_sampling`)."""
    f.sample_rounds += fresh
    if f.policed:
        if f.mode == PROBE_BW and fresh and f.sample_rounds >= POLICED_LASTS:
            _forget(f, t)
            _probe_bandwidth(f, t)
        return
    if not f.sampling:
        if not lost:
            return
        _sample(f, t)
        f.sampling = 1
        f.sample_rounds += fresh
    if limited or f.sample_rounds > 4 * POLICED_ROUNDS:
        _forget(f, t)
        return
    delivered = f.delivered - f.sample_delivered
    share = POLICED_LOSS * delivered
    if not lost or f.sample_rounds < POLICED_ROUNDS or not delivered or f.losses - f.sample_lost < share:
        return
    bandwidth = delivered / (t - f.sample_start)
    if f.policing > 0 and abs(bandwidth - f.policing) <= POLICED_ALIKE * f.policing:
        f.policing, f.policed, f.sample_rounds = (bandwidth + f.policing) / 2, 1, 0
        return
    f.policing = bandwidth
    _sample(f, t)


@compiled
def _sample(f: Any, t: float) -> None:
    f.sample_start, f.sample_delivered, f.sample_lost, f.sample_rounds = t, f.delivered, f.losses, 0


@compiled
def _forget(f: Any, t: float) -> None:
    f.policing, f.policed, f.sampling = 0.0, 0, 0
    _sample(f, t)


@compiled
def _aggregation(f: Any, acked: int, t: float) -> None:
    """Measures how many segments are acknowledged beyond the bandwidth's share, as if acknowledgements were collected
    on the way (`bbr_update_ack_aggregation`)."""
    if f.rounds - f.extra_round >= EXTRA_ROUNDS:
        f.extra_round, f.extra[1], f.extra[0] = f.rounds, f.extra[0], 0.0
    expected = f.bandwidth * (t - f.burst_start)
    if f.burst_acked <= expected:
        f.burst_acked, f.burst_start, expected = 0.0, t, 0.0
    f.burst_acked = min(f.burst_acked + acked, 2.0**20)
    f.extra[0] = max(f.extra[0], min(f.burst_acked - expected, f.cwnd))


@compiled
def _cycle(f: Any, lost: int, t: float) -> None:
    """Moves PROBE_BW to its next phase if the current one is over (`bbr_is_next_cycle_phase`)."""
    if f.mode != PROBE_BW:
        return
    long = t - f.phase_start > f.path_rtt
    if f.pacing_gain > 1:
        over = long and (lost > 0 or f.pipe >= target(f, f.pacing_gain))
    elif f.pacing_gain < 1:
        over = long or f.pipe <= target(f, 1.0)
    else:
        over = long
    if over:
        f.phase, f.phase_start = (f.phase + 1) % CYCLE, t


@compiled
def _fill(f: Any) -> None:
    if f.most >= f.full * FULL:
        f.full, f.full_rounds = f.most, 0
    else:
        f.full_rounds += 1
        f.filled = int(f.full_rounds >= FULL_ROUNDS)


@compiled
def _drain(f: Any, t: float) -> None:
    if f.mode == STARTUP and f.filled:
        f.mode = DRAIN
    if f.mode == DRAIN and f.pipe <= target(f, 1.0):
        _probe_bandwidth(f, t)


@compiled
def _probe_bandwidth(f: Any, t: float) -> None:
    """Enters PROBE_BW in a phase drawn by the flow's own generator (Linux draws one at random), never the slower
    phase."""
    f.mode = PROBE_BW
    f.phase, f.phase_start = (CYCLE - int(drawn(f) * (CYCLE - 1))) % CYCLE, t


@compiled
def _path(f: Any, x: Any, t: float) -> None:
    """Updates the shortest round trip with that of transmission `x`, and enters and leaves PROBE_RTT
    (`bbr_update_min_rtt`)."""
    old = t > f.least_at + LEAST_LASTS
    delay = t - x.at
    if delay <= f.path_rtt or old:
        f.path_rtt, f.least_at = delay, t
    if old and f.mode != PROBE_RTT:
        f.mode, f.probe_until = PROBE_RTT, math.nan
        f.saved = max(f.saved, f.cwnd) if f.state != OPEN else f.cwnd
    if f.mode != PROBE_RTT:
        return
    if math.isnan(f.probe_until):
        if f.pipe <= LEAST_WINDOW:
            f.probe_until, f.probe_delivered = t + PROBE, f.delivered
            f.round_delivered = f.delivered
    elif t > f.probe_until and f.round_delivered > f.probe_delivered:
        f.least_at = t
        f.cwnd = max(f.cwnd, f.saved)
        if f.filled:
            _probe_bandwidth(f, t)
        else:
            f.mode = STARTUP


@compiled
def _gains(f: Any) -> None:
    if f.mode == STARTUP:
        f.pacing_gain, f.cwnd_gain = HIGH, HIGH
    elif f.mode == DRAIN:
        f.pacing_gain, f.cwnd_gain = LOW, HIGH
    elif f.mode == PROBE_BW:
        f.pacing_gain, f.cwnd_gain = 1.0, 2.0
        if f.policed:
            return
        if f.phase == 0:
            f.pacing_gain = 1.25
        elif f.phase == 1:
            f.pacing_gain = 0.75
    else:
        f.pacing_gain, f.cwnd_gain = 1.0, 1.0


@compiled
def _window(f: Any, acked: int, lost: int, state_before: int) -> None:
    """Sets the congestion window (`bbr_set_cwnd`): in the first round of a recovery to what is in flight, otherwise
    towards the target."""
    cwnd = max(f.cwnd - lost, 1.0) if lost > 0 else f.cwnd
    if f.state != OPEN and state_before == OPEN:
        f.conserve, f.round_delivered = 1, f.delivered
        cwnd = float(f.pipe + acked)
    elif f.state == OPEN and state_before != OPEN:
        cwnd, f.conserve = max(cwnd, f.saved), 0
    if f.conserve:
        f.cwnd = max(cwnd, float(f.pipe + acked))
    else:
        wanted = target(f, f.cwnd_gain)
        if f.filled:
            most = max(f.extra[0], f.extra[1])
            wanted += min(most, f.bandwidth * EXTRA_MOST)
            cwnd = min(cwnd + acked, wanted)
        elif cwnd < wanted or f.delivered < INITIAL:
            cwnd += acked
        f.cwnd = max(cwnd, float(LEAST_WINDOW))
    if f.mode == PROBE_RTT:
        f.cwnd = min(f.cwnd, float(LEAST_WINDOW))
