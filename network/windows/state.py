"""The state of flows, of their transmissions, and of links: rows of arrays, which compiled functions read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

HOPS = 16  # links on the way of a flow there and back, at most
RING = 256  # transmissions that nobody has judged yet, at most; a power of 2
LAST = RING - 1
ROUNDS = 10  # of which BBR takes the largest bandwidth

RENO, CUBIC, BBR = 0, 1, 2
OPEN, RECOVERY, LOSS = 0, 1, 2  # what Linux calls the state of congestion avoidance
STARTUP, DRAIN, PROBE_BW, PROBE_RTT = 0, 1, 2, 3  # of BBR
SACKED, LOST, RECEIVED = 1, 2, 4  # bits of a segment: what the sender knows, and whether its receiver has it
DEAD, MERGED = 100, 101  # stages of a transmission: dropped; its acknowledgement went with a later one

_SEND = [
    ("total", "i8"),  # of the flow
    ("segment", "f8"),  # bytes of a full one on the wire
    ("last", "f8"),  # bytes of the last one
    ("rtt", "f8"),  # without queues
    ("trips", "i8"),  # round trips through the queues before the first segment
    ("congestion", "i8"),
    ("loss", "f8"),  # probability, of a segment
    ("dice", "u8"),  # state of the generator that draws losses
    ("limit", "i8"),  # that the receiver admits
    ("next", "i8"),  # the first that was never sent
    ("una", "i8"),  # the first that is not acknowledged
    ("sacked", "i8"),  # how many beyond it are
    ("lost", "i8"),  # known to be lost and not sent again
    ("hint", "i8"),  # none before it is
    ("pipe", "i8"),  # in flight, as the sender sees it
    ("cwnd", "f8"),
    ("ssthresh", "f8"),
    ("state", "i8"),
    ("high", "i8"),  # recovery is over when all before it are acknowledged
    ("sent", "i8"),  # transmissions so far
    ("heard", "i8"),  # the first transmission of which the sender has no acknowledgement yet
    ("judged", "i8"),  # the first of which it has not decided whether it was lost
    ("void", "i8"),  # those before were given up by a timeout, and are in no pipe
    ("prior", "f8"),  # the window before a recovery
    ("prr_delivered", "i8"),  # RFC 6937
    ("prr_out", "i8"),
    ("srtt", "f8"),
    ("rttvar", "f8"),
    ("least", "f8"),  # the shortest round trip
    ("timer", "f8"),  # when the sender gives up waiting
    ("probed", "i8"),  # the timer has sent a probe, and times out next
    ("backoff", "i8"),
]
_WAY = [
    ("forth", "i8"),  # links there
    ("back", "i8"),  # links on which acknowledgements may wait
    ("path", "i8", (HOPS,)),
    ("beyond", "f8"),  # from the last link to the receiver and on to the first link back
    ("jitter", "f8"),  # that an acknowledgement is late, at most
    ("back_at", "f8"),  # when the last one came
    ("home", "f8"),  # from the last link back to the sender
    ("arriving", "i8", (HOPS + 1,)),  # by stage of the way, the next transmission that gets there
]
_RECEIVE = [
    ("got", "i8"),  # different segments
    ("received", "i8"),  # all before this one
    ("highest", "i8"),  # the one after the last
    ("pending", "i8"),  # not acknowledged yet
    ("held", "i8"),  # the transmission whose acknowledgement is delayed; -1: none
    ("quick", "i8"),  # acknowledgements that are not delayed
    ("finish", "f8"),  # when the last byte is at the receiver
]
_CUBIC = [
    ("w_max", "f8"),
    ("epoch", "f8"),  # nan: none has begun
    ("k", "f8"),
    ("origin", "f8"),
    ("friendly", "f8"),  # the window that Reno would have
    ("acks", "f8"),  # towards its growth
    ("delay", "f8"),  # the shortest round trip of data: HyStart and CUBIC do not look at the handshake
    ("found", "i8"),  # HyStart has ended slow start
    ("round_end", "i8"),
    ("round_start", "f8"),
    ("train", "f8"),  # when the last acknowledgement of the train came
    ("round_rtt", "f8"),
    ("samples", "i8"),
]
_BBR = [
    ("mode", "i8"),
    ("delivered", "i8"),
    ("delivered_at", "f8"),
    ("first_sent", "f8"),
    ("rate", "f8"),  # segments/s, of pacing
    ("pace", "f8"),  # when it may send next
    ("rounds", "i8"),
    ("round_delivered", "i8"),
    ("best", "f8", (ROUNDS,)),  # by round, the largest bandwidth
    ("most", "f8"),  # segments/s: the largest of them
    ("bandwidth", "f8"),  # segments/s that it goes by
    ("losses", "i8"),  # segments so far
    ("policed", "i8"),  # takes the path for one that a token bucket polices
    ("policing", "f8"),  # segments/s that this lets through; 0: not known
    ("sampling", "i8"),  # looks whether it is so
    ("sample_start", "f8"),
    ("sample_delivered", "i8"),
    ("sample_lost", "i8"),
    ("sample_rounds", "i8"),
    ("full", "f8"),
    ("full_rounds", "i8"),
    ("filled", "i8"),
    ("phase", "i8"),
    ("phase_start", "f8"),
    ("pacing_gain", "f8"),
    ("cwnd_gain", "f8"),
    ("conserve", "i8"),
    ("least_at", "f8"),  # when the shortest round trip was seen
    ("path_rtt", "f8"),
    ("probe_until", "f8"),  # nan: not in flight few enough yet
    ("probe_delivered", "i8"),
    ("saved", "f8"),
    ("extra", "f8", (2,)),  # segments acknowledged beyond the bandwidth, in this window of rounds and the one before
    ("extra_round", "i8"),
    ("burst_start", "f8"),
    ("burst_acked", "f8"),
]
FLOW = np.dtype([("alive", "i8"), *_SEND, *_WAY, *_RECEIVE, *_CUBIC, *_BBR])

SENT = np.dtype(
    [
        ("at", "f8"),  # when it was sent
        ("time", "f8"),  # when it reaches its stage
        ("arrives", "f8"),  # at the receiver
        ("first_sent", "f8"),  # when the segment was sent that was acknowledged last
        ("delivered_at", "f8"),  # when that was
        ("seq", "i4"),
        ("count", "i4"),
        ("got", "i4"),  # the first so many were not dropped
        ("delivered", "i4"),  # segments, when it was sent
        ("stage", "i4"),
        ("again", "i2"),  # not for the first time
        ("limited", "i2"),  # by what there was to send
    ]
)  # 64 bytes, a line of a processor's cache

LINK = np.dtype(
    [
        ("rate", "f8"),  # nan: a trace
        ("buffer", "f8"),  # bytes
        ("free", "f8"),  # when it has sent all that it holds
        ("shared", "i8"),  # by several flows
        ("first", "i8"),  # of the trace's edges
        ("pieces", "i8"),
        ("near", "i8"),  # the piece that was looked up last: the next one is seldom far
        ("offset", "f8"),
    ]
)

Rows = npt.NDArray[np.void]
Floats = npt.NDArray[np.float64]


class CrowdState(NamedTuple):
    """The state of a group of links and of all flows on them."""

    flows: Rows  # (flows,) FLOW
    sent: Rows  # (flows, RING) SENT
    board: npt.NDArray[np.uint8]  # (flows, a power of 2) bits of the segments of a window
    links: Rows  # (links,) LINK
    edges: Floats  # of all traces, one after the other, each with its period
    rates: Floats
    prefix: Floats  # bytes carried by each edge
    first: Floats  # (2 * flows,) a tree of minima: when something happens to each flow
    touched: npt.NDArray[np.int64]  # (flows + 1,) how many rows have changed since the last copy, and which
    is_touched: npt.NDArray[np.bool_]  # (flows,)


def empty(flows: int, window: int, links: int) -> CrowdState:
    """Room for so many flows with windows of so many segments, both powers of 2, and for links."""
    nothing = np.zeros(0)
    return CrowdState(
        np.zeros(flows, FLOW),
        np.zeros((flows, RING), SENT),
        np.zeros((flows, window), np.uint8),
        np.zeros(links, LINK),
        nothing,
        nothing,
        nothing,
        np.full(2 * flows, np.inf),
        np.zeros(flows + 1, np.int64),
        np.zeros(flows, np.bool_),
    )
