"""The promises of every line between the server and a device: one suite, in memory and over a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.conversation.channel import LOST, Inbox
from emulator.conversation.exchange import Exchange
from emulator.worlds.interface import Cancelled, Parcel, World
from emulator.worlds.sockets import SocketWorld
from emulator.worlds.virtual import VirtualWorld
from network.wire import envelope
from tests.contracts.lines import (
    ARRIVED,
    BODY,
    DONE,
    DOWN,
    OTHER,
    PATIENCE,
    PATIENT,
    RATE,
    SOON,
    SPEEDUP,
    UP,
    UPLOADS,
    Stage,
    Trains,
    Way,
    body_of,
    down,
    outcome,
    up,
)


@pytest.fixture(params=["memory", "web"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


# --- there and back ---------------------------------------------------------------------------------------------


def test_both_ways_the_same_bytes_arrive_that_were_sent(play: Stage) -> None:
    async def main(way: Way) -> tuple[Parcel, Parcel, float]:
        async def device() -> Parcel:
            parcel = await way.end.receive(resting=True)
            await way.end.send(up(0))
            return parcel  # type: ignore[no-any-return]

        async def server() -> Parcel:
            await way.line.send(down(0))
            return await way.line.receive()  # type: ignore[no-any-return]

        way.open(0)
        there, back = await way.world.together([device(), server()])
        assert way.is_time(way.world.now(), DOWN + UP)
        return there, back, way.world.now()

    there, back, _ = play(main)
    assert (dict(there.header), body_of(there), dict(there.sizes)) == (
        {"round": 0, "counted": None},
        BODY,
        dict(down(0).sizes),
    )
    assert (dict(back.header), body_of(back), dict(back.sizes)) == (
        {"round": 0, "examples": 3},
        OTHER,
        dict(up(0).sizes),
    )


def test_several_rounds_go_over_one_line(play: Stage) -> None:
    async def main(way: Way) -> list[Any]:
        way.device_works()
        answers = []
        for round in range(2):
            way.open(round)
            await way.line.send(down(round))
            reply = await way.line.receive()
            await way.line.rest()
            answers.append((reply.header["round"], body_of(reply) == OTHER))
        return answers

    assert play(main) == [(0, True), (1, True)]


def test_what_is_charged_is_the_length_of_what_is_sent() -> None:
    for parcel in (down(3), up(12)):
        assert sum(parcel.sizes.values()) == len(envelope.pack(parcel.header, body_of(parcel)))


# --- stop -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("doing", "began"), [("compute", ARRIVED), ("up", UPLOADS)])
def test_stop_returns_when_the_device_rests_and_the_record_says_closed(play: Stage, doing: str, began: float) -> None:
    async def main(way: Way) -> tuple[list[dict[str, Any]], bool, Any]:
        way.device_works()
        way.open(0)
        asked = way.world.start(way.line.send(down(0)))
        await way.after(f"{doing}.start", 1.0)
        assert asked.ended
        await way.line.stop()
        cuts, rests = way.cuts(), way.line.resting
        way.open(1)
        await way.line.send(down(1))
        reply = await way.line.receive()
        return cuts, rests, reply.header["round"]

    play.speedup = PATIENT
    cuts, rests, answered = play(main)
    assert [(cut["event"], cut["why"]) for cut in cuts] == [(f"{doing}.cut", "closed")]
    assert rests is True
    assert answered == 1  # nothing is left of round 0
    if doing == "up":
        assert isinstance(cuts[0]["bytes"], int)
        assert 0 < cuts[0]["bytes"] < sum(up(0).sizes.values())
    if play.kind == "memory":
        assert cuts[0]["t"] == pytest.approx(began + 1.0, abs=1e-9)
        assert cuts[0]["seconds" if doing == "compute" else "bytes"] == pytest.approx({"compute": 1, "up": 1000}[doing])


def test_to_stop_a_device_that_rests_takes_no_time(play: Stage) -> None:
    async def main(way: Way) -> tuple[float, Any]:
        way.device_works()
        await way.line.stop()
        now = way.world.now()
        way.open(0)
        await way.line.send(down(0))
        return now, (await way.line.receive()).header["round"]

    now, answered = play(main)
    assert now == 0.0 if play.kind == "memory" else now < PATIENCE
    assert answered == 0


def test_rest_waits_until_the_device_has_nothing_more_to_do(play: Stage) -> None:
    async def main(way: Way) -> float:
        way.device_works()
        way.open(0)
        await way.line.send(down(0))
        reply = way.world.start(way.line.receive())
        await way.line.rest()
        assert reply.ended or play.kind == "web"
        return way.world.now()  # type: ignore[no-any-return]

    now = play(main)
    assert now >= DONE - 0.01


# --- lose -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("doing", "began"), [("down", 0.0), ("compute", ARRIVED), ("up", UPLOADS)])
def test_a_device_that_goes_off_is_cut_at_that_instant_and_can_be_asked_again(
    play: Stage, doing: str, began: float
) -> None:
    async def main(way: Way) -> tuple[Any, list[dict[str, Any]], Any]:
        async def ask(round: int) -> Any:
            await way.line.send(down(round))
            return await way.line.receive()

        way.device_works()
        way.open(0)
        way.then(f"{doing}.start", SOON, way.line.lose)
        learnt = await outcome(ask(0))
        await way.line.rest()
        cuts = way.cuts()
        way.open(1)
        reply = await ask(1)
        return learnt, cuts, reply.header["round"]

    play.speedup = PATIENT
    learnt, cuts, answered = play(main)
    assert learnt == "lost"
    assert [(cut["event"], cut["why"]) for cut in cuts] == [(f"{doing}.cut", "off")]
    assert answered == 1
    if doing != "compute":
        assert isinstance(cuts[0]["bytes"], int)
        sent = down(0) if doing == "down" else up(0)
        assert 0 < cuts[0]["bytes"] <= sum(sent.sizes.values())  # all of them, where the machine was late
    if play.kind == "memory":
        assert cuts[0]["t"] == pytest.approx(began + SOON, abs=1e-9)
        done, unit = ("seconds", 1.0) if doing == "compute" else ("bytes", RATE)
        assert cuts[0][done] == pytest.approx(SOON * unit)


@pytest.mark.parametrize("doing", ["downloads", "computes", "uploads", "rests"])
def test_the_device_end_learns_that_it_is_off(play: Stage, doing: str) -> None:
    """`receive` and `send` raise Lost if this device goes off, whatever it was doing."""

    async def main(way: Way) -> Any:
        async def device() -> Any:
            if doing in ("rests", "downloads"):
                return await outcome(way.end.receive(resting=True))
            await way.end.receive(resting=True)
            if doing == "computes":
                return await outcome(way.end.receive(resting=False))
            return await outcome(way.end.send(up(0)))

        async def server() -> None:
            if doing == "rests":
                return
            way.open(0)
            await outcome(way.line.send(down(0)))

        if doing == "rests":
            way.world.call_at(1.0, way.line.lose)
        else:
            event = {"downloads": "down.start", "computes": "down.end", "uploads": "up.start"}[doing]
            way.then(event, SOON, way.line.lose)
        works = way.world.together([device(), server()])
        return (await way.world.within(PATIENCE, works))[0]

    play.speedup = PATIENT
    assert play(main) == "lost"


def test_a_device_that_goes_off_as_the_last_byte_arrives_has_not_got_it(play: Stage) -> None:
    async def main(way: Way) -> Any:
        way.device_works()
        way.open(0)
        way.world.call_at(DOWN, way.line.lose)
        return await outcome(way.world.within(PATIENCE, both(way)))

    async def both(way: Way) -> Any:
        await way.line.send(down(0))
        return await way.line.receive()

    assert play(main) == "lost"


# --- what is left over ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["virtual", "sockets"])
def test_a_reader_that_is_cancelled_takes_no_message_with_it(kind: str) -> None:  # trap 2
    async def main(world: World) -> Any:
        inbox = Inbox(world)
        impatient = world.start(inbox.get())
        await world.sleep(1.0)
        await impatient.cancel()
        inbox.put("message")
        return await inbox.get()

    assert _in_world(kind, main) == "message"


@pytest.mark.parametrize("kind", ["virtual", "sockets"])
def test_a_reader_that_is_cancelled_in_the_instant_of_the_message_leaves_it(kind: str) -> None:  # trap 2
    async def main(world: World) -> list[Any]:
        inbox, got = Inbox(world), list[Any]()

        async def reader() -> None:
            got.append(await inbox.get())

        impatient = world.start(reader())
        await world.sleep(1.0)
        inbox.put("message")
        await impatient.cancel()
        return got or [await inbox.get()]

    assert _in_world(kind, main) == ["message"]


@pytest.mark.parametrize("kind", ["virtual", "sockets"])
def test_an_inbox_keeps_the_order_and_tells_of_a_loss_once(kind: str) -> None:
    async def main(world: World) -> list[Any]:
        inbox = Inbox(world)
        for item in (1, LOST, 2):
            inbox.put(item)
        return [await outcome(inbox.get()) for _ in range(3)]

    assert _in_world(kind, main) == [1, "lost", 2]


def _in_world(kind: str, main: Callable[[World], Coroutine[Any, Any, Any]]) -> Any:
    async def conducted() -> Any:
        world: Any = VirtualWorld(Trains()) if kind == "virtual" else SocketWorld(Trains(), SPEEDUP)
        return await world.run(main(world))

    return asyncio.run(conducted())


class Reads:
    """A line on which some parcels have arrived."""

    def __init__(self, *parcels: Parcel) -> None:
        self.parcels = list(parcels)
        self.stopped = 0

    async def receive(self) -> Parcel:
        if not self.parcels:
            raise Cancelled("stopped")
        return self.parcels.pop(0)

    async def stop(self) -> None:
        self.stopped += 1


def test_a_late_reply_to_round_3_is_not_read_as_that_of_round_4() -> None:  # trap 5
    line: Any = Reads(up(3), up(2), up(4), up(3))
    playing: Any = SimpleNamespace(round=SimpleNamespace(number=4))
    reply = asyncio.run(Exchange._reply(playing, line))
    assert reply.header["round"] == 4
    assert [parcel.header["round"] for parcel in line.parcels] == [3]


def test_who_is_stopped_while_it_waits_for_a_reply_stops_the_device() -> None:
    line: Any = Reads(up(3))
    playing: Any = SimpleNamespace(round=SimpleNamespace(number=4))
    with pytest.raises(Cancelled):
        asyncio.run(Exchange._reply(playing, line))
    assert line.stopped == 1
