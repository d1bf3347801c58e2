"""Windows on full links: laws, what papers and the kernel say, and what the closed form says of a single flow."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.links.rate import Constant
from network.links.tcp import Congestion, Tcp, Way, passage
from network.links.trace import Trace
from network.sharing.flow import SharedLink
from network.sharing.fluid import Fluid
from network.windows.windows import Windows
from tests.all_of import all_of
from tests.network.windows.links import FAST, MSS, SEGMENT, Sent, ends, one, wire

MB, KB = 1_000_000, 1_000
KINDS: tuple[Congestion, ...] = ("cubic", "reno", "bbr")
MIXED = [Sent(400 * KB, 0.02), Sent(300 * KB, 0.11, 0.1), Sent(200 * KB, 0.06, 0.3), Sent(90 * KB, 0.03, 0.5)]


def closed_form(nbytes: int, rate: float, rtt: float) -> float:
    """network/links/tcp.py of a flow that is alone, s."""
    flight = passage(Tcp(tls=0), Way(rtt), Constant(rate), "down", nbytes, 0.0)
    return flight.cap(flight.delay).finish(flight.delay, flight.wire)


@pytest.mark.parametrize("congestion", KINDS)
@pytest.mark.parametrize(("nbytes", "mbit_s", "rtt"), [(MB, 8, 0.05), (5 * MB, 20, 0.05), (5 * MB, 50, 0.02)])
def test_a_flow_that_is_alone_takes_what_the_closed_form_says(
    nbytes: int, mbit_s: float, rtt: float, congestion: Congestion
) -> None:
    # where nothing is dropped, as on the deep queues that docs/fidelity.md has measured: within 5 %
    rate = mbit_s * 1e6 / 8
    assert one(nbytes, rate, rtt, 4 * rate * rtt, congestion) == pytest.approx(closed_form(nbytes, rate, rtt), rel=0.05)


def test_a_flow_whose_own_link_is_the_slowest_is_the_closed_form_to_the_bit() -> None:
    [end] = ends([Sent(MB, 0.05, own=Constant(1e6))], 2e6, 1e5)
    fluid = Fluid(2e6)
    flight = passage(Tcp(tls=0), Way(0.05), Constant(1e6), "down", MB, 0.0)
    fluid.open(flight.delay, 0, flight.wire, flight.cap(flight.delay), flight.weight)
    assert end == fluid.next_finish()


@pytest.mark.parametrize("congestion", KINDS)
@pytest.mark.parametrize("depth", [0.5, 2.0])
def test_no_link_carries_more_than_it_can(congestion: Congestion, depth: float) -> None:
    rate = 2.5e6
    sent = [replace(each, congestion=congestion) for each in MIXED]
    last = max(ends(sent, rate, depth * rate * 0.05))
    assert last - 2 * 0.02 >= sum(wire(each.nbytes) for each in sent) / rate


@given(looks=st.lists(st.floats(0.0, 3.0), max_size=6), congestion=st.sampled_from(KINDS))
@settings(max_examples=20, deadline=None)
def test_looking_changes_nothing(looks: list[float], congestion: Congestion) -> None:
    sent = [replace(each, congestion=congestion) for each in MIXED]
    assert ends(sent, 2.5e6, 1.2e5, looks=looks) == ends(sent, 2.5e6, 1.2e5)


def test_a_flow_that_is_closed_has_carried_what_it_had_carried() -> None:
    """And the rest of the link is the other's: it ends earlier than beside a flow that stays."""
    flight = passage(Tcp(tls=0), Way(0.05), FAST, "down", 2 * MB, 0.0)
    windows = Windows((1e6, {}), (math.inf, {}), (1e5, 0.0))
    for name in "ab":
        windows.open(0.1, name, flight.wire, flight.cap(0.1), flight.weight, None, FAST, False, flight.sending)
    assert windows.carried(0.9, "a") + windows.carried(0.9, "b") == pytest.approx(0.75e6, abs=1e5)
    before = windows.carried(0.9, "a")
    assert windows.close(0.9, "a") == before
    while not (ended := windows.advance(t := windows.next_finish())):
        pass
    assert ended == ["b"]
    assert t < ends([Sent(2 * MB), Sent(2 * MB)], 1e6, 1e5)[1]
    assert windows.left_with("b") is not None
    assert windows.left_with("b") is None


SLOW = Constant(1e5)


def opened(windows: Windows, names: str, nbytes: int = 100_000, back: bool = False, own: Constant = SLOW) -> None:
    """Opens transfers now, or at 0.1 s; on links of 0.1 MB/s, if on no others."""
    t = windows.now or 0.1
    for name in names:
        flight = passage(Tcp(tls=0), Way(0.05), own, "up" if back else "down", nbytes, 0.0)
        windows.open(t, name, flight.wire, flight.cap(t), flight.weight, None, own, back, flight.sending)


@pytest.fixture
def wide() -> Windows:
    """Both ways wide enough for ten of them."""
    return Windows((1e6, {}), (1e6, {}), (1e5, 1e5))


def test_a_flow_that_ends_in_the_instant_in_which_another_is_closed_has_ended(wide: Windows) -> None:
    opened(wide, "ac")
    opened(wide, "b", 200_000)
    end = wide.next_finish()
    assert end == pytest.approx(0.1 + wire(100_000) / 1e5, rel=1e-12)
    assert wide.close(end, "b") == pytest.approx(wire(100_000), rel=1e-12)
    assert wide.close(end, "c") == wire(100_000)
    assert wide.next_finish() == end
    assert wide.advance(end) == ["a"]
    assert wide.next_finish() == math.inf


@pytest.mark.parametrize("back", [False, True])
def test_so_has_one_in_the_instant_in_which_another_fills_the_link(wide: Windows, back: bool) -> None:
    opened(wide, "a", back=back)
    opened(wide, "b", 200_000)
    end = wide.next_finish()
    wide.close(end, "b")
    opened(wide, "d", 2 * MB, back, FAST)
    assert wide.carried(end, "a") == wire(100_000)
    assert wide.next_finish() == end
    assert wide.advance(end) == ["a"]
    assert wide.left_with("a") is None
    while not (ended := wide.advance(wide.next_finish())):
        pass
    assert ended == ["d"]


def test_looking_in_the_instant_of_an_end_changes_nothing(wide: Windows) -> None:
    opened(wide, "a")
    opened(wide, "b", 200_000, back=True)
    end = wide.next_finish()
    assert wide.carried(end, "b") == pytest.approx(wire(100_000), rel=1e-12)
    assert wide.carried(end, "a") == wire(100_000)
    assert wide.advance(end) == ["a"]
    assert wide.next_finish() == pytest.approx(0.1 + wire(200_000) / 1e5, rel=1e-12)
    assert wide.advance(wide.next_finish()) == ["b"]


def test_more_flows_than_there_was_room_for_all_arrive() -> None:
    sent = [Sent((20 + number) * KB, 0.05, number * 0.003) for number in range(70)]
    found = ends(sent, 2e6, 1e5)
    assert max(found) >= sum(wire(each.nbytes) for each in sent) / 2e6
    assert len(set(found)) == 70


def test_a_windows_limit_may_be_wider_than_any_before() -> None:
    """100 MB in flight at 800 Mbit/s and 400 ms: 26,667 segments fill the link."""
    tcp = Tcp(tls=0, window=100 * MB)
    windows = Windows((1e8, {}), (math.inf, {}), (4e7, 0.0))
    for name, kind in (("a", Tcp(tls=0)), ("b", tcp)):
        flight = passage(kind, Way(0.4), FAST, "down", 20 * MB, 0.0)
        windows.open(0.8, name, flight.wire, flight.cap(0.8), flight.weight, None, FAST, False, flight.sending)
    found = {}
    while (t := windows.next_finish()) < math.inf:
        found.update(dict.fromkeys(windows.advance(t), t))
    assert found["b"] < found["a"]


# --- what papers and measurements say ------------------------------------------------------------------------


STARTS = (3.0, 4.5, 6.0, 7.3, 8.6, 10.0, 11.2, 12.4)


@pytest.mark.parametrize(("queue_kb", "bulk_mb", "starts", "took"), [(60, 16, STARTS, 1.05), (1000, 14, [10.0], 4.83)])
def test_a_message_waits_behind_bulk_that_fills_the_queue(
    queue_kb: float, bulk_mb: int, starts: Sequence[float], took: float
) -> None:
    """200 kB beside bulk at 8 Mbit/s and 40 ms, begun at several moments of its sawtooth: the kernel's TCP took 0.77 to
    1.42 s behind 60 kB, with a median of 1.05, and 4.83 s behind 1 MB.  Alone it takes 0.5 s."""
    bulk = Sent(bulk_mb * MB, 0.04)
    waits = [ends([bulk, Sent(200 * KB, 0.04, start)], 1e6, queue_kb * KB)[1] - start for start in starts]
    assert statistics.median(waits) == pytest.approx(took, rel=0.25)
    assert min(waits) > 0.6


@pytest.mark.parametrize("loss", [0.002, 0.01])
def test_reno_under_random_losses_has_the_window_of_mathis(loss: float) -> None:
    """1.22/sqrt(p) segments in the mean (Mathis et al. 1997); receivers that acknowledge each second segment halve the
    growth, and so the square of the window: between the two laws, and RTOs take some."""
    segments = 60_000
    took = ends([Sent(segments * MSS, 0.1, congestion="reno", loss=loss)], 1e9, 1e8)[0]
    mean = segments * 0.1 / took
    assert 0.55 * 1.22 / math.sqrt(loss) <= mean <= 1.25 * 1.22 / math.sqrt(loss)


def test_bbr_does_not_mind_random_losses() -> None:
    rate = 2.5e6
    nbytes = 10 * MB
    took = ends([Sent(nbytes, 0.05, congestion="bbr", loss=0.01)], rate, 4e5)[0]
    assert took < 1.25 * wire(nbytes) / rate


def test_short_round_trips_get_more_of_a_full_link() -> None:
    near, far = ends([Sent(3 * MB, 0.02), Sent(3 * MB, 0.15)], 2.5e6, 2.1e5)
    assert near < 0.75 * far


def test_a_lone_slow_start_without_a_queue_overshoots_and_loses() -> None:
    """HyStart ends it before the queue of one bandwidth-delay product is full; one tenth of it is not enough."""
    deep, shallow = (one(5 * MB, 2.5e6, 0.1, depth * 2.5e5) for depth in (1.0, 0.1))
    assert deep == pytest.approx(closed_form(5 * MB, 2.5e6, 0.1), rel=0.03)
    assert shallow > 1.1 * deep


def test_acknowledgements_wait_behind_data_that_go_their_way() -> None:
    down, up = Sent(2 * MB, 0.04), Sent(500 * KB, 0.04, up=True)
    beside = ends([down, up], 2e6, 1.6e5, up=2.5e5, queue_up=1e5)[0]
    assert beside > 1.2 * ends([down], 2e6, 1.6e5, up=2.5e5, queue_up=1e5)[0]


def test_flows_behind_one_access_point_share_it_and_others_do_not() -> None:
    shared = {"a": SharedLink(5e5, buffer=5e4), "b": SharedLink(5e5, buffer=5e4)}
    together = max(ends([Sent(500 * KB, via="a"), Sent(500 * KB, via="a")], 1e8, 1e6, shared=shared))
    apart = max(ends([Sent(500 * KB, via="a"), Sent(500 * KB, via="b")], 1e8, 1e6, shared=shared))
    assert together - apart == pytest.approx(wire(500 * KB) / 5e5, rel=0.15)


# --- who joins the crowd -------------------------------------------------------------------------------------


def test_who_was_alone_joins_with_the_window_that_it_has() -> None:
    """A flow bounded by its own link of 1 MB/s meets another on a link of 1.5: nothing is lost of what it had sent."""
    slow = Sent(3 * MB, 0.05, own=Constant(1e6))
    late = Sent(1 * MB, 0.05, 1.5, own=Constant(1e6))
    first, second = ends([slow, late], 1.5e6, 1e5)
    assert first > ends([slow], 1.5e6, 1e5)[0]
    assert max(first, second) >= (wire(3 * MB) + wire(1 * MB) - 1.4e6) / 1.5e6 + 1.5 - 0.1


def test_a_flow_that_joins_keeps_count_of_its_bytes() -> None:
    """1 MB/s of its own on a link of 1.5 MB/s: what it has carried never falls, and all of it counts when it is cut."""
    flight = passage(Tcp(tls=0), Way(0.05), Constant(1e6), "down", 3 * MB, 0.0)
    windows = Windows((1.5e6, {}), (math.inf, {}), (1e5, 0.0))
    for start, name in ((0.1, "a"), (2.0, "b")):
        assert windows.advance(start) == []
        windows.open(start, name, flight.wire, flight.cap(start), 1.0, None, Constant(1e6), False, flight.sending)
    alone = windows.carried(2.0, "a")
    assert alone == pytest.approx(1.85e6, abs=1e5)
    steps = [windows.carried(2.0 + k / 10, "a") for k in range(1, 9) if windows.advance(2.0 + k / 10) == []]
    assert [alone, *steps] == sorted([alone, *steps])
    assert windows.close(2.8, "a") == steps[-1] > alone + 0.3e6


@pytest.mark.parametrize("queue", [1.0, 1000.0, 1499.0])
def test_a_queue_for_less_than_a_segment_still_lets_one_at_a_time_through(queue: float) -> None:
    assert max(ends([Sent(30 * KB), Sent(30 * KB)], 1e6, queue)) < 60


@pytest.mark.parametrize("congestion", KINDS)
def test_losses_that_hardly_anything_survives_do_not_silence_a_flow(congestion: Congestion) -> None:
    assert ends([Sent(6 * KB, loss=0.95, congestion=congestion)], 1e6, 1e5)[0] < 1e5


def test_what_was_measured_as_throughput_begins_at_full_speed() -> None:
    """Slow start is in the trace already: two flows of 1 MB/s on 1.5 MB/s share it from the start."""
    flat = Trace(np.array([0.0, 100.0]), np.array([1e6]), "down", "achieved")
    flight = passage(Tcp(tls=0), Way(0.05, achieved=True), flat, "down", MB, 0.0)
    windows = Windows((1.5e6, {}), (math.inf, {}), (1e5, 0.0))
    for name in "ab":
        windows.open(0.1, name, flight.wire, flight.cap(0.1), 1.0, None, flat, False, flight.sending)
    found: dict[object, float] = {}
    while (t := windows.next_finish()) < math.inf:
        found.update(dict.fromkeys(windows.advance(t), t))
    assert max(found.values()) < 1.25 * 2 * MB / 1.5e6


def test_a_sender_that_knows_where_slow_start_ended_ends_it_there() -> None:
    """A connection that was kept: with a threshold of 20 segments the window grows slowly from there."""
    took = []
    for threshold in (math.inf, 20.0):
        flight = passage(Tcp(tls=0), Way(0.1), FAST, "down", 3 * MB, 0.0)
        assert flight.sending is not None
        sending = flight.sending._replace(sender=flight.sending.sender._replace(threshold=threshold))
        windows = Windows((5e6, {}), (math.inf, {}), (5e5, 0.0))
        windows.open(0.2, "a", flight.wire, flight.cap(0.2), 1.0, None, FAST, False, sending)
        while not windows.advance(t := windows.next_finish()):
            pass
        took.append(t)
    assert took[1] > 1.5 * took[0]


def test_names_and_links_are_checked() -> None:
    windows = Windows((1e6, {}), (math.inf, {}))
    flight = passage(Tcp(tls=0), Way(0.05), FAST, "down", MB, 0.0)
    windows.open(0.1, "a", flight.wire, FAST, 1.0, None, FAST, False, flight.sending)
    with pytest.raises(ValueError, match="'a' is open already"):
        windows.open(0.2, "a", flight.wire, FAST, 1.0, None, FAST, False, flight.sending)
    with pytest.raises(ValueError, match="via 'cell'"):
        windows.open(0.2, "b", flight.wire, FAST, 1.0, "cell", FAST, False, flight.sending)
    with pytest.raises(ValueError, match="not sent by TCP"):
        windows.open(0.2, "b", flight.wire, FAST)


def test_traces_of_many_devices_make_room_for_one_another() -> None:
    """Each device has a trace of its own, and few are on the link at once: those of the others are forgotten."""
    rates = np.random.default_rng(1).uniform(5e5, 2e6, (60, 40))
    sent = [Sent(200 * KB, 0.05, 0.2 * k, own=Trace(np.arange(41.0), rates[k], "down", "capacity")) for k in range(60)]
    assert max(ends(sent, 1.5e6, 1e5)) < 60


def test_airtime_is_not_for_windows() -> None:
    with pytest.raises(ValueError, match="airtime"):
        Windows((1e6, {"air": SharedLink(1.0, airtime=True)}), (1e6, {}))


# --- traces --------------------------------------------------------------------------------------------------


def test_a_trace_that_never_changes_is_a_constant() -> None:
    flat = Trace(np.array([0.0, 7.0]), np.array([1e6]), "down", "capacity")
    assert ends(MIXED, flat, 1e5) == pytest.approx(ends(MIXED, 1e6, 1e5), rel=0.1)


def test_nothing_arrives_during_an_outage() -> None:
    gap = Trace(np.array([0.0, 1.0, 3.0, 100.0]), np.array([1e6, 0.0, 1e6]), "down", "capacity")
    found = ends([Sent(700 * KB), Sent(700 * KB)], gap, 1e5)
    assert all_of(not (1.0 < end < 3.0) for end in found)
    assert max(found) >= 2.0 + 2 * wire(700 * KB) / 1e6


@pytest.mark.slow
@pytest.mark.parametrize("congestion", KINDS)
def test_all_arrives_through_queues_that_hold_hardly_anything(congestion: Congestion) -> None:
    """Timeouts, probes of the tail, lost retransmissions: whatever happens, all bytes arrive."""
    for salt in range(20):
        sent = [Sent((5 + 40 * number) * KB, 0.03, congestion=congestion, loss=0.05) for number in range(6)]
        assert max(ends(sent, 1e6, 3 * SEGMENT, salt=salt)) < 300
