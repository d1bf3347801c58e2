"""The sums of a round: bytes by kind, also of cut transfers, and a critical path that leaves no second out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.record.tally import CUT, Bill, Stint, Transfer, Trip, bytes_by_kind, critical
from emulator.record.tally import seconds as told_of

few = settings(max_examples=25, deadline=None, derandomize=True)
amounts = st.floats(0.0, 1e5)
bills = st.dictionaries(st.sampled_from(["train", "fisher", "omega"]), amounts)
sizes = st.dictionaries(st.sampled_from(["weights", "importance", "frame"]), st.integers(0, 10**9), min_size=1)


def whole(sizes: dict[str, int], seconds: float = 0.0) -> Transfer:
    return Transfer(0.0, sizes, seconds, sum(sizes.values()), whole=True)


def cut(sizes: dict[str, int], moved: int) -> Transfer:
    return Transfer(0.0, sizes, 1.0, moved)


def total(path: dict[str, Any]) -> float:
    parts = [part.values() if isinstance(part, dict) else [part] for key, part in path.items() if key != "device"]
    return float(sum(value for part in parts for value in part))


def test_bytes_are_added_up_by_direction_and_kind() -> None:
    trips = [
        Trip(down=whole({"weights": 100, "frame": 10}), up=whole({"weights": 100, "fisher": 100, "frame": 12})),
        Trip(down=whole({"weights": 100, "importance": 50, "frame": 11}), up=whole({"weights": 100, "frame": 10})),
    ]
    assert bytes_by_kind(trips) == {
        "down": {"frame": 21, "importance": 50, "weights": 200},
        "up": {"fisher": 100, "frame": 22, "weights": 200},
    }


def test_the_bytes_of_a_cut_transfer_are_of_no_kind_but_they_were_sent() -> None:
    sent = {"weights": 100, "frame": 10}
    trips = [Trip(down=whole(sent), up=cut(sent, 37)), Trip(down=cut(sent, 5)), Trip(down=cut(sent, 0))]
    assert bytes_by_kind(trips) == {"down": {CUT: 5, "frame": 10, "weights": 100}, "up": {CUT: 37}}
    assert [trip.nbytes for trip in trips] == [110 + 37, 5, 0]


def test_a_trip_that_never_began_took_nothing() -> None:
    assert bytes_by_kind([Trip()]) == {"down": {}, "up": {}}
    assert (Trip().nbytes, Trip().flops) == (0, 0.0)


def test_of_work_that_was_cut_the_part_that_was_done_counts() -> None:
    bill = Bill({"train": 600.0, "fisher": 200.0}, {"train": 6.0, "fisher": 2.0})
    assert Trip(work=[Stint(bill, 0.0, 2.0, 0.25)]).flops == 200.0
    assert Trip(work=[Stint(bill, 0.0, 2.0, 0.25), Stint(bill.part(0.75), 5.0, 11.0, 1.0)]).flops == 800.0


def test_a_phase_that_comes_twice_is_one_entry_of_a_bill() -> None:
    bill = Bill()
    for flops, seconds in ((100.0, 1.0), (50.0, 0.5)):
        bill.add("train", flops, seconds)
    assert (bill.flops, bill.seconds) == ({"train": 150.0}, {"train": 1.5})
    assert (bill.total_flops, bill.total_seconds) == (150.0, 1.5)


def test_the_seconds_of_a_transfer_are_split_in_proportion_to_bytes() -> None:
    assert whole({"weights": 300, "importance": 600, "frame": 100}, 2.0).seconds_by_kind() == pytest.approx(
        {"weights": 0.6, "importance": 1.2, "frame": 0.2}
    )


def test_an_overrun_stretches_all_phases_alike() -> None:
    bill = Bill({"train": 1.0, "fisher": 1.0}, {"train": 3.0, "fisher": 1.0})
    trip = Trip(work=[Stint(bill, 1.0, 7.0)])
    assert trip.compute_by_phase() == pytest.approx({"train": 4.5, "fisher": 1.5})


def test_the_critical_path_of_a_round_by_hand() -> None:
    """2 s of server, 1 s down, 4 s of training, 3 s up, and 0.5 s that nobody used."""
    bill = Bill({"train": 1.0}, {"train": 4.0})
    work = [Stint(bill, 0.0, 4.0, 1.0)]
    trip = Trip(whole({"weights": 10}, 1.0), whole({"weights": 30, "fisher": 60}, 3.0), work)
    server = [Bill({}, {"omega": 1.5}), Bill({}, {"combine": 0.5})]
    assert critical("pi", trip, server, 10.5) == {
        "device": "pi",
        "setup_s": 0.0,
        "down_s": {"weights": 1.0},
        "compute_s": {"train": 4.0},
        "up_s": {"weights": 1.0, "fisher": 2.0},
        "server_s": {"omega": 1.5, "combine": 0.5},
        "wait_s": 0.5,
    }


def test_a_round_that_nobody_closed_was_all_waiting_but_for_the_server() -> None:
    path = critical(None, None, [Bill({}, {"omega": 2.0})], 30.0)
    assert (path["device"], path["wait_s"], total(path)) == (None, 28.0, 30.0)


@few
@given(
    down=sizes, up=sizes, times=st.tuples(amounts, amounts, amounts), work=bills, server=st.lists(bills), more=amounts
)
def test_the_parts_of_the_critical_path_sum_to_the_length_of_the_round(
    down: dict[str, int],
    up: dict[str, int],
    times: tuple[float, float, float],
    work: dict[str, float],
    server: list[dict[str, float]],
    more: float,
) -> None:
    trip = Trip(whole(down, times[0]), whole(up, times[1]), [Stint(Bill({}, work), 0.0, times[2], 1.0)])
    length = sum(times) + sum(sum(bill.values()) for bill in server) + more
    path = critical("a", trip, [Bill({}, bill) for bill in server], length)
    assert total(path) == pytest.approx(length, rel=1e-9, abs=1e-9)
    if sum(down.values()) and sum(up.values()) and sum(work.values()) > 1e-300:
        assert path["wait_s"] == pytest.approx(more, rel=1e-9, abs=1e-6)


spans = st.tuples(st.floats(0.0, 10.0), st.booleans(), st.booleans())


@few
@given(pieces=st.lists(spans, max_size=4), counts=st.booleans(), closed=st.floats(0.0, 60.0), opened=st.floats(0, 9))
def test_useful_wasted_and_idle_seconds_are_all_there_are(
    pieces: list[tuple[float, bool, bool]], counts: bool, closed: float, opened: float
) -> None:
    """Pieces of work and transfers, one after the other with a second between; some of them in vain."""
    trip, t, busy, vain = Trip(), opened, 0.0, 0.0
    for length, work, again in pieces:
        if work:
            trip.work.append(Stint(Bill({}, {"fit": 1.0}), t, t + length, vain=again))
        else:
            trip.earlier.append(("down", Transfer(t, {}, t + length, vain=again)))
        t, busy, vain = t + length + 1, busy + length, vain + length * again
    end = max(opened + closed, t - 1 if pieces else 0.0)
    used = trip.usage(counts, opened, opened + closed)
    assert used.useful == pytest.approx(busy - vain if counts else 0.0, abs=1e-9)
    assert used.idle == pytest.approx(max(0, len(pieces) - 1) + end - (t - 1 if pieces else opened), abs=1e-9)
    assert used.useful + used.wasted + used.idle == pytest.approx(end - opened, abs=1e-9)
    assert used.computing + used.sending + used.idle == pytest.approx(end - opened, abs=1e-9)


def test_idle_seconds_are_the_gaps_and_not_what_is_left_over() -> None:
    """Overlaps are not hidden: here 4 s of computing begin 1 s before a download of 3 s has ended."""
    trip = Trip(down=Transfer(1.0, {}, 4.0), work=[Stint(Bill({}, {"fit": 4.0}), 3.0, 7.0)])
    assert trip.usage(True, 0.0, 10.0).idle == 1.0 - 1.0 + 3.0


def test_seconds_are_told_of_each_device_and_summed() -> None:
    """`a` downloads for 1 s and computes for 2; `b`, of no use, goes off after 0.5 s of its download."""
    a = Trip(down=Transfer(0.0, {}, 1.0), work=[Stint(Bill({}, {"fit": 2.0}), 1.0, 3.0)])
    b = Trip(down=Transfer(0.0, {}, 0.5))
    told = told_of({"a": a.usage(True, 0.0, 4.0), "b": b.usage(False, 0.0, 4.0)})
    assert told == {"useful": 3.0, "wasted": 0.5, "idle": 4.5, "devices": {"a": [3.0, 0.0, 1.0], "b": [0.0, 0.5, 3.5]}}


@pytest.mark.parametrize(("kept", "cut"), [(True, 0), (False, 40)])
def test_bytes_that_a_later_transfer_goes_on_from_are_of_the_message_s_kinds(kept: bool, cut: int) -> None:
    """Of 100 bytes 40 arrived before an absence: these belong to the message, unless it was sent once more."""
    sizes = {"weights": 90, "frame": 10}
    before = Transfer(0.0, sizes, 1.0, 40, kept=kept, vain=not kept)
    rest = Transfer(2.0, sizes, 3.0, 60 if kept else 100, whole=True, since=40 if kept else 0)
    trip = Trip(down=rest, earlier=[("down", before)])
    assert bytes_by_kind([trip])["down"] == {**sizes, **({CUT: cut} if cut else {})}
    assert trip.nbytes == 100 + cut
