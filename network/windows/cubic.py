"""CUBIC with HyStart, and Reno, as in Linux (tcp_cubic.c, RFC 9438; RFC 5681)."""

from __future__ import annotations

import math
from typing import Any

from network.windows.compiled import compiled
from network.windows.state import CUBIC

BETA, RENO_BETA = 717 / 1024, 0.5
C = 0.4  # segments/s^3
FRIENDLY = (8 * (1024 + 717) / 3 / (1024 - 717)) / 8  # acknowledged windows per segment of growth of Reno's window
LOW_WINDOW = 16  # segments: HyStart ignores smaller windows
SAMPLES = 8  # measured round trips per round, of which the shortest counts
TRAIN = 2e-3  # s between acknowledgements of one train
LATE = 1e-3  # s by which acknowledgements may be late (`hystart_ack_delay`)
DELAY = (4e-3, 16e-3)  # s: bounds of the delay that counts as a queue


@compiled
def begin(f: Any, t: float) -> None:
    """Resets what CUBIC knows of the path at `t`: at the start, and after a timeout (Linux's `bictcp_reset`)."""
    f.w_max, f.epoch, f.found, f.delay = 0.0, math.nan, 0, math.inf
    _round(f, t)


@compiled
def grow(f: Any, acked: int, t: float) -> None:
    """Grows the flow's congestion window after `acked` more segments were acknowledged at `t`."""
    left = float(acked)
    if f.cwnd < f.ssthresh:
        grown = min(f.cwnd + left, f.ssthresh)
        left -= grown - f.cwnd
        f.cwnd = grown
    if left > 0:
        f.cwnd += left / (_pace(f, left, t) if f.congestion == CUBIC else f.cwnd)


@compiled
def _pace(f: Any, acked: float, t: float) -> float:
    """Returns the number of acknowledged segments for which the window grows by one segment (`bictcp_update`)."""
    if math.isnan(f.epoch):
        f.epoch, f.acks, f.friendly = t, 0.0, f.cwnd
        f.k = math.pow((f.w_max - f.cwnd) / C, 1 / 3) if f.w_max > f.cwnd else 0.0
        f.origin = max(f.w_max, f.cwnd)
    f.acks += acked
    since = t - f.epoch + f.delay - f.k
    target = f.origin + C * since * since * since
    count = f.cwnd / (target - f.cwnd) if target > f.cwnd else 100 * f.cwnd
    if f.w_max == 0.0:
        count = min(count, 20.0)
    f.friendly += f.acks / (f.cwnd * FRIENDLY)
    f.acks = 0.0
    if f.friendly > f.cwnd:
        count = min(count, f.cwnd / (f.friendly - f.cwnd))
    return max(count, 2.0)


@compiled
def reduced(f: Any) -> float:
    """Returns the slow-start threshold after a loss, in segments; the loss also ends the current period of cubic
    growth."""
    if f.congestion != CUBIC:
        return max(f.cwnd * RENO_BETA, 2.0)
    f.epoch = math.nan
    f.w_max = f.cwnd * (1 + BETA) / 2 if f.cwnd < f.w_max else f.cwnd
    return max(f.cwnd * BETA, 2.0)


@compiled
def hystart(f: Any, count: int, delay: float, t: float) -> None:
    """Ends slow start if the acknowledgements of a round trip extend over half of it, or if their delay shows a queue
    (`hystart_update`).  At `t` those of `count` segments arrive, which the kernel gets one after the other."""
    if f.una > f.round_end:
        _round(f, t)
    if f.cwnd < LOW_WINDOW:
        return
    if t - f.train <= TRAIN * count:
        f.train = t
        if t - f.round_start > (f.delay + LATE) / 2:
            f.found = 1
    f.round_rtt = min(f.round_rtt, delay)
    if f.samples < SAMPLES:
        f.samples += 1
    elif f.round_rtt > f.delay + min(max(f.delay / 8, DELAY[0]), DELAY[1]):
        f.found = 1
    if f.found:
        f.ssthresh = f.cwnd


@compiled
def _round(f: Any, t: float) -> None:
    f.round_start = f.train = t
    f.round_end, f.round_rtt, f.samples = f.next, math.inf, 0
