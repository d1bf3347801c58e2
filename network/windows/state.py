"""The state of flows, transmissions and links: rows of arrays, which compiled functions read and change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

HOPS = 16  # largest number of links on the way of a flow there and back
RING = 256  # largest number of transmissions not judged yet; a power of 2
LAST = RING - 1
ROUNDS = 10  # rounds over which BBR takes the largest bandwidth

RENO, CUBIC, BBR = 0, 1, 2
OPEN, RECOVERY, LOSS = 0, 1, 2  # Linux's states of congestion avoidance
STARTUP, DRAIN, PROBE_BW, PROBE_RTT = 0, 1, 2, 3  # states of BBR
SACKED, LOST, RECEIVED = 1, 2, 4  # bits of a segment: the sender's knowledge, and its arrival at the receiver
DEAD, MERGED = 100, 101  # stages of a transmission: dropped; its acknowledgement was merged with a later one

_SEND = [
    ("total", "i8"),  # the flow's number of packets
    ("segment", "f8"),  # bytes of a full one on the wire
    ("last", "f8"),  # bytes of the last one
    ("rtt", "f8"),  # without queues
    ("trips", "i8"),  # round trips of handshakes that are left before the first segment
    ("congestion", "i8"),
    ("loss", "f8"),  # probability, of a segment
    ("dice", "u8"),  # state of the generator that draws losses
    ("limit", "i8"),  # admitted by the receiver
    ("next", "i8"),  # the first one never sent
    ("una", "i8"),  # the first one not acknowledged
    ("sacked", "i8"),  # number of acknowledged ones beyond it
    ("lost", "i8"),  # lost and not sent again
    ("hint", "i8"),  # no lost one is before it
    ("pipe", "i8"),  # in flight, by the sender's estimate
    ("cwnd", "f8"),
    ("ssthresh", "f8"),
    ("state", "i8"),
    ("high", "i8"),  # recovery ends when all before it are acknowledged
    ("sent", "i8"),  # transmissions so far
    ("heard", "i8"),  # the first transmission without an acknowledgement
    ("judged", "i8"),  # the first transmission not yet judged as lost or not
    ("void", "i8"),  # earlier ones were given up by a timeout, and are not in flight
    ("prior", "f8"),  # the window before a recovery
    ("prr_delivered", "i8"),  # RFC 6937
    ("prr_out", "i8"),
    ("srtt", "f8"),
    ("rttvar", "f8"),
    ("least", "f8"),  # the shortest round trip
    ("timer", "f8"),  # time at which the sender stops waiting
    ("probed", "i8"),  # the timer has sent a probe, and times out next
    ("backoff", "i8"),
]
_WAY = [
    ("forth", "i8"),  # number of links there
    ("back", "i8"),  # number of links on which acknowledgements may wait
    ("path", "i8", (HOPS,)),
    ("beyond", "f8"),  # from the last link to the receiver, and from there to the first link back: of uploads
    ("jitter", "f8"),  # largest delay of an acknowledgement
    ("back_at", "f8"),  # arrival of the last one
    ("home", "f8"),  # from the last link back to the sender
    ("arriving", "i8", (HOPS + 1,)),  # by stage of the way, the next transmission that gets there
]
_RECEIVE = [
    ("got", "i8"),  # different segments
    ("received", "i8"),  # everything before this one was received
    ("highest", "i8"),  # the one after the last received
    ("pending", "i8"),  # not yet acknowledged
    ("held", "i8"),  # the transmission whose acknowledgement is delayed; -1: none
    ("quick", "i8"),  # acknowledgements that are not delayed
    ("finish", "f8"),  # arrival of the last byte at the receiver
]
_CUBIC = [
    ("w_max", "f8"),
    ("epoch", "f8"),  # nan: not begun
    ("k", "f8"),
    ("origin", "f8"),
    ("friendly", "f8"),  # the window that Reno would have
    ("acks", "f8"),  # towards its growth
    ("delay", "f8"),  # the shortest round trip of data: HyStart and CUBIC ignore the handshake
    ("found", "i8"),  # HyStart has ended slow start
    ("round_end", "i8"),
    ("round_start", "f8"),
    ("train", "f8"),  # arrival of the train's last acknowledgement
    ("round_rtt", "f8"),
    ("samples", "i8"),
]
_BBR = [
    ("mode", "i8"),
    ("delivered", "i8"),
    ("delivered_at", "f8"),
    ("first_sent", "f8"),
    ("rate", "f8"),  # segments/s, of pacing
    ("pace", "f8"),  # earliest time of the next transmission
    ("rounds", "i8"),
    ("round_delivered", "i8"),
    ("best", "f8", (ROUNDS,)),  # by round, the largest bandwidth
    ("most", "f8"),  # segments/s: the largest of them
    ("bandwidth", "f8"),  # segments/s in use
    ("losses", "i8"),  # segments so far
    ("policed", "i8"),  # the path counts as policed by a token bucket
    ("policing", "f8"),  # segments/s that the policer lets through; 0: unknown
    ("sampling", "i8"),  # a sample is being taken
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
    ("least_at", "f8"),  # time of the shortest round trip
    ("path_rtt", "f8"),
    ("probe_until", "f8"),  # nan: still too much in flight
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
        ("at", "f8"),  # time of sending
        ("time", "f8"),  # arrival at its stage
        ("arrives", "f8"),  # at the receiver
        ("first_sent", "f8"),  # sending time of the segment acknowledged last
        ("delivered_at", "f8"),  # time of that acknowledgement
        ("seq", "i4"),
        ("count", "i4"),
        ("got", "i4"),  # the number of first segments that were not dropped
        ("delivered", "i4"),  # segments, when it was sent
        ("stage", "i4"),
        ("again", "i2"),  # retransmission
        ("limited", "i2"),  # limited by the data to send
    ]
)  # 64 bytes, a line of a processor's cache

LINK = np.dtype(
    [
        ("rate", "f8"),  # nan: a trace
        ("buffer", "f8"),  # bytes
        ("free", "f8"),  # time at which it has sent everything that it holds
        ("shared", "i8"),  # by several flows
        ("first", "i8"),  # of the trace's edges
        ("pieces", "i8"),
        ("near", "i8"),  # the piece looked up last: the next one is usually close
        ("offset", "f8"),
    ]
)

Rows = npt.NDArray[np.void]
Floats = npt.NDArray[np.float64]


class CrowdState(NamedTuple):
    """The state of a group of links and of all flows on them, as arrays that compiled functions change in place."""

    flows: Rows  # (flows,) FLOW
    sent: Rows  # (flows, RING) SENT
    board: npt.NDArray[np.uint8]  # (flows, a power of 2) bits of the segments of a window
    links: Rows  # (links,) LINK
    edges: Floats  # of all traces, one after the other, each with its period
    rates: Floats
    prefix: Floats  # bytes carried by each edge
    first: Floats  # (2 * flows,) a tree of minima: the time of each flow's next event
    touched: npt.NDArray[np.int64]  # (flows + 1,) the number of rows changed since the last copy, and their indices
    is_touched: npt.NDArray[np.bool_]  # (flows,)


def empty(flows: int, window: int, links: int) -> CrowdState:
    """Returns a state without content for this many links, and this many flows with windows of this many segments;
    flows and window must be powers of 2."""
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
