"""Transfers over shared links, by the laws that a textbook gives for them; in virtual time, so exactly."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices.device import Device, profiles
from devices.presence import StatedPresence
from emulator.conversation.traffic import Traffic
from emulator.record.call import Call
from emulator.worlds.interface import Lost
from emulator.worlds.virtual import VirtualWorld
from network.links.link import Link
from network.links.tcp import Tcp
from network.sharing import fluid
from network.sharing.flow import SharedLink
from network.sharing.hierarchy import Hierarchy
from network.sharing.tree import Tree
from tests.emulator.conversation.transfers import lines, played

few = settings(max_examples=15, deadline=None, derandomize=True)
WIDE = Link(1e15, 1e15, 0.0)
MB = {"weights": 999_000, "frame": 1_000}  # 1 MB = 1e6 bytes


async def sent(
    world: VirtualWorld, traffic: Traffic, device: str, sizes: Mapping[str, int], way: str = "down"
) -> float:
    await traffic.launch(way, Call(device, 0), sizes, None).wait()
    return world.now()


@pytest.mark.parametrize("way", ["down", "up"])
def test_a_megabyte_at_8_mbit_s_takes_one_second(tmp_path: Path, way: str) -> None:
    """A byte has 8 bits, and a megabyte a million bytes."""
    links = {"a": Link.of(up_mbit_s=8, down_mbit_s=8, latency_ms=0)}
    assert played(tmp_path, WIDE, links, lambda world, traffic: sent(world, traffic, "a", MB, way)) == 1.0
    assert [line["t"] for line in lines(tmp_path, f"{way}.end")] == [1.0]


@pytest.mark.parametrize(("way", "seconds"), [("down", 0.5), ("up", 4.0)])
def test_each_way_has_its_own_rate(tmp_path: Path, way: str, seconds: float) -> None:
    links = {"a": Link.of(up_mbit_s=2, down_mbit_s=16, latency_ms=0)}
    assert played(tmp_path, WIDE, links, lambda world, traffic: sent(world, traffic, "a", MB, way)) == seconds


@pytest.mark.parametrize(("way", "seconds"), [("down", 2.0), ("up", 8.0)])
def test_the_server_sends_at_its_up_and_receives_at_its_down(tmp_path: Path, way: str, seconds: float) -> None:
    server = Link.of(up_mbit_s=4, down_mbit_s=1, latency_ms=0)
    assert played(tmp_path, server, {"a": WIDE}, lambda world, traffic: sent(world, traffic, "a", MB, way)) == seconds


def test_the_latencies_of_both_links_are_added(tmp_path: Path) -> None:
    server, links = Link(1e15, 1e6, 0.25), {"a": Link(1e6, 1e6, 0.5)}
    assert played(tmp_path, server, links, lambda world, traffic: sent(world, traffic, "a", MB)) == 1.75


@pytest.mark.parametrize("n", [1, 2, 3, 7, 16])
def test_n_equal_transfers_over_one_link_take_n_times_as_long_as_one(tmp_path: Path, n: int) -> None:
    names = [f"d{i:02}" for i in range(n)]

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        return await world.together(sent(world, traffic, name, MB) for name in names)

    ends = played(tmp_path, Link(1e6, 1e6, 0.0), dict.fromkeys(names, WIDE), main)
    assert ends == [float(n)] * n


def test_the_two_ways_do_not_share(tmp_path: Path) -> None:
    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        return await world.together([sent(world, traffic, "a", MB, "down"), sent(world, traffic, "b", MB, "up")])

    assert played(tmp_path, Link(1e6, 1e6, 0.0), {"a": WIDE, "b": WIDE}, main) == [1.0, 1.0]


def test_who_comes_later_slows_the_other_down_from_then_on(tmp_path: Path) -> None:
    """1 MB at 1 MB/s.  At 0.5 s the second comes: each has half until the first ends at 1.5, the second at 2."""

    async def second(world: VirtualWorld, traffic: Traffic) -> float:
        await world.sleep(0.5)
        return await sent(world, traffic, "b", MB)

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        return await world.together([sent(world, traffic, "a", MB), second(world, traffic)])

    assert played(tmp_path, Link(1e6, 1e6, 0.0), {"a": WIDE, "b": WIDE}, main) == [1.5, 2.0]


def test_a_transfer_that_is_cut_leaves_its_share_to_the_other(tmp_path: Path) -> None:
    """Both at half a MB/s until 1 s, then the other alone: its second half takes 0.5 s."""

    async def cut(world: VirtualWorld, traffic: Traffic) -> float:
        with pytest.raises(Lost, match="^off$"):
            await sent(world, traffic, "b", MB)
        return world.now()

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        world.call_at(1.0, lambda: traffic.lose("b"))
        return await world.together([sent(world, traffic, "a", MB), cut(world, traffic)])

    assert played(tmp_path, Link(1e6, 1e6, 0.0), {"a": WIDE, "b": WIDE}, main) == [1.5, 1.0]
    [line] = lines(tmp_path, "down.cut")
    assert (line["device"], line["bytes"]) == ("b", 500_000)


@pytest.mark.parametrize(
    ("at", "nbytes"), [(0.0, 0), (0.25, 0), (0.75, 750), (1.0, 1500), (1.0002, 1500), (1.0004, 1501), (1.9999, 4499)]
)
def test_the_bytes_of_a_cut_are_rounded_down_to_whole_ones(tmp_path: Path, at: float, nbytes: int) -> None:
    """3000 bytes/s after 0.5 s of latency; only what was on the way by then has been sent."""

    async def main(world: VirtualWorld, traffic: Traffic) -> None:
        flight = traffic.launch("up", Call("a", 0), {"weights": 9_000}, 0)
        await world.sleep(at)
        flight.abort("closed")
        flight.abort("off")
        with pytest.raises(Lost):
            await flight.wait()
        await world.sleep(10.0)

    played(tmp_path, WIDE, {"a": Link(3000.0, 1.0, 0.5)}, main)
    [cut] = lines(tmp_path, "up.cut")
    assert (cut["t"], cut["bytes"], cut["why"]) == (at, nbytes, "closed")
    assert lines(tmp_path, "up.end") == []


def test_who_stops_waiting_cuts_the_transfer_because_it_is_closed(tmp_path: Path) -> None:
    async def main(world: VirtualWorld, traffic: Traffic) -> None:
        task = world.start(sent(world, traffic, "a", MB))
        await world.sleep(0.5)
        await task.cancel()

    played(tmp_path, WIDE, {"a": Link(1e6, 1e6, 0.0)}, main)
    [cut] = lines(tmp_path, "down.cut")
    assert (cut["t"], cut["bytes"], cut["why"]) == (0.5, 500_000, "closed")


def test_to_lose_a_device_whose_transfer_has_landed_cuts_nothing(tmp_path: Path) -> None:
    async def main(world: VirtualWorld, traffic: Traffic) -> None:
        await sent(world, traffic, "a", MB)
        for device in ("a", "b"):
            traffic.lose(device)

    played(tmp_path, WIDE, {"a": Link(1e6, 1e6, 0.0), "b": WIDE}, main)
    assert lines(tmp_path, "down.cut") == []


def test_a_message_without_tensors_still_costs_its_frame_and_latency(tmp_path: Path) -> None:
    links = {"a": Link(100.0, 100.0, 0.5)}
    assert played(tmp_path, WIDE, links, lambda world, traffic: sent(world, traffic, "a", {"frame": 50})) == 1.0


@few
@given(
    transfers=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5000)), min_size=1, max_size=6),
    capacity=st.sampled_from([500.0, 1000.0]),
)
def test_a_link_that_is_never_idle_carries_its_capacity(
    tmp_path_factory: pytest.TempPathFactory, transfers: list[tuple[int, int]], capacity: float
) -> None:
    """Bytes on a link = capacity x busy time, however many share it: the last end follows from the arrivals alone."""
    names = [f"d{i}" for i in range(len(transfers))]

    async def later(world: VirtualWorld, traffic: Traffic, name: str, start: int, nbytes: int) -> float:
        await world.sleep(float(start))
        return await sent(world, traffic, name, {"weights": nbytes})

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        works = zip(names, transfers, strict=True)
        return await world.together(later(world, traffic, name, *transfer) for name, transfer in works)

    folder = tmp_path_factory.mktemp("traffic")
    ends = played(folder, Link(capacity, capacity, 0.0), dict.fromkeys(names, WIDE), main)
    busy_until = Fraction(0)
    for start, nbytes in sorted(transfers):
        busy_until = max(busy_until, Fraction(start)) + Fraction(nbytes) / Fraction(capacity)
    assert max(ends) == pytest.approx(float(busy_until), rel=1e-9)


AWAY = st.lists(st.tuples(st.floats(0.001, 0.4), st.floats(0.0, 3.0)), min_size=1, max_size=5)


async def interrupted(world: VirtualWorld, traffic: Traffic, sizes: Mapping[str, int], absences: Any) -> float:
    """When a transfer to `a` has landed that is there for so long, then away for so long, and so on."""

    async def comes_and_goes() -> None:
        for here, away in absences:
            await world.sleep(here)
            kept = traffic.suspend("a")
            await world.sleep(away)
            if kept:
                traffic.go_on("a")

    landed, _ = await world.together([sent(world, traffic, "a", sizes), comes_and_goes()])
    return float(landed)


@pytest.mark.slow
@few
@given(absences=AWAY, nbytes=st.integers(1, 1_000_000))
def test_what_resumes_sends_each_byte_once_and_takes_the_absences_longer(
    tmp_path_factory: pytest.TempPathFactory, absences: list[tuple[float, float]], nbytes: int
) -> None:
    folder, links = tmp_path_factory.mktemp("run"), {"a": Link(1e6, 1e6, 0.0)}
    landed = played(
        folder, WIDE, links, lambda w, t: interrupted(w, t, {"weights": nbytes}, absences), when_off="resume"
    )
    cuts, starts = lines(folder, "down.cut"), lines(folder, "down.start")
    reached = [sum(cut["bytes"] for cut in cuts[:number]) for number in range(len(starts))]
    assert [start.get("from", 0) for start in starts] == reached
    assert [cut["then"] for cut in cuts] == ["resume"] * (len(starts) - 1)
    away = sum(start["t"] - cut["t"] for cut, start in zip(cuts, starts[1:], strict=True))
    # The byte of each piece that was under way starts again.
    assert nbytes / 1e6 + away - 1e-9 <= landed <= (nbytes + len(cuts)) / 1e6 + away + 1e-9


@few
@given(absences=AWAY, nbytes=st.integers(1, 1_000_000))
def test_what_restarts_takes_its_whole_time_after_the_last_absence(
    tmp_path_factory: pytest.TempPathFactory, absences: list[tuple[float, float]], nbytes: int
) -> None:
    folder, links = tmp_path_factory.mktemp("run"), {"a": Link(1e6, 1e6, 0.0)}
    landed = played(
        folder, WIDE, links, lambda w, t: interrupted(w, t, {"weights": nbytes}, absences), when_off="restart"
    )
    last = lines(folder, "down.start")[-1]
    assert "from" not in last
    assert landed == pytest.approx(last["t"] + nbytes / 1e6, abs=1e-9)


def test_who_resumes_shares_the_link_with_others_as_if_it_had_just_come(tmp_path: Path) -> None:
    """Two of 1 MB on 1 MB/s; `a` is away from 0.5 to 1.25: `b` has it alone, and is done at 0.25 + 0.75 = 1.25."""
    links = {"a": WIDE, "b": WIDE}

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        both = [interrupted(world, traffic, MB, [(0.5, 0.75)]), sent(world, traffic, "b", MB)]
        return await world.together(both)

    assert played(tmp_path, Link(1e6, 1e6, 0.0), links, main, when_off="resume") == pytest.approx([2.0, 1.25])


@pytest.mark.parametrize(
    ("engine", "solve", "cell", "seconds"),
    [
        (Hierarchy, "_solve", None, 40 / 3),
        (Hierarchy, "_solve", SharedLink(1e6), 20),
        (Tree, "_plan", SharedLink(1.0, airtime=True), 20),
    ],
)
def test_messages_that_start_at_one_instant_are_one_solution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Any, solve: str, cell: SharedLink | None, seconds: float
) -> None:
    """However many there are; and one more, of what is left, when all have ended together."""
    solved, original = [], getattr(engine, solve)
    monkeypatch.setattr(engine, solve, lambda self: solved.append(self) or original(self))
    shared = {"down": {"cell": cell}} if cell else {}
    links = {f"d{k}": Link(1e6, 1e6, 0.0, via="cell" if shared else None) for k in range(20)}

    async def main(world: VirtualWorld, traffic: Traffic) -> float:
        return max(await world.together([sent(world, traffic, device, MB) for device in links]))

    assert played(tmp_path, Link(1.5e6, 1.5e6, 0.0), links, main, topology=shared) == pytest.approx(seconds)
    assert 1 <= len(solved) <= 2


def test_to_see_how_far_a_message_is_copies_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real clock is asked a hundred times a second, for each message."""
    monkeypatch.setattr(fluid.copy, "deepcopy", lambda *_: pytest.fail("the fluid was copied"))

    async def main(world: VirtualWorld, traffic: Traffic) -> int:
        flight = traffic.launch("down", Call("a", 0), MB, None)
        await world.sleep(0.25)
        return flight.carried()

    assert played(tmp_path, WIDE, {"a": Link(1e6, 1e6, 0.0)}, main) == 250_000


# --- absences ---------------------------------------------------------------------------------------------------

US = 1e-6  # s: a byte at 8 Mbit/s


@pytest.mark.parametrize(("at", "whole"), [(10.0, 10), (10.5, 10), (10.999, 10), (0.5, 0)])
def test_of_a_cut_transfer_only_whole_bytes_count(tmp_path: Path, at: float, whole: int) -> None:
    async def main(world: VirtualWorld, traffic: Traffic) -> None:
        world.call_at(at * US + 1e-12, lambda: traffic.lose("a"))
        with pytest.raises(Lost):
            await sent(world, traffic, "a", {"frame": 100})

    played(tmp_path, WIDE, {"a": Link(1e6, 1e6, 0.0)}, main)
    assert [line["bytes"] for line in lines(tmp_path, "down.cut")] == [whole]


@pytest.mark.parametrize(("policy", "since", "end"), [("resume", 40, 160.0), ("restart", None, 200.0)])
def test_a_transfer_that_restarts_begins_with_its_first_byte_again(
    tmp_path: Path, policy: str, since: int | None, end: float
) -> None:
    """100 bytes, away from 40 to 100 µs: 60 are left, or all."""

    async def main(world: VirtualWorld, traffic: Traffic) -> float:
        world.call_at(40 * US, lambda: traffic.suspend("a"))
        world.call_at(100 * US, lambda: traffic.go_on("a"))
        return await sent(world, traffic, "a", {"frame": 100})

    ended = played(tmp_path, WIDE, {"a": Link(1e6, 1e6, 0.0)}, main, when_off=policy)
    assert ended == pytest.approx(end * US, rel=1e-9)
    assert [line.get("from") for line in lines(tmp_path, "down.start")] == [None, since]


@pytest.mark.parametrize(("absence", "kept"), [(2.0, True), (1.5, False)])
def test_a_connection_is_closed_by_an_absence_before_a_message_and_not_by_one_that_begins_with_it(
    tmp_path: Path, absence: float, kept: bool
) -> None:
    """The first message opens a connection; the second, at 2 s, needs no hand-shake if that is still there."""

    async def main(world: VirtualWorld, traffic: Traffic) -> None:
        await sent(world, traffic, "a", {"frame": 100})
        await world.sleep(2.0 - world.now())
        await sent(world, traffic, "a", {"frame": 100})

    links = {"a": Link(1e6, 1e6, 0.05, tcp=Tcp())}
    away = {"a": Device("a", profiles()["pi-4"], StatedPresence(((absence, 1e6),)))}
    played(tmp_path, WIDE, links, main, fleet=away)
    first, second = (line.get("setup", 0.0) for line in lines(tmp_path, "down.start"))
    assert first >= 0.1  # a round trip at the least
    assert (second < 0.1) is kept


def test_transfers_that_end_at_one_instant_end_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    names = ["c", "a", "b"]

    async def main(world: VirtualWorld, traffic: Traffic) -> None:
        await world.together(sent(world, traffic, name, MB) for name in names)

    played(tmp_path, Link(1e6, 1e6, 0.0), dict.fromkeys(names, WIDE), main)
    ends = lines(tmp_path, "down.end")
    assert [(line["device"], line["t"]) for line in ends] == [(name, 3.0) for name in names]
