"""The first second of a flow, by hand: its handshakes, the queue that its bytes meet, and the probe of its tail.

The links carry 1 MB/s.  What is in a queue is said as the time at which the link will have sent it.  Each transfer
begins up to START late, as it draws.
"""

from __future__ import annotations

from typing import Any

import pytest

from network.links.rate import Constant
from network.links.tcp import Sender, Sending, Tcp, Way
from network.windows.crowd import Crowd, Newcomer, Queue
from network.windows.step import START
from tests.network.windows.links import FAST, SEGMENT

RTT, RATE = 0.1, 1e6
ACK, ONE = 52 / RATE, SEGMENT / RATE  # s that a small packet and a segment take
DOWN, UP = (Queue(number, Constant(RATE), 1e6) for number in range(2))


def crowd(down: float, up: float, t: float, begin: float, **of: Any) -> Crowd:
    """A transfer of one segment, asked for at `t`, whose first byte is at its receiver at `begin` if nothing waits.

    The links are busy until `down` and `up`, s.
    """
    made = Crowd([DOWN, UP], of.get("chance", 0))
    made._state.links["free"][:2] = down, up
    back, nbytes, loss = of.get("back", False), of.get("nbytes", float(SEGMENT)), of.get("loss", 0.0)
    ways = ((UP,), (DOWN,)) if back else ((DOWN,), (UP,))
    sending = Sending(Tcp(), Way(RTT, loss), Sender(10, 0.0))
    made.open(t, Newcomer("a", nbytes, sending, *ways, FAST, back, begin))
    return made


def end(made: Crowd) -> float:
    """When the transfer ends, s."""
    while True:
        due = made.due()
        if made.end() is not None:
            return due


@pytest.mark.parametrize(
    ("down", "up", "took"),
    [
        (0.05, 0.0, 2 * RTT + ONE),  # the queue has gone when the answer to the first packet comes
        (0.15, 0.0, 0.15 + ACK + RTT + ONE),  # the answer to the first packet waits for it, and the request does not
        (0.35, 0.0, 0.35 + ACK + RTT + ONE),
        (0.0, 0.15, 0.15 + ACK + 2 * RTT + ONE),  # the first packet waits in the uplink
    ],
)
def test_a_handshake_waits_in_the_queues_that_it_meets(down: float, up: float, took: float) -> None:
    """A download without TLS: there and back to open, the request there, and the segment."""
    assert took - ONE <= end(crowd(down, up, 0.0, 2 * RTT)) <= took + START + 4 * ACK


def test_a_request_waits_behind_the_uploads_of_others() -> None:
    """The uplink fills while the handshake is on its way: the request, which is there at 0.1 s, leaves at 0.3 s."""
    made = crowd(0.0, 0.0, 0.0, 2 * RTT)
    made.move(0.05)
    made._state.links["free"][1] = 0.3
    assert end(made) == pytest.approx(0.3 + ACK + RTT + ONE)


def test_an_upload_meets_the_queue_half_a_round_trip_before_its_bytes_arrive() -> None:
    """On an open connection at 0.29 s: 10 ms behind others, the link, and half a round trip.  At 0.34 s the link would
    have been idle."""
    assert end(crowd(0.0, 0.3, 0.29, 0.29 + RTT / 2, back=True)) == pytest.approx(0.3 + ONE + RTT / 2)


def test_an_upload_that_nobody_meets_takes_its_handshake_and_its_bytes() -> None:
    assert 0 <= end(crowd(0.0, 0.0, 0.0, 1.5 * RTT, back=True)) - (1.5 * RTT + ONE) <= START + 4 * ACK


@pytest.mark.parametrize(("segments", "timer"), [(10, 2 * RTT + 2e-3), (1, 3 * RTT)])
def test_a_lost_first_window_is_probed_after_two_round_trips(segments: int, timer: float) -> None:
    """RFC 8985, 7.2, as Linux has it: 2 srtt and two ticks.  0.2 s more only for a single segment, so that the timeout
    comes before: srtt + 4 rttvar, where the first sample R gives R + 4 R/2 (RFC 6298)."""
    made = crowd(0.0, 0.0, 0.0, RTT / 2, nbytes=float(segments * SEGMENT), loss=1 - 1e-9)
    made.move(RTT / 2 + START)
    sender = made._state.flows[0]
    assert sender["timer"] - sender["first_sent"] == pytest.approx(timer)
    assert sender["pipe"] == segments


def test_when_transfers_begin_is_drawn_anew_for_each_chance() -> None:
    ends = {end(crowd(0.0, 0.0, 0.0, 2 * RTT, chance=chance)) for chance in range(20)}
    assert len(ends) == 20
    assert max(ends) - min(ends) > START / 2
    assert end(crowd(0.0, 0.0, 0.0, 2 * RTT, chance=3)) in ends
